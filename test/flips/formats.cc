#include "test/flips/formats.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "cairn/cache.h"
#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "memtable_cache/pool_note.h"
#include "memtable_cache/recovery.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "test/support.h"
#include "tools/convert_state.h"

namespace cairn::flips {

using test::Random;

namespace {

class NoLogger : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

std::string Written(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

// The tables of a database of one of the engines, and through them whatever they hold: blocks, indexes, filters,
// properties. Opened for reading, asked for keys that are there and others, and scanned.
class Tables : public Format {
 public:
  Tables(const std::string& engine, std::function<void(Options*)> change) : change_(std::move(change)) {
    const test::Engine* const known = test::FindEngine(engine);
    trie_ = known->trie;
    options_ = test::BaseOptions();
    rocksdb::BlockBasedTableOptions table = *options_.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    table.no_block_cache = true;
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    good_ = known->fill(&options_).ok();
    if (change_ != nullptr) change_(&options_);
    options_.info_log = std::make_shared<NoLogger>();
    options_.stats_dump_period_sec = 0;
    options_.stats_persist_period_sec = 0;
    options_.table_cache_numshardbits = 0;
    options_.max_file_opening_threads = 1;
    options_.skip_stats_update_on_db_open = true;
    options_.paranoid_file_checks = false;
  }

  bool Make(const std::string& folder, Random* random) override {
    DB* db = nullptr;
    if (!good_ || !cairn::Open(options_, folder, &db).ok()) return false;
    for (uint64_t i = 0; i < kKeys; ++i) {
      std::string value(random->Uniform(90), 'v');
      for (char& c : value) c = static_cast<char>('a' + random->Uniform(6));
      if (!db->Put({}, Key(i), value).ok()) return false;
      if (i == kKeys / 2 && !db->Flush({}).ok()) return false;
    }
    if (!db->Flush({}).ok() || !test::CompactAll(db, db->DefaultColumnFamily(), trie_).ok()) return false;
    // Something above the rest.
    for (uint64_t i = 0; i < kKeys; i += 7) {
      if (!db->Put({}, Key(i), std::to_string(random->Next())).ok()) return false;
    }
    return db->Flush({}).ok() && db->Close().ok();
  }

  std::vector<std::string> Load(const std::string& folder) override {
    folder_ = folder;
    std::unique_ptr<DB> db;
    if (!Open(&db).ok()) return {};
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      order_.push_back(it->key().ToString());
      model_[order_.back()] = it->value().ToString();
    }
    if (!it->status().ok() || model_.size() != kKeys) return {};
    std::vector<rocksdb::LiveFileMetaData> files;
    db->GetLiveFilesMetaData(&files);
    std::vector<std::string> paths;
    for (const rocksdb::LiveFileMetaData& file : files) paths.push_back(file.db_path + file.name);
    return paths;
  }

  Answers Ask(Random* random, std::string* what) override {
    std::unique_ptr<DB> db;
    Status s = Open(&db);
    if (!s.ok()) return Refused(s, what);
    bool whole = true;
    for (int i = 0; i < 10; ++i) {
      const Answers answer = Get(db.get(), Key(random->Uniform(kKeys)), what);
      if (answer == Answers::kWrong) return answer;
      whole = whole && answer == Answers::kRight;
    }
    for (int i = 0; i < 4; ++i) {
      const Answers answer = Get(db.get(), "absent" + std::to_string(random->Next()), what);
      if (answer == Answers::kWrong) return answer;
      whole = whole && answer == Answers::kRight;
    }
    const Answers scanned = random->OneIn(2) ? Forward(db.get(), random, what) : Backward(db.get(), what);
    return scanned == Answers::kRight && !whole ? Answers::kRefused : scanned;
  }

 private:
  static constexpr uint64_t kKeys = 250;

  static std::string Key(uint64_t i) { return "key" + std::to_string(i * 7919 % 10007); }

  // Names the column family: without, RocksDB tries first whether all lies in one level, and so opens all twice.
  Status Open(std::unique_ptr<DB>* db) const {
    std::vector<rocksdb::ColumnFamilyHandle*> families;
    const Status s = DB::OpenForReadOnly(options_, folder_, {{rocksdb::kDefaultColumnFamilyName, options_}}, &families,
                                         port::Into(db));
    for (rocksdb::ColumnFamilyHandle* family : families) {
      if (*db != nullptr) (*db)->DestroyColumnFamilyHandle(family).PermitUncheckedError();
    }
    return s;
  }
  // A damaged footer may name a format that there is not, or another format's.
  static Answers Refused(const Status& s, std::string* what) {
    *what = s.ToString();
    return s.IsCorruption() || s.IsNotSupported() || s.IsInvalidArgument() ? Answers::kRefused : Answers::kWrong;
  }

  Answers Get(DB* db, const std::string& key, std::string* what) const {
    std::string value;
    const Status s = db->Get({}, key, &value);
    const auto there = model_.find(key);
    if (!s.ok() && !s.IsNotFound()) return Refused(s, what);
    if (s.ok() == (there != model_.end()) && (!s.ok() || value == there->second)) return Answers::kRight;
    *what = "Get of " + key + " gives " + s.ToString() + " " + value;
    return Answers::kWrong;
  }

  Answers Forward(DB* db, Random* random, std::string* what) const {
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
    size_t at = random->OneIn(2) ? 0 : random->Uniform(order_.size());
    for (at == 0 ? it->SeekToFirst() : it->Seek(order_[at]); it->Valid(); it->Next(), ++at) {
      if (at < order_.size() && it->key() == order_[at] && it->value() == model_.at(order_[at])) continue;
      *what = "a scan comes to " + it->key().ToString();
      return Answers::kWrong;
    }
    if (!it->status().ok()) return Refused(it->status(), what);
    if (at == order_.size()) return Answers::kRight;
    *what = "a scan ends before " + order_[at];
    return Answers::kWrong;
  }

  Answers Backward(DB* db, std::string* what) const {
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
    size_t left = order_.size();
    for (it->SeekToLast(); it->Valid(); it->Prev()) {
      if (left > 0 && it->key() == order_[left - 1] && it->value() == model_.at(order_[left - 1])) {
        --left;
        continue;
      }
      *what = "a scan backward comes to " + it->key().ToString();
      return Answers::kWrong;
    }
    if (!it->status().ok()) return Refused(it->status(), what);
    if (left == 0) return Answers::kRight;
    *what = "a scan backward ends after " + order_[left];
    return Answers::kWrong;
  }

  const std::function<void(Options*)> change_;
  Options options_;
  bool good_ = false;
  bool trie_ = false;
  std::string folder_;
  std::vector<std::string> order_;
  std::map<std::string, std::string> model_;
};

// A pool file that a process left without closing its database, read as recovery reads it: as it is, and as if the
// machine had lost power since.
class Pool : public Format {
 public:
  bool Make(const std::string& folder, Random* random) override {
    Options options = test::BaseOptions();
    SubMemTableOptions memtable;
    memtable.durable = true;
    memtable.segment_size = 16 << 10;
    memtable.pool_size = 4 << 20;
    options.memtable_factory = NewSubMemTableFactory(memtable);
    DB* db = nullptr;
    if (!cairn::Open(options, folder, &db).ok()) return false;
    for (uint64_t i = 0; i < kEntries; ++i) {
      rocksdb::WriteOptions write;
      write.sync = i == kSynced;
      const std::string value(random->Uniform(120), static_cast<char>('a' + i % 26));
      if (!db->Put(write, "key" + std::to_string(random->Uniform(90)), value).ok()) return false;
    }
    return true;  // left open
  }

  std::vector<std::string> Load(const std::string& folder) override {
    const std::string path = folder + "/" + kPoolFileName;
    std::string reason;
    if (!PmemFile::OpenForReading(path, &file_).ok()) return {};
    if (!Read(false, &expected_, &reason).ok() || !reason.empty() || expected_.size() != kEntries) return {};
    synced_sequence_ = std::next(expected_.begin(), kSynced)->first;
    return {path};
  }

  Answers Ask(Random* random, std::string* what) override {
    Entries found;
    std::string reason;
    const bool power_lost = random->OneIn(2);
    const Status s = Read(power_lost, &found, &reason);
    if (!s.ok()) {
      *what = s.ToString();
      return s.IsCorruption() && found.empty() ? Answers::kRefused : Answers::kWrong;
    }
    if (found == expected_) return Answers::kRight;
    // What a client's sync did not cover may be given up, from some sequence on, and that is said.
    const bool prefix = found.size() <= expected_.size() && std::equal(found.begin(), found.end(), expected_.begin());
    *what = std::to_string(found.size()) + " entries; " + reason;
    if (!prefix || reason.empty() || found.count(synced_sequence_) == 0) return Answers::kWrong;
    return Answers::kRefused;
  }

 private:
  static constexpr uint64_t kEntries = 200;
  static constexpr uint64_t kSynced = 120;

  using Entries = std::map<uint64_t, std::pair<std::string, std::string>>;

  struct OneFamily : DatabaseFacts {
    bool HasColumnFamily(uint32_t id) const override { return id == 0; }
    bool TableEndsWith(uint32_t /*family*/, uint64_t /*sequence*/) const override { return false; }
  };

  Status Read(bool power_lost, Entries* found, std::string* reason) const {
    found->clear();
    Superblock superblock;
    Status s = ReadSuperblock(*file_, &superblock);
    if (!s.ok()) return s;
    if (power_lost) superblock.boot = 0;
    std::vector<PoolEntry> entries;
    PoolCounts counts;
    s = ReadPool(*file_, superblock, OneFamily(), &entries, &counts);
    for (const PoolEntry& entry : entries) {
      std::string value(1, static_cast<char>(entry.type));
      value += entry.value.ToString();
      (*found)[entry.sequence] = {entry.key.ToString(), value};
    }
    *reason = counts.reason;
    return s;
  }

  std::unique_ptr<PmemFile> file_;
  Entries expected_;
  uint64_t synced_sequence_ = 0;
};

// The file of a result cache: what it answers is right, or a miss.
class CacheFile : public Format {
 public:
  bool Writes() const override { return true; }

  bool Make(const std::string& folder, Random* /*random*/) override {
    const std::unique_ptr<ResultCache> cache = Open(folder);
    if (cache == nullptr) return false;
    for (int i = 0; i < kKeys; ++i) cache->Put(Key(i), "old" + std::string(static_cast<size_t>(i) % 50, 'o'));
    for (int i = 0; i < kKeys; i += 3) cache->Erase(Key(i));
    for (int i = 0; i < kKeys; i += 4) cache->Put(Key(i), Value(i));
    for (int i = 0; i < kKeys; i += 10) cache->PutAbsent(Key(i));
    return true;
  }

  std::vector<std::string> Load(const std::string& folder) override {
    folder_ = folder;
    return {folder + "/cache"};
  }

  Answers Ask(Random* /*random*/, std::string* what) override {
    const std::unique_ptr<ResultCache> cache = Open(folder_);
    // What no longer looks like a cache's file stays as it is.
    if (cache == nullptr) return Answers::kRefused;
    int hits = 0;
    for (int i = 0; i < kKeys; ++i) {
      std::string value;
      const ResultCache::Answer answer = cache->Get(Key(i), &value);
      if (answer == ResultCache::Answer::kMiss) continue;
      ++hits;
      const bool absent = i % 10 == 0;
      const std::string old = "old" + std::string(static_cast<size_t>(i) % 50, 'o');
      const bool right = absent ? answer == ResultCache::Answer::kAbsent
                                : answer == ResultCache::Answer::kValue &&
                                      (i % 4 == 0 ? value == Value(i) : i % 3 != 0 && value == old);
      if (right) continue;
      *what = Key(i) + " is " + value;
      return Answers::kWrong;
    }
    // The first time, the file is as it was.
    if (intact_hits_ == 0) intact_hits_ = hits;
    return hits > 0 && hits == intact_hits_ ? Answers::kRight : Answers::kRefused;
  }

 private:
  static constexpr int kKeys = 150;

  static std::string Key(int i) { return "key" + std::to_string(i); }
  static std::string Value(int i) { return "new" + std::string(static_cast<size_t>(i) * 5, 'v'); }
  static std::unique_ptr<ResultCache> Open(const std::string& folder) {
    ResultCacheOptions options;
    options.capacity = size_t{48} << 10;
    options.path = folder + "/cache";
    options.hash_seed = 7;
    std::unique_ptr<ResultCache> cache;
    return ResultCache::Create(options, &cache).ok() ? std::move(cache) : nullptr;
  }

  std::string folder_;
  int intact_hits_ = 0;
};

// A small record that is read whole: it is the one that was written, or none.
class Record : public Format {
 public:
  using Writer = std::function<std::string(Random*)>;
  // The record in the text, written again.
  using Again = std::function<Status(const std::string& text, std::string* again)>;

  Record(Writer writer, Again again) : writer_(std::move(writer)), again_(std::move(again)) {}

  bool Make(const std::string& folder, Random* random) override {
    std::ofstream(folder + "/record", std::ios::binary) << writer_(random);
    return true;
  }
  std::vector<std::string> Load(const std::string& folder) override {
    path_ = folder + "/record";
    good_ = Written(path_);
    return {path_};
  }
  Answers Ask(Random* /*random*/, std::string* what) override {
    std::string again;
    const Status s = again_(Written(path_), &again);
    *what = s.ok() ? again : s.ToString();
    if (!s.ok()) return s.IsCorruption() || s.IsNotSupported() ? Answers::kRefused : Answers::kWrong;
    return again == good_ ? Answers::kRight : Answers::kWrong;
  }

 private:
  const Writer writer_;
  const Again again_;
  std::string path_;
  std::string good_;
};

std::string NewNote(Random* random) {
  PoolNote note;
  note.pool = "/a/directory/pool";
  note.session = random->Next();
  note.live = true;
  note.families = {{0, "default"}, {3, "another"}};
  return EncodePoolNote(note);
}
Status NoteAgain(const std::string& text, std::string* again) {
  PoolNote note;
  const Status s = DecodePoolNote(text, &note);
  if (s.ok()) *again = EncodePoolNote(note);
  return s;
}

std::string NewConvertState(Random* random) {
  ConvertState state;
  state.source = "/a/directory";
  state.source_id = std::to_string(random->Next());
  state.source_sequence = random->Next();
  state.engine = "trie";
  state.engine_options = {"slots=4", "format=htable"};
  state.step = ConvertStep::kVerify;
  for (const char* name : {"default", "another"}) {
    ConvertFamily family;
    family.name = name;
    for (ConvertPosition* position : {&family.copied, &family.compared, &family.counted}) {
      *position = {false, random->Next(), random->Next(), "key" + std::to_string(random->Next())};
    }
    state.families.push_back(family);
  }
  return EncodeConvertState(state);
}
Status ConvertStateAgain(const std::string& text, std::string* again) {
  ConvertState state;
  const Status s = DecodeConvertState(text, &state);
  if (s.ok()) *again = EncodeConvertState(state);
  return s;
}

void UseRibbon(Options* options) {
  SiltOptions silt;
  silt.merge_trigger = 2;
  silt.table.last_level_filter_bits = 6;
  *options = test::BaseOptions();
  rocksdb::BlockBasedTableOptions table = *options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  table.no_block_cache = true;
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  UseSilt(options, silt).PermitUncheckedError();
}

}  // namespace

const std::vector<std::string>& FormatNames() {
  static const std::vector<std::string> names = {"trie_sst",   "htable",        "htable_zstd", "ect",
                                                 "ect_ribbon", "ect_dropped",   "ordered",     "pool",
                                                 "pool_note",  "convert_state", "result_cache"};
  return names;
}

std::unique_ptr<Format> NewFormat(const std::string& name) {
  static const std::map<std::string, const char*> engines = {{"trie_sst", "trie_tiny"},       {"htable", "trie_htable"},
                                                             {"htable_zstd", "trie_zstd"},    {"ect", "silt_pinned"},
                                                             {"ect_dropped", "silt_dropped"}, {"ordered", "ordered"}};
  const auto engine = engines.find(name);
  if (engine != engines.end()) return std::make_unique<Tables>(engine->second, nullptr);
  if (name == "ect_ribbon") return std::make_unique<Tables>("silt_pinned", UseRibbon);
  if (name == "pool") return std::make_unique<Pool>();
  if (name == "result_cache") return std::make_unique<CacheFile>();
  if (name == "pool_note") return std::make_unique<Record>(NewNote, NoteAgain);
  if (name == "convert_state") return std::make_unique<Record>(NewConvertState, ConvertStateAgain);
  return nullptr;
}

}  // namespace cairn::flips
