#include "memtable_cache/hash_index.h"

#include <algorithm>
#include <new>

namespace cairn {

namespace {

constexpr uint64_t kAddressBits = 47;  // of user space
constexpr uint64_t kAddress = (uint64_t{1} << kAddressBits) - 1;
constexpr uint64_t kHasVersions = uint64_t{1} << kAddressBits;
constexpr uint64_t kTag = ~uint64_t{0} << 48;

constexpr size_t kFirstSlots = 1024;
constexpr size_t kMostVersionsAtOnce = 16384;
constexpr uint64_t kMilestone = 16;
constexpr size_t kBatch = 16;

HashIndex::Version* VersionOf(uint64_t word) { return reinterpret_cast<HashIndex::Version*>(word & kAddress); }

const char* EntryOf(uint64_t word) {
  return (word & kHasVersions) != 0 ? VersionOf(word)->entry : reinterpret_cast<const char*>(word & kAddress);
}

uint64_t WordOf(uint64_t hash, const void* address, uint64_t flag) {
  return (hash & kTag) | flag | reinterpret_cast<uint64_t>(address);
}

}  // namespace

// Memory that the system has zeroed is not touched before it is used.
HashIndex::Table::Table(size_t slots)
    : mask(slots - 1),
      shift(__builtin_clzll(slots) + 1),
      words(static_cast<std::atomic<uint64_t>*>(calloc(slots, sizeof(uint64_t)))) {
  if (words == nullptr) throw std::bad_alloc();
}

HashIndex::~HashIndex() = default;

void HashIndex::Reserve(size_t keys) {
  size_t slots = kFirstSlots;
  while (slots * 5 / 8 < keys) slots *= 2;
  const Table* table = table_.load(std::memory_order_relaxed);
  if (table == nullptr || slots > table->mask + 1) Grow(slots);
}

// The hashes are computed anew from the keys: a word keeps too few bits of them.
void HashIndex::Grow(size_t slots) {
  auto bigger = std::make_unique<Table>(slots);
  const Table* old = table_.load(std::memory_order_relaxed);
  for (size_t i = 0; old != nullptr && i <= old->mask; ++i) {
    if (i + kBatch <= old->mask) {
      const uint64_t ahead = old->words[i + kBatch].load(std::memory_order_relaxed);
      if ((ahead & kHasVersions) == 0) __builtin_prefetch(reinterpret_cast<const char*>(ahead & kAddress));
    }
    const uint64_t word = old->words[i].load(std::memory_order_relaxed);
    if (word == 0) continue;
    size_t at = bigger->Home(order_.Hash(KeyOf(EntryOf(word)).user_key));
    while (bigger->words[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & bigger->mask;
    bigger->words[at].store(word, std::memory_order_relaxed);
  }
  memory_bytes_.fetch_add(slots * sizeof(uint64_t), std::memory_order_relaxed);
  table_.store(bigger.get(), std::memory_order_release);
  tables_.push_back(std::move(bigger));
}

void HashIndex::AddAll(const char* const* entries, size_t count) {
  uint64_t hashes[kBatch];
  for (size_t done = 0; done < count; done += kBatch) {
    const size_t here = std::min(kBatch, count - done);
    Reserve(keys_ + here);
    const Table* table = table_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < here; ++i) {
      hashes[i] = order_.Hash(KeyOf(entries[done + i]).user_key);
      __builtin_prefetch(&table->words[table->Home(hashes[i])], 1);
    }
    // What is in the key's slot already, most likely an older version of it.
    for (size_t i = 0; i < here; ++i) {
      const uint64_t word = table->words[table->Home(hashes[i])].load(std::memory_order_relaxed);
      if (((word ^ hashes[i]) & kTag) == 0) __builtin_prefetch(reinterpret_cast<const void*>(word & kAddress));
    }
    for (size_t i = 0; i < here; ++i) AddHashed(entries[done + i], hashes[i]);
  }
}

void HashIndex::AddHashed(const char* entry, uint64_t hash) {
  Table* table = table_.load(std::memory_order_relaxed);
  const EntryKey key = KeyOf(entry);
  for (size_t at = table->Home(hash);; at = (at + 1) & table->mask) {
    const uint64_t word = table->words[at].load(std::memory_order_relaxed);
    if (word == 0) {
      table->words[at].store(WordOf(hash, entry, 0), std::memory_order_release);
      ++keys_;
      return;
    }
    if (((word ^ hash) & kTag) == 0 && KeyOf(EntryOf(word)).user_key == key.user_key) {
      AddVersion(&table->words[at], word, entry, key.tag);
      return;
    }
  }
}

void HashIndex::AddVersion(std::atomic<uint64_t>* slot, uint64_t word, const char* entry, uint64_t tag) {
  Version* newest = nullptr;
  if ((word & kHasVersions) != 0) {
    newest = VersionOf(word);
  } else {
    const char* first = reinterpret_cast<const char*>(word & kAddress);
    newest = NewVersion(first, KeyOf(first).tag, nullptr);
    slot->store((word & kTag) | kHasVersions | reinterpret_cast<uint64_t>(newest), std::memory_order_release);
  }
  if (tag > newest->tag) {
    Version* version = NewVersion(entry, tag, newest);
    slot->store((word & kTag) | kHasVersions | reinterpret_cast<uint64_t>(version), std::memory_order_release);
    return;
  }
  // Late: a writer of another piece was faster. Jumps over its place stay right, by (2).
  Version* newer = newest;
  Version* older = newer->older.load(std::memory_order_relaxed);
  while (older != nullptr && older->tag > tag) {
    newer = older;
    older = newer->older.load(std::memory_order_relaxed);
  }
  newer->older.store(NewVersion(entry, tag, older), std::memory_order_release);
}

HashIndex::Version* HashIndex::NewVersion(const char* entry, uint64_t tag, Version* older) {
  if (versions_left_ == 0) {
    versions_left_ = std::min(kMostVersionsAtOnce, size_t{64} << std::min<size_t>(versions_.size(), 16));
    versions_.emplace_back(new Version[versions_left_]);
    memory_bytes_.fetch_add(versions_left_ * sizeof(Version), std::memory_order_relaxed);
  }
  Version* version = &versions_.back()[--versions_left_];
  version->entry = entry;
  version->tag = tag;
  version->older.store(older, std::memory_order_relaxed);
  version->depth = older == nullptr ? 1 : older->depth + 1;
  // Every kMilestone-th version jumps over milestones, the others to the milestone below them: so the usual new version
  // touches no other than the one below.
  const Version* milestone = older == nullptr || older->depth % kMilestone == 0 ? older : older->jump;
  version->jump = milestone;
  if (version->depth % kMilestone == 0 && milestone != nullptr && milestone->jump != nullptr) {
    const Version* jump = milestone->jump;
    const uint64_t next_depth = jump->jump == nullptr ? 0 : jump->jump->depth;
    if (milestone->depth - jump->depth == jump->depth - next_depth)
      version->jump = jump->jump == nullptr ? jump : jump->jump;
  }
  return version;
}

HashIndex::Versions HashIndex::Find(const EntryKey& key) const {
  Versions found;
  const Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return found;
  const uint64_t hash = order_.Hash(key.user_key);
  for (size_t at = table->Home(hash);; at = (at + 1) & table->mask) {
    const uint64_t word = table->words[at].load(std::memory_order_acquire);
    if (word == 0) return found;
    if (((word ^ hash) & kTag) != 0) continue;
    if ((word & kHasVersions) == 0) {
      const char* entry = reinterpret_cast<const char*>(word & kAddress);
      const EntryKey here = KeyOf(entry);
      if (here.user_key != key.user_key) continue;
      if (here.tag <= key.tag) found.entry_ = entry;
      return found;
    }
    const Version* version = VersionOf(word);
    if (KeyOf(version->entry).user_key != key.user_key) continue;
    while (version != nullptr && version->tag > key.tag) {
      const Version* jump = version->jump;
      version = jump != nullptr && jump->tag > key.tag ? jump : version->older.load(std::memory_order_acquire);
    }
    found.version_ = version;
    if (version != nullptr) found.entry_ = version->entry;
    return found;
  }
}

}  // namespace cairn
