// The native methods of cairn-java (../src/main/java/cairn). They are part of librocksdbjni beside RocksDB's own.
//
// What RocksDB does not have is called by weak symbols: with a librocksdb.so of RocksDB's in the place of Cairn's the
// methods throw, and the process does not end with a symbol that cannot be found.

#include <jni.h>

#include <memory>
#include <string>

#include "cairn/engines.h"
#include "cairn/ordered.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksjni/portal.h"

namespace cairn {
__attribute__((weak)) rocksdb::Status UseEngineFromString(const std::string& text, rocksdb::DBOptions* db_options,
                                                          rocksdb::ColumnFamilyOptions* options);
__attribute__((weak)) rocksdb::TableFactory* NewOrderedTableFactory(const rocksdb::BlockBasedTableOptions& table,
                                                                    const OrderFilterOptions& filter);
}  // namespace cairn

namespace {

using rocksdb::ColumnFamilyOptions;
using rocksdb::DBOptions;
using rocksdb::Status;

Status IsCairn() {
  return cairn::UseEngineFromString != nullptr && cairn::NewOrderedTableFactory != nullptr
             ? Status::OK()
             : Status::NotSupported("librocksdb.so is RocksDB's, not Cairn's");
}

rocksdb::ConfigOptions Strictly() {
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  config.ignore_unsupported_options = false;
  return config;
}

void Throw(JNIEnv* env, const Status& s) { rocksdb::RocksDBExceptionJni::ThrowNew(env, s); }

// False, and an exception is pending, if there is no such string.
bool Text(JNIEnv* env, jstring from, std::string* to) {
  jboolean failed = JNI_FALSE;
  *to = rocksdb::JniUtil::copyStdString(env, from, &failed);
  return failed == JNI_FALSE;
}

void Use(JNIEnv* env, jstring jtext, DBOptions* db_options, ColumnFamilyOptions* options) {
  std::string text;
  if (!Text(env, jtext, &text)) return;
  Status s = IsCairn();
  if (s.ok()) s = cairn::UseEngineFromString(text, db_options, options);
  if (!s.ok()) Throw(env, s);
}

// A part of this name and these options, which the caller owns; 0, and an exception is pending, if there is none.
template <class Part>
jlong NewPart(JNIEnv* env, jstring jname, jstring joptions) {
  std::string name;
  std::string options;
  if (!Text(env, jname, &name) || !Text(env, joptions, &options)) return 0;
  std::unique_ptr<Part> part;
  Status s = IsCairn();
  if (s.ok()) s = rocksdb::ObjectRegistry::NewInstance()->NewUniqueObject<Part>(name, &part);
  if (s.ok()) s = part->ConfigureFromString(Strictly(), options);
  if (s.ok()) return reinterpret_cast<jlong>(part.release());
  Throw(env, s);
  return 0;
}

}  // namespace

extern "C" {

JNIEXPORT jboolean JNICALL Java_cairn_Cairn_hasCairn0(JNIEnv* /*env*/, jclass /*cls*/) {
  return IsCairn().ok() ? JNI_TRUE : JNI_FALSE;
}

JNIEXPORT void JNICALL Java_cairn_Cairn_useOptions0(JNIEnv* env, jclass /*cls*/, jlong options, jstring text) {
  auto* const both = reinterpret_cast<rocksdb::Options*>(options);
  Use(env, text, both, both);
}

JNIEXPORT void JNICALL Java_cairn_Cairn_useFamily0(JNIEnv* env, jclass /*cls*/, jlong options, jstring text) {
  Use(env, text, nullptr, reinterpret_cast<ColumnFamilyOptions*>(options));
}

JNIEXPORT void JNICALL Java_cairn_Cairn_useDatabase0(JNIEnv* env, jclass /*cls*/, jlong options, jstring text) {
  Use(env, text, reinterpret_cast<DBOptions*>(options), nullptr);
}

JNIEXPORT jlong JNICALL Java_cairn_Cairn_newMemTable0(JNIEnv* env, jclass /*cls*/, jstring name, jstring options) {
  return NewPart<rocksdb::MemTableRepFactory>(env, name, options);
}

JNIEXPORT jlong JNICALL Java_cairn_Cairn_newTable0(JNIEnv* env, jclass /*cls*/, jstring name, jstring options) {
  return NewPart<rocksdb::TableFactory>(env, name, options);
}

// Takes the block-based table's factory, whatever comes of it.
JNIEXPORT jlong JNICALL Java_cairn_Cairn_newOrderedTable0(JNIEnv* env, jclass /*cls*/, jlong block_based,
                                                          jstring joptions) {
  const std::unique_ptr<rocksdb::TableFactory> base(reinterpret_cast<rocksdb::TableFactory*>(block_based));
  std::string options;
  if (!Text(env, joptions, &options)) return 0;
  Status s = IsCairn();
  const rocksdb::BlockBasedTableOptions* const table =
      base == nullptr ? nullptr : base->GetOptions<rocksdb::BlockBasedTableOptions>();
  if (s.ok() && table == nullptr) s = Status::InvalidArgument("an ordered table is made of a block-based one");
  std::unique_ptr<rocksdb::TableFactory> ordered;
  if (s.ok()) ordered.reset(cairn::NewOrderedTableFactory(*table, cairn::OrderFilterOptions()));
  if (s.ok()) s = ordered->ConfigureFromString(Strictly(), options);
  if (s.ok()) return reinterpret_cast<jlong>(ordered.release());
  Throw(env, s);
  return 0;
}

}  // extern "C"
