// cairn compact: manual compaction of a trie.

#include <cairn/db.h>
#include <cairn/trie.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/database.h"
#include "tools/progress.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

// "3/0" is child 0 of child 3.
bool ParseContainer(const std::string& text, std::vector<int>* path) {
  path->clear();
  const char* at = text.data();
  const char* end = at + text.size();
  for (;;) {
    int child = 0;
    auto [stop, error] = std::from_chars(at, end, child);
    if (error != std::errc() || child < 0) return false;
    path->push_back(child);
    if (stop == end) return true;
    if (*stop != '/') return false;
    at = stop + 1;
  }
}

std::string ContainerText(const std::vector<int>& path) {
  std::string text;
  for (const int child : path) text += (text.empty() ? "" : "/") + std::to_string(child);
  return text;
}

struct CompactArguments {
  std::string path;
  std::vector<std::string> families;
  std::vector<int> container;
  std::string key;
  bool has_key = false;
  int container_depth = 1;
  int depth = -1;
  bool rewrite = false;
  const std::atomic<bool>* stop = nullptr;
};

// The trie column families meant; empty names: all.
Status FindTries(const Database& database, const std::vector<std::string>& names,
                 std::vector<ColumnFamilyHandle*>* tries) {
  for (const std::string& name : names) {
    ColumnFamilyHandle* handle = database.Find(name);
    if (handle == nullptr) return Status::NotFound("there is no column family \"" + name + "\"");
    if (!IsTrie(database.db()->GetOptions(handle))) {
      return Status::NotSupported("column family \"" + name + "\" is no trie; ldb compact compacts it");
    }
    tries->push_back(handle);
  }
  if (!names.empty()) return Status::OK();
  for (ColumnFamilyHandle* handle : database.families()) {
    if (IsTrie(database.db()->GetOptions(handle))) tries->push_back(handle);
  }
  if (tries->empty()) return Status::NotSupported("there is no trie in this database; ldb compact compacts others");
  return Status::OK();
}

Status MakeCompactOptions(const CompactArguments& arguments, ColumnFamilyHandle* handle, TrieCompactOptions* options) {
  options->depth = arguments.depth;
  options->container = arguments.container;
  options->rewrite = arguments.rewrite;
  if (!arguments.has_key) return Status::OK();
  return TrieContainerOf(handle, arguments.key, arguments.container_depth, &options->container);
}

// Runs CompactTrie in a thread of its own and shows what it does.
Status CompactWithProgress(rocksdb::DB* db, ColumnFamilyHandle* handle, const TrieCompactOptions& options,
                           const std::atomic<bool>* stop) {
  Progress progress("compact " + handle->GetName(), "", 0);
  std::atomic<bool> done{false};
  Status result;
  std::thread worker([&]() {
    result = CompactTrie(db, handle, options);
    done.store(true, std::memory_order_release);
  });
  const auto show = [&] {
    TrieStats stats;
    if (!GetTrieStats(db, handle, &stats).ok()) return;
    uint64_t written = 0;
    for (const TrieDepthStats& depth : stats.depths) written += depth.written_bytes;
    const uint64_t compactions = stats.root_compactions + stats.push_compactions + stats.merge_compactions;
    progress.Update(0, std::to_string(compactions) + " compactions, " + ShortBytes(static_cast<double>(written)) +
                           " written, " + ShortBytes(static_cast<double>(stats.bytes)) + " in the trie");
  };
  bool stopping = false;
  while (!done.load(std::memory_order_acquire)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (stop->load(std::memory_order_relaxed) && !stopping) {
      stopping = true;
      db->DisableManualCompaction();
    }
    show();
  }
  worker.join();
  show();
  return result;
}

Status CompactFamily(const CompactArguments& arguments, rocksdb::DB* db, ColumnFamilyHandle* handle) {
  TrieCompactOptions options;
  TrieStats before;
  TrieStats after;
  Status s = MakeCompactOptions(arguments, handle, &options);
  if (s.ok()) s = GetTrieStats(db, handle, &before);
  if (s.ok()) s = CompactWithProgress(db, handle, options, arguments.stop);
  if (s.ok()) s = GetTrieStats(db, handle, &after);
  if (!s.ok()) return s;
  const std::string where = options.container.empty() ? "" : ", container " + ContainerText(options.container);
  std::printf("column family %s%s: %s before, %s after\n", handle->GetName().c_str(), where.c_str(),
              ShortBytes(static_cast<double>(before.bytes)).c_str(),
              ShortBytes(static_cast<double>(after.bytes)).c_str());
  return s;
}

int RunCompact(int argc, char** argv) {
  CompactArguments compact;
  std::string container;
  bool hex = false;
  Arguments arguments("compact",
                      "Compacts the tries of a database: everything, until each key lies in one table and what was\n"
                      "overwritten or deleted is gone, or one container and what lies below it, or one depth.");
  arguments.Positional("DB", &compact.path, "the database's directory; no other process may have it open");
  arguments.Texts("column-family", &compact.families, "NAME", "this trie only");
  arguments.Text("container", &container, "PATH", "the container as the path from the root, like 3/0");
  arguments.Text("key", &compact.key, "KEY", "the container that holds this key");
  arguments.Switch("hex", &hex, "KEY is hexadecimal");
  arguments.Integer("depth-of", &compact.container_depth, "depth of the container of --key", 1, 64);
  arguments.Integer("depth", &compact.depth, "compacts the containers of this depth only; 0 is the root, -1 all", -1,
                    64);
  arguments.Switch("rewrite", &compact.rewrite,
                   "also tables of which nothing was overwritten or deleted: in the format and with the compression\n"
                   "that new tables have");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  compact.has_key = arguments.Given("key");
  if (compact.has_key && arguments.Given("container"))
    return arguments.UsageError("--key and --container exclude each other");
  if (!compact.has_key && (hex || arguments.Given("depth-of"))) {
    return arguments.UsageError("--hex and --depth-of belong to --key");
  }
  if (arguments.Given("container") && !ParseContainer(container, &compact.container)) {
    return arguments.UsageError("--container is \"" + container + "\"; it must be like 3 or 3/0");
  }
  if (hex) {
    const std::string digits = compact.key;
    if (!rocksdb::Slice(digits).DecodeHex(&compact.key)) {
      return arguments.UsageError("--key is \"" + digits + "\"; with --hex it must be hexadecimal");
    }
  }

  compact.stop = CatchStopSignals();
  std::unique_ptr<Database> database;
  std::vector<ColumnFamilyHandle*> tries;
  Status s = Database::OpenForWriting(compact.path, &database);
  if (s.ok()) s = FindTries(*database, compact.families, &tries);
  for (size_t i = 0; s.ok() && i < tries.size(); i++) s = CompactFamily(compact, database->db(), tries[i]);
  if (s.ok()) s = database->Close();
  if (s.ok()) return kExitOk;
  return Fail("compact", s);
}

const CommandRegistration kCompact("compact", "Compacts the tries of a database now", RunCompact);

}  // namespace
}  // namespace cairn
