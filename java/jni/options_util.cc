// OptionsUtil of RocksJava gives the Java object of a column family's table format, and knows the block-based one only:
// for another it throws, after it has filled the options. This takes the place of RocksDB's function (CMakeLists.txt
// renames that) and knows Cairn's.

#include <jni.h>

#include <cstring>
#include <string>

#include "rocksdb/convenience.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"

extern "C" {

// RocksDB's own.
JNIEXPORT jobject JNICALL cairn_readTableFormatConfig(JNIEnv* env, jclass cls, jlong options);

// cairn.CairnTableConfig if the program has it, else null, with which RocksJava leaves the options as they are: the
// native ones hold the format.
JNIEXPORT jobject JNICALL Java_org_rocksdb_OptionsUtil_readTableFormatConfig(JNIEnv* env, jclass cls, jlong options) {
  const auto* const family = reinterpret_cast<const rocksdb::ColumnFamilyOptions*>(options);
  const rocksdb::TableFactory* const tables = family == nullptr ? nullptr : family->table_factory.get();
  if (tables == nullptr || strncmp(tables->Name(), "cairn.", 6) != 0) {
    return cairn_readTableFormatConfig(env, cls, options);
  }
  const jclass config = env->FindClass("cairn/CairnTableConfig");
  if (config == nullptr) {
    env->ExceptionClear();
    return nullptr;
  }
  const jmethodID make = env->GetMethodID(config, "<init>", "(Ljava/lang/String;Ljava/lang/String;)V");
  rocksdb::ConfigOptions text;
  text.delimiter.assign(1, ';');
  std::string fields;
  if (make == nullptr || !tables->GetOptionString(text, &fields).ok()) return nullptr;
  const jstring name = env->NewStringUTF(tables->Name());
  const jstring own = name == nullptr ? nullptr : env->NewStringUTF(fields.c_str());
  return own == nullptr ? nullptr : env->NewObject(config, make, name, own);
}

}  // extern "C"
