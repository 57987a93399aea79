// `cairn convert`, run in this process, interrupted by a fault or a loss of power: the same command must go on and end
// with a database that holds what the source does.

#include <fcntl.h>
#include <unistd.h>

#include "cairn/db.h"
#include "test/faults/script.h"
#include "test/support.h"
#include "tools/commands.h"

namespace cairn::faults {

namespace {

class Conversion : public Scenario {
 public:
  Conversion(std::string from, std::string to, uint64_t seed, int operations)
      : from_(std::move(from)), to_(std::move(to)), seed_(seed), records_(operations) {}

  bool Prepare(const std::string& folder) override {
    OpenedDatabase source;
    Status s = OpenAll(from_, folder + "/source", &source);
    test::Random random(seed_);
    for (int i = 0; i < records_ && s.ok(); ++i) {
      rocksdb::ColumnFamilyHandle* const family = source.handles[i % source.handles.size()];
      const std::string value(random.Uniform(400), static_cast<char>('a' + i % 26));
      s = source.db->Put(rocksdb::WriteOptions(), family, "key" + std::to_string(random.Uniform(1000000)), value);
      if (s.ok() && i % (records_ / 4 + 1) == records_ / 5) s = source.db->Flush(rocksdb::FlushOptions(), family);
    }
    if (s.ok()) s = source.Close();
    if (!s.ok()) fprintf(stderr, "the source cannot be made: %s\n", s.ToString().c_str());
    return s.ok();
  }

  void Run(const std::string& folder, Outcomes* outcomes) override {
    outcomes->states[0] = State::kBegun;
    Mark(0, "begun");
    const int code = Convert(folder);
    outcomes->states[0] = code == 0 ? State::kAcknowledged : State::kFailed;
    Mark(0, code == 0 ? "synced" : "failed");
    if (code != 0) outcomes->Say("cairn convert ended with " + std::to_string(code));
  }

  Verdict Judge(const std::string& folder, const Outcomes& outcomes, Rule rule) override {
    // Whether it had ended or not.
    const int code = Convert(folder, &text_);
    if (code != 0) return {Verdict::kRefused, text_};
    std::map<std::string, Contents> source;
    std::map<std::string, Contents> copy;
    Status s = ReadStored(folder + "/source", &source);
    if (s.ok()) s = ReadStored(folder + "/copy", &copy);
    if (!s.ok()) return {Verdict::kWrong, "cannot read: " + s.ToString()};
    size_t records = 0;
    for (const auto& [name, contents] : source) records += contents.size();
    if (records == 0) return {Verdict::kWrong, "the source is empty"};
    if (source != copy) return {Verdict::kWrong, "the copy is not what the source is"};
    return {};
  }

 private:
  int Convert(const std::string& folder, std::string* text = nullptr) const {
    const Command* const command = FindCommand("convert");
    std::string words[] = {"convert", folder + "/source", folder + "/copy", "--to", to_, "--check-space=false"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    // What it prints goes into a file that nobody watches.
    fflush(stdout);
    fflush(stderr);
    const int out = dup(1);
    const int err = dup(2);
    char name[] = "/tmp/cairn_convert.XXXXXX";
    const int file = mkstemp(name);
    unlink(name);
    dup2(file, 1);
    dup2(file, 2);
    const int code = command->run(static_cast<int>(arguments.size()) - 1, arguments.data());
    fflush(stdout);
    fflush(stderr);
    dup2(out, 1);
    dup2(err, 2);
    if (text != nullptr) {
      char bytes[400] = {};
      const off_t size = lseek(file, 0, SEEK_END);
      const auto got = pread(file, bytes, sizeof(bytes) - 1, size > 399 ? size - 399 : 0);
      *text = got > 0 ? std::string(bytes, static_cast<size_t>(got)) : "";
    }
    close(file);
    close(out);
    close(err);
    return code;
  }

  static Status ReadStored(const std::string& path, std::map<std::string, Contents>* contents) {
    OpenedDatabase database;
    rocksdb::DB* db = nullptr;
    Status s = OpenWithStoredOptions(path, &database.names, &database.handles, &db);
    database.db.reset(db);
    for (size_t i = 0; i < database.names.size() && s.ok(); ++i) {
      s = ReadAll(db, database.handles[i], &(*contents)[database.names[i]]);
    }
    return s;
  }

  const std::string from_;
  const std::string to_;
  const uint64_t seed_;
  const int records_;
  std::string text_;
};

}  // namespace

std::unique_ptr<Scenario> NewConversion(const std::string& name, uint64_t seed, int operations) {
  if (name == "convert") return std::make_unique<Conversion>("leveled", "trie_sst", seed, operations);
  if (name == "convert_back") return std::make_unique<Conversion>("trie_tiny", "stock", seed, operations);
  if (name == "convert_durable") return std::make_unique<Conversion>("durable", "trie", seed, operations);
  return nullptr;
}

}  // namespace cairn::faults
