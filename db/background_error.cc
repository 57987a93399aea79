#include "db/background_error.h"

#include "db/db_impl/db_impl.h"
#include "db/error_handler.h"

// RocksDB has no function for it. The language lets an explicit instantiation name private members; a RocksDB in which
// they are gone does not compile.

namespace cairn {

namespace {

template <auto kMember>
struct HandlerOf {
  friend rocksdb::ErrorHandler& Handler(rocksdb::DBImpl& db) { return db.*kMember; }
};
rocksdb::ErrorHandler& Handler(rocksdb::DBImpl& db);
template struct HandlerOf<&rocksdb::DBImpl::error_handler_>;

}  // namespace

void SetBackgroundError(rocksdb::DB* db, const rocksdb::Status& s) {
  auto* const impl = dynamic_cast<rocksdb::DBImpl*>(db->GetRootDB());
  if (impl == nullptr) return;
  const rocksdb::InstrumentedMutexLock lock(impl->mutex());
  Handler(*impl).SetBGError(s, rocksdb::BackgroundErrorReason::kWriteCallback);
}

}  // namespace cairn
