#include "result_cache/database_cache.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cache/cache_reservation_manager.h"
#include "db/dbformat.h"
#include "file/filename.h"
#include "memtable_cache/pool_note.h"
#include "result_cache/cache_in_file.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "util/batch_handler.h"
#include "util/key_text.h"
#include "util/short_hash.h"

namespace cairn {

using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::Slice;
using rocksdb::Status;
using Answer = ResultCache::Answer;

namespace {

constexpr char kFileIdentity[] = "cairn: answers of a database";
constexpr uint64_t kItemsPart = 64;
// Between two notes of the database's files.
constexpr uint64_t kReadsANote = uint64_t{1} << 16;
// Every so many writes are timed.
constexpr uint64_t kSampledWrites = 256;

bool IsPlain(const Status& s) { return s.subcode() == Status::SubCode::kNone; }

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

// ---- made and read ----

struct DatabaseCache::Opened {
  std::unique_ptr<ResultCache> cache;
  std::unique_ptr<FileBinding> binding;
  std::string no_file;  // why there is none
};

namespace {

// Whether the file is one that the database might make itself.
Status CheckName(const std::string& file, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path normal = fs::path(file).lexically_normal();
  const std::string name = normal.filename();
  uint64_t number = 0;
  rocksdb::FileType type = rocksdb::kTempFile;
  const bool taken = name == kPoolFileName || name == kPoolNoteName || name.compare(0, 3, "LOG") == 0 ||
                     rocksdb::ParseFileName(name, &number, &type);
  if (!taken || (normal.parent_path() / "").lexically_normal() != (fs::path(path) / "").lexically_normal()) {
    return Status::OK();
  }
  return Status::InvalidArgument("cairn.ResultCache: path is " + file,
                                 "this is the name of a file of the database itself; take another one");
}

// Whether the database's Env shows the file as the system does. Else it keeps the database's files elsewhere, so that
// nothing would tell what has become of them, or in another form: encrypted, and so should be what the cache holds.
bool IsAsTheSystemHasIt(rocksdb::Env* env, const std::string& file) {
  char system[64];
  char through[sizeof(system)];
  std::ifstream(file, std::ios::binary).read(system, sizeof(system));
  std::unique_ptr<rocksdb::SequentialFile> opened;
  Slice read;
  return env->NewSequentialFile(file, &opened, rocksdb::EnvOptions()).ok() &&
         opened->Read(sizeof(through), &read, through).ok() && read == Slice(system, sizeof(system));
}

// Why nobody can have the file: who has the database open has it, too.
Status WhoHasIt(rocksdb::Env* env, const std::string& path, const Status& otherwise) {
  const std::string name = rocksdb::LockFileName(path);
  if (!env->FileExists(name).ok()) return otherwise;
  rocksdb::FileLock* lock = nullptr;
  const Status s = env->LockFile(name, &lock);
  if (!s.ok()) return s;
  env->UnlockFile(lock).PermitUncheckedError();
  return otherwise;
}

}  // namespace

Status DatabaseCache::OpenFile(ResultCacheOptions* own, rocksdb::Env* env, const std::string& path, Opened* opened) {
  cache::CacheFile* file = nullptr;
  const IndexStatus s = cache::OpenUnbelieved(*own, &opened->cache, &file);
  if (!s.ok() && s.code() != IndexStatus::Code::kIoError) {
    return WhoHasIt(env, path, Status::InvalidArgument("cairn.ResultCache", s.message()));
  }
  if (!s.ok()) {
    opened->no_file = "it is in memory only: " + std::string(s.message());
  } else if (!IsAsTheSystemHasIt(env, own->path)) {
    opened->no_file = std::string("it is in memory only: the Env ") + env->Name() +
                      " keeps files elsewhere than the system or in another form";
    const bool found = file->found();
    opened->cache.reset();
    if (!found) cache::CacheFile::Remove(own->path, kFileIdentity);
  } else {
    opened->binding = std::make_unique<FileBinding>(file, path);
  }
  if (opened->binding == nullptr) own->path.clear();
  return Status::OK();
}

void RemoveDatabaseCacheFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  for (const std::string& file : files) cache::CacheFile::Remove(file, kFileIdentity);
}

Status DatabaseCache::Create(const DatabaseCacheOptions& options, rocksdb::Env* env, const std::string& path,
                             std::shared_ptr<rocksdb::Cache> block_cache, std::unique_ptr<DatabaseCache>* cache) {
  cache->reset();
  ResultCacheOptions own;
  own.capacity = options.capacity;
  own.max_capacity = std::max<uint64_t>(options.capacity, 1);
  own.compression = options.compression;
  own.admit_one_fill_in = options.admit_one_fill_in;
  own.huge_pages = options.huge_pages;
  if (block_cache != nullptr) {
    using Reservation = rocksdb::CacheReservationManagerImpl<rocksdb::CacheEntryRole::kMisc>;
    const auto charge = std::make_shared<rocksdb::ConcurrentCacheReservationManager>(
        std::make_shared<Reservation>(std::move(block_cache)));
    own.memory_changed = [charge](int64_t bytes) {
      charge->UpdateCacheReservation(static_cast<size_t>(bytes < 0 ? -bytes : bytes), bytes > 0).PermitUncheckedError();
    };
  }
  Opened opened;
  if (!options.path.empty()) {
    const bool in_folder = options.path.front() != '/';
    own.path = in_folder ? path + "/" + options.path : options.path;
    own.identity = kFileIdentity;
    Status s = CheckName(own.path, path);
    if (s.ok() && in_folder) env->CreateDirIfMissing(path).PermitUncheckedError();
    if (s.ok()) s = OpenFile(&own, env, path, &opened);
    if (!s.ok()) return s;
  }
  if (opened.cache == nullptr) {
    const IndexStatus made = ResultCache::Create(own, &opened.cache);
    if (!made.ok()) return Status::InvalidArgument("cairn.ResultCache", made.message());
  }
  cache->reset(new DatabaseCache(options, std::move(opened.cache), std::move(opened.binding)));
  (*cache)->distrust_ = opened.no_file;
  return Status::OK();
}

void DatabaseCache::Start(std::shared_ptr<rocksdb::Logger> log, const std::vector<ColumnFamilyHandle*>& families) {
  const MutexLock lock(&mutex_);
  log_ = std::move(log);
  if (binding_ != nullptr) {
    AdoptFile(families);
  } else if (!distrust_.empty()) {
    LogLine("the result cache has no file: " + distrust_);
  }
  if (mode_ == Mode::kStopped) return;
  SetMode(Mode::kOn);
  LogLine("result cache of " + std::to_string(options_.capacity) + " bytes");
  if (!options_.column_families.empty()) WarnOfStrangeNames(families);
}

// A name that is mistyped would leave a column family out without a word; one of a family that is yet to come is right.
void DatabaseCache::WarnOfStrangeNames(const std::vector<ColumnFamilyHandle*>& families) const {
  for (const std::string& name : NamesOf(options_.column_families)) {
    const bool known = std::any_of(families.begin(), families.end(),
                                   [&](const ColumnFamilyHandle* family) { return family->GetName() == name; });
    if (known) continue;
    rocksdb::Log(rocksdb::InfoLogLevel::WARN_LEVEL, log_,
                 "[cairn] column_families of the result cache names \"%s\", and there is no such column family; the "
                 "others that it does not name pass by",
                 name.c_str());
  }
}

// Before the database's user has it.
void DatabaseCache::AdoptFile(const std::vector<ColumnFamilyHandle*>& families) {
  std::string why = !distrust_.empty() ? distrust_ : binding_->WhyNot(wal_report_);
  for (const Cell& cell : cells_) {
    if (why.empty() && cell.writes.load(std::memory_order_relaxed) > 0) why = "the opening itself has written";
  }
  if (why.empty()) {
    AdoptSpaces(families);
    LogLine("the result cache goes on with " + std::to_string(cache_->GetStatistics().recovered) + " answers of " +
            options_.path);
  } else {
    LogLine("the result cache begins empty: " + why);
    if (!binding_->Begin()) {
      SetMode(Mode::kStopped);
      LogLine("the result cache is off: its file cannot be synced");
      return;
    }
  }
  binding_->Bind(wal_report_);
}

void DatabaseCache::AdoptSpaces(const std::vector<ColumnFamilyHandle*>& families) {
  std::vector<uint32_t> spaces;
  std::vector<uint32_t> ids;
  for (ColumnFamilyHandle* const handle : families) {
    rocksdb::ColumnFamilyDescriptor descriptor;
    Family* const family = handle->GetDescriptor(&descriptor).ok() ? Examine(handle, descriptor) : nullptr;
    if (family == nullptr || !family->allowed.load(std::memory_order_relaxed)) continue;
    const uint32_t space = binding_->SpaceOf(family->id, family->options);
    if (space > ResultCache::kMaxSpace || std::find(spaces.begin(), spaces.end(), space) != spaces.end()) continue;
    ids.push_back(family->id);
    spaces.push_back(space);
    next_space_ = std::max(next_space_, space + 1);
  }
  binding_->DropOthers([&](uint32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); });
  cache::Believe(cache_.get(),
                 [&](uint32_t space) { return std::find(spaces.begin(), spaces.end(), space) != spaces.end(); });
  for (size_t i = 0; i < ids.size(); ++i) Find(ids[i])->space.store(spaces[i], std::memory_order_seq_cst);
}

void DatabaseCache::LookAtFoundFiles() {
  if (binding_ != nullptr) binding_->LookAtFound();
}

void DatabaseCache::NoteFiles() {
  if (binding_ != nullptr && !closing_.load()) binding_->Refresh();
}

void DatabaseCache::BeginClose() {
  FillAll();
  NoteFiles();
  closing_.store(true);
}

void DatabaseCache::CancelClose() { closing_.store(false); }

void DatabaseCache::NeverStart(std::shared_ptr<rocksdb::Logger> log, const std::string& why) {
  {
    const MutexLock lock(&mutex_);
    log_ = std::move(log);
  }
  Stop(why);
}

void DatabaseCache::Stop(const std::string& why) {
  const MutexLock lock(&mutex_);
  if (mode_ == Mode::kStopped) return;
  SetMode(Mode::kStopped);
  LogLine("the result cache is off: " + why);
}

DatabaseCache::DatabaseCache(const DatabaseCacheOptions& options, std::unique_ptr<ResultCache> cache,
                             std::unique_ptr<FileBinding> binding)
    : options_(options),
      max_item_bytes_(options.max_item_bytes != 0 ? options.max_item_bytes : options.capacity / kItemsPart),
      cache_(std::move(cache)),
      binding_(std::move(binding)),
      keeps_absent_(options.absent_keys) {}

DatabaseCache::~DatabaseCache() = default;

bool DatabaseCache::InSample(const Slice& key) const {
  return XXH3_64bits(key.data(), key.size()) % kTrialPart == sample_.load(std::memory_order_relaxed);
}

uint64_t DatabaseCache::Nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

bool DatabaseCache::Fill(const Read& read, const Status& s, const Slice& value) {
  if (s.ok() && IsPlain(s)) {
    return read.key.size() + value.size() <= max_item_bytes_ &&
           cache_->Fill(read.ticket, read.key, {value.data(), value.size()}, read.space);
  }
  return s.IsNotFound() && IsPlain(s) && keeps_absent() && read.key.size() <= max_item_bytes_ &&
         cache_->FillAbsent(read.ticket, read.key, read.space);
}

void DatabaseCache::FillLater(const Read& read, StagedFills* staged, const Status& s, const Slice& value) {
  const bool absent = !s.ok();
  const size_t bytes = read.key.size() + (absent ? 0 : value.size());
  const bool wanted = IsPlain(s) && (!absent || (s.IsNotFound() && keeps_absent())) && bytes <= max_item_bytes_;
  if (!wanted) return;
  StagedFills::Fill fill{read.ticket, read.space, absent, read.key, {}};
  if (!absent) fill.value = {value.data(), value.size()};
  if (staged->Add(fill)) return;
  FillOne(staged);
  if (!staged->Add(fill)) Fill(read, s, value);
}

void DatabaseCache::FillOne(StagedFills* staged) {
  staged->TakeOne([this](const StagedFills::Fill& fill) {
    if (fill.absent) {
      cache_->FillAbsent(fill.ticket, fill.key, fill.space);
    } else {
      cache_->Fill(fill.ticket, fill.key, fill.value, fill.space);
    }
  });
}

void DatabaseCache::FillAll(StagedFills* staged) {
  for (size_t i = 0; i < StagedFills::kFills && !staged->empty(); ++i) FillOne(staged);
}

void DatabaseCache::FillAll() {
  for (size_t i = 0; i < kCells; ++i) {
    if (cells_[i].reads.load(std::memory_order_relaxed) != 0) FillAll(&staged_[i]);
  }
}

// If no writer came between, both must be the same.
void DatabaseCache::Check(const Read& read, Answer answer, const std::string& cached, const Status& s,
                          const Slice& value) {
  const bool found = s.ok() && IsPlain(s);
  if (!found && !(s.IsNotFound() && IsPlain(s))) return;
  if (!cache_->Unchanged(read.ticket) || SpaceOf(read.family) != read.space) return;
  checked_.fetch_add(1, std::memory_order_relaxed);
  if (found == (answer == Answer::kValue) && (!found || value == Slice(cached))) return;
  wrong_.fetch_add(1, std::memory_order_relaxed);
  Stop("its answer for key " + KeyText(read.key) +
       " was not the database's. Does a merge operator answer differently at different times? Then set "
       "merged_values=false; else please report it");
}

// ---- many keys ----

void DatabaseCache::ReadMany::SetCount(size_t count) {
  families.resize(count);
  keys.resize(count);
  spaces.resize(count);
  strings.resize(count);
  answers.resize(count);
  tickets.resize(count);
  misses.reserve(count);
}

void DatabaseCache::ReadMany::SetTree(ColumnFamilyHandle** handles, const Slice* all_keys) {
  tree_values.resize(misses.size());
  tree_statuses.resize(misses.size());
  tree_handles.reserve(misses.size());
  tree_keys.reserve(misses.size());
  for (const size_t i : misses) {
    tree_handles.push_back(handles[i]);
    tree_keys.push_back(all_keys[i]);
  }
}

// False: some family has no space, or nothing was found; the tree does as well.
bool DatabaseCache::ProbeMany(size_t count, ColumnFamilyHandle** handles, const Slice* keys, PinnableSlice* values,
                              ReadMany* many) {
  many->SetCount(count);
  for (size_t i = 0; i < count; ++i) {
    const Family* const family = FamilyOf(handles[i]);
    many->families[i] = family;
    many->spaces[i] = SpaceOf(family);
    many->keys[i] = {keys[i].data(), keys[i].size()};
    if (many->spaces[i] == ResultCache::kNoSpace) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    values[i].Reset();
    many->strings[i] = values[i].GetSelf();
  }
  cache_->MultiGetOrBegin(count, many->keys.data(), many->spaces.data(), many->strings.data(), many->answers.data(),
                          many->tickets.data());
  for (size_t i = 0; i < count; ++i) {
    if (SpaceOf(many->families[i]) != many->spaces[i]) return false;
    if (many->answers[i] == Answer::kMiss) many->misses.push_back(i);
  }
  return true;
}

// Whether what the cache has answered was the newest from the last ticket on until now: then it belongs to every state
// between, and to that one at which the tree was read.
bool DatabaseCache::StillRight(const ReadMany& many) const {
  for (size_t i = 0; i < many.keys.size(); ++i) {
    if (many.answers[i] == Answer::kMiss) continue;
    if (!cache_->Unchanged(many.tickets[i]) || SpaceOf(many.families[i]) != many.spaces[i]) return false;
  }
  return true;
}

void DatabaseCache::Deliver(ReadMany* many, Fills fills, PinnableSlice* values, Status* statuses) {
  for (size_t i = 0; i < many->keys.size(); ++i) {
    if (many->answers[i] != Answer::kMiss) statuses[i] = ToStatus(many->answers[i], &values[i]);
  }
  for (size_t j = 0; j < many->misses.size(); ++j) {
    const size_t i = many->misses[j];
    PinnableSlice* const value = &many->tree_values[j];
    statuses[i] = many->tree_statuses[j];
    if (fills == Fills::kYes) {
      Fill({many->families[i], many->spaces[i], many->keys[i], many->tickets[i]}, statuses[i], *value);
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

// ---- column families ----

std::string DatabaseCache::WhyNot(const rocksdb::ColumnFamilyDescriptor& family) const {
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

DatabaseCache::Family* DatabaseCache::Make(uint32_t id) {
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

DatabaseCache::Family* DatabaseCache::Examine(ColumnFamilyHandle* handle,
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
  if (!why_not.empty()) LogLine("column family " + descriptor.name + " is not in the result cache: " + why_not);
  return family;
}

const DatabaseCache::Family* DatabaseCache::Meet(ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  if (!handle->GetDescriptor(&descriptor).ok()) return nullptr;
  const MutexLock lock(&mutex_);
  Family* const family = Examine(handle, descriptor);
  if (family != nullptr && SpaceOf(family) == ResultCache::kNoSpace) RenewSpace(family);
  return family;
}

// A family's answers of before are out of reach.
void DatabaseCache::RenewSpace(Family* family) {
  const bool has_one = family->known.load(std::memory_order_relaxed) &&
                       family->allowed.load(std::memory_order_relaxed) && family->changes == 0 && HasSpaces();
  if (binding_ != nullptr) binding_->DropSpace(family->id);
  family->space.store(ResultCache::kNoSpace, std::memory_order_seq_cst);
  if (!has_one) return;
  const uint32_t space = FreshSpace();
  if (binding_ != nullptr) binding_->SetSpace(family->id, space, family->options);
  family->space.store(space, std::memory_order_seq_cst);
}

void DatabaseCache::RenewSpaces() {
  for (const auto& family : all_families_) RenewSpace(family.get());
}

// Numbers of spaces begin anew when they are used up. No reader takes one that it has loaded before for that of another
// family: it looks whether the family still has it once it has its ticket, and older tickets end with Clear.
uint32_t DatabaseCache::FreshSpace() {
  if (next_space_ > ResultCache::kMaxSpace) {
    for (const auto& family : all_families_) family->space.store(ResultCache::kNoSpace, std::memory_order_seq_cst);
    cache_->Clear();
    next_space_ = 0;
    // The others, and the one that asks overwrites its own.
    RenewSpaces();
  }
  return next_space_++;
}

// By +1 or -1.
void DatabaseCache::CountChanges(const std::vector<uint32_t>& families, int by) {
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

DatabaseCache::ChangeScope::ChangeScope(DatabaseCache* cache, std::vector<uint32_t> families)
    : cache_(cache), families_(std::move(families)) {
  if (cache_ != nullptr) cache_->CountChanges(families_, 1);
}

DatabaseCache::ChangeScope::~ChangeScope() {
  if (cache_ == nullptr) return;
  cache_->NoteFiles();
  cache_->CountChanges(families_, -1);
}

DatabaseCache::ChangeAllScope::ChangeAllScope(DatabaseCache* cache) : cache_(cache) {
  if (cache_ != nullptr) cache_->cache_->BarAll();
}

DatabaseCache::ChangeAllScope::~ChangeAllScope() {
  if (cache_ == nullptr) return;
  cache_->NoteFiles();
  cache_->cache_->UnbarAll();
}

// ---- writes ----

// Bars each key as it comes, and collects families that change as a whole.
class DatabaseCache::WriteScope::Collector final : public BatchHandler {
 public:
  explicit Collector(WriteScope* scope) : scope_(scope), cache_(scope->cache_) {}

  Status PutCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status TimedPutCF(uint32_t id, const Slice& key, const Slice&, uint64_t) override { return Take(id, key); }
  Status PutEntityCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status DeleteCF(uint32_t id, const Slice& key) override { return Take(id, key); }
  Status SingleDeleteCF(uint32_t id, const Slice& key) override { return Take(id, key); }
  Status MergeCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status PutBlobIndexCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status DeleteRangeCF(uint32_t id, const Slice&, const Slice&) override {
    auto& families = scope_->families_;
    if (std::find(families.begin(), families.end(), id) == families.end()) families.push_back(id);
    return Status::OK();
  }

 private:
  Status Take(uint32_t id, const Slice& key) {
    if (id >= kMaxFamilies) return Status::OK();
    const Family* family = cache_->Find(id);
    if (family == nullptr) {
      const MutexLock lock(&cache_->mutex_);
      family = cache_->Make(id);
    }
    if (family->allowed.load(std::memory_order_relaxed)) {
      scope_->stripes_.push_back(cache_->cache_->Bar({key.data(), key.size()}, family->space));
    }
    return Status::OK();
  }

  WriteScope* const scope_;
  DatabaseCache* const cache_;
};

DatabaseCache::WriteScope::WriteScope(DatabaseCache* cache, const rocksdb::WriteBatch* batch)
    : cache_(cache), writes_(batch != nullptr && batch->Count() > 0) {
  if (cache_ == nullptr) return;
  // Who bars holds nobody back (rule D7), and is not counted.
  if (!cache_->barring_.load(std::memory_order_seq_cst)) {
    place_ = cache_->rounds_.Enter();
    if (!cache_->barring_.load(std::memory_order_seq_cst)) return;
  }
  const size_t place = cache::ThreadCell();
  Cell& cell = cache_->cells_[place];
  const bool timed = cache::AddInCell(place, &cell.writes, 1) % kSampledWrites == 0;
  const uint64_t begin = timed ? Nanoseconds() : 0;
  Collector collector(this);
  // What cannot be read may hold anything.
  everything_ = writes_ && !batch->Iterate(&collector).ok();
  if (everything_) cache_->cache_->BarAll();
  cache_->CountChanges(families_, 1);
  cache::AddInCell(place, &cell.barred, stripes_.size());
  if (timed && !stripes_.empty()) cache_->benefit_.AddWrite(stripes_.size(), Nanoseconds() - begin);
}

// Whether writers bar or not: what is read later may be filled in.
void DatabaseCache::WriteScope::Written(const Status& s, uint64_t wal, uint64_t sequence) {
  if (!writes_ || cache_ == nullptr || cache_->binding_ == nullptr) return;
  // Refused before it was written anywhere. What has a number and failed is in the WAL, whose replay may bring what
  // cannot be read now: RocksDB leaves a batch half inserted where it meets a family that is gone.
  const bool refused =
      sequence == rocksdb::kMaxSequenceNumber && (s.IsBusy() || s.IsTryAgain() || s.IsIncomplete() || s.IsTimedOut() ||
                                                  s.IsInvalidArgument() || s.IsNotSupported() || s.IsExpired());
  if (!refused) cache_->binding_->NoteWrite(s.ok() ? wal : 0, sequence);
}

DatabaseCache::WriteScope::~WriteScope() {
  if (cache_ == nullptr) return;
  for (const uint32_t stripe : stripes_) cache_->cache_->UnbarStripe(stripe);
  if (everything_) cache_->cache_->UnbarAll();
  cache_->CountChanges(families_, -1);
  if (place_ != nullptr) WriterRounds::Leave(place_);
}

// ---- on and off ----

uint64_t DatabaseCache::Reads() const {
  uint64_t sum = 0;
  for (const Cell& cell : cells_) sum += cell.reads.load(std::memory_order_relaxed);
  return sum;
}

uint64_t DatabaseCache::Barred() const {
  uint64_t sum = 0;
  for (const Cell& cell : cells_) sum += cell.barred.load(std::memory_order_relaxed);
  return sum;
}

void DatabaseCache::LogLine(const std::string& line) const {
  rocksdb::Log(rocksdb::InfoLogLevel::INFO_LEVEL, log_, "[cairn] %s", line.c_str());
}

// Spaces go before the writers stop to bar, and come after they have begun.
void DatabaseCache::SetMode(Mode mode) {
  mode_ = mode;
  mode_began_ = Reads();
  benefit_.Forget();
  judge_.Begin(mode == Mode::kTrial ? CacheJudge::Mode::kTrial : CacheJudge::Mode::kOn,
               options_.adaptive ? CacheJudge::Gauge::kOften : CacheJudge::Gauge::kSeldom);
  SetGauge();
  if (mode == Mode::kTrial) sample_.store(times_off_ % kTrialPart, std::memory_order_relaxed);
  asked_.store(mode == Mode::kOn      ? Asked::kForAll
               : mode == Mode::kTrial ? Asked::kForSample
                                      : Asked::kForNone,
               std::memory_order_relaxed);
  const uint64_t capacity = mode == Mode::kOn      ? options_.capacity
                            : mode == Mode::kTrial ? options_.capacity / kTrialPart
                                                   : 0;
  wake_at_.store(mode == Mode::kWaking  ? 0
                 : mode == Mode::kTrial ? mode_began_ + judge_.MostOfATrial()
                                        : UINT64_MAX,
                 std::memory_order_relaxed);
  switch (mode) {
    case Mode::kOn:
    case Mode::kTrial:
      static_cast<void>(cache_->SetCapacity(capacity));
      for (const auto& family : all_families_) {
        if (SpaceOf(family.get()) == ResultCache::kNoSpace) RenewSpace(family.get());
      }
      break;
    case Mode::kOff:
    case Mode::kStopped:
      RenewSpaces();
      barring_.store(false, std::memory_order_seq_cst);
      cache_->Clear();
      static_cast<void>(cache_->SetCapacity(capacity));
      break;
    case Mode::kOpening:
      break;
    case Mode::kWaking:
      barring_.store(true, std::memory_order_seq_cst);
      rounds_.NextRound();
      break;
  }
  seen_ = SeenNow(cache_->GetStatistics());
}

void DatabaseCache::CountPassed(uint64_t* passed) {
  const size_t place = cache::ThreadCell();
  cache::AddInCell(place, &cells_[place].reads, *passed);
  *passed = 0;
  TryToWake();
}

void DatabaseCache::TryToWake() {
  const uint64_t at = wake_at_.load(std::memory_order_relaxed);
  if (at == UINT64_MAX || Reads() < at) return;
  if (!mutex_.TryLock()) return;
  TryToWakeLocked();
  mutex_.Unlock();
}

void DatabaseCache::TryToWakeLocked() {
  // The sample has none of the keys that are read, or too few: another one next time.
  if (mode_ == Mode::kTrial) return TurnOff("a trial has found out nothing");
  if (mode_ == Mode::kOff && rounds_.PreviousEnded()) SetMode(Mode::kWaking);
  if (mode_ != Mode::kWaking || !rounds_.PreviousEnded()) return;
  SetMode(Mode::kTrial);
  LogLine("the result cache tries again with an eighth of the keys and of its memory");
}

void DatabaseCache::Look() {
  if (!mutex_.TryLock()) return;
  LookLocked();
  mutex_.Unlock();
}

void DatabaseCache::LookLocked() {
  if (!HasSpaces()) return;
  const uint64_t reads = Reads();
  if (reads - files_noted_at_ >= kReadsANote) {
    files_noted_at_ = reads;
    NoteFiles();
  }
  if (!benefit_.Knows()) return;
  const ResultCache::Statistics cache = cache_->GetStatistics();
  const Seen before = std::exchange(seen_, SeenNow(cache));
  saved_ = benefit_.SavedPerRead(
      {seen_.counts.reads - before.counts.reads, seen_.counts.barred_keys - before.counts.barred_keys});
  CacheJudge::Window window;
  window.saved = saved_;
  window.tree = benefit_.TreeNanoseconds();
  window.saved_absent = benefit_.SavedPerAbsentRead();
  window.tree_absent = benefit_.AbsentTreeNanoseconds();
  window.hits = seen_.hits - before.hits;
  window.misses = seen_.misses - before.misses;
  const auto capacity = static_cast<double>(std::max<uint64_t>(1, cache.capacity));
  window.held = static_cast<double>(before.item_bytes + seen_.item_bytes) / 2 / capacity;
  window.is_full = cache.memory >= cache.capacity - cache.capacity / 8;
  window.reads = reads - mode_began_;
  benefit_.Forget();
  if (options_.adaptive) Judge(window);
}

DatabaseCache::Seen DatabaseCache::SeenNow(const ResultCache::Statistics& cache) const {
  return {{Reads(), Barred()}, cache.hits + cache.absent_hits, cache.misses, cache.item_bytes};
}

void DatabaseCache::SetGauge() {
  gauge_.store(judge_.gauge_number() * kGaugeNames + static_cast<uint32_t>(judge_.gauge()), std::memory_order_relaxed);
}

void DatabaseCache::Judge(const CacheJudge::Window& window) {
  const CacheJudge::Verdict verdict = judge_.Judge(window);
  if (judge_.keeps_absent() != keeps_absent_.load(std::memory_order_relaxed) && options_.absent_keys) {
    keeps_absent_.store(judge_.keeps_absent(), std::memory_order_relaxed);
    LogLine(std::string("the result cache ") + (judge_.keeps_absent() ? "keeps" : "does not keep") +
            " absent keys from now on");
  }
  switch (verdict) {
    case CacheJudge::Verdict::kGoOn:
      SetGauge();
      break;
    case CacheJudge::Verdict::kTurnOff:
      TurnOff("it costs " + std::to_string(-window.saved) + " ns for each read more than it saves");
      break;
    case CacheJudge::Verdict::kTurnOn:
      SetMode(Mode::kOn);
      LogLine("the result cache has all of its memory again: it saves " + std::to_string(window.saved) +
              " ns for each read");
      break;
  }
}

void DatabaseCache::TurnOff(const std::string& why) {
  const uint64_t pause = judge_.BeginPause(mode_ == Mode::kTrial ? Reads() - mode_began_ : 0);
  ++times_off_;
  SetMode(Mode::kOff);
  wake_at_.store(mode_began_ + pause, std::memory_order_relaxed);
  LogLine("the result cache is off: " + why + "; it tries again after " + std::to_string(pause) + " reads");
}

void DatabaseCache::TEST_Judge(double saved_per_read) {
  {
    const MutexLock lock(&mutex_);
    if (HasSpaces()) {
      CacheJudge::Window window;
      window.saved = saved_per_read;
      window.is_full = true;
      const Mode before = mode_;
      for (int i = 0; mode_ == before && i < 3; ++i) Judge(window);
      return;
    }
    wake_at_.store(0, std::memory_order_relaxed);
  }
  TryToWake();
}

DatabaseCacheStats DatabaseCache::GetStats() {
  FillAll();
  DatabaseCacheStats stats;
  stats.cache = cache_->GetStatistics();
  stats.reads = Reads();
  stats.barred_keys = Barred();
  stats.changes = changes_.load(std::memory_order_relaxed);
  stats.checked_hits = checked_.load(std::memory_order_relaxed);
  stats.wrong_hits = wrong_.load(std::memory_order_relaxed);
  const MutexLock lock(&mutex_);
  stats.times_off = times_off_;
  stats.on = HasSpaces();
  stats.saved_nanoseconds = saved_;
  return stats;
}

}  // namespace cairn
