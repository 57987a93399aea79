#include "result_cache/file_binding.h"

#include <algorithm>
#include <utility>

#include "util/short_hash.h"

namespace cairn {

using cache::LoadWord;
using cache::StoreWord;
using cache::Word;

namespace {

constexpr Word kSure = 0x5eed0fa11717e5a1;

// Stores stay in the order in which they are written here (result_cache/cache_file.h).
void KeepOrder() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

Word ChecksumOf(const Word* words, size_t count) { return XXH3_64bits(words, count * sizeof(Word)); }

}  // namespace

FileBinding::FileBinding(cache::CacheFile* file, std::string path) : file_(file), path_(std::move(path)) {
  recorded_ = Recorded(&recorded_right_);
}

void FileBinding::LookAtFound() {
  if (file_->found() && recorded_right_) before_ = DatabaseMark::Of(path_, recorded_.prefix_bytes);
}

DatabaseMark FileBinding::Recorded(bool* right) const {
  Word there[kChecksumAt];
  for (size_t i = 0; i < kChecksumAt; ++i) there[i] = LoadWord(words() + i);
  *right = LoadWord(words() + kChecksumAt) == ChecksumOf(there, kChecksumAt) && there[kOwnFileAt] != 0 &&
           there[kOwnFileAt] == MarkOfFile(file_->fd());
  return {there[0], there[1], there[2], there[3], there[4], there[5], there[6], there[7], there[8]};
}

void FileBinding::Record(const DatabaseMark& mark) {
  const Word all[kChecksumAt] = {mark.database, mark.manifest, mark.inode,        mark.birth,  mark.handle,
                                 mark.options,  mark.bytes,    mark.prefix_bytes, mark.prefix, MarkOfFile(file_->fd())};
  Word* const checksum = words() + kChecksumAt;
  StoreWord(checksum, ~ChecksumOf(all, kChecksumAt));
  KeepOrder();
  for (size_t i = 0; i < kChecksumAt; ++i) StoreWord(words() + i, all[i]);
  KeepOrder();
  StoreWord(checksum, ChecksumOf(all, kChecksumAt));
  KeepOrder();
}

std::string FileBinding::WhyNot(const WalReport& report) const {
  if (!file_->found()) return "it is new, of another size, or was not closed before the system went down";
  if (!recorded_right_ || !before_.Continues(recorded_)) {
    return "the database was opened, copied or restored by somebody else since, or it is another one, or the file is a "
           "copy";
  }
  if (LoadWord(sure()) != kSure) return "something was written without the WAL, by pipelined writes or in two phases";
  bool any = false;
  for (uint32_t i = 0; i < kWals; ++i) {
    const uint64_t number = LoadWord(WalAt(i));
    const uint64_t sequence = LoadWord(WalAt(i) + 1);
    if (number == 0 || sequence == 0) continue;
    any = true;
    if (number < report.first_needed) continue;
    const auto read = report.last.find(number);
    if (read == report.last.end() || read->second < sequence) {
      return "WAL " + std::to_string(number) + " lacks writes that had been acknowledged";
    }
  }
  if (any && !report.any_file) return "there is no WAL";
  if (LoadWord(words() + kForgottenAt) >= std::max<uint64_t>(report.first_needed, 1)) return "there are too many WALs";
  for (const auto& [number, sequence] : report.last) {
    bool known = false;
    for (uint32_t i = 0; i < kWals; ++i) known = known || LoadWord(WalAt(i)) == number;
    if (!known) return "WAL " + std::to_string(number) + " is not known";
  }
  return "";
}

bool FileBinding::Begin() {
  if (!file_->Begin().ok()) return false;
  for (size_t i = 0; i < cache::CacheFile::kOwnerWords; ++i) StoreWord(words() + i, 0);
  KeepOrder();
  StoreWord(sure(), kSure);
  return true;
}

void FileBinding::Bind(const WalReport& report) {
  for (const auto& [number, sequence] : report.last) NoteWrite(number, sequence);
  const MutexLock lock(&mutex_);
  bound_ = DatabaseMark::Of(path_, UINT64_MAX);
  Record(bound_);
  is_bound_ = true;
}

void FileBinding::Refresh() {
  const MutexLock lock(&mutex_);
  RefreshLocked();
}

void FileBinding::BeginClose() {
  const MutexLock lock(&mutex_);
  RefreshLocked();
  is_closing_ = true;
}

void FileBinding::CancelClose() {
  const MutexLock lock(&mutex_);
  is_closing_ = false;
}

void FileBinding::RefreshLocked() {
  if (!is_bound_ || is_closing_) return;
  DatabaseMark now = DatabaseMark::Of(path_, 0);
  if (now.manifest != bound_.manifest) {
    now = DatabaseMark::Of(path_, UINT64_MAX);
  } else {
    now.prefix_bytes = bound_.prefix_bytes;
    now.prefix = bound_.prefix;
  }
  bound_ = now;
  Record(bound_);
}

// ---- spaces ----

Word FileBinding::SpaceChecksum(Word word, uint64_t options) {
  const Word both[2] = {word, options};
  return ChecksumOf(both, 2) | 1;
}

uint32_t FileBinding::FamilyAt(uint32_t i) const {
  return LoadWord(SpaceAt(i) + 1) == 0 ? kNoFamily : static_cast<uint32_t>(LoadWord(SpaceAt(i)) >> 32);
}

void FileBinding::ClearSpaceAt(uint32_t i) {
  StoreWord(SpaceAt(i) + 1, 0);
  KeepOrder();
}

uint32_t FileBinding::SpaceOf(uint32_t family, uint64_t options) const {
  for (uint32_t i = 0; i < kSpaces; ++i) {
    const Word word = LoadWord(SpaceAt(i));
    if (FamilyAt(i) == family && LoadWord(SpaceAt(i) + 1) == SpaceChecksum(word, options)) {
      return static_cast<uint32_t>(word);
    }
  }
  return kNoSpace;
}

void FileBinding::DropSpace(uint32_t family) {
  for (uint32_t i = 0; i < kSpaces; ++i) {
    if (FamilyAt(i) == family) ClearSpaceAt(i);
  }
}

// Families for which there is no room are forgotten when the database is closed.
void FileBinding::SetSpace(uint32_t family, uint32_t space, uint64_t options) {
  DropSpace(family);
  for (uint32_t i = 0; i < kSpaces; ++i) {
    if (FamilyAt(i) != kNoFamily) continue;
    const Word word = Word{family} << 32 | space;
    StoreWord(SpaceAt(i), word);
    KeepOrder();
    StoreWord(SpaceAt(i) + 1, SpaceChecksum(word, options));
    KeepOrder();
    return;
  }
}

// ---- WALs ----

void FileBinding::Raise(Word* word, uint64_t least) {
  Word now = LoadWord(word);
  while (now < least && !__atomic_compare_exchange_n(word, &now, least, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// That of the WAL; of a new one in the place of the oldest. A late writer may have one that is not the newest.
Word* FileBinding::EntryOf(uint64_t wal) {
  const MutexLock lock(&mutex_);
  Word* const current = current_.load(std::memory_order_relaxed);
  Word* oldest = WalAt(0);
  for (uint32_t i = 0; i < kWals; ++i) {
    Word* const entry = WalAt(i);
    if (LoadWord(entry) == wal) {
      if (current == nullptr || LoadWord(current) < wal) current_.store(entry, std::memory_order_release);
      return entry;
    }
    if (LoadWord(entry) < LoadWord(oldest)) oldest = entry;
  }
  if (LoadWord(oldest) > wal) {
    Doubt();
    return oldest;
  }
  Raise(words() + kForgottenAt, LoadWord(oldest));
  KeepOrder();
  StoreWord(oldest + 1, 0);
  KeepOrder();
  StoreWord(oldest, wal);
  KeepOrder();
  current_.store(oldest, std::memory_order_release);
  return oldest;
}

}  // namespace cairn
