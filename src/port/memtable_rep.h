// Memtables that validate their entries while they are read (paranoid_memory_checks, and since 11.0 a checksum of each
// key, memtable_verify_per_key_checksum_on_seek), in one form for all releases.

#pragma once

#include <functional>

#include "rocksdb/memtablerep.h"
#include "src/port/rocksdb_version.h"

namespace cairn::port {

// Not OK if the entry's bytes have changed since it was added; empty: nobody knows. The flag allows to name its key.
using CheckEntry = std::function<rocksdb::Status(const char* entry, bool allow_data_in_errors)>;

class MemTableRep : public rocksdb::MemTableRep {
 public:
  using rocksdb::MemTableRep::MemTableRep;

  // As Get, and Corruption where entries that are passed over are out of order or fail the check.
  virtual rocksdb::Status GetChecked(const rocksdb::LookupKey& key, void* argument,
                                     bool (*callback)(void*, const char*), bool allow_data_in_errors,
                                     const CheckEntry& check) = 0;

  class CheckedIterator : public rocksdb::MemTableRep::Iterator {
   public:
    virtual rocksdb::Status SeekChecked(const rocksdb::Slice& internal_key, const char* memtable_key,
                                        bool allow_data_in_errors, const CheckEntry& check) = 0;

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
    rocksdb::Status SeekAndValidate(const rocksdb::Slice& internal_key, const char* memtable_key,
                                    bool allow_data_in_errors, bool /*detect_key_out_of_order*/,
                                    const CheckEntry& check) final {
      return SeekChecked(internal_key, memtable_key, allow_data_in_errors, check);
    }
#else
    rocksdb::Status SeekAndValidate(const rocksdb::Slice& internal_key, const char* memtable_key,
                                    bool allow_data_in_errors) final {
      return SeekChecked(internal_key, memtable_key, allow_data_in_errors, nullptr);
    }
#endif
  };

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  rocksdb::Status GetAndValidate(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*),
                                 bool allow_data_in_errors, bool /*detect_key_out_of_order*/,
                                 const CheckEntry& check) final {
    return GetChecked(key, argument, callback, allow_data_in_errors, check);
  }
#else
  rocksdb::Status GetAndValidate(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*),
                                 bool allow_data_in_errors) final {
    return GetChecked(key, argument, callback, allow_data_in_errors, nullptr);
  }
#endif
};

}  // namespace cairn::port
