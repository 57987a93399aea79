// Memtables that validate their entries while they are read (paranoid_memory_checks, and since 11.0 a checksum of each
// key, memtable_verify_per_key_checksum_on_seek), in one form for all releases.

#pragma once

#include <functional>

#include "db/dbformat.h"
#include "db/lookup_key.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/port/rocksdb_version.h"
#include "util/coding.h"

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

  // With memtable_batch_lookup_optimization. RocksDB's own takes one iterator for all keys, which a memtable may have
  // to sort its entries for.
  rocksdb::Status MultiGet(size_t count, const char* const* keys, void** arguments,
                           bool (*callback)(void*, const char*), bool allow_data_in_errors,
                           bool detect_key_out_of_order, const CheckEntry& check) final {
    rocksdb::Status s;
    for (size_t i = 0; i < count && s.ok(); ++i) {
      const rocksdb::Slice internal_key = rocksdb::GetLengthPrefixedSlice(keys[i]);
      const rocksdb::LookupKey key(rocksdb::ExtractUserKey(internal_key), rocksdb::GetInternalKeySeqno(internal_key));
      if (detect_key_out_of_order || check != nullptr) {
        s = GetChecked(key, arguments[i], callback, allow_data_in_errors, check);
      } else {
        Get(key, arguments[i], callback);
      }
    }
    return s;
  }
#else
  rocksdb::Status GetAndValidate(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*),
                                 bool allow_data_in_errors) final {
    return GetChecked(key, argument, callback, allow_data_in_errors, nullptr);
  }
#endif
};

}  // namespace cairn::port
