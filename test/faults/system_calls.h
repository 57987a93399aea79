// The system calls by which this process touches the files below one folder: counted, made to fail at one position, or
// recorded so that what a loss of power leaves can be built (disk_image.h).
//
// A program that links system_calls.cc has its own open, write, fsync, rename and so on, which the shared libraries
// call, too. So the faults come where a disk's would come, below RocksDB's FileSystem, and reach what goes past it: the
// pool file, which is mapped, and the files of tools. Until Watch is called, and for files elsewhere, they do what the
// system's do. RocksDB's log files for people (LOG*) are not watched.
//
// Thread-safety: the calls themselves may come from any thread; Watch and Unwatch from one, while no other uses files.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::faults {

enum class Fault {
  kNone,
  kEio,        // a write, or a request for space, fails and has done nothing
  kNoSpace,    // the same, and whatever makes a file or a name: ENOSPC
  kShort,      // a write writes half and says so
  kTorn,       // a write writes half and fails
  kFull,       // the same with ENOSPC, with which a sync fails as well, as where space is allocated late
  kSync,       // a sync fails, and the next succeeds
  kName,       // making, renaming or removing a name fails
  kOpen,       // opening a file fails
  kRead,       // a read fails
  kShortRead,  // a read gives half and says so
  kReadOnly,   // whatever changes something fails: EROFS
};
inline constexpr int kFaults = 12;
const char* NameOf(Fault fault);
// False if there is none of that name.
bool FaultOf(const std::string& name, Fault* fault);

enum class EventKind : uint8_t {
  kMakeFile,    // path, file
  kMakeFolder,  // path, file
  kLink,        // path is another name of file
  kRename,      // path to other
  kRemove,      // path, of a file or a folder
  kData,        // chunks of file, whose size is `size` now
  kSync,        // of file, or of the folder `path`; of a mapped file perhaps of `size` bytes from `number` on alone
  kSyncFailed,  // the system holds the pages for clean from now on
  kMark,        // the script's: number, text; or that a call has failed, as it was told to
};

struct Chunk {
  uint64_t offset = 0;
  std::string bytes;
};

// One thing that happened to the folder, in order.
struct Event {
  EventKind kind = EventKind::kMark;
  bool mapped = false;   // of data: stored into a mapping, some time since the event before
  bool is_call = false;  // a position: power can be lost after it
  int file = 0;          // numbers count up from 1; 0: the folder itself
  uint64_t size = 0;
  std::string path;  // relative to the folder
  std::string other;
  std::vector<Chunk> chunks;
  uint64_t number = 0;  // a mark's
  uint64_t site = 0;    // of a call: see Sites
};

// In memory that the process shares with the one that looks at what became of it.
constexpr uint64_t kMaxHitSites = 64;
struct Counters {
  uint64_t calls[kFaults] = {};           // that this fault could have hit
  uint64_t hits = 0;                      // that were hit
  char first_hit[240] = {};               // which call on which file was the first
  uint64_t hit_sites[kMaxHitSites] = {};  // of the first ones
};

// What calls have in common: the call, the kind of file, and the functions that led to it, the script's operation among
// them. Two calls of one site differ by what the files hold. The same in every process of one program.
constexpr uint64_t kMaxSites = 1 << 15;
struct Sites {
  uint64_t of[kFaults][kMaxSites] = {};  // by the number of the call among those that the fault can hit
};

struct WatchOptions {
  std::string folder;  // absolute, and there
  Fault fault = Fault::kNone;
  uint64_t from = 0;  // the call, among those that the fault can hit, that is the first to fail; counts from 0
  uint64_t to = 0;    // and the first that does not
  uint64_t gap = 0;   // not 0: those fail as well that are so many calls later, or twice as many, and so on
  // Not 0: the first to fail is instead the call of this site that has so many of them before it, and to - from fail.
  // The number of a call depends on what threads do, its site nearly never.
  uint64_t site = 0;
  uint64_t occurrence = 0;
  bool record = false;
  // Syncs do nothing to the record: to see whether those who look at it notice.
  bool forget_syncs = false;
  std::string forget_syncs_of;  // the same of files whose names end so alone; empty: of none
  Counters* counters = nullptr;
  Sites* sites = nullptr;  // null: nobody asks
};

void Watch(const WatchOptions& options);
// Nothing fails any more, and nothing is recorded; files that are open stay known.
void Unwatch();

inline constexpr uint64_t kFailedMark = UINT64_MAX - 1;  // the number of the mark of a call that fails

// What stands in LOG files nowhere: adds a mark to the record.
void Mark(uint64_t number, const std::string& text);

// What was recorded so far.
std::vector<Event> Recorded();

bool SaveEvents(const std::vector<Event>& events, const std::string& path);
bool LoadEvents(const std::string& path, std::vector<Event>* events);

// From now on this process believes that the machine was started anew (the kernel's boot id is another). Empty: one
// that no other process has.
void PretendAnotherBoot(const std::string& name = "");
// And that a file of the same name is the same file, by its inode and when it was made.
void PretendSameFiles();

}  // namespace cairn::faults
