#include "result_cache/database_cache_reads.h"

#include "util/key_text.h"
#include "util/rocksdb_names.h"

namespace cairn {

using Answer = ResultCache::Answer;

Answer CacheReader::ProbeWithTicket(DatabaseCache* cache, SpaceRead* read, std::string* value) {
  read->ticket = cache->cache_->BeginFill(read->key);
  const Answer answer = cache->cache_->Get(read->key, value, read->space);
  if (HasSpaceStill(*read)) return answer;
  read->ticket = ResultCache::FillTicket();
  return Answer::kMiss;
}

// If no writer came between, both must be the same.
void CacheReader::Compare(DatabaseCache* cache, const SpaceRead& read, Answer answer, const std::string& cached,
                          const Status& s, const Slice& value) {
  const bool found = s.ok() && IsPlain(s);
  if (!found && !(s.IsNotFound() && IsPlain(s))) return;
  if (!cache->cache_->Unchanged(read.ticket) || !HasSpaceStill(read)) return;
  cache->checked_.fetch_add(1, std::memory_order_relaxed);
  if (found == (answer == Answer::kValue) && (!found || value == Slice(cached))) return;
  cache->wrong_.fetch_add(1, std::memory_order_relaxed);
  cache->Stop("its answer for key " + KeyText(read.key) +
              " was not the database's. Does a merge operator answer differently at different times? Then set "
              "merged_values=false; else please report it");
}

// ---- many keys ----

void CacheReader::ReadMany::SetCount(size_t count) {
  families.resize(count);
  keys.resize(count);
  spaces.resize(count);
  strings.resize(count);
  answers.resize(count);
  tickets.resize(count);
  misses.reserve(count);
}

void CacheReader::ReadMany::SetTree(ColumnFamilyHandle** handles, const Slice* all_keys) {
  tree_values.resize(misses.size());
  tree_statuses.resize(misses.size());
  tree_handles.reserve(misses.size());
  tree_keys.reserve(misses.size());
  for (const size_t i : misses) {
    tree_handles.push_back(handles[i]);
    tree_keys.push_back(all_keys[i]);
  }
}

// False: some family has no space, or has another one by now.
bool CacheReader::ProbeMany(DatabaseCache* cache, size_t count, ColumnFamilyHandle** handles, const Slice* keys,
                            PinnableSlice* values, ReadMany* many) {
  many->SetCount(count);
  for (size_t i = 0; i < count; ++i) {
    const FamilySpaces::Family* const family = cache->spaces_.Of(handles[i]);
    many->families[i] = family;
    many->spaces[i] = FamilySpaces::SpaceOf(family);
    many->keys[i] = {keys[i].data(), keys[i].size()};
    if (many->spaces[i] == ResultCache::kNoSpace) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    values[i].Reset();
    many->strings[i] = values[i].GetSelf();
  }
  cache->cache_->MultiGetOrBegin(count, many->keys.data(), many->spaces.data(), many->strings.data(),
                                 many->answers.data(), many->tickets.data());
  for (size_t i = 0; i < count; ++i) {
    if (FamilySpaces::SpaceOf(many->families[i]) != many->spaces[i]) return false;
    if (many->answers[i] == Answer::kMiss) many->misses.push_back(i);
  }
  return true;
}

// Whether what the cache has answered was the newest from the last ticket on until now: then it belongs to every state
// between, and to that one at which the tree was read.
bool CacheReader::StillRight(DatabaseCache* cache, const ReadMany& many) {
  for (size_t i = 0; i < many.keys.size(); ++i) {
    if (many.answers[i] == Answer::kMiss) continue;
    if (!cache->cache_->Unchanged(many.tickets[i])) return false;
    if (FamilySpaces::SpaceOf(many.families[i]) != many.spaces[i]) return false;
  }
  return true;
}

void CacheReader::Deliver(DatabaseCache* cache, ReadMany* many, Fills fills, PinnableSlice* values, Status* statuses) {
  for (size_t i = 0; i < many->keys.size(); ++i) {
    if (many->answers[i] != Answer::kMiss) statuses[i] = ToStatus(many->answers[i], &values[i]);
  }
  for (size_t j = 0; j < many->misses.size(); ++j) {
    const size_t i = many->misses[j];
    PinnableSlice* const value = &many->tree_values[j];
    statuses[i] = many->tree_statuses[j];
    if (fills == Fills::kYes) {
      cache->fills_.Store({many->families[i], many->spaces[i], many->keys[i], many->tickets[i]}, statuses[i], *value);
    }
    if (!statuses[i].ok()) continue;
    if (value->IsPinned()) {
      values[i].PinSlice(*value, value);  // what it holds on to goes along
    } else {
      values[i].GetSelf()->swap(*value->GetSelf());
      values[i].PinSelf();
    }
  }
}

}  // namespace cairn
