#include "result_cache/family_spaces.h"

#include <algorithm>

#include "result_cache/get_or_begin.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "util/rocksdb_names.h"
#include "util/short_hash.h"

namespace cairn {

namespace {

// The names of a list; without commas in them.
std::vector<std::string> NamesOf(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool Names(const std::string& list, const std::string& name) {
  const std::vector<std::string> names = NamesOf(list);
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string FamilySpaces::WhyNot(const rocksdb::ColumnFamilyDescriptor& family) const {
  const rocksdb::ColumnFamilyOptions& options = family.options;
  if (!options_.column_families.empty() && !Names(options_.column_families, family.name)) {
    return "it is not among column_families";
  }
  if (options.comparator->timestamp_size() > 0) return "its keys have timestamps";
  if (options.comparator->CanKeysWithDifferentByteContentsBeEqual()) {
    return std::string("its comparator ") + options.comparator->Name() +
           " may find different keys equal (CanKeysWithDifferentByteContentsBeEqual)";
  }
  if (options.compaction_filter != nullptr || options.compaction_filter_factory != nullptr) {
    return "it has a compaction filter, which changes answers without a write";
  }
  if (options.compaction_style == rocksdb::kCompactionStyleFIFO) {
    return "FIFO compaction drops data without a write";
  }
  if (options.merge_operator != nullptr && !options_.merged_values) return "merged_values is off";
  return "";
}

// A mistyped name would leave a column family out without a word; the name of a family that is yet to come is right.
void FamilySpaces::WarnOfUnknownNames(const std::vector<ColumnFamilyHandle*>& families) const {
  if (options_.column_families.empty()) return;
  for (const std::string& name : NamesOf(options_.column_families)) {
    const bool known = std::any_of(families.begin(), families.end(),
                                   [&](const ColumnFamilyHandle* family) { return family->GetName() == name; });
    if (known) continue;
    log_->Warn("column_families of the result cache names \"" + name +
               "\", and there is no such column family; the others that it does not name pass by");
  }
}

// ---- families ----

FamilySpaces::Family* FamilySpaces::Make(uint32_t id) {
  std::atomic<Page*>& page = pages_[id / kFamiliesAPage];
  if (page.load(std::memory_order_relaxed) == nullptr) {
    all_pages_.push_back(std::make_unique<Page>());
    page.store(all_pages_.back().get(), std::memory_order_seq_cst);
  }
  std::atomic<Family*>& place = page.load(std::memory_order_relaxed)->families[id % kFamiliesAPage];
  if (place.load(std::memory_order_relaxed) == nullptr) {
    all_families_.push_back(std::make_unique<Family>());
    all_families_.back()->id = id;
    place.store(all_families_.back().get(), std::memory_order_seq_cst);
  }
  return place.load(std::memory_order_relaxed);
}

const FamilySpaces::Family* FamilySpaces::FindOrMake(uint32_t id) {
  if (id >= kMaxFamilies) return nullptr;
  if (const Family* const family = Find(id)) return family;
  const MutexLock lock(&mutex_);
  return Make(id);
}

FamilySpaces::Family* FamilySpaces::Examine(ColumnFamilyHandle* handle,
                                            const rocksdb::ColumnFamilyDescriptor& descriptor) {
  if (handle->GetID() >= kMaxFamilies) return nullptr;
  Family* const family = Make(handle->GetID());
  if (family->known.load(std::memory_order_relaxed)) return family;
  const std::string why_not = WhyNot(descriptor);
  const rocksdb::ColumnFamilyOptions& options = descriptor.options;
  const std::string makers =
      std::string(options.comparator->Name()) + '\n' +
      (options.merge_operator == nullptr ? "" : options.merge_operator->ToString(rocksdb::ConfigOptions()));
  family->options = XXH3_64bits(makers.data(), makers.size());
  family->allowed.store(why_not.empty(), std::memory_order_relaxed);
  family->known.store(true, std::memory_order_release);
  if (!why_not.empty()) log_->Line("column family " + descriptor.name + " is not in the result cache: " + why_not);
  return family;
}

const FamilySpaces::Family* FamilySpaces::Meet(ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  if (!handle->GetDescriptor(&descriptor).ok()) return nullptr;
  const MutexLock lock(&mutex_);
  Family* const family = Examine(handle, descriptor);
  if (family != nullptr && SpaceOf(family) == ResultCache::kNoSpace) RenewSpace(family);
  return family;
}

// ---- their spaces ----

// The family's answers from before are out of reach.
void FamilySpaces::RenewSpace(Family* family) {
  const bool has_one = family->known.load(std::memory_order_relaxed) &&
                       family->allowed.load(std::memory_order_relaxed) && family->changes == 0 && open_;
  if (binding_ != nullptr) binding_->DropSpace(family->id);
  family->space.store(ResultCache::kNoSpace, std::memory_order_seq_cst);
  if (!has_one) return;
  const uint32_t space = FreshSpace();
  if (binding_ != nullptr) binding_->SetSpace(family->id, space, family->options);
  family->space.store(space, std::memory_order_seq_cst);
}

void FamilySpaces::RenewSpaces() {
  for (const auto& family : all_families_) RenewSpace(family.get());
}

// Numbers begin anew when they are used up. No reader takes a space that it has loaded before for that of another
// family: it looks whether the family still has it once it has its ticket, and older tickets end with Clear.
uint32_t FamilySpaces::FreshSpace() {
  if (next_space_ > ResultCache::kMaxSpace) {
    for (const auto& family : all_families_) family->space.store(ResultCache::kNoSpace, std::memory_order_seq_cst);
    cache_->Clear();
    // A loss of power may not bring back what was of another family.
    if (binding_ != nullptr && binding_->stamps()) static_cast<void>(binding_->Settle(cache::CacheFile::Part::kAll));
    next_space_ = 0;
    // The others, and the one that asks overwrites its own.
    RenewSpaces();
  }
  return next_space_++;
}

void FamilySpaces::Open() {
  const MutexLock lock(&mutex_);
  open_ = true;
  for (const auto& family : all_families_) {
    if (SpaceOf(family.get()) == ResultCache::kNoSpace) RenewSpace(family.get());
  }
}

void FamilySpaces::Close() {
  const MutexLock lock(&mutex_);
  open_ = false;
  RenewSpaces();
}

void FamilySpaces::CountChanges(const std::vector<uint32_t>& families, int by) {
  if (families.empty()) return;
  if (by > 0) changes_.fetch_add(1, std::memory_order_relaxed);
  const MutexLock lock(&mutex_);
  for (const uint32_t id : families) {
    if (id >= kMaxFamilies) continue;
    Family* const family = Make(id);
    family->changes += by;
    RenewSpace(family);
  }
}

void FamilySpaces::Adopt(const std::vector<ColumnFamilyHandle*>& families, const WalReport::Since& since) {
  const MutexLock lock(&mutex_);
  const bool lost_power = binding_->lost_power();
  std::vector<uint32_t> spaces;
  std::vector<uint32_t> ids;
  for (ColumnFamilyHandle* const handle : families) {
    rocksdb::ColumnFamilyDescriptor descriptor;
    Family* const family = handle->GetDescriptor(&descriptor).ok() ? Examine(handle, descriptor) : nullptr;
    if (family == nullptr || !family->allowed.load(std::memory_order_relaxed)) continue;
    const uint32_t space = binding_->SpaceOf(family->id, family->options);
    if (space > ResultCache::kMaxSpace || std::find(spaces.begin(), spaces.end(), space) != spaces.end()) continue;
    if (lost_power && since.families.count(family->id) != 0) continue;
    ids.push_back(family->id);
    spaces.push_back(space);
    next_space_ = std::max(next_space_, space + 1);
  }
  binding_->DropOthers([&](uint32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); });
  // It is the answer at the state of its stamp.
  const auto is_right = [&](std::string_view key, uint64_t stamp) {
    if (stamp > since.covered) return false;
    const auto written = since.keys.find(WalReport::HashOf(key));
    return written == since.keys.end() || written->second <= stamp;
  };
  std::function<bool(std::string_view, uint64_t)> stamps;
  if (lost_power) stamps = is_right;
  cache::Believe(
      cache_, [&](uint32_t space) { return std::find(spaces.begin(), spaces.end(), space) != spaces.end(); }, stamps);
  for (size_t i = 0; i < ids.size(); ++i) Find(ids[i])->space.store(spaces[i], std::memory_order_seq_cst);
}

}  // namespace cairn
