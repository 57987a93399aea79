// What a column family's data and its manifest are asked for; 10.0 has turned pointers into references and lets no
// caller choose the options that go with an edit.

#pragma once

#include <type_traits>

#include "db/column_family.h"
#include "db/version_set.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

#if CAIRN_ROCKSDB_AT_LEAST(10, 0)

inline const rocksdb::ImmutableOptions& ImmutableOptionsOf(const rocksdb::ColumnFamilyData& family) {
  return family.ioptions();
}

inline const rocksdb::MutableCFOptions& MutableOptionsOf(const rocksdb::ColumnFamilyData& family) {
  return family.GetLatestMutableCFOptions();
}

// Appends the edit, which adds a column family, to the MANIFEST. The caller holds the mutex.
inline rocksdb::Status AddFamilyToManifest(rocksdb::VersionSet* versions, const rocksdb::Options& options,
                                           rocksdb::VersionEdit* edit, rocksdb::InstrumentedMutex* mutex,
                                           rocksdb::FSDirectory* directory) {
  const rocksdb::ColumnFamilyOptions family(options);
  return versions->LogAndApply(nullptr, rocksdb::ReadOptions(), rocksdb::WriteOptions(), edit, mutex, directory, false,
                               &family);
}

#else

inline const rocksdb::ImmutableOptions& ImmutableOptionsOf(const rocksdb::ColumnFamilyData& family) {
  return *family.ioptions();
}

inline const rocksdb::MutableCFOptions& MutableOptionsOf(const rocksdb::ColumnFamilyData& family) {
  return *family.GetLatestMutableCFOptions();
}

inline rocksdb::Status AddFamilyToManifest(rocksdb::VersionSet* versions, const rocksdb::Options& options,
                                           rocksdb::VersionEdit* edit, rocksdb::InstrumentedMutex* mutex,
                                           rocksdb::FSDirectory* directory) {
  const rocksdb::ColumnFamilyOptions family(options);
  return versions->LogAndApply(nullptr, rocksdb::MutableCFOptions(options), rocksdb::ReadOptions(),
                               rocksdb::WriteOptions(), edit, mutex, directory, false, &family);
}

#endif

// Judges anew which levels of the newest Version are to be compacted. The caller holds the mutex. A template, because
// only what the release has may be named.
template <typename Family>
void ComputeCompactionScores(Family* family) {
  auto* const storage = family->current()->storage_info();
  using Storage = std::remove_pointer_t<decltype(family->current()->storage_info())>;
  const rocksdb::ImmutableOptions& options = ImmutableOptionsOf(*family);
  const rocksdb::MutableCFOptions& changeable = MutableOptionsOf(*family);
  if constexpr (std::is_invocable_v<decltype(&Storage::ComputeCompactionScore), Storage*,
                                    const rocksdb::ImmutableOptions&, const rocksdb::MutableCFOptions&>) {
    storage->ComputeCompactionScore(options, changeable);
  } else {
    storage->ComputeCompactionScore(options, changeable, family->GetFullHistoryTsLow());
  }
}

// The reader that stays open with the file's metadata; null: there is none (yet).
inline const rocksdb::TableReader* PinnedReaderOf(const rocksdb::FileDescriptor& file) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return file.pinned_reader.Get();
#else
  return file.table_reader;
#endif
}

}  // namespace cairn::port
