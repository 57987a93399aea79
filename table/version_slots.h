// What lookups have made of a Version, for those that follow: at most one T for each column family of an open database.
// A lookup makes it when enough of them have gone without one since the Version changed: nobody pays for a Version that
// nobody reads.
//
//   class T : public OfVersion {
//     static std::unique_ptr<const T> Make(rocksdb::Version* version);   // null: there is none of this Version
//     uint64_t tables() const;                                           // it was made of so many
//     static constexpr uint64_t kFirstLookups, kTablesPerLookup;         // lookups that go without: see Miss
//   };
//
// Thread-safety: all methods. Lookups take no lock (util/hazard.h).

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

#include "db/column_family.h"
#include "db/version_set.h"
#include "table/perf_counts.h"
#include "util/hazard.h"
#include "util/of_thread.h"

namespace cairn {

class OfVersion {
 public:
  explicit OfVersion(const rocksdb::Version* version)
      : family_(version->cfd()->GetID()), number_(version->GetVersionNumber()) {}
  // No two Versions of a database have one number.
  bool IsOf(const rocksdb::Version* version) const { return number_ == version->GetVersionNumber(); }
  // Of the same family, which has got a newer one.
  bool IsNewerThan(const rocksdb::Version* version) const {
    return family_ == version->cfd()->GetID() && number_ > version->GetVersionNumber();
  }

 private:
  const uint32_t family_;
  const uint64_t number_;
};

template <class T>
class VersionSlots {
 public:
  // Of families whose numbers differ by a multiple of kSlots. A family that finds another's T replaces it like one of
  // an older Version.
  struct Slot {
    std::atomic<const T*> made{nullptr};
    std::atomic<uint64_t> none_for{kNoVersion};  // the Version that none can be made for
    std::atomic<uint64_t> lookups_without{0};
    std::atomic<uint64_t> tables{0};  // of the last that was made
    std::atomic<bool> being_made{false};

    bool HasNoneFor(const rocksdb::Version* version) const {
      return none_for.load(std::memory_order_relaxed) == version->GetVersionNumber();
    }
  };

  VersionSlots() = default;
  ~VersionSlots() {
    for (Slot& slot : slots_) delete slot.made.load(std::memory_order_relaxed);
  }
  VersionSlots(const VersionSlots&) = delete;
  VersionSlots& operator=(const VersionSlots&) = delete;

  Slot* SlotOf(const rocksdb::Version* version) { return &slots_[version->cfd()->GetID() % kSlots]; }

  // A lookup found none of the Version. So many as it takes to describe its tables go without one.
  void Miss(rocksdb::Version* version, Slot* slot) {
    const uint64_t tables = slot->tables.load(std::memory_order_relaxed);
    const uint64_t lookups = slot->lookups_without.fetch_add(1, std::memory_order_relaxed) + 1;
    if (lookups < T::kFirstLookups + tables / T::kTablesPerLookup) return;
    if (slot->being_made.exchange(true, std::memory_order_acquire)) return;
    Make(version, slot);
    slot->being_made.store(false, std::memory_order_release);
  }

  // For tests.
  uint64_t made() const { return made_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kSlots = 64;
  static constexpr uint64_t kNoVersion = ~uint64_t{0};

  // One thread at a time for a slot, so what is published cannot go.
  void Make(rocksdb::Version* version, Slot* slot) {
    const T* const before = slot->made.load(std::memory_order_relaxed);
    // Another thread may have been faster, or have got the next Version.
    if (before != nullptr && (before->IsOf(version) || before->IsNewerThan(version))) return;
    const T* made = nullptr;
    try {
      made = T::Make(version).release();
    } catch (const std::bad_alloc&) {
      // The lookup does not need it.
    }
    slot->lookups_without.store(0, std::memory_order_relaxed);
    if (made == nullptr) {
      slot->none_for.store(version->GetVersionNumber(), std::memory_order_relaxed);
      return;
    }
    slot->tables.store(made->tables(), std::memory_order_relaxed);
    slot->made.store(made, std::memory_order_seq_cst);
    made_.fetch_add(1, std::memory_order_relaxed);
    if (before != nullptr) Retire(before, [before] { delete before; });
  }

  std::array<Slot, kSlots> slots_;
  std::atomic<uint64_t> made_{0};
};

// Of an open database: the lookups that go by the Ts of its Versions.
template <class T>
class LookupsBy {
 public:
  // Descriptions made, for tests.
  uint64_t made() const { return slots_.made(); }

 protected:
  // use(const T&) of the Version, which may decline; false: it was not called, or has.
  template <class Use>
  bool With(rocksdb::Version* version, const Use& use) {
    auto* const slot = slots_.SlotOf(version);
    // Who counts by level wants each table's answer.
    if (slot->HasNoneFor(version) || PerfContextCountsByLevel()) return false;
    Hazard* const hazard = OfThread<Hazard>::Get();
    if (hazard->InUse()) return false;
    {
      const Protected<T> made(hazard->record(), slot->made);
      if (made.get() != nullptr && made->IsOf(version)) return use(*made);
    }
    slots_.Miss(version, slot);
    return false;
  }

 private:
  // Of a thread's lookup; a merge operator may look up another key within it.
  struct Hazard : OwnedHazard {};

  VersionSlots<T> slots_;
};

}  // namespace cairn
