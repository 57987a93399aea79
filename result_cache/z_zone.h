// One partition of the Z-zone: what its N-zone evicts, in compressed blocks of about 4 KiB.
//
// There is one for each leaf of a binary trie over the lower bits of the hash, all leaves at depth k or k + 1; the trie
// grows by one leaf at a time, so it needs nothing but an array of pointers. Bytes: docs/design/result_cache.md, The
// Z-zone.
//
// Invariants
//   (1) A key's items are all in the block of its hash. The last record of a tail that concerns the key decides; only
//       if there is none, the compressed items do.
//   (2) If the N-zone has an item of a key, the Z-zone answers nothing for it: Invalidate is called in the same
//       critical section as the N-zone's Put or Erase.
//   (3) The content filter of a block knows every key of its items, those in the tail included.
//   (4) What is charged to the arena is what the blocks take.
//
// A new item costs an append to the tail; when the tail is full the block is compressed anew, without what is no longer
// valid or has expired. So removal is postponed, and one compression serves several items.
//
// Thread-safety: Lookup takes the partition's lock itself; everything else wants it held.
//
// Source: zExpander (EuroSys 2016; sections 3.3.1 to 3.3.3 of Wu's dissertation, UT Arlington 2018).

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "result_cache/arena.h"
#include "result_cache/codec.h"
#include "result_cache/item.h"
#include "result_cache/n_zone.h"
#include "util/mutex.h"

namespace cairn::cache {

struct ZZoneOptions {
  uint64_t seed = 0;
  size_t block_bytes = 4096;  // before compression, on average
  size_t tail_bytes = 512;
};

class ZZone {
 public:
  // Items above are not taken.
  static constexpr size_t kMaxItem = 4096;

  ZZone(const ZZoneOptions& options, Arena* arena, Codec* codec, CheckedMutex* mutex,
        const std::function<uint64_t()>& clock);
  ~ZZone();
  ZZone(const ZZone&) = delete;
  ZZone& operator=(const ZZone&) = delete;

  // *again: the key was asked for within `benchmark` ticks before, and as often as sweeps count. *stamp goes to
  // StillThere.
  NZone::Found Lookup(const Key& key, std::string* value, uint32_t now, uint32_t benchmark, bool* again,
                      uint64_t* stamp, uint64_t* expiry);

  // Locked, from here on.
  // Whether the key's block is as Lookup saw it.
  bool StillThere(const Key& key, uint64_t stamp) const;
  // The newest item of its key, which the N-zone has just evicted. May be forgotten, for want of room.
  void Insert(uint64_t hash, const Item& item);
  void Invalidate(uint64_t hash);
  bool Contains(const Key& key) const;
  // 0: there is no item of this hash. Else there may be, and this is one more than its count.
  uint32_t MayHave(uint64_t hash) const;
  void Clear();
  // Sweeps until `bytes` less are used than now, or nothing is left.
  void GiveBack(size_t bytes);

  struct Numbers {
    uint64_t items = 0;
    uint64_t item_bytes = 0;    // keys and values
    uint64_t stored_bytes = 0;  // what they take, compressed and in tails
    uint64_t bytes = 0;         // all that is charged
    uint64_t blocks = 0;
    uint64_t evictions = 0;
    uint64_t rebuilds = 0;
  };
  Numbers numbers() const;
  size_t bytes() const { return bytes_; }
  uint64_t items() const { return numbers_.items; }

 private:
  struct Block;
  struct Record {
    Item item;
    uint64_t hash = 0;
    uint32_t gone = 0;  // with is_gone: of the hash
    bool is_gone = false;
  };
  enum class Keep { kAll, kAskedFor };

  size_t BlockNumber(uint64_t hash) const;
  static uint32_t HashMark(uint64_t hash) { return static_cast<uint32_t>(hash >> 20); }
  bool Expired(uint64_t expiry) const { return expiry != 0 && (*clock_)() >= expiry; }
  static bool ReadRecord(std::string_view* bytes, Record* record);
  static void WriteRecord(const Item& item, std::string* bytes);
  void ReadRecords(std::string_view bytes, std::vector<Record>* records) const;
  // *decided: the tail has a record that concerns the key. It returns the item's record, if it is one.
  bool FindInTail(const Block& block, const Key& key, bool* decided, Record* found) const;
  bool FindInRaw(std::string_view raw, const Key& key, Record* found) const;
  bool Append(size_t number, std::string_view record);
  void Live(const Block& block, std::string* raw, std::vector<Record>* live) const;
  Block* Build(const std::vector<Record>& records, const Block& old);
  bool Place(size_t number, Block* block, bool may_sweep);
  bool Rebuild(size_t number, Keep keep);
  void Grow();
  void SweepOne();
  bool MakeRoom(size_t bytes);
  void Drop(size_t number);
  static size_t BytesOf(const Block* block);

  const ZZoneOptions options_;
  Arena* const arena_;
  Codec* const codec_;
  CheckedMutex* const mutex_;
  const std::function<uint64_t()>* const clock_;

  std::vector<Block*> blocks_;
  size_t charged_array_ = 0;
  size_t bytes_ = 0;
  size_t raw_bytes_ = 0;  // of all blocks, tails included
  size_t hand_ = 0;
  uint64_t next_stamp_ = 0;
  bool sweeping_ = false;
  Numbers numbers_;
};

}  // namespace cairn::cache
