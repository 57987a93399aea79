#include "table/hash_order/hash_merge.h"

#include <utility>
#include <vector>

#include "table/iterator_wrapper.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// Invariant: each inner node of the tree has the loser of the match between the winners of its two subtrees; winner_
// has won them all. Leaf i is node leaves_ + i, and the parent of node n is n / 2.
class HashMergingIterator final : public rocksdb::InternalIterator {
 public:
  HashMergingIterator(const rocksdb::InternalKeyComparator* comparator, const KeyHash& hash,
                      rocksdb::InternalIterator** inputs, size_t count, std::function<void()> at_end)
      : comparator_(comparator), hash_(hash), at_end_(std::move(at_end)), inputs_(count) {
    for (size_t i = 0; i < count; ++i) inputs_[i].Set(inputs[i]);
    while (leaves_ < count) leaves_ *= 2;
    losers_.resize(leaves_);
    status_.PermitUncheckedError();
  }

  ~HashMergingIterator() override {
    for (auto& input : inputs_) input.DeleteIter(/*is_arena_mode=*/false);
    if (at_end_ != nullptr) at_end_();
  }

  bool Valid() const override { return valid_; }
  Status status() const override { return status_; }
  Slice key() const override { return inputs_[winner_.input].key(); }
  Slice value() const override { return inputs_[winner_.input].value(); }

  void SeekToFirst() override {
    status_ = Status::OK();
    for (auto& input : inputs_) input.SeekToFirst();
    PlayAll();
  }

  void Seek(const Slice& target) override {
    status_ = Status::OK();
    for (auto& input : inputs_) input.Seek(target);
    PlayAll();
  }

  void Next() override {
    inputs_[winner_.input].Next();
    Player winner = PlayerOf(winner_.input);
    for (size_t node = (leaves_ + winner.input) / 2; node > 0; node /= 2) {
      Player& loser = losers_[node];
      if (IsBefore(loser, winner)) std::swap(loser, winner);
    }
    Crown(winner);
  }

  bool NextAndGetResult(rocksdb::IterateResult* result) override {
    Next();
    if (!valid_) return false;
    result->key = key();
    result->bound_check_result = UpperBoundCheckResult();
    result->value_prepared = true;
    return true;
  }

  bool MayBeOutOfLowerBound() override { return inputs_[winner_.input].MayBeOutOfLowerBound(); }
  rocksdb::IterBoundCheck UpperBoundCheckResult() override { return inputs_[winner_.input].UpperBoundCheckResult(); }

  void SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) override {
    for (auto& input : inputs_) input.SetPinnedItersMgr(manager);
  }
  bool IsKeyPinned() const override { return inputs_[winner_.input].IsKeyPinned(); }
  bool IsValuePinned() const override { return inputs_[winner_.input].IsValuePinned(); }

  // A compaction goes forward only.
  void SeekToLast() override { Refuse(); }
  void SeekForPrev(const Slice& /*target*/) override { Refuse(); }
  void Prev() override { Refuse(); }

 private:
  // An input and the hash of the key that it is at; the largest when it has ended.
  struct Player {
    uint64_t hash = UINT64_MAX;
    size_t input = 0;
  };

  void Refuse() {
    status_ = Status::NotSupported("a merge in hash order goes forward only");
    valid_ = false;
  }

  Player PlayerOf(size_t input) {
    const auto& at = inputs_[input];
    if (at.Valid()) return {hash_(rocksdb::ExtractUserKey(at.key())), input};
    const Status s = at.status();
    if (!s.ok() && status_.ok()) status_ = s;
    return {UINT64_MAX, input};
  }

  bool IsBefore(const Player& a, const Player& b) const {
    if (__builtin_expect(a.hash == b.hash, 0)) return IsBeforeByKey(a.input, b.input);
    return a.hash < b.hash;
  }

  // Of equal hashes; inputs that have ended come last.
  bool IsBeforeByKey(size_t a, size_t b) const {
    if (a >= inputs_.size() || !inputs_[a].Valid()) return false;
    if (b >= inputs_.size() || !inputs_[b].Valid()) return true;
    const int order = comparator_->Compare(inputs_[a].key(), inputs_[b].key());
    return order != 0 ? order < 0 : a < b;
  }

  void PlayAll() {
    std::vector<Player> winners(2 * leaves_);
    for (size_t i = 0; i < leaves_; ++i)
      winners[leaves_ + i] = i < inputs_.size() ? PlayerOf(i) : Player{UINT64_MAX, i};
    for (size_t node = leaves_ - 1; node > 0; --node) {
      winners[node] = winners[2 * node];
      losers_[node] = winners[2 * node + 1];
      if (IsBefore(losers_[node], winners[node])) std::swap(losers_[node], winners[node]);
    }
    Crown(winners[1]);
  }

  void Crown(const Player& winner) {
    winner_ = winner;
    valid_ = winner.input < inputs_.size() && inputs_[winner.input].Valid() && status_.ok();
  }

  const rocksdb::InternalKeyComparator* const comparator_;
  const KeyHash hash_;
  const std::function<void()> at_end_;
  std::vector<rocksdb::IteratorWrapper> inputs_;
  size_t leaves_ = 1;
  std::vector<Player> losers_;  // of nodes 1 ... leaves_ - 1
  Player winner_;
  bool valid_ = false;
  Status status_;
};

}  // namespace

rocksdb::InternalIterator* NewHashMergingIterator(const rocksdb::InternalKeyComparator* comparator, const KeyHash& hash,
                                                  rocksdb::InternalIterator** inputs, size_t count,
                                                  std::function<void()> at_end) {
  return new HashMergingIterator(comparator, hash, inputs, count, std::move(at_end));
}

}  // namespace cairn
