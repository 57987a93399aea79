#include "result_cache/z_zone.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "util/of_thread.h"

namespace cairn::cache {
namespace {

enum RecordFlag : uint8_t { kExpires = 1, kAbsent = 2, kInSpace = 4, kGone = 8 };

constexpr size_t kPointer = sizeof(void*);
constexpr size_t kArrayPage = 512;  // pointers to blocks, charged together
constexpr size_t kUnit = 32;        // a block's memory is a multiple of it
constexpr size_t kAllocator = 16;   // what malloc adds
constexpr int kFilterProbes = 4;
constexpr size_t kGoneRecord = 5;
// Sweeps over a block that bring its items' counts to 0 and take most of them, if nobody asks.
constexpr size_t kRounds = 5;

void PutVarint(uint64_t n, std::string* bytes) {
  for (; n >= 128; n >>= 7) bytes->push_back(static_cast<char>(n | 128));
  bytes->push_back(static_cast<char>(n));
}

bool GetVarint(std::string_view* bytes, uint64_t* n) {
  *n = 0;
  for (int shift = 0; shift < 63 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    *n |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}

// 256 bits, four of them for a hash: 7 for each item of a block of the usual size.
struct Filter {
  static constexpr int kWords = 4;
  uint64_t words[kWords] = {};

  void Add(uint64_t hash) {
    uint64_t bits = Mix64(hash);
    for (int i = 0; i < kFilterProbes; ++i, bits >>= 8) words[bits >> 6 & 3] |= uint64_t{1} << (bits & 63);
  }
  bool MayContain(uint64_t hash) const {
    uint64_t bits = Mix64(hash);
    for (int i = 0; i < kFilterProbes; ++i, bits >>= 8) {
      if ((words[bits >> 6 & 3] >> (bits & 63) & 1) == 0) return false;
    }
    return true;
  }
};

// How often the items of a block were asked for, less one for each sweep that came past: 128 counters of two bits, one
// of them for a hash. Of a block of the usual size one item in four shares its counter.
struct Counts {
  static constexpr uint64_t kMost = 3;
  static constexpr int kWords = 4;
  uint64_t words[kWords] = {};

  uint64_t Of(uint64_t hash) const {
    const Place at(hash);
    return words[at.word] >> at.shift & kMost;
  }
  void Raise(uint64_t hash, uint64_t least) {
    const Place at(hash);
    if (Of(hash) < least) words[at.word] = (words[at.word] & ~(kMost << at.shift)) | least << at.shift;
  }
  void Add(uint64_t hash) { Raise(hash, std::min(kMost, Of(hash) + 1)); }

 private:
  struct Place {
    explicit Place(uint64_t hash) {
      const uint64_t bits = Mix64(hash) >> 40;
      word = bits & (kWords - 1);
      shift = bits >> 2 & 31u << 1;
    }
    uint64_t word;
    uint64_t shift;
  };
};

}  // namespace

struct ZZone::Block {
  Filter content;
  Counts asked_for;
  uint64_t stamp = 0;  // another one after each change
  struct Asked {
    uint32_t mark = 0;
    uint32_t tick = 0;
  } asked[2];
  uint32_t raw_bytes = 0;     // of the compressed items
  uint32_t stored_bytes = 0;  // what they take
  uint32_t tail_bytes = 0;
  uint32_t room = 0;        // of data
  uint32_t items = 0;       // the valid ones, and those in the tail that replaced others
  uint32_t item_bytes = 0;  // keys and values of them
  uint8_t method = 0;

  char* data() { return reinterpret_cast<char*>(this + 1); }
  const char* data() const { return reinterpret_cast<const char*>(this + 1); }
  std::string_view stored() const { return {data(), stored_bytes}; }
  std::string_view tail() const { return {data() + stored_bytes, tail_bytes}; }

  static Block* New(const Block& header, size_t bytes) {
    void* const memory = std::malloc(sizeof(Block) + RoundUp(bytes, kUnit));
    if (memory == nullptr) return nullptr;
    auto* const block = new (memory) Block(header);
    block->room = static_cast<uint32_t>(RoundUp(bytes, kUnit));
    return block;
  }
  static void Delete(Block* block) { std::free(block); }
};

ZZone::ZZone(const ZZoneOptions& options, Arena* arena, Codec* codec, CheckedMutex* mutex,
             const std::function<uint64_t()>& clock)
    : options_(options), arena_(arena), codec_(codec), mutex_(mutex), clock_(&clock), blocks_(1, nullptr) {}

ZZone::~ZZone() { Clear(); }

size_t ZZone::BytesOf(const Block* block) { return block == nullptr ? 0 : sizeof(Block) + block->room + kAllocator; }

size_t ZZone::BlockNumber(uint64_t hash) const {
  const size_t n = blocks_.size();
  const uint64_t mask = n <= 1 ? 0 : ~uint64_t{0} >> __builtin_clzll(n - 1);
  const uint64_t number = (hash & 0xffffffff) & mask;
  return number < n ? number : number & (mask >> 1);
}

// ---- records ----

void ZZone::WriteRecord(const Item& item, std::string* bytes) {
  bytes->push_back(static_cast<char>((item.expiry != 0 ? kExpires : 0) | (item.absent ? kAbsent : 0) |
                                     (item.space != 0 ? kInSpace : 0)));
  PutVarint(item.key.size(), bytes);
  PutVarint(item.value.size(), bytes);
  if (item.space != 0) PutVarint(item.space, bytes);
  if (item.expiry != 0) bytes->append(reinterpret_cast<const char*>(&item.expiry), sizeof(item.expiry));
  bytes->append(item.key);
  bytes->append(item.value);
}

bool ZZone::ReadRecord(std::string_view* bytes, Record* record) {
  if (bytes->empty()) return false;
  const auto flags = static_cast<uint8_t>(bytes->front());
  bytes->remove_prefix(1);
  *record = Record();
  record->is_gone = (flags & kGone) != 0;
  if (record->is_gone) {
    if (bytes->size() < sizeof(record->gone)) return false;
    std::memcpy(&record->gone, bytes->data(), sizeof(record->gone));
    bytes->remove_prefix(sizeof(record->gone));
    return true;
  }
  Item& item = record->item;
  item.absent = (flags & kAbsent) != 0;
  uint64_t key_bytes = 0, value_bytes = 0, space = 0;
  if (!GetVarint(bytes, &key_bytes) || !GetVarint(bytes, &value_bytes)) return false;
  if ((flags & kInSpace) != 0 && !GetVarint(bytes, &space)) return false;
  item.space = static_cast<uint32_t>(space);
  if ((flags & kExpires) != 0) {
    if (bytes->size() < sizeof(item.expiry)) return false;
    std::memcpy(&item.expiry, bytes->data(), sizeof(item.expiry));
    bytes->remove_prefix(sizeof(item.expiry));
  }
  if (bytes->size() < key_bytes || bytes->size() - key_bytes < value_bytes) return false;
  item.key = bytes->substr(0, key_bytes);
  item.value = bytes->substr(key_bytes, value_bytes);
  bytes->remove_prefix(key_bytes + value_bytes);
  return true;
}

void ZZone::ReadRecords(std::string_view bytes, std::vector<Record>* records) const {
  Record record;
  while (ReadRecord(&bytes, &record)) {
    if (!record.is_gone) record.hash = HashKey(options_.seed, record.item.space, record.item.key);
    records->push_back(record);
  }
}

bool ZZone::FindInTail(const Block& block, const Key& key, bool* decided, Record* found) const {
  *decided = false;
  bool is_item = false;
  Record record;
  for (std::string_view tail = block.tail(); ReadRecord(&tail, &record);) {
    const bool concerns = record.is_gone ? record.gone == HashMark(key.hash)
                                         : record.item.space == key.space && record.item.key == key.bytes;
    if (!concerns) continue;
    *decided = true;
    is_item = !record.is_gone;
    *found = record;
  }
  return is_item;
}

bool ZZone::FindInRaw(std::string_view raw, const Key& key, Record* found) const {
  while (ReadRecord(&raw, found)) {
    if (found->item.space == key.space && found->item.key == key.bytes) return true;
  }
  return false;
}

// ---- lookups ----

NZone::Found ZZone::Lookup(const Key& key, std::string* value, uint32_t now, uint32_t benchmark, bool* again,
                           uint64_t* stamp, uint64_t* expiry) {
  struct Blocks {
    std::string stored, raw;
  };
  auto& [stored, raw] = *OfThread<Blocks>::Get();
  Record record;
  bool in_tail = false;
  uint8_t method = 0;
  size_t raw_bytes = 0;
  *again = false;
  {
    const MutexLock lock(mutex_);
    Block* const block = blocks_[BlockNumber(key.hash)];
    if (block == nullptr || !block->content.MayContain(key.hash)) return NZone::Found::kNo;
    bool decided = false;
    in_tail = FindInTail(*block, key, &decided, &record);
    if (decided && !in_tail) return NZone::Found::kNo;
    // Only what sweeps have found asked for as often as they count is worth a place in the N-zone.
    const bool hot = block->asked_for.Of(key.hash) == Counts::kMost;
    block->asked_for.Add(key.hash);
    *stamp = block->stamp;
    Block::Asked* oldest = &block->asked[0];
    for (Block::Asked& asked : block->asked) {
      if (asked.mark == HashMark(key.hash) && now - asked.tick < benchmark) *again = hot;
      if (asked.mark == HashMark(key.hash) || now - asked.tick > now - oldest->tick) oldest = &asked;
    }
    *oldest = {HashMark(key.hash), now};
    if (in_tail) {
      if (Expired(record.item.expiry)) return NZone::Found::kNo;
      if (value != nullptr && !record.item.absent) value->assign(record.item.value);
    } else {
      stored.assign(block->stored());
      method = block->method;
      raw_bytes = block->raw_bytes;
    }
  }
  if (!in_tail) {
    if (!codec_->Decompress(method, stored, raw_bytes, &raw) || !FindInRaw(raw, key, &record) ||
        Expired(record.item.expiry)) {
      return NZone::Found::kNo;
    }
    if (value != nullptr && !record.item.absent) value->assign(record.item.value);
  }
  *expiry = record.item.expiry;
  return record.item.absent ? NZone::Found::kAbsent : NZone::Found::kValue;
}

bool ZZone::StillThere(const Key& key, uint64_t stamp) const {
  const Block* const block = blocks_[BlockNumber(key.hash)];
  return block != nullptr && block->stamp == stamp;
}

bool ZZone::Contains(const Key& key) const {
  const Block* const block = blocks_[BlockNumber(key.hash)];
  if (block == nullptr || !block->content.MayContain(key.hash)) return false;
  Record record;
  bool decided = false;
  if (FindInTail(*block, key, &decided, &record)) return !Expired(record.item.expiry);
  std::string raw;
  return !decided && codec_->Decompress(block->method, block->stored(), block->raw_bytes, &raw) &&
         FindInRaw(raw, key, &record) && !Expired(record.item.expiry);
}

uint32_t ZZone::MayHave(uint64_t hash) const {
  const Block* const block = blocks_[BlockNumber(hash)];
  if (block == nullptr || !block->content.MayContain(hash)) return 0;
  return 1 + static_cast<uint32_t>(block->asked_for.Of(hash));
}

// ---- changes ----

bool ZZone::MakeRoom(size_t bytes) {
  if (sweeping_) return arena_->TryCharge(bytes);
  sweeping_ = true;
  for (size_t step = 0; step < kRounds * blocks_.size(); ++step) {
    if (arena_->TryCharge(bytes)) {
      sweeping_ = false;
      return true;
    }
    SweepOne();
  }
  sweeping_ = false;
  return arena_->TryCharge(bytes);
}

// Puts the block in the place of another; null: none. False: there is no room, and `block` is gone.
bool ZZone::Place(size_t number, Block* block, bool may_sweep) {
  const size_t bytes = BytesOf(block);
  Block* old = blocks_[number];
  const uint64_t stamp = old == nullptr ? 0 : old->stamp;
  if (bytes > BytesOf(old)) {
    const size_t more = bytes - BytesOf(old);
    if (!arena_->TryCharge(more)) {
      if (!may_sweep || !MakeRoom(more)) {
        Block::Delete(block);
        return false;
      }
      // The sweep may have come past this block, and what it dropped must not come back. The block that it left there
      // may lie where the old one lay.
      if (blocks_[number] != old || (old != nullptr && old->stamp != stamp)) {
        arena_->Uncharge(more);
        Block::Delete(block);
        return false;
      }
    }
  } else {
    arena_->Uncharge(BytesOf(old) - bytes);
  }
  bytes_ += bytes - BytesOf(old);
  if (old != nullptr) {
    raw_bytes_ -= old->raw_bytes + old->tail_bytes;
    numbers_.items -= old->items;
    numbers_.item_bytes -= old->item_bytes;
    numbers_.stored_bytes -= old->stored_bytes + old->tail_bytes;
  }
  if (block != nullptr) {
    block->stamp = ++next_stamp_;
    raw_bytes_ += block->raw_bytes + block->tail_bytes;
    numbers_.items += block->items;
    numbers_.item_bytes += block->item_bytes;
    numbers_.stored_bytes += block->stored_bytes + block->tail_bytes;
  }
  blocks_[number] = block;
  Block::Delete(old);
  return true;
}

void ZZone::Drop(size_t number) { Place(number, nullptr, false); }

// Adds to the tail, in new memory if the old is full.
bool ZZone::Append(size_t number, std::string_view record) {
  Block* const old = blocks_[number];
  const size_t used = old == nullptr ? 0 : old->stored_bytes + old->tail_bytes;
  if (old != nullptr && used + record.size() <= old->room) {
    std::memcpy(old->data() + used, record.data(), record.size());
    old->tail_bytes += static_cast<uint32_t>(record.size());
    old->stamp = ++next_stamp_;
    raw_bytes_ += record.size();
    numbers_.stored_bytes += record.size();
    return true;
  }
  Block* const block = Block::New(old == nullptr ? Block() : *old, used + record.size());
  if (block == nullptr) return false;
  if (old != nullptr) std::memcpy(block->data(), old->data(), used);
  std::memcpy(block->data() + used, record.data(), record.size());
  block->tail_bytes += static_cast<uint32_t>(record.size());
  return Place(number, block, true);
}

void ZZone::Invalidate(uint64_t hash) {
  const size_t number = BlockNumber(hash);
  const Block* const block = blocks_[number];
  if (block == nullptr || !block->content.MayContain(hash)) return;
  // Nothing to do if the last record that could concern it says so already.
  bool gone = false;
  Record record;
  for (std::string_view tail = block->tail(); ReadRecord(&tail, &record);) {
    if (record.is_gone) {
      gone = gone || record.gone == HashMark(hash);
    } else if (gone && HashKey(options_.seed, record.item.space, record.item.key) == hash) {
      gone = false;
    }
  }
  if (gone) return;
  char bytes[kGoneRecord];
  const uint32_t mark = HashMark(hash);
  bytes[0] = kGone;
  std::memcpy(bytes + 1, &mark, sizeof(mark));
  if (!Append(number, {bytes, sizeof(bytes)})) {
    Drop(number);  // rather nothing than something old
    return;
  }
  if (blocks_[number]->tail_bytes > options_.tail_bytes && !Rebuild(number, Keep::kAll)) Drop(number);
}

void ZZone::Insert(uint64_t hash, const Item& item) {
  if (item.key.size() + item.value.size() > kMaxItem) return;
  std::string bytes;
  WriteRecord(item, &bytes);
  const size_t number = BlockNumber(hash);
  if (!Append(number, bytes)) {
    ++numbers_.evictions;
    return;
  }
  Block* const block = blocks_[number];
  block->content.Add(hash);
  ++block->items;
  block->item_bytes += static_cast<uint32_t>(item.key.size() + item.value.size());
  ++numbers_.items;
  numbers_.item_bytes += item.key.size() + item.value.size();
  // If it cannot be rebuilt for want of room, the tail grows a little more.
  if (block->tail_bytes > options_.tail_bytes) Rebuild(number, Keep::kAll);
  Grow();
}

// The valid items of a block. They point into *raw and the block.
void ZZone::Live(const Block& block, std::string* raw, std::vector<Record>* live) const {
  std::vector<Record> tail;
  ReadRecords(block.tail(), &tail);
  std::vector<Record> all;
  if (block.raw_bytes > 0 && codec_->Decompress(block.method, block.stored(), block.raw_bytes, raw)) {
    ReadRecords(*raw, &all);
  }
  const size_t compressed = all.size();
  all.insert(all.end(), tail.begin(), tail.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const Record& record = all[i];
    if (record.is_gone || Expired(record.item.expiry)) continue;
    bool replaced = false;
    for (size_t later = std::max(i + 1, compressed); later < all.size() && !replaced; ++later) {
      const Record& other = all[later];
      replaced = other.is_gone ? other.gone == HashMark(record.hash)
                               : other.hash == record.hash && other.item.key == record.item.key;
    }
    if (!replaced) live->push_back(record);
  }
}

// Null if there are none. What is not its items' and bytes it has of `old`.
ZZone::Block* ZZone::Build(const std::vector<Record>& records, const Block& old) {
  if (records.empty()) return nullptr;
  struct Blocks {
    std::string raw, stored;
  };
  auto& [raw, stored] = *OfThread<Blocks>::Get();
  raw.clear();
  Block header;
  for (const Record& record : records) {
    WriteRecord(record.item, &raw);
    header.content.Add(record.hash);
    header.item_bytes += static_cast<uint32_t>(record.item.key.size() + record.item.value.size());
  }
  header.asked_for = old.asked_for;
  std::copy(old.asked, old.asked + 2, header.asked);
  header.items = static_cast<uint32_t>(records.size());
  header.raw_bytes = static_cast<uint32_t>(raw.size());
  if (codec_->wants_samples()) codec_->AddSample(raw);
  codec_->Compress(raw, &stored, &header.method);
  ++numbers_.rebuilds;
  header.stored_bytes = static_cast<uint32_t>(stored.size());
  Block* const block = Block::New(header, stored.size());
  if (block != nullptr) std::memcpy(block->data(), stored.data(), stored.size());
  return block;
}

// False: there was no room for it, and nothing has changed.
bool ZZone::Rebuild(size_t number, Keep keep) {
  Block* const old = blocks_[number];
  std::string raw;
  std::vector<Record> live;
  Live(*old, &raw, &live);
  if (keep == Keep::kAskedFor) {
    // A block's items are in the order of their last use, as far as sweeps see it: of those whose count is 0 the older
    // half goes; the others go to the end, and lose one.
    const auto asked_for = std::stable_partition(
        live.begin(), live.end(), [old](const Record& record) { return old->asked_for.Of(record.hash) == 0; });
    const auto gone = (asked_for - live.begin() + 1) / 2;
    live.erase(live.begin(), live.begin() + gone);
    numbers_.evictions += static_cast<uint64_t>(gone);
    Counts less;
    for (const Record& record : live) {
      const uint64_t count = old->asked_for.Of(record.hash);
      less.Raise(record.hash, count == 0 ? 0 : count - 1);
    }
    old->asked_for = less;
    if (gone == 0 && old->tail_bytes == 0) return true;  // its time comes when it has lost more
  }
  Block* const block = Build(live, *old);
  if (block == nullptr && !live.empty()) return false;
  return Place(number, block, keep == Keep::kAll);
}

void ZZone::SweepOne() {
  if (hand_ >= blocks_.size()) hand_ = 0;
  const size_t number = hand_++;
  if (blocks_[number] != nullptr) Rebuild(number, Keep::kAskedFor);
}

// One leaf more for each block_bytes.
void ZZone::Grow() {
  while (raw_bytes_ > options_.block_bytes * blocks_.size()) {
    const size_t n = blocks_.size();
    if (blocks_.size() == blocks_.capacity()) {
      const size_t more = std::max(kArrayPage, blocks_.size() / 4);
      if (!arena_->TryCharge(more * kPointer)) return;
      charged_array_ += more * kPointer;
      blocks_.reserve(blocks_.size() + more);
    }
    size_t top = 1;
    while (top * 2 <= n) top *= 2;
    const size_t from = n - top;
    Block* const old = blocks_[from];
    blocks_.push_back(nullptr);
    if (old == nullptr) continue;
    std::string raw;
    std::vector<Record> live, parts[2];
    Live(*old, &raw, &live);
    for (const Record& record : live) parts[BlockNumber(record.hash) == n ? 1 : 0].push_back(record);
    Block* const first = Build(parts[0], *old);
    Block* const second = Build(parts[1], *old);
    // The records point into the old block until here.
    if (!Place(from, first, false)) Drop(from);
    if (second != nullptr) Place(n, second, false);
  }
}

void ZZone::GiveBack(size_t bytes) {
  const size_t target = bytes_ > bytes ? bytes_ - bytes : 0;
  for (size_t step = 0; bytes_ > target && step < kRounds * blocks_.size(); ++step) SweepOne();
  for (size_t number = 0; bytes_ > target && number < blocks_.size(); ++number) {
    hand_ = hand_ >= blocks_.size() ? 0 : hand_;
    if (blocks_[hand_] != nullptr) {
      numbers_.evictions += blocks_[hand_]->items;
      Drop(hand_);
    }
    ++hand_;
  }
  if (bytes_ == 0) Clear();
}

void ZZone::Clear() {
  for (size_t number = 0; number < blocks_.size(); ++number) Drop(number);
  std::vector<Block*>(1, nullptr).swap(blocks_);
  arena_->Uncharge(charged_array_);
  charged_array_ = 0;
  hand_ = 0;
}

ZZone::Numbers ZZone::numbers() const {
  Numbers numbers = numbers_;
  numbers.bytes = bytes_ + charged_array_;
  numbers.blocks = blocks_.size();
  return numbers;
}

}  // namespace cairn::cache
