#include "test/faults/script.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "cairn/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"

namespace cairn::faults {

using test::Random;

namespace {

constexpr int kCycle = 40;  // operations after which the kinds come again
constexpr char kMarker[] = "~";
constexpr uint64_t kKeys = 60;
constexpr auto kPatience = std::chrono::seconds(15);

enum class Kind {
  kBatch,
  kFlush,
  kCompact,
  kIngest,
  kCheckpoint,
  kReopen,
  kMakeFamily,
  kDropFamily,
  kRead,
  kSetOptions
};
const char* const kKindNames[] = {"batch",
                                  "flush",
                                  "compaction",
                                  "ingestion",
                                  "checkpoint",
                                  "reopening",
                                  "making a column family",
                                  "dropping a column family",
                                  "reading",
                                  "SetOptions"};

Kind KindOf(int k) {
  switch (k % kCycle) {
    case 10:
      return Kind::kMakeFamily;
    case 25:
      return Kind::kSetOptions;
    case 30:
      return Kind::kDropFamily;
    case 39:
      return Kind::kReopen;
    default:
      break;
  }
  if (k % 20 == 15) return Kind::kCheckpoint;
  if (k % 10 == 4) return Kind::kIngest;
  if (k % 10 == 9) return Kind::kCompact;
  if (k % 5 == 2) return Kind::kFlush;
  return k % 10 == 6 ? Kind::kRead : Kind::kBatch;
}

std::string Padded(int number) {
  std::string text = std::to_string(number);
  return std::string(6 - std::min<size_t>(6, text.size()), '0') + text;
}
std::string MarkerOf(int k) { return kMarker + Padded(k); }
std::string ExtraFamilyOf(int k) { return "extra" + std::to_string(k / kCycle); }
std::string KeyOf(uint64_t index) { return "k" + Padded(static_cast<int>(index)); }

// `extra` stands for the column family that comes and goes, as family kFamilies.
std::vector<OneWrite> WritesOf(uint64_t seed, int k, bool range_deletions) {
  Random random(seed * 1000003 + static_cast<uint64_t>(k) * 2654435761u);
  std::vector<OneWrite> writes;
  const uint64_t count = random.OneIn(25) ? 60 : 1 + random.Uniform(6);
  for (uint64_t i = 0; i < count; ++i) {
    OneWrite write;
    write.family = static_cast<int>(random.Uniform(kFamilies + 1));
    write.key = KeyOf(random.Uniform(kKeys));
    write.value = std::to_string(k) + ":" + std::to_string(i) + ":";
    write.value.append(random.OneIn(20) ? 6000 : random.Uniform(300), static_cast<char>('a' + k % 26));
    const uint64_t kind = random.Uniform(10);
    write.kind = kind < 2 ? WriteKind::kDelete : kind < 3 ? WriteKind::kMerge : WriteKind::kPut;
    if (write.kind == WriteKind::kMerge) write.value.resize(std::min<size_t>(write.value.size(), 12));
    if (range_deletions && write.family == 2 && random.OneIn(6)) {
      write.kind = WriteKind::kDeleteRange;
      write.key = KeyOf(random.Uniform(40));
      write.value = write.key + "~";
      write.value = KeyOf(std::strtoull(write.key.c_str() + 1, nullptr, 10) + random.Uniform(15));
    }
    writes.push_back(std::move(write));
  }
  // A key that is put once and deleted once.
  for (int family = 0; family < kFamilies; ++family) {
    if (k % 7 == 3) writes.push_back({WriteKind::kPut, family, "s" + Padded(k), "single"});
    const int put = k - 14;
    if (k % 7 == 3 && put >= 0 && KindOf(put) == Kind::kBatch) {
      writes.push_back({WriteKind::kSingleDelete, family, "s" + Padded(put), ""});
    }
  }
  for (int family = 0; family <= kFamilies; ++family) {
    writes.push_back({WriteKind::kPut, family, MarkerOf(k), std::to_string(k)});
  }
  return writes;
}

bool SyncOf(uint64_t seed, int k) { return Random(seed + static_cast<uint64_t>(k) * 7919).OneIn(3); }
int FamilyOf(int k) { return k / 10 % kFamilies; }

Contents IngestedBy(uint64_t seed, int k) {
  Random random(seed * 31 + static_cast<uint64_t>(k));
  Contents records;
  for (int i = 0; i < 8; ++i)
    records["i" + Padded(k) + std::to_string(i)] = std::to_string(k) + ":" + std::to_string(i);
  for (int i = 0; i < 4; ++i) records[KeyOf(random.Uniform(kKeys))] = std::to_string(k) + ":ingested";
  records[MarkerOf(k)] = std::to_string(k);
  return records;
}

Status WaitUntilIdle(DB* db, bool trie) {
  Status s;
  if (trie) s = WaitForTrieCompaction(db, std::chrono::microseconds(kPatience).count());
  rocksdb::WaitForCompactOptions options;
  options.timeout = kPatience;
  options.wait_for_purge = true;
  const Status t = db->WaitForCompact(options);
  return s.ok() ? t : s;
}

}  // namespace

void Outcomes::Say(const std::string& text) {
  static const bool verbose = std::getenv("CAIRN_FAULTS_VERBOSE") != nullptr;
  if (verbose) fprintf(stderr, "%s\n", text.c_str());
  if (message[0] == '\0') std::snprintf(message, sizeof(message), "%s", text.c_str());
}

void ApplyTo(const OneWrite& write, Contents* contents) {
  const auto at = contents->find(write.key);
  switch (write.kind) {
    case WriteKind::kPut:
      (*contents)[write.key] = write.value;
      break;
    case WriteKind::kDelete:
    case WriteKind::kSingleDelete:
      contents->erase(write.key);
      break;
    case WriteKind::kMerge:
      (*contents)[write.key] = at == contents->end() ? write.value : at->second + "," + write.value;
      break;
    case WriteKind::kDeleteRange:
      if (write.key < write.value) {
        contents->erase(contents->lower_bound(write.key), contents->lower_bound(write.value));
      }
      break;
  }
}

namespace {

class EngineScenario : public Scenario {
 public:
  EngineScenario(std::string engine, uint64_t seed, int operations)
      : engine_(std::move(engine)), seed_(seed), operations_(std::min(operations, kMaxOperations)) {}

  bool Prepare(const std::string& folder) override { return std::filesystem::create_directory(folder + "/db"); }

  void Run(const std::string& folder, Outcomes* outcomes) override {
    if (engine_ == "cached_power") PretendSameFiles();
    folder_ = folder;
    outcomes_ = outcomes;
    if (!Open()) return;
    int failures = 0;
    for (int k = 0; k < operations_; ++k) {
      outcomes->current = k;
      outcomes->states[k] = State::kBegun;
      Mark(static_cast<uint64_t>(k), "begun");
      const Status s = Do(k);
      if (outcomes->wrong) return;
      outcomes->states[k] = s.ok() ? State::kAcknowledged : State::kFailed;
      Mark(static_cast<uint64_t>(k), s.ok() ? outcomes->synced[k] ? "synced" : "acknowledged" : "failed");
      if (!s.ok())
        outcomes->Say("operation " + std::to_string(k) + ", " + kKindNames[static_cast<int>(KindOf(k))] + ": " +
                      s.ToString());
      failures = s.ok() ? 0 : failures + 1;
      if (database_.db == nullptr || failures > 1) {
        failures = 0;
        database_.Close();
        if (!Open()) return;
      } else if (failures > 0) {
        const Status resumed = database_.db->Resume();
        if (!resumed.ok()) outcomes->Say("Resume: " + resumed.ToString());
      }
    }
    database_.Close();
  }

  Verdict Judge(const std::string& folder, const Outcomes& outcomes, Rule rule) override {
    if (engine_ == "cached_power") PretendSameFiles();
    OpenedDatabase database;
    Status s = OpenAll(engine_, folder + "/db", &database);
    if (!s.ok()) return {Verdict::kRefused, s.ToString()};
    std::string wrong = Compare(database, outcomes, rule, operations_);
    if (wrong.empty()) wrong = StillWorks(folder, &database);
    if (wrong.empty() && rule == Rule::kAcknowledged) wrong = CompareCheckpoints(folder, outcomes);
    return {wrong.empty() ? Verdict::kGood : Verdict::kWrong, wrong};
  }

 private:
  // What the first opening may have met was one fault: the second must succeed.
  bool Open() {
    Status s;
    for (int attempt = 0; attempt < 2; ++attempt) {
      s = OpenAll(engine_, folder_ + "/db", &database_);
      if (s.ok()) return true;
      outcomes_->Say("opening: " + s.ToString());
      database_.Close();
    }
    return false;
  }

  DB* db() { return database_.db.get(); }

  Status Do(int k) {
    switch (KindOf(k)) {
      case Kind::kBatch:
        return Write(k);
      case Kind::kFlush: {
        std::vector<ColumnFamilyHandle*> handles = database_.handles;
        if (k % 2 == 0) handles = {database_.Find(kFamilyNames[FamilyOf(k)])};
        const Status s = db()->Flush(rocksdb::FlushOptions(), handles);
        WaitUntilIdle(db(), IsTrieEngine(engine_));
        return s;
      }
      case Kind::kCompact: {
        const int family = FamilyOf(k);
        const Status s =
            test::CompactAll(db(), database_.Find(kFamilyNames[family]), IsTrieEngine(engine_) && family != 2);
        WaitUntilIdle(db(), IsTrieEngine(engine_));
        return s;
      }
      case Kind::kIngest:
        return Ingest(k);
      case Kind::kCheckpoint: {
        std::unique_ptr<rocksdb::Checkpoint> checkpoint;
        Status s = rocksdb::Checkpoint::Create(db(), port::Into(&checkpoint));
        return s.ok() ? checkpoint->CreateCheckpoint(folder_ + "/checkpoint" + std::to_string(k)) : s;
      }
      case Kind::kReopen: {
        // Of what Close says, nothing was asked of it but to end.
        database_.Close();
        const Status s = OpenAll(engine_, folder_ + "/db", &database_);
        if (!s.ok()) database_.Close();
        return s;
      }
      case Kind::kMakeFamily: {
        Options options;
        Options leveled;
        Status s = FillOptions(engine_, &options, &leveled);
        if (!s.ok()) return s;
        // The memtable's factory is the one that the database has.
        options.memtable_factory = db()->GetOptions(db()->DefaultColumnFamily()).memtable_factory;
        ColumnFamilyHandle* handle = nullptr;
        s = db()->CreateColumnFamily(options, ExtraFamilyOf(k), &handle);
        if (s.ok()) {
          database_.handles.push_back(handle);
          database_.names.push_back(ExtraFamilyOf(k));
        }
        return s;
      }
      case Kind::kDropFamily: {
        ColumnFamilyHandle* const handle = database_.Find(ExtraFamilyOf(k));
        if (handle == nullptr) return Status::NotFound("it was not made");
        const Status s = db()->DropColumnFamily(handle);
        if (!s.ok()) return s;
        database_.names.erase(std::find(database_.names.begin(), database_.names.end(), ExtraFamilyOf(k)));
        database_.handles.erase(std::find(database_.handles.begin(), database_.handles.end(), handle));
        db()->DestroyColumnFamilyHandle(handle);
        return s;
      }
      case Kind::kRead:
        return Read(k);
      case Kind::kSetOptions:
        return db()->SetOptions(database_.Find(kFamilyNames[2]),
                                {{"level0_file_num_compaction_trigger", std::to_string(2 + k / kCycle % 2)}});
    }
    return Status::OK();
  }

  Status Write(int k) {
    ColumnFamilyHandle* const extra = database_.Find(ExtraFamilyOf(k));
    outcomes_->in_extra_family[k] = extra != nullptr;
    if (extra != nullptr) Mark(static_cast<uint64_t>(k), "extra");
    rocksdb::WriteBatch batch;
    for (const OneWrite& write : WritesOf(seed_, k, !IsDurable(engine_))) {
      ColumnFamilyHandle* const handle = write.family == kFamilies ? extra : database_.Find(kFamilyNames[write.family]);
      if (handle == nullptr) continue;
      Status s;
      switch (write.kind) {
        case WriteKind::kPut:
          s = batch.Put(handle, write.key, write.value);
          break;
        case WriteKind::kDelete:
          s = batch.Delete(handle, write.key);
          break;
        case WriteKind::kSingleDelete:
          s = batch.SingleDelete(handle, write.key);
          break;
        case WriteKind::kMerge:
          s = batch.Merge(handle, write.key, write.value);
          break;
        case WriteKind::kDeleteRange:
          if (write.key < write.value) s = batch.DeleteRange(handle, write.key, write.value);
          break;
      }
      if (!s.ok()) return s;
    }
    rocksdb::WriteOptions options;
    options.sync = SyncOf(seed_, k);
    outcomes_->synced[k] = options.sync;
    const Status s = db()->Write(options, &batch);
    // A full write buffer is flushed behind the writer's back.
    WaitUntilIdle(db(), IsTrieEngine(engine_));
    return s;
  }

  Status Ingest(int k) {
    ColumnFamilyHandle* const handle = database_.Find(kFamilyNames[FamilyOf(k)]);
    const std::string path = folder_ + "/ingested" + std::to_string(k);
    Status s = WriteTable(path, db()->GetOptions(handle), IngestedBy(seed_, k), handle);
    if (!s.ok()) return s;
    rocksdb::IngestExternalFileOptions options;
    options.move_files = k % 20 == 4;
    s = IngestAgain(db(), handle, {path}, options);
    WaitUntilIdle(db(), IsTrieEngine(engine_));
    return s;
  }

  // A read that fails is no wrong answer.
  Status Read(int k) {
    const std::string wrong = Compare(database_, *outcomes_, Rule::kAcknowledged, k);
    if (wrong.empty() || wrong.compare(0, 12, "cannot read:") == 0) {
      return wrong.empty() ? Status::OK() : Status::IOError(wrong);
    }
    outcomes_->wrong = true;
    outcomes_->message[0] = '\0';
    outcomes_->Say("while it was open, at operation " + std::to_string(k) + ": " + wrong);
    return Status::Corruption(wrong);
  }

  // Empty: the database holds what it must after the operations below `end`.
  std::string Compare(const OpenedDatabase& database, const Outcomes& outcomes, Rule rule, int end) const {
    std::map<std::string, Contents> found;
    for (size_t i = 0; i < database.names.size(); ++i) {
      const Status s = ReadAll(database.db.get(), database.handles[i], &found[database.names[i]]);
      if (!s.ok()) return "cannot read: " + s.ToString();
    }
    std::map<std::string, Contents> expected;
    for (const std::string& name : database.names) expected[name];
    int first_missing = -1;  // batch, under the rule for a loss of power
    int last_durable = -1;
    for (int k = 0; k < operations_; ++k) {
      const Kind kind = KindOf(k);
      const State state = k < end ? outcomes.states[k] : State::kNotBegun;
      if (kind == Kind::kFlush && state == State::kAcknowledged) last_durable = k;
      if (kind == Kind::kMakeFamily || kind == Kind::kDropFamily) {
        const std::string wrong = CheckFamily(k, outcomes, found, end);
        if (!wrong.empty()) return wrong;
      }
      if (kind != Kind::kBatch && kind != Kind::kIngest) continue;
      std::set<std::string> where;
      for (int family = 0; family < kFamilies; ++family) {
        if (kind == Kind::kBatch || family == FamilyOf(k)) where.insert(kFamilyNames[family]);
      }
      if (kind == Kind::kBatch && outcomes.in_extra_family[k] && found.count(ExtraFamilyOf(k)) != 0) {
        where.insert(ExtraFamilyOf(k));
      }
      size_t there = 0;
      std::string which;
      for (const std::string& name : where) {
        if (found[name].count(MarkerOf(k)) == 0) continue;
        ++there;
        which += " " + name;
      }
      const std::string operation = "operation " + std::to_string(k) + " (" + kKindNames[static_cast<int>(kind)] + ")";
      if (there != 0 && there != where.size()) return operation + " is torn: it is only in" + which;
      if (there != 0 && state == State::kNotBegun) return operation + " was never begun, and is there";
      const bool must =
          state == State::kAcknowledged && (rule == Rule::kAcknowledged || kind == Kind::kIngest || outcomes.synced[k]);
      if (there == 0 && must)
        return operation + " was acknowledged" + (outcomes.synced[k] ? " and synced" : "") + ", and is lost";
      if (kind == Kind::kBatch && state != State::kNotBegun && rule == Rule::kSynced) {
        if (there == 0 && first_missing < 0 && state != State::kFailed) first_missing = k;
        if (there != 0 && first_missing >= 0) {
          return operation + " is there, and the earlier operation " + std::to_string(first_missing) + " is not";
        }
      }
      if (there == 0) continue;
      if (kind == Kind::kIngest) {
        Contents& contents = expected[kFamilyNames[FamilyOf(k)]];
        for (const auto& [key, value] : IngestedBy(seed_, k)) contents[key] = value;
        continue;
      }
      for (const OneWrite& write : WritesOf(seed_, k, !IsDurable(engine_))) {
        const std::string name = write.family == kFamilies ? ExtraFamilyOf(k) : kFamilyNames[write.family];
        if (where.count(name) != 0) ApplyTo(write, &expected[name]);
      }
    }
    if (first_missing >= 0 && first_missing < last_durable) {
      return "operation " + std::to_string(first_missing) + " is lost, and was flushed by operation " +
             std::to_string(last_durable);
    }
    for (const auto& [name, contents] : expected) {
      const std::string wrong = CompareContents(database, name, contents, found[name]);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  // One that was made is there until somebody has dropped it, and never again.
  std::string CheckFamily(int k, const Outcomes& outcomes, const std::map<std::string, Contents>& found,
                          int end) const {
    if (KindOf(k) != Kind::kMakeFamily) return "";
    const std::string name = ExtraFamilyOf(k);
    const int drop = k - 10 + 30;
    const State made = k < end ? outcomes.states[k] : State::kNotBegun;
    const State dropped = drop < end ? outcomes.states[drop] : State::kNotBegun;
    const bool there = found.count(name) != 0;
    if (there && made == State::kNotBegun) return "column family " + name + " was never made, and is there";
    if (there && dropped == State::kAcknowledged) return "column family " + name + " was dropped, and is there";
    if (!there && made == State::kAcknowledged && dropped == State::kNotBegun)
      return "column family " + name + " is lost";
    return "";
  }

  static std::string CompareContents(const OpenedDatabase& database, const std::string& name, const Contents& expected,
                                     const Contents& found) {
    for (const auto& [key, value] : expected) {
      const auto at = found.find(key);
      if (at == found.end()) return "lost in " + name + ": " + key;
      if (at->second != value) {
        return "in " + name + ", " + key + " is " + at->second.substr(0, 60) + ", not " + value.substr(0, 60);
      }
    }
    for (const auto& [key, value] : found) {
      if (expected.count(key) == 0) return "back from the dead in " + name + ": " + key + " = " + value.substr(0, 60);
    }
    ColumnFamilyHandle* const family = database.Find(name);
    const std::string wrong = CompareBackwards(database.db.get(), family, expected);
    return wrong.empty() ? CompareLookups(database.db.get(), family, expected) : wrong;
  }

  // An iterator that goes back meets the same.
  static std::string CompareBackwards(DB* db, ColumnFamilyHandle* family, const Contents& expected) {
    const std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(rocksdb::ReadOptions(), family));
    Contents found;
    size_t met = 0;
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev(), ++met) {
      found[iterator->key().ToString()] = iterator->value().ToString();
    }
    if (!iterator->status().ok()) return "cannot read: " + iterator->status().ToString();
    if (found == expected && met == expected.size()) return "";
    return "an iterator of " + family->GetName() + " that goes back meets " + std::to_string(met) + " keys, not the " +
           std::to_string(expected.size()) + " that are there";
  }

  // The other way to read: filters and indexes, and a result cache, instead of a merge of everything. Keys that are
  // there, and those that a batch may have had.
  static std::string CompareLookups(DB* db, ColumnFamilyHandle* family, const Contents& expected) {
    std::set<std::string> keys;
    for (const auto& [key, value] : expected) keys.insert(key);
    for (uint64_t index = 0; index < kKeys; ++index) keys.insert(KeyOf(index));
    const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> values(slices.size());
    std::vector<Status> statuses(slices.size());
    db->MultiGet(rocksdb::ReadOptions(), family, slices.size(), slices.data(), values.data(), statuses.data());
    for (size_t i = 0; i < slices.size(); ++i) {
      const std::string key = slices[i].ToString();
      std::string value;
      const Status s = db->Get(rocksdb::ReadOptions(), family, key, &value);
      std::string wrong = CompareAnswer("Get", family, key, s, value, expected);
      if (wrong.empty()) wrong = CompareAnswer("MultiGet", family, key, statuses[i], values[i].ToString(), expected);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  static std::string CompareAnswer(const std::string& who, ColumnFamilyHandle* family, const std::string& key,
                                   const Status& s, const std::string& value, const Contents& expected) {
    if (!s.ok() && !s.IsNotFound()) return "cannot read: " + s.ToString();
    const auto at = expected.find(key);
    const std::string where = " in " + family->GetName() + ": " + key;
    if (s.IsNotFound()) return at == expected.end() ? "" : who + " does not find" + where;
    if (at == expected.end()) return who + " finds what is not there" + where + " = " + value.substr(0, 60);
    return value == at->second ? "" : who + where + " is " + value.substr(0, 60) + ", not " + at->second.substr(0, 60);
  }

  // It takes writes, flushes, compacts and opens again, and still holds the same.
  std::string StillWorks(const std::string& folder, OpenedDatabase* database) const {
    std::map<std::string, Contents> before;
    rocksdb::WriteOptions synced;
    synced.sync = true;
    for (size_t i = 0; i < database->names.size(); ++i) {
      Status s = database->db->Put(synced, database->handles[i], "afterwards", "written");
      if (s.ok()) s = ReadAll(database->db.get(), database->handles[i], &before[database->names[i]]);
      if (!s.ok()) return "cannot be used: " + s.ToString();
    }
    Status s = database->db->Flush(rocksdb::FlushOptions(), database->handles);
    for (size_t i = 0; i < database->names.size() && s.ok(); ++i) {
      s = test::CompactAll(database->db.get(), database->handles[i],
                           IsTrieEngine(engine_) && database->names[i] != kFamilyNames[2]);
    }
    if (s.ok()) s = database->Close();
    if (s.ok()) s = OpenAll(engine_, folder + "/db", database);
    if (!s.ok()) return "cannot be used: " + s.ToString();
    for (const auto& [name, contents] : before) {
      Contents after;
      s = ReadAll(database->db.get(), database->Find(name), &after);
      if (!s.ok()) return "cannot be used: " + s.ToString();
      if (after != contents) return "a compaction and a reopening change what is in " + name;
    }
    return "";
  }

  std::string CompareCheckpoints(const std::string& folder, const Outcomes& outcomes) const {
    for (int k = 0; k < operations_; ++k) {
      if (KindOf(k) != Kind::kCheckpoint || outcomes.states[k] != State::kAcknowledged) continue;
      OpenedDatabase database;
      const Status s = OpenAll(engine_, folder + "/checkpoint" + std::to_string(k), &database);
      if (!s.ok()) return "the checkpoint of operation " + std::to_string(k) + " does not open: " + s.ToString();
      const std::string wrong = Compare(database, outcomes, Rule::kAcknowledged, k);
      if (!wrong.empty()) return "the checkpoint of operation " + std::to_string(k) + ": " + wrong;
    }
    return "";
  }

  const std::string engine_;
  const uint64_t seed_;
  const int operations_;
  std::string folder_;
  Outcomes* outcomes_ = nullptr;
  OpenedDatabase database_;
};

}  // namespace

std::unique_ptr<Scenario> NewConversion(const std::string& name, uint64_t seed, int operations);

std::vector<std::string> DefaultScenarios() {
  return {"leveled", "leveled_sub",  "durable", "durable_trie", "trie_tiny", "trie_htable",  "silt_pinned",
          "ordered", "ordered_trie", "cached",  "cached_power", "convert",   "convert_back", "convert_durable"};
}

std::unique_ptr<Scenario> NewScenario(const std::string& name, uint64_t seed, int operations) {
  std::unique_ptr<Scenario> conversion = NewConversion(name, seed, operations);
  if (conversion != nullptr) return conversion;
  Options options;
  Options leveled;
  if (!FillOptions(name, &options, &leveled).ok()) return nullptr;
  return std::make_unique<EngineScenario>(name, seed, operations);
}

}  // namespace cairn::faults
