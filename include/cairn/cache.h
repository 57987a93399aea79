// cairn::ResultCache is a cache of answers: (space, key) -> a value, or "there is no such key". It is right or it
// misses: it never answers with a value older than the newest Put, PutAbsent or Erase of its key that has returned.
//
//   cairn::ResultCacheOptions options;
//   options.capacity = size_t{1} << 30;
//   std::unique_ptr<cairn::ResultCache> cache;
//   cairn::IndexStatus status = cairn::ResultCache::Create(options, &cache);
//   cache->Put("apple", "red");
//   std::string value;
//   if (cache->Get("apple", &value) == cairn::ResultCache::Answer::kValue) ...
//
// Above a database, or any other store, a reader that missed fills the cache with what it has read, and must not undo a
// writer that came meanwhile:
//
//   reader   FillTicket ticket = cache->BeginFill(key); read the store; cache->Fill(ticket, key, value);
//   writer   cache->Bar(key); write to the store; cache->Unbar(key);
//
// Bar removes the answer, and from then until Unbar no Fill of the key succeeds, nor does one whose ticket was taken
// before Unbar. So an answer in the cache is always one that the store would give, too (docs/design/result_cache.md).
//
// It needs nothing of RocksDB.
//
// Thread-safety: every function may be called from any thread at any time. A lookup that finds its key takes no lock
// and writes to no shared memory but, while the item has few references, its reference bits.
//
// Sources: MICA (NSDI 2014), zExpander (EuroSys 2016), Cavast (PVLDB 13(9), 2020), S3-FIFO (SOSP 2023).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/index_status.h"

namespace cairn {

struct ResultCacheOptions {
  // Bytes of memory, all of it: items, index, fences. Below about 32 KiB nothing is kept.
  size_t capacity = size_t{64} << 20;

  // The largest capacity that SetCapacity will be asked for: address space is reserved for it, no memory. 0: eight
  // times the capacity, at least 1 GiB.
  size_t max_capacity = 0;

  // A full cache stores only one in so many Fills, drawn at random, of keys that it has not held recently: hardly any
  // of them is asked for again before it would be evicted. 1: every Fill is stored. Applies to a cache
  // without a Z-zone; Put always stores.
  uint32_t admit_one_fill_in = 4;

  // What leaves the N-zone goes to a Z-zone, where items of up to 4 KiB lie in compressed blocks: fewer misses in the
  // same memory where values are small and alike, 2 to 4 us for a hit there. kNone: there is no Z-zone. Which? zstd
  // saves more memory, LZ4 more time. It pays if a miss costs more than some 30 us (LZ4) or 45 us (zstd).
  enum class Compression { kNone, kLz4, kZstd };
  Compression compression = Compression::kNone;

  // The part of the requests that need work (hits, blocks decompressed or compressed) that the N-zone is to serve: its
  // share of the memory follows, in steps of 3 %, between 5 and 95 %. 0: the share stays as it is.
  double n_zone_requests = 0.9;
  // What the N-zone's share begins with.
  double n_zone_share = 0.3;

  // The index keeps the size that it begins with (one entry for each expected_item_bytes of capacity), and entries push
  // out one another when a bucket is full. Otherwise the index grows and shrinks with the number of items.
  bool lossy = false;

  // Key and value together. Only what the index begins with.
  size_t expected_item_bytes = 128;

  // Whether log and index ask for huge pages (2 MiB, madvise), which the processor finds faster: a lookup takes a sixth
  // to a third less from some 50 MiB on. Of a capacity of 64 MiB or more, in memory; the last pages count as a whole.
  // Where the system has no transparent huge pages it does nothing.
  bool huge_pages = true;

  // A file for the N-zone's items that survives restarts: whoever opens it next finds the answers again, whether the
  // process ended or was killed. After a loss of power or a crash of the system it starts empty, unless it was closed
  // before. One cache uses it at a time; its size is fixed. Items above a 64th of it, and those of a Z-zone, are not
  // kept. A file of another size or identity is overwritten. Empty: memory.
  std::string path;

  // What the answers are about. A file with another identity starts empty.
  std::string identity;

  // Of the hash function, so that nobody can aim keys at one bucket. 0: drawn at random.
  uint64_t hash_seed = 0;

  // Milliseconds that never go back; items' expiry is measured with it. Null: the system's monotonic clock.
  std::function<uint64_t()> clock;

  // Told how many bytes the cache has come to use, or has given back, so that they can be charged elsewhere. Called
  // with no particular thread and under locks of the cache: it must not call the cache.
  std::function<void(int64_t)> memory_changed;
};

class ResultCache {
 public:
  enum class Answer {
    kMiss,    // ask elsewhere
    kValue,   // the value is this
    kAbsent,  // there is no such key
  };

  struct Statistics {
    uint64_t hits = 0;         // of values
    uint64_t absent_hits = 0;  // of absent keys
    uint64_t misses = 0;
    uint64_t puts = 0;              // items that were taken in
    uint64_t refused_fills = 0;     // because a writer came between
    uint64_t unadmitted_fills = 0;  // of keys that the cache has not had of late (admit_one_fill_in)
    uint64_t erases = 0;            // of items that were there
    uint64_t evictions = 0;
    uint64_t recovered = 0;  // items that were found in the file
    uint64_t items = 0;
    uint64_t item_bytes = 0;   // keys and values of them
    uint64_t index_bytes = 0;  // buckets
    uint64_t memory = 0;       // all bytes that count against the capacity
    uint64_t capacity = 0;

    // Of the Z-zone. Hits, items and evictions above include it.
    uint64_t z_hits = 0;
    uint64_t z_items = 0;       // replaced ones among them until their block is compressed anew
    uint64_t z_item_bytes = 0;  // keys and values, before compression
    uint64_t z_bytes = 0;       // all that the Z-zone takes
    uint64_t promotions = 0;    // items that went back to the N-zone
    double n_zone_share = 1;
  };

  // What BeginFill saw, and whether Admit has said yes. A value.
  class FillTicket {
   public:
    FillTicket() = default;

   private:
    friend class ResultCache;
    uint64_t key_hash_ = 0;
    uint64_t of_key_ = 0;
    uint64_t of_all_ = 0;
    bool barred_ = true;
    bool admitted_ = false;
  };

  // Spaces keep equal keys apart; a space is a number up to this.
  static constexpr uint32_t kMaxSpace = (1 << 20) - 1;
  // Where nothing is kept.
  static constexpr uint32_t kNoSpace = UINT32_MAX;

  // kInvalidArgument: the options contradict themselves, the system has no address space for them, or another cache
  // uses the file. kIoError: the file.
  static IndexStatus Create(const ResultCacheOptions& options, std::unique_ptr<ResultCache>* cache);

  virtual ~ResultCache() = default;
  ResultCache(const ResultCache&) = delete;
  ResultCache& operator=(const ResultCache&) = delete;

  // `value` may be null; what it holds after another answer than kValue is undefined.
  virtual Answer Get(std::string_view key, std::string* value, uint32_t space = 0) = 0;

  // As `count` calls of Get, with the memory that they need fetched ahead. `values` may be null.
  virtual void MultiGet(size_t count, const std::string_view* keys, std::string* values, Answer* answers,
                        uint32_t space = 0) = 0;

  // `milliseconds` from now the answer is gone; 0: it stays as long as there is room. False: there was none, and the
  // key has no answer now.
  virtual bool Put(std::string_view key, std::string_view value, uint32_t space = 0, uint64_t milliseconds = 0) = 0;
  virtual bool PutAbsent(std::string_view key, uint32_t space = 0, uint64_t milliseconds = 0) = 0;
  // Whether there was an answer.
  virtual bool Erase(std::string_view key, uint32_t space = 0) = 0;

  // Take the ticket before the store is read. It is good for the key in any space.
  virtual FillTicket BeginFill(std::string_view key) = 0;
  // Whether a Fill would be admitted (admit_one_fill_in): draws the lot now, for who has work to do before it fills. If
  // so, the Fill with this ticket draws none. False also where the key was barred when the ticket was taken.
  virtual bool Admit(FillTicket* ticket, uint32_t space) = 0;
  // Put and PutAbsent, unless the key was barred since the ticket was taken, or is not admitted.
  virtual bool Fill(const FillTicket& ticket, std::string_view key, std::string_view value, uint32_t space = 0,
                    uint64_t milliseconds = 0) = 0;
  virtual bool FillAbsent(const FillTicket& ticket, std::string_view key, uint32_t space = 0,
                          uint64_t milliseconds = 0) = 0;
  // Get and, after a miss, BeginFill, with one hash of the key for both. An answer leaves the ticket as it was.
  virtual Answer GetOrBegin(std::string_view key, std::string* value, uint32_t space, FillTicket* ticket) = 0;
  // BeginFill and then Get of many keys, of spaces of their own, with the memory that they need fetched ahead. None of
  // the pointers may be null.
  virtual void MultiGetOrBegin(size_t count, const std::string_view* keys, const uint32_t* spaces,
                               std::string* const* values, Answer* answers, FillTicket* tickets) = 0;
  // Whether no writer was under way when the ticket was taken, and none has come since. Then every answer that the
  // cache has given for the key meanwhile was the newest all the time.
  virtual bool Unchanged(const FillTicket& ticket) const = 0;
  // Each Bar wants its Unbar. They nest; several writers may bar a key at once. Fills of the key are barred in all
  // spaces; the answer that is removed is that of one.
  virtual void Bar(std::string_view key, uint32_t space = 0) = 0;
  virtual void Unbar(std::string_view key) = 0;
  // Bar for writers beside whom the space may change: it is read when fills are barred already; kNoSpace: nothing is
  // removed. Returns what UnbarStripe takes, which is quicker than Unbar.
  virtual uint32_t Bar(std::string_view key, const std::atomic<uint32_t>& space) = 0;
  virtual void UnbarStripe(uint32_t stripe) = 0;
  // For all keys of all spaces. BarAll removes every answer.
  virtual void BarAll() = 0;
  virtual void UnbarAll() = 0;

  // Removes every answer; tickets that were taken before fill nothing.
  virtual void Clear() = 0;

  // Takes effect at once: when it returns, no more than `bytes` are used, or what an empty cache takes if that is more;
  // a lossy one keeps its index. kInvalidArgument: more than max_capacity.
  virtual IndexStatus SetCapacity(size_t bytes) = 0;

  virtual Statistics GetStatistics() const = 0;

 protected:
  ResultCache() = default;

  static bool MayFill(const FillTicket& ticket, uint64_t of_key, uint64_t of_all) {
    return !ticket.barred_ && ticket.of_key_ == of_key && ticket.of_all_ == of_all;
  }
  static bool IsBarred(const FillTicket& ticket) { return ticket.barred_; }
  static bool IsAdmitted(const FillTicket& ticket) { return ticket.admitted_; }
  static void SetAdmitted(FillTicket* ticket) { ticket->admitted_ = true; }
  static uint64_t KeyHash(const FillTicket& ticket) { return ticket.key_hash_; }
  static FillTicket MakeTicket(uint64_t key_hash, uint64_t of_key, uint64_t of_all, bool barred) {
    FillTicket ticket;
    ticket.key_hash_ = key_hash;
    ticket.of_key_ = of_key;
    ticket.of_all_ = of_all;
    ticket.barred_ = barred;
    return ticket;
  }
};

}  // namespace cairn
