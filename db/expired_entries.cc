#include "db/expired_entries.h"

#include <memory>
#include <string>

namespace cairn {

using rocksdb::Slice;
using rocksdb::Status;

namespace {

class UnexpiredIterator final : public rocksdb::Iterator {
 public:
  UnexpiredIterator(rocksdb::Iterator* entries, const int32_t* ttl, rocksdb::SystemClock* clock)
      : entries_(entries), ttl_(ttl), clock_(clock), expired_before_(ExpiredBefore(ttl, clock)) {}

  bool Valid() const override { return entries_->Valid(); }
  void SeekToFirst() override {
    entries_->SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    entries_->SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& target) override {
    entries_->Seek(target);
    SkipForward();
  }
  void SeekForPrev(const Slice& target) override {
    entries_->SeekForPrev(target);
    SkipBackward();
  }
  void Next() override {
    entries_->Next();
    SkipForward();
  }
  void Prev() override {
    entries_->Prev();
    SkipBackward();
  }
  Slice key() const override { return entries_->key(); }
  Slice value() const override { return entries_->value(); }
  const rocksdb::WideColumns& columns() const override { return entries_->columns(); }
  Slice timestamp() const override { return entries_->timestamp(); }
  Status status() const override { return entries_->status(); }
  Status GetProperty(std::string name, std::string* value) override {
    return entries_->GetProperty(std::move(name), value);
  }
  using Iterator::Refresh;
  Status Refresh(const rocksdb::Snapshot* snapshot) override {
    expired_before_ = ExpiredBefore(ttl_, clock_);
    return entries_->Refresh(snapshot);
  }

 private:
  bool AtExpired() const { return entries_->Valid() && TtlStampOf(entries_->value()) < expired_before_; }
  void SkipForward() {
    while (AtExpired()) entries_->Next();
  }
  void SkipBackward() {
    while (AtExpired()) entries_->Prev();
  }

  const std::unique_ptr<rocksdb::Iterator> entries_;
  const int32_t* const ttl_;
  rocksdb::SystemClock* const clock_;
  uint64_t expired_before_;
};

}  // namespace

rocksdb::Iterator* WithoutExpired(rocksdb::Iterator* entries, const int32_t* ttl, rocksdb::SystemClock* clock) {
  return new UnexpiredIterator(entries, ttl, clock);
}

}  // namespace cairn
