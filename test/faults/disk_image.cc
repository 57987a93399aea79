#include "test/faults/disk_image.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

namespace cairn::faults {

namespace {
constexpr uint64_t kWord = 8;
constexpr uint64_t kSector = 512;
constexpr uint64_t kPage = 4096;

void ApplyChange(uint64_t size, const std::vector<Chunk>& chunks, std::string* bytes) {
  bytes->resize(size);
  for (const Chunk& chunk : chunks) {
    if (chunk.offset >= size) continue;
    const uint64_t length = std::min<uint64_t>(chunk.bytes.size(), size - chunk.offset);
    bytes->replace(chunk.offset, length, chunk.bytes, 0, length);
  }
}

std::string ErrorOf(const char* what, const std::string& path) {
  return std::string(what) + " " + path + ": " + strerror(errno);
}

}  // namespace

DiskImage::DiskImage() { files_[0].folder = true; }

int DiskImage::Resolve(const std::string& path) const {
  int at = 0;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const File& folder = files_.at(at);
    const auto found = folder.names.find(path.substr(begin, end - begin));
    if (found == folder.names.end()) return -1;
    at = found->second;
    begin = end + 1;
  }
  return at;
}

int DiskImage::ParentOf(const std::string& path, std::string* name) const {
  const size_t slash = path.rfind('/');
  *name = slash == std::string::npos ? path : path.substr(slash + 1);
  return slash == std::string::npos ? 0 : Resolve(path.substr(0, slash));
}

void DiskImage::Apply(const Event& change, std::map<std::string, int>* names) {
  switch (change.kind) {
    case EventKind::kRemove:
      names->erase(change.path);
      break;
    case EventKind::kRename:
      names->erase(change.path);
      (*names)[change.other] = change.file;
      break;
    default:
      (*names)[change.path] = change.file;
      break;
  }
}

void DiskImage::ChangeNames(const Event& event) {
  Event change = event;
  std::string name;
  const int parent = ParentOf(event.path, &name);
  if (parent < 0) return;
  change.path = name;
  if (event.kind == EventKind::kRename) {
    change.file = Resolve(event.path);
    std::string other;
    const int to = ParentOf(event.other, &other);
    change.other = other;
    if (to != parent) {
      // From one folder to another: made there, removed here.
      Event made = change;
      made.kind = EventKind::kLink;
      made.path = other;
      Apply(made, &files_[to].names);
      files_[to].name_changes.push_back(made);
      change.kind = EventKind::kRemove;
    }
  }
  File& folder = files_[parent];
  Apply(change, &folder.names);
  folder.name_changes.push_back(change);
}

void DiskImage::PlayData(const Event& event) {
  File* const file = Find(event.file);
  file->mapped = file->mapped || event.mapped;
  for (const Chunk& chunk : event.chunks) {
    for (uint64_t page = chunk.offset / kPage; page * kPage < chunk.offset + chunk.bytes.size(); ++page) {
      file->lost.erase(page);
    }
  }
  ApplyChange(event.size, event.chunks, &file->now);
  file->changes.push_back({event.size, event.chunks});
}

void DiskImage::PlaySync(File* file) {
  if (file->folder) {
    file->durable_names = file->names;
    file->name_changes.clear();
    return;
  }
  std::string durable = file->now;
  for (const uint64_t page : file->lost) {
    const uint64_t begin = page * kPage;
    for (uint64_t i = begin; i < std::min<uint64_t>(begin + kPage, durable.size()); ++i) {
      durable[i] = i < file->durable.size() ? file->durable[i] : '\0';
    }
  }
  file->durable = std::move(durable);
  file->changes.clear();
}

// Of a mapped file: its chunks are lines.
void DiskImage::PlaySyncOfRange(uint64_t from, uint64_t bytes, File* file) {
  const uint64_t end = std::min<uint64_t>(from + bytes, file->now.size());
  if (from >= end) return;
  if (file->durable.size() < end) file->durable.resize(end);
  file->durable.replace(from, end - from, file->now, from, end - from);
  for (Change& change : file->changes) {
    auto& chunks = change.chunks;
    chunks.erase(std::remove_if(chunks.begin(), chunks.end(),
                                [&](const Chunk& chunk) {
                                  return chunk.offset >= from && chunk.offset + chunk.bytes.size() <= end;
                                }),
                 chunks.end());
  }
}

void DiskImage::Play(const Event& event) {
  switch (event.kind) {
    case EventKind::kMark:
      break;
    case EventKind::kMakeFolder:
      Find(event.file)->folder = true;
      ChangeNames(event);
      break;
    case EventKind::kMakeFile:
      Find(event.file);
      ChangeNames(event);
      break;
    case EventKind::kLink:
    case EventKind::kRename:
    case EventKind::kRemove:
      ChangeNames(event);
      break;
    case EventKind::kData:
      PlayData(event);
      break;
    case EventKind::kSync:
      if (event.size == 0) {
        PlaySync(Find(event.file));
      } else {
        PlaySyncOfRange(event.number, event.size, Find(event.file));
      }
      break;
    case EventKind::kSyncFailed: {
      File* const file = Find(event.file);
      // Stores into a mapping that write the same bytes again cannot be seen: those of a pool file are taken for
      // granted.
      if (file->folder || file->mapped) break;
      for (const Change& change : file->changes) {
        for (const Chunk& chunk : change.chunks) {
          for (uint64_t page = chunk.offset / kPage; page * kPage < chunk.offset + chunk.bytes.size(); ++page) {
            file->lost.insert(page);
          }
        }
      }
      break;
    }
  }
}

std::string DiskImage::BytesLeft(const File& file, Loss loss, uint64_t seed) const {
  if (loss == Loss::kNone) return file.now;
  if (loss == Loss::kAll || file.changes.empty()) return file.durable;
  std::mt19937_64 random(seed);
  const bool appended =
      !file.mapped && std::all_of(file.changes.begin(), file.changes.end(), [&](const Change& change) {
        return std::all_of(change.chunks.begin(), change.chunks.end(),
                           [&](const Chunk& chunk) { return chunk.offset >= file.durable.size(); });
      });
  if (appended) {
    if (file.now.size() <= file.durable.size()) return random() % 2 == 0 ? file.now : file.durable;
    return file.now.substr(0, file.durable.size() + random() % (file.now.size() - file.durable.size() + 1));
  }
  // Sector by sector as it was after some of the changes; half of the time all of a page together.
  const uint64_t unit = random() % 2 == 0 ? kSector : file.mapped && random() % 2 == 0 ? kWord : kPage;
  const uint64_t bias = random() % 3;  // mostly old, mostly new, anything
  const uint64_t size = random() % 2 == 0 ? std::max(file.now.size(), file.durable.size()) : file.now.size();
  std::string left = file.durable;
  left.resize(size);
  std::map<uint64_t, uint64_t> until;  // unit -> changes that reached it
  uint64_t number = 0;
  for (const Change& change : file.changes) {
    ++number;
    for (const Chunk& chunk : change.chunks) {
      for (uint64_t at = chunk.offset; at < chunk.offset + chunk.bytes.size();) {
        const uint64_t end = std::min<uint64_t>((at / unit + 1) * unit, chunk.offset + chunk.bytes.size());
        const auto [known, fresh] = until.emplace(at / unit, 0);
        if (fresh) {
          const uint64_t any = random() % (file.changes.size() + 1);
          known->second = bias == 2 || random() % 8 == 0 ? any : bias == 0 ? 0 : file.changes.size();
        }
        if (number <= known->second && end <= size)
          left.replace(at, end - at, chunk.bytes, at - chunk.offset, end - at);
        at = end;
      }
    }
  }
  return left;
}

std::string DiskImage::WriteFolder(const std::string& path, const File& folder, Loss loss, uint64_t seed) const {
  std::map<std::string, int> names = loss == Loss::kNone ? folder.names : folder.durable_names;
  if (loss == Loss::kSome && !folder.name_changes.empty()) {
    std::mt19937_64 random(seed ^ folder.name_changes.size());
    const uint64_t kept = random() % (folder.name_changes.size() + 1);
    for (uint64_t i = 0; i < kept; ++i) Apply(folder.name_changes[i], &names);
  }
  for (const auto& [name, number] : names) {
    const File& file = files_.at(number);
    const std::string full = path + "/" + name;
    if (file.folder) {
      if (mkdir(full.c_str(), 0755) != 0) return ErrorOf("mkdir", full);
      const std::string wrong = WriteFolder(full, file, loss, seed * 31 + 7);
      if (!wrong.empty()) return wrong;
      continue;
    }
    const std::string bytes = BytesLeft(file, loss, seed * 1000003 + static_cast<uint64_t>(number));
    FILE* const out = fopen(full.c_str(), "wb");
    if (out == nullptr) return ErrorOf("open", full);
    const bool written = fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
    if (!written) static_cast<void>(fclose(out));
    if (!written || fclose(out) != 0) return ErrorOf("write", full);
  }
  return "";
}

std::string DiskImage::Write(const std::string& folder, Loss loss, uint64_t seed) const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::filesystem::remove_all(entry.path(), error);
    if (error) break;
  }
  return error ? "empty " + folder + ": " + error.message() : WriteFolder(folder, files_.at(0), loss, seed);
}

}  // namespace cairn::faults
