// How a read goes: the cache is asked, then, if it must be, the database's own read ("the tree"), and its answer is
// filled in. Rules D2, D3 and D8 are kept here. Only what every hit runs through is in DatabaseCache::Get itself.
//
// Thread-safety: safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/cache.h"
#include "result_cache/cache_fills.h"
#include "result_cache/cache_modes.h"
#include "result_cache/cache_times.h"
#include "result_cache/database_cache.h"
#include "result_cache/family_spaces.h"
#include "result_cache/get_or_begin.h"
#include "result_cache/per_thread.h"
#include "rocksdb/db.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"

namespace cairn {

// The parts of a read that not every hit has. `place` is the calling thread's cache::ThreadCell(), `number` that of the
// thread's read, `hash` the key's.
class CacheReader {
 public:
  using Answer = ResultCache::Answer;
  using Fills = DatabaseCache::Fills;
  using From = DatabaseCache::From;

  static rocksdb::Status Hit(DatabaseCache* cache, size_t place, Answer answer, rocksdb::PinnableSlice* value,
                             From* from) {
    *from = From::kCache;
    if (__builtin_expect(cache->fills_.AnyLeft(place), 0)) cache->fills_.StoreOne(place);
    return ToStatus(answer, value);
  }

  template <class ReadTree>
  __attribute__((noinline)) static rocksdb::Status GetMissed(DatabaseCache* cache, size_t place, SpaceRead* read,
                                                             uint64_t hash, Fills fills, rocksdb::PinnableSlice* value,
                                                             From* from, const ReadTree& read_tree) {
    if (cache->fills_.Holds(place, *read)) {
      cache->fills_.StoreAll(place);
      const Answer answer = Probe(cache, place, *read, value->GetSelf(), &hash);
      if (answer != Answer::kMiss) return Hit(cache, place, answer, value, from);
    }
    const bool fill = fills == Fills::kYes && BeginFill(cache, place, read, hash);
    rocksdb::Status s = read_tree(value);
    if (fill) cache->fills_.StoreLater(place, *read, s, *value);
    return s;
  }

  // A read that is to be timed or compared, or of a family without a space.
  template <class ReadTree>
  __attribute__((noinline)) static rocksdb::Status GetWatched(DatabaseCache* cache, size_t place, uint64_t number,
                                                              rocksdb::ColumnFamilyHandle* handle,
                                                              const rocksdb::Slice& key, Fills fills,
                                                              rocksdb::PinnableSlice* value, From* from,
                                                              const ReadTree& read_tree) {
    const FamilySpaces::Family* const family = cache->spaces_.Of(handle);
    SpaceRead read{family, FamilySpaces::SpaceOf(family), {key.data(), key.size()}, {}};
    if (read.space == ResultCache::kNoSpace) return read_tree(value);
    if (!cache->times_.IsWatched(place, number, 1)) {
      return GetByCache(cache, place, &read, fills, value, from, read_tree);
    }
    CacheTimes::Watch watch(&cache->times_, place, number, 1);
    rocksdb::Status s = watch.by_tree()    ? read_tree(value)
                        : watch.compares() ? GetCompared(cache, &read, fills, value, read_tree)
                                           : GetByCache(cache, place, &read, fills, value, from, read_tree);
    watch.End(s);
    if (watch.compares()) cache->modes_.Look();
    return s;
  }

  // False: the tree is to be asked for all keys, because a family has no space, nothing was found, or what was found
  // has changed before the tree had answered the others (rule D8).
  template <class ReadTree>
  static bool MultiGet(DatabaseCache* cache, size_t count, rocksdb::ColumnFamilyHandle** handles,
                       const rocksdb::Slice* keys, Fills fills, rocksdb::PinnableSlice* values,
                       rocksdb::Status* statuses, std::vector<Answer>* answers, const ReadTree& read_tree) {
    ReadMany many;
    if (!ProbeMany(cache, count, handles, keys, values, &many)) return false;
    const size_t misses = many.misses.size();
    if (misses > 0) {
      many.SetTree(handles, keys);
      read_tree(misses, many.tree_handles.data(), many.tree_keys.data(), many.tree_values.data(),
                many.tree_statuses.data());
    }
    if (misses < count && !StillRight(cache, many)) return false;
    Deliver(cache, &many, fills, values, statuses);
    if (misses < count) *answers = std::move(many.answers);
    return true;
  }

 private:
  struct ReadMany {
    std::vector<const FamilySpaces::Family*> families;
    std::vector<std::string_view> keys;
    std::vector<uint32_t> spaces;
    std::vector<std::string*> strings;
    std::vector<Answer> answers;
    std::vector<ResultCache::FillTicket> tickets;
    std::vector<size_t> misses;
    std::vector<rocksdb::ColumnFamilyHandle*> tree_handles;
    std::vector<rocksdb::Slice> tree_keys;
    std::vector<rocksdb::PinnableSlice> tree_values;
    std::vector<rocksdb::Status> tree_statuses;

    void SetCount(size_t count);
    void SetTree(rocksdb::ColumnFamilyHandle** handles, const rocksdb::Slice* all_keys);
  };

  static rocksdb::Status ToStatus(Answer answer, rocksdb::PinnableSlice* value) {
    if (answer == Answer::kAbsent) return rocksdb::Status::NotFound();
    value->PinSelf();
    return rocksdb::Status::OK();
  }

  // Else the space may be another family's by now.
  static bool HasSpaceStill(const SpaceRead& read) { return FamilySpaces::SpaceOf(read.family) == read.space; }

  // The cache's answer, if the family still has the space. *hash: of the key.
  static Answer Probe(DatabaseCache* cache, size_t place, const SpaceRead& read, std::string* value, uint64_t* hash) {
    const Answer answer = cache::GetIn(place, cache->cache_.get(), read.key, value, read.space, hash);
    return HasSpaceStill(read) ? answer : Answer::kMiss;
  }
  // After a miss: whether what the tree answers from now on is to be filled in. Then the family still has the space.
  static bool BeginFill(DatabaseCache* cache, size_t place, SpaceRead* read, uint64_t hash) {
    return cache::BeginFillOf(place, cache->cache_.get(), hash, read->space, &read->ticket) && HasSpaceStill(*read);
  }

  template <class ReadTree>
  static rocksdb::Status GetByCache(DatabaseCache* cache, size_t place, SpaceRead* read, Fills fills,
                                    rocksdb::PinnableSlice* value, From* from, const ReadTree& read_tree) {
    uint64_t hash = 0;
    const Answer answer = Probe(cache, place, *read, value->GetSelf(), &hash);
    return answer == Answer::kMiss ? GetMissed(cache, place, read, hash, fills, value, from, read_tree)
                                   : Hit(cache, place, answer, value, from);
  }

  // The tree's answer, compared with the cache's.
  template <class ReadTree>
  static rocksdb::Status GetCompared(DatabaseCache* cache, SpaceRead* read, Fills fills, rocksdb::PinnableSlice* value,
                                     const ReadTree& read_tree) {
    std::string cached;
    const Answer answer = ProbeWithTicket(cache, read, &cached);
    rocksdb::Status s = read_tree(value);
    if (answer != Answer::kMiss) {
      Compare(cache, *read, answer, cached, s, *value);
    } else if (fills == Fills::kYes) {
      cache->fills_.Store(*read, s, *value);
    }
    return s;
  }
  // With a ticket whatever the answer is, so that it can be told whether a writer came.
  static Answer ProbeWithTicket(DatabaseCache* cache, SpaceRead* read, std::string* value);
  static void Compare(DatabaseCache* cache, const SpaceRead& read, Answer answer, const std::string& cached,
                      const rocksdb::Status& s, const rocksdb::Slice& value);

  static bool ProbeMany(DatabaseCache* cache, size_t count, rocksdb::ColumnFamilyHandle** handles,
                        const rocksdb::Slice* keys, rocksdb::PinnableSlice* values, ReadMany* many);
  static bool StillRight(DatabaseCache* cache, const ReadMany& many);
  static void Deliver(DatabaseCache* cache, ReadMany* many, Fills fills, rocksdb::PinnableSlice* values,
                      rocksdb::Status* statuses);
};

template <class ReadTree>
rocksdb::Status DatabaseCache::Get(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice& key, Fills fills,
                                   rocksdb::PinnableSlice* value, From* from, const ReadTree& read_tree) {
  *from = From::kTree;
  const size_t place = cache::ThreadCell();
  const uint64_t number = times_.CountReads(place, 1);
  const FamilySpaces::Family* const family = spaces_.Find(handle->GetID());
  const uint32_t space = FamilySpaces::SpaceOf(family);
  if (__builtin_expect(space == ResultCache::kNoSpace || times_.IsWatched(place, number, 1), 0)) {
    return CacheReader::GetWatched(this, place, number, handle, key, fills, value, from, read_tree);
  }
  uint64_t hash = 0;
  const ResultCache::Answer answer =
      cache::GetIn(place, cache_.get(), {key.data(), key.size()}, value->GetSelf(), space, &hash);
  // Else the space may be another family's by now.
  if (__builtin_expect(answer == ResultCache::Answer::kMiss || FamilySpaces::SpaceOf(family) != space, 0)) {
    SpaceRead read{family, space, {key.data(), key.size()}, {}};
    return CacheReader::GetMissed(this, place, &read, hash, fills, value, from, read_tree);
  }
  return CacheReader::Hit(this, place, answer, value, from);
}

template <class ReadTree>
void DatabaseCache::MultiGet(size_t count, rocksdb::ColumnFamilyHandle** handles, const rocksdb::Slice* keys,
                             Fills fills, rocksdb::PinnableSlice* values, rocksdb::Status* statuses,
                             std::vector<ResultCache::Answer>* answers, const ReadTree& read_tree) {
  if (!modes_.asked()) {
    modes_.PassBy(count);
    read_tree(count, handles, keys, values, statuses);
    return;
  }
  const size_t place = cache::ThreadCell();
  const uint64_t number = times_.CountReads(place, count);
  CacheTimes::Watch watch(&times_, place, number, count);
  if (watch.by_tree() ||
      !CacheReader::MultiGet(this, count, handles, keys, fills, values, statuses, answers, read_tree)) {
    read_tree(count, handles, keys, values, statuses);
  }
  watch.End(statuses[0]);
  if (watch.compares()) modes_.Look();
}

}  // namespace cairn
