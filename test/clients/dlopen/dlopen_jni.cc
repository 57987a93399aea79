// The native half of DlopenProgram.java: a JNI library that links librocksdb, as RocksJava's own does.

#include <jni.h>

#include <memory>
#include <string>

#include "../open_database.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"

namespace {

constexpr int kKeys = 5000;

rocksdb::Status WriteAndRead(const std::string& option_string, const std::string& path) {
  rocksdb::Options options;
  rocksdb::Status s =
      rocksdb::GetOptionsFromString(rocksdb::ConfigOptions(), rocksdb::Options(), option_string, &options);
  if (!s.ok()) return s;
  options.create_if_missing = true;
  std::unique_ptr<rocksdb::DB> db;
  s = stock::OpenDatabase(&db, options, path);
  if (!s.ok()) return s;
  for (int i = 0; s.ok() && i < kKeys; i++) {
    s = db->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), std::to_string(i));
    if (s.ok() && i == kKeys / 2) s = db->Flush(rocksdb::FlushOptions());
  }
  for (int i = 0; s.ok() && i < kKeys; i++) {
    std::string value;
    s = db->Get(rocksdb::ReadOptions(), "key" + std::to_string(i), &value);
    if (s.ok() && value != std::to_string(i)) s = rocksdb::Status::Corruption("key" + std::to_string(i), value);
  }
  return s.ok() ? db->Close() : s;
}

std::string TextOf(JNIEnv* env, jstring text) {
  const char* const bytes = env->GetStringUTFChars(text, nullptr);
  std::string result(bytes);
  env->ReleaseStringUTFChars(text, bytes);
  return result;
}

}  // namespace

extern "C" JNIEXPORT jstring JNICALL Java_DlopenProgram_run(JNIEnv* env, jclass /*program*/, jstring option_string,
                                                            jstring path) {
  const rocksdb::Status s = WriteAndRead(TextOf(env, option_string), TextOf(env, path));
  return s.ok() ? nullptr : env->NewStringUTF(s.ToString().c_str());
}
