#include "memtable_cache/hash_index.h"

#include <algorithm>
#include <new>

namespace cairn {

namespace {

// User space: 47 bits on x86-64, 48 on arm64.
constexpr uint64_t kAddressBits = 48;
constexpr uint64_t kAddress = (uint64_t{1} << kAddressBits) - 1;
constexpr uint64_t kHasVersions = uint64_t{1} << kAddressBits;
constexpr uint64_t kTag = ~uint64_t{0} << 49;

constexpr size_t kFirstSlots = 1024;
constexpr size_t kMostBytesAtOnce = 512 << 10;
constexpr size_t kBatch = 16;
constexpr uint64_t kMaxLevels = 16;
constexpr uint64_t kFirstLevels = 1;
constexpr int kBranchingBits = 2;  // one node in four goes a level higher

HashIndex::Head* HeadOf(uint64_t word) { return reinterpret_cast<HashIndex::Head*>(word & kAddress); }

// Any version of the word's key.
const char* EntryOf(uint64_t word) {
  return (word & kHasVersions) != 0 ? HeadOf(word)->after(0)->entry : reinterpret_cast<const char*>(word & kAddress);
}

uint64_t WordOf(uint64_t hash, const void* address, uint64_t flag) {
  return (hash & kTag) | flag | reinterpret_cast<uint64_t>(address);
}

// Links a node of `height` behind the nodes of larger tags.
void LinkInto(HashIndex::Head* head, HashIndex::Node* node, int height) {
  HashIndex::Node* at = nullptr;  // null: the head
  HashIndex::Node* previous[kMaxLevels];
  for (int level = static_cast<int>(head->levels) - 1; level >= 0; --level) {
    for (;;) {
      HashIndex::Node* const next = at == nullptr ? head->after(level) : at->after(level);
      if (next == nullptr || next->tag <= node->tag) break;
      at = next;
    }
    previous[level] = at;
  }
  // From the bottom: who sees the node on a level finds it on those below.
  for (int level = 0; level < height; ++level) {
    std::atomic<HashIndex::Node*>& link = previous[level] == nullptr ? head->next(level) : previous[level]->next(level);
    node->next(level).store(link.load(std::memory_order_relaxed), std::memory_order_relaxed);
    link.store(node, std::memory_order_release);
  }
}

// The node of the largest tag up to this one.
const HashIndex::Node* NewestUpTo(const HashIndex::Head* head, uint64_t tag) {
  const HashIndex::Node* at = nullptr;
  const HashIndex::Node* next = nullptr;
  for (int level = static_cast<int>(head->levels) - 1; level >= 0; --level) {
    for (;;) {
      next = at == nullptr ? head->after(level) : at->after(level);
      if (next == nullptr || next->tag <= tag) break;
      at = next;
    }
  }
  return next;
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

void HashIndex::Versions::Next() {
  node_ = node_ == nullptr ? nullptr : node_->after(0);
  entry_ = node_ == nullptr ? nullptr : node_->entry;
}

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
    size_t at = bigger->Home(HashOf(KeyOf(EntryOf(word)).user_key));
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
      hashes[i] = HashOf(KeyOf(entries[done + i]).user_key);
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
  size_t at = table->Home(hash);
  for (;; at = (at + 1) & table->mask) {
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
  Head* head = nullptr;
  if ((word & kHasVersions) != 0) {
    head = HeadOf(word);
  } else {
    head = NewHead(kFirstLevels);
    const char* const first = reinterpret_cast<const char*>(word & kAddress);
    head->next(0).store(NewNode(first, KeyOf(first).tag, 1), std::memory_order_relaxed);
    head->nodes = 1;
  }
  const bool full = head->levels < kMaxLevels && head->nodes >> (kBranchingBits * head->levels) != 0;
  if (full) {
    Head* const higher = NewHead(head->levels + 1);
    for (uint64_t level = 0; level < head->levels; ++level) {
      higher->next(level).store(head->after(level), std::memory_order_relaxed);
    }
    higher->nodes = head->nodes;
    head = higher;
  }
  const int height = RandomHeight(head->levels);
  LinkInto(head, NewNode(entry, tag, height), height);
  ++head->nodes;
  if (full || (word & kHasVersions) == 0) {
    slot->store((word & kTag) | kHasVersions | reinterpret_cast<uint64_t>(head), std::memory_order_release);
  }
}

// Nodes and heads; aligned to a pointer.
char* HashIndex::AllocateBytes(size_t bytes) {
  if (chunk_left_ < bytes) {
    chunk_left_ = std::min(kMostBytesAtOnce, size_t{2048} << std::min<size_t>(chunks_.size(), 16));
    chunks_.emplace_back(new char[chunk_left_]);
    chunk_at_ = chunks_.back().get();
    memory_bytes_.fetch_add(chunk_left_, std::memory_order_relaxed);
  }
  char* const at = chunk_at_;
  chunk_at_ += bytes;
  chunk_left_ -= bytes;
  return at;
}

HashIndex::Head* HashIndex::NewHead(uint64_t levels) {
  auto* const head = new (AllocateBytes(sizeof(Head) + levels * sizeof(std::atomic<Node*>))) Head{levels, 0};
  for (uint64_t level = 0; level < levels; ++level) new (&head->next(level)) std::atomic<Node*>(nullptr);
  return head;
}

HashIndex::Node* HashIndex::NewNode(const char* entry, uint64_t tag, int height) {
  auto* const node =
      new (AllocateBytes(sizeof(Node) + static_cast<size_t>(height) * sizeof(std::atomic<Node*>))) Node{entry, tag};
  for (int level = 0; level < height; ++level) new (&node->next(level)) std::atomic<Node*>(nullptr);
  return node;
}

int HashIndex::RandomHeight(uint64_t most) {
  // Marsaglia's xorshift.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const int ahead = __builtin_ctzll(random_ | uint64_t{1} << 62) / kBranchingBits;
  return 1 + std::min(ahead, static_cast<int>(most) - 1);
}

HashIndex::Versions HashIndex::FindHashed(const EntryKey& key, uint64_t hash) const {
  Versions found;
  const Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return found;
  size_t at = table->Home(hash);
  for (;; at = (at + 1) & table->mask) {
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
    const Head* const head = HeadOf(word);
    if (KeyOf(head->after(0)->entry).user_key != key.user_key) continue;
    found.node_ = NewestUpTo(head, key.tag);
    if (found.node_ != nullptr) found.entry_ = found.node_->entry;
    return found;
  }
}

}  // namespace cairn
