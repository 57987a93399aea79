#include "trie_table/compaction/key_moves.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

namespace cairn {

namespace {

constexpr double kMoveScore = 100;

}  // namespace

// Those below the table that deletes them, whose compactions do not read them at the moment.
bool KeyMoves::PickDrops(TrieJob* job) {
  *job = TrieJob();
  std::set<uint64_t> found;
  for (const uint64_t number : shape_->deleting()) {
    if (dropped_.count(number) != 0) continue;
    const TrieFile& deleting = *shape_->Find(number);
    const KeyRange range{deleting.deleted->front().first, deleting.deleted->back().end, true};
    Dropped found_none = Dropped::kAll;
    const size_t found_before = job->moves.size();
    for (int level = deleting.level + 1; level <= shape_->LastLevel(shape_->trie().depth); ++level) {
      for (const TrieFile* file : shape_->FilesIn(level, range)) {
        const uint64_t deleted_at = shape_->DeletedAt(deleting, *file);
        if (deleted_at == 0) continue;
        if (shape_->IsInput(file->number) || !found.insert(file->number).second) {
          found_none = Dropped::kBusy;
        } else {
          job->moves.push_back({file->number, level, TableMove::kNowhere, number, deleted_at});
          job->inputs.push_back(file->number);
          job->input_bytes += file->bytes;
          job->runs.push_back({KeyShape::RangeOf(*file), level, level});
        }
      }
    }
    // Where some were found, the job's end tells: it may be chosen and not started.
    if (job->moves.size() == found_before) dropped_[number] = found_none;
  }
  job->kind = TrieJob::Kind::kDrop;
  job->score = kMoveScore;
  return !job->moves.empty();
}

// Down to what lies under it: within its depth, and to the deepest depth if nothing does.
int KeyMoves::LowestFreeLevel(const TrieFile& file) const {
  const KeyRange range = KeyShape::RangeOf(file);
  const int below = shape_->FirstLevelIn(file.level + 1, range);
  const int last = shape_->LastLevel(shape_->trie().depth);
  if (below > last) return last;
  return std::min(below - 1, shape_->LastLevel(DepthOfLevel(shape_->trie(), file.level)));
}

bool KeyMoves::AddMove(const TrieFile& file, int level, TrieJob* job) const {
  const KeyShape::Run run{KeyShape::RangeOf(file), file.level, level};
  if (level <= file.level || shape_->Conflicts(run)) return false;
  // By (4) of key_shape.h it must not leave its neighbour.
  if (file.level > 0 && shape_->FilesIn(file.level, run.range).size() > 1) return false;
  job->runs.push_back(run);
  job->moves.push_back({file.number, file.level, level, 0, 0});
  job->inputs.push_back(file.number);
  job->input_bytes += file.bytes;
  return true;
}

// Of a root that is due, the tables that lie over nothing. Where all do, as in a sequential load, nothing is left of it
// to be compacted. Small ones are worth merging.
void KeyMoves::MoveOffRoot(const KeySizes& sizes, TrieJob* job) const {
  const std::vector<KeyContainer>& root = shape_->ContainersAt(0);
  if (root.empty() || root.front().busy || root.front().slots < sizes.root_files) return;
  std::vector<const TrieFile*> files = root.front().files;
  const rocksdb::Comparator* const order = shape_->comparator();
  std::sort(files.begin(), files.end(),
            [order](const TrieFile* a, const TrieFile* b) { return order->Compare(a->smallest, b->smallest) < 0; });
  const int last = shape_->LastLevel(shape_->trie().depth);
  const TrieFile* furthest = nullptr;  // of those before, the one that ends last
  for (size_t i = 0; i < files.size(); ++i) {
    const TrieFile& file = *files[i];
    const bool alone = (furthest == nullptr || order->Compare(furthest->largest, file.smallest) < 0) &&
                       (i + 1 == files.size() || order->Compare(file.largest, files[i + 1]->smallest) < 0);
    if (furthest == nullptr || order->Compare(furthest->largest, file.largest) < 0) furthest = &file;
    if (!alone || file.bytes < sizes.least) continue;
    if (shape_->FirstLevelIn(1, KeyShape::RangeOf(file)) > last) AddMove(file, last, job);
  }
}

bool KeyMoves::PickMoves(const KeySizes& sizes, TrieJob* job) {
  *job = TrieJob();
  if (nothing_to_move_at_ == shape_->version()) return false;
  MoveOffRoot(sizes, job);
  for (int depth = shape_->trie().depth; depth >= 1; --depth) {
    for (const KeyContainer& container : shape_->ContainersAt(depth)) {
      for (const TrieFile* file : container.files) {
        if (container.busy || file->level == shape_->LastLevel(shape_->trie().depth)) continue;
        AddMove(*file, LowestFreeLevel(*file), job);
      }
    }
  }
  job->kind = TrieJob::Kind::kMove;
  job->score = kMoveScore;
  job->expected_bytes = job->input_bytes;
  if (job->moves.empty()) nothing_to_move_at_ = shape_->version();
  return !job->moves.empty();
}

void KeyMoves::SnapshotsChanged() {
  for (auto it = dropped_.begin(); it != dropped_.end();) {
    it = it->second == Dropped::kSnapshot ? dropped_.erase(it) : std::next(it);
  }
}

void KeyMoves::Finished(const TrieJob& job, bool ok) {
  if (job.kind == TrieJob::Kind::kDrop) {
    for (const TableMove& move : job.moves) dropped_.erase(move.deleted_by);
    for (const TableMove& move : job.moves) {
      if (ok && shape_->Contains(move.number)) dropped_[move.deleted_by] = Dropped::kSnapshot;
    }
    return;
  }
  for (auto it = dropped_.begin(); it != dropped_.end();) {
    it = it->second == Dropped::kBusy || !shape_->Contains(it->first) ? dropped_.erase(it) : std::next(it);
  }
  // What is in the way of a move that failed may be there for long: compactions go on meanwhile.
  if (job.kind == TrieJob::Kind::kMove) nothing_to_move_at_ = ok ? UINT64_MAX : shape_->version();
}

}  // namespace cairn
