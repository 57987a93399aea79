// A script of some hundred operations on one engine, and the judge who says whether a database is what the operations
// that were acknowledged must have left.
//
// What operation k does follows from the seed and k alone. Each batch writes into several column families, and a marker
// of its own into each of them; so the judge knows which batches are there, that none is there in part, and what every
// key must hold after just these.
//
// Thread-safety: none. A script runs in a process of its own.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "test/faults/databases.h"
#include "test/faults/system_calls.h"

namespace cairn::faults {

inline constexpr int kMaxOperations = 4000;

enum class State : uint8_t { kNotBegun, kBegun, kAcknowledged, kFailed };

// In memory that the script's process shares with its judges.
struct Outcomes {
  State states[kMaxOperations] = {};
  bool synced[kMaxOperations] = {};
  bool in_extra_family[kMaxOperations] = {};
  int current = 0;
  bool wrong = false;  // the script itself saw a wrong answer
  char message[512] = {};
  Counters counters;

  void Say(const std::string& text);
};

// What the judge demands.
enum class Rule {
  kAcknowledged,  // every acknowledged operation is there; of those that failed, any
  kSynced,        // the batches that are there are the first few, and of what was synced all (a loss of power)
};

struct Verdict {
  enum Kind { kGood, kRefused, kWrong };  // refused: it does not open, with a status
  Kind kind = kGood;
  std::string text;
};

// What is run, and how what it left is judged.
class Scenario {
 public:
  virtual ~Scenario() = default;
  // Makes what must be there before, in the empty folder.
  virtual bool Prepare(const std::string& folder) = 0;
  virtual void Run(const std::string& folder, Outcomes* outcomes) = 0;
  virtual Verdict Judge(const std::string& folder, const Outcomes& outcomes, Rule rule) = 0;
};

// "durable", "durable_trie", "cached" (a result cache in a file above leveled compaction), "cached_power" (one that
// survives a loss of power), "convert", "convert_back", "convert_durable", or an engine of test/support.h. Null: none
// of that name.
std::unique_ptr<Scenario> NewScenario(const std::string& name, uint64_t seed, int operations);
// Those that are run when nobody names one.
std::vector<std::string> DefaultScenarios();

// ---- What scripts and judges share with other programs

enum class WriteKind { kPut, kDelete, kSingleDelete, kMerge, kDeleteRange };
struct OneWrite {
  WriteKind kind;
  int family;
  std::string key;
  std::string value;  // the end of a range
};
void ApplyTo(const OneWrite& write, Contents* contents);

}  // namespace cairn::faults
