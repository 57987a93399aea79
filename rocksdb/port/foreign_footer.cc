#include "rocksdb/port/foreign_footer.h"

#include <set>

#include "util/coding.h"

namespace cairn::port {

namespace {

std::set<uint64_t>& Magics() {
  static auto* magics = new std::set<uint64_t>();
  return *magics;
}

}  // namespace

void RegisterForeignFooter(uint64_t magic) { Magics().insert(magic); }

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)

namespace {

// Formats that 9.10 takes for a magic number that it does not know; the footer has the same parts in all of them.
constexpr uint32_t kFirstVersion = 1;
constexpr uint32_t kLastVersion = 6;

// Whether this thread is at a foreign footer.
thread_local bool at_foreign_footer = false;

class ForeignScope {
 public:
  ForeignScope() { at_foreign_footer = true; }
  ~ForeignScope() { at_foreign_footer = false; }
  ForeignScope(const ForeignScope&) = delete;
  ForeignScope& operator=(const ForeignScope&) = delete;
};

bool IsForeign(const rocksdb::Slice& footer) {
  constexpr size_t kMagicBytes = sizeof(uint64_t);
  if (footer.size() < kMagicBytes) return false;
  return Magics().count(rocksdb::DecodeFixed64(footer.data() + footer.size() - kMagicBytes)) > 0;
}

}  // namespace

// RocksDB's own functions (rocksdb/rocksdb_hooks.txt).
rocksdb::Status DecodeFooter(rocksdb::Footer* footer, rocksdb::Slice input, uint64_t offset,
                             uint64_t enforced_magic) asm("cairn_rocksdb_DecodeFooter");
bool& AllowAnyVersion() asm("cairn_rocksdb_AllowAnyVersion");

rocksdb::Status BuildForeignFooter(rocksdb::FooterBuilder* footer, uint64_t magic, uint32_t format_version,
                                   uint64_t offset, const rocksdb::BlockHandle& metaindex,
                                   const rocksdb::BlockHandle& index) {
  const ForeignScope scope;
  return footer->Build(magic, format_version, offset, rocksdb::kNoChecksum, metaindex, index);
}

#else

rocksdb::Status BuildForeignFooter(rocksdb::FooterBuilder* footer, uint64_t magic, uint32_t format_version,
                                   uint64_t offset, const rocksdb::BlockHandle& metaindex,
                                   const rocksdb::BlockHandle& index) {
  return footer->Build(magic, format_version, offset, rocksdb::kNoChecksum, metaindex, index);
}

#endif

}  // namespace cairn::port

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)

namespace rocksdb {

Status Footer::DecodeFrom(Slice input, uint64_t input_offset, uint64_t enforce_table_magic_number) {
  if (!cairn::port::IsForeign(input)) {
    return cairn::port::DecodeFooter(this, input, input_offset, enforce_table_magic_number);
  }
  const cairn::port::ForeignScope scope;
  const Status s = cairn::port::DecodeFooter(this, input, input_offset, enforce_table_magic_number);
  if (!s.ok() || (format_version() >= cairn::port::kFirstVersion && format_version() <= cairn::port::kLastVersion)) {
    return s;
  }
  return Status::Corruption("Corrupt or unsupported format_version " + std::to_string(format_version()));
}

// What programs of RocksDB's set it to holds for all threads; a foreign footer is the business of one.
bool& TEST_AllowUnsupportedFormatVersion() {
  return cairn::port::at_foreign_footer ? cairn::port::at_foreign_footer : cairn::port::AllowAnyVersion();
}

}  // namespace rocksdb

#endif
