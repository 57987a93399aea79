// Readers use an object that writers may replace at any time, without locks: a reader announces which object it is
// about to use, and a writer frees a replaced object when nobody announces it any more.
//
// A record protects one object at a time.
//
// Source: M. Michael, "Hazard pointers" (IEEE TPDS 2004).

#pragma once

#include <atomic>
#include <functional>

namespace cairn {

// An announcement of one thread. Records are never freed; a thread that ends leaves its own to the next.
struct HazardRecord {
  std::atomic<const void*> object{nullptr};
  std::atomic<bool> taken{false};
  HazardRecord* next = nullptr;
};

HazardRecord* TakeHazardRecord();
void GiveBack(HazardRecord* record);

// A record of its own for as long as it lives, such as of a thread.
class OwnedHazard {
 public:
  OwnedHazard() : record_(TakeHazardRecord()) {}
  ~OwnedHazard() { GiveBack(record_); }
  OwnedHazard(const OwnedHazard&) = delete;
  OwnedHazard& operator=(const OwnedHazard&) = delete;

  HazardRecord* record() const { return record_; }
  // Whether it protects something now. Relaxed: only its owner may ask.
  bool InUse() const { return record_->object.load(std::memory_order_relaxed) != nullptr; }

 private:
  HazardRecord* const record_;
};

// Calls `free` when no thread protects `object`, which no reader can find any more: now, or in a later call of this.
void Retire(const void* object, std::function<void()> free);

// The current object of `source`, not freed until the end of the scope.
template <class T>
class Protected {
 public:
  Protected(HazardRecord* record, const std::atomic<const T*>& source) : record_(record) {
    object_ = source.load(std::memory_order_acquire);
    for (;;) {
      // Sequentially consistent: either Retire sees the announcement, or the second load sees the new object.
      record_->object.store(object_, std::memory_order_seq_cst);
      const T* const again = source.load(std::memory_order_seq_cst);
      if (again == object_) break;
      object_ = again;
    }
  }
  ~Protected() { record_->object.store(nullptr, std::memory_order_release); }
  Protected(const Protected&) = delete;
  Protected& operator=(const Protected&) = delete;

  const T* get() const { return object_; }  // null if the source is
  const T& operator*() const { return *object_; }
  const T* operator->() const { return object_; }

 private:
  HazardRecord* const record_;
  const T* object_;
};

}  // namespace cairn
