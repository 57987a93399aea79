#include "tools/convert_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cairn/engines.h"
#include "db/db_impl/db_impl.h"
#include "memtable_cache/pool_presence.h"
#include "options/options_parser.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "table/hash_order/prefix_order.h"
#include "tools/convert_state.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

// The name in "NAME" or "{id=NAME;...}"; empty when the option is not set.
std::string IdOf(const std::unordered_map<std::string, std::string>& options, const std::string& option) {
  auto entry = options.find(option);
  if (entry == options.end() || entry->second == "nullptr") return std::string();
  std::string text = entry->second;
  if (text.empty() || text[0] != '{') return text;
  text = text.substr(1, text.size() - 2);
  std::unordered_map<std::string, std::string> map;
  if (!rocksdb::StringToMap(text, &map).ok()) return text;
  return map["id"];
}

Status Refusal(const SourceFamily& family, const std::string& reason) {
  return Status::NotSupported("column family \"" + family.name + "\" " + reason);
}

}  // namespace

Status ConvertSource::Open(const std::string& path, std::unique_ptr<ConvertSource>* source) {
  std::unique_ptr<ConvertSource> result(new ConvertSource());
  result->path_ = path;
  Status s = rocksdb::Env::Default()->FileExists(path + "/CURRENT");
  if (!s.ok()) return Status::NotFound(path, "is no RocksDB database (it has no file CURRENT)");
  ConvertState state;
  s = LoadConvertState(rocksdb::Env::Default(), path, &state);
  if (s.ok() && state.step != ConvertStep::kWhole) {
    return Status::InvalidArgument(path, "is itself an unfinished conversion of " + state.source);
  }
  if (!s.ok() && !s.IsNotFound()) return s;
  s = result->Lock();
  if (s.ok()) s = result->LoadOptions();
  if (s.ok()) s = CheckPool(PoolUse::kRead, result->db_options_, path, {});
  if (s.ok()) s = result->OpenReadOnly();
  if (s.ok()) s = result->CheckContents();
  if (s.ok()) *source = std::move(result);
  return s;
}

ConvertSource::~ConvertSource() {
  if (db_ != nullptr) {
    for (SourceFamily& family : families_) db_->DestroyColumnFamilyHandle(family.handle).PermitUncheckedError();
    delete db_;
  }
  if (lock_ >= 0) close(lock_);
}

// A lock for reading: writers take the file for writing, and it takes no more than the right to read it.
Status ConvertSource::Lock() {
  const std::string file = path_ + "/LOCK";
  lock_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock_ < 0 && errno == ENOENT) return Status::OK();  // nobody has had it open here, and it is never created
  if (lock_ < 0) {
    return Status::IOError(file, std::string("cannot be read, so that a process which writes to the database would not "
                                             "be noticed: ") +
                                     strerror(errno));
  }
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(lock_, F_SETLK, &lock) == 0) return Status::OK();
  if (errno != EAGAIN && errno != EACCES)
    return Status::IOError(file, std::string("cannot be locked: ") + strerror(errno));
  return Status::Busy(path_, "is open in another process; close it there, or convert a checkpoint of it (ldb --db=" +
                                 path_ + " checkpoint --checkpoint_dir=DIR)");
}

Status ConvertSource::LoadOptions() {
  rocksdb::Env* env = rocksdb::Env::Default();
  std::string file;
  Status s = rocksdb::GetLatestOptionsFileName(path_, env, &file);
  if (!s.ok()) return Status::NotFound(path_, "has no OPTIONS file, which says how to read it");
  rocksdb::RocksDBOptionsParser parser;
  s = parser.Parse(rocksdb::ConfigOptions(), path_ + "/" + file, env->GetFileSystem().get());
  if (!s.ok()) return s;
  db_options_ = *parser.db_opt();
  db_options_.create_if_missing = false;
  for (size_t i = 0; i < parser.cf_names()->size(); i++) {
    SourceFamily family;
    family.name = (*parser.cf_names())[i];
    family.options = (*parser.cf_opts())[i];
    const OptionMap& text = (*parser.cf_opt_maps())[i];
    s = CheckOptions(family, text);
    if (!s.ok()) return s;
    const std::string merge_operator = IdOf(text, "merge_operator");
    unknown_merge_operators_.push_back(family.options.merge_operator == nullptr ? merge_operator : std::string());
    families_.push_back(std::move(family));
  }
  return s;
}

Status ConvertSource::CheckOptions(const SourceFamily& family, const OptionMap& text) {
  const ColumnFamilyOptions& options = family.options;
  const std::string comparator = IdOf(text, "comparator");
  const bool u64ts = comparator.size() > 6 && comparator.compare(comparator.size() - 6, 6, ".u64ts") == 0;
  if (u64ts || options.comparator->timestamp_size() > 0) {
    return Refusal(family, "has user-defined timestamps (comparator " + comparator +
                               "); a copy would keep the newest version of each key only");
  }
  const std::string loaded = options.comparator->Name();
  const bool is_known = comparator.empty() || comparator == loaded;
  const bool is_plain = options.comparator == rocksdb::BytewiseComparator() ||
                        options.comparator == rocksdb::ReverseBytewiseComparator() || IsPrefixOrder(options.comparator);
  if (!is_known || (!is_plain && !IsOfCairn(options))) {
    return Refusal(family, "is ordered by the comparator " + comparator +
                               ", which this program cannot carry over: its order, and what it takes for equal keys, " +
                               "would be lost. Only bytewise and reverse bytewise order, and cairn.PrefixOrder, can be "
                               "left and returned to");
  }
  if (options.compaction_style == rocksdb::kCompactionStyleFIFO) {
    return Refusal(family,
                   "uses FIFO compaction, which drops the oldest files; a copy has no old files. Use another "
                   "compaction style first");
  }
  if (options.table_factory == nullptr) return Refusal(family, "has a table format that this program does not know");

  const struct {
    const char* option;
    bool is_loaded;
  } objects[] = {
      {"merge_operator", options.merge_operator != nullptr},
      {"compaction_filter", options.compaction_filter != nullptr},
      {"compaction_filter_factory", options.compaction_filter_factory != nullptr},
      {"prefix_extractor", options.prefix_extractor != nullptr},
      {"memtable_factory", options.memtable_factory != nullptr},
  };
  for (const auto& object : objects) {
    const std::string id = IdOf(text, object.option);
    if (id.empty() || object.is_loaded) continue;
    notes_.push_back("column family \"" + family.name + "\": " + object.option + " " + id +
                     " is not known to this program and not written into the new OPTIONS file; a program that sets it "
                     "when it opens the database goes on as before");
  }
  return Status::OK();
}

Status ConvertSource::OpenReadOnly() {
  rocksdb::DBOptions options = db_options_;
  options.listeners.clear();
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const SourceFamily& family : families_) descriptors.emplace_back(family.name, family.options);
  std::vector<std::string> stored;
  Status s = rocksdb::DB::ListColumnFamilies(options, path_, &stored);
  if (!s.ok()) return s;
  for (const std::string& name : stored) {
    auto same_name = [&name](const SourceFamily& family) { return family.name == name; };
    if (std::none_of(families_.begin(), families_.end(), same_name)) {
      return Status::InvalidArgument(path_, "has the column family \"" + name + "\", which its OPTIONS file lacks");
    }
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  s = rocksdb::DB::OpenForReadOnly(options, path_, descriptors, &handles, port::Into(&db_));
  if (!s.ok()) return s;
  for (size_t i = 0; i < families_.size(); i++) families_[i].handle = handles[i];
  s = db_->GetDbIdentity(identity_);
  return s;
}

Status ConvertSource::CheckContents() {
  auto* impl = dynamic_cast<rocksdb::DBImpl*>(db_->GetRootDB());
  if (impl != nullptr && !impl->recovered_transactions().empty()) {
    return Status::NotSupported(path_, "has prepared transactions (" +
                                           std::to_string(impl->recovered_transactions().size()) +
                                           "); commit or roll them back first");
  }
  for (size_t i = 0; i < families_.size(); i++) {
    SourceFamily& family = families_[i];
    db_->GetIntProperty(family.handle, rocksdb::DB::Properties::kEstimateNumKeys, &family.estimated_records);
    if (unknown_merge_operators_[i].empty()) continue;
    rocksdb::TablePropertiesCollection tables;
    Status s = db_->GetPropertiesOfAllTables(family.handle, &tables);
    if (!s.ok()) return s;
    for (const auto& [file, properties] : tables) {
      if (properties->num_merge_operands == 0) continue;
      return Refusal(family, "holds merge operands of the merge operator " + unknown_merge_operators_[i] +
                                 ", which this program does not know, so it cannot tell their values. Compact the "
                                 "column family with a program that knows it first");
    }
  }
  return Status::OK();
}

uint64_t ConvertSource::Bytes() const {
  uint64_t bytes = 0;
  for (const SourceFamily& family : families_) {
    for (const std::string& property :
         {rocksdb::DB::Properties::kLiveSstFilesSize, rocksdb::DB::Properties::kTotalBlobFileSize,
          rocksdb::DB::Properties::kCurSizeAllMemTables}) {
      uint64_t part = 0;
      if (db_->GetIntProperty(family.handle, property, &part)) bytes += part;
    }
  }
  return bytes;
}

}  // namespace cairn
