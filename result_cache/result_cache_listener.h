// By which an Options object asks for a result cache: OpenDatabase looks for it. It listens to nothing.
//
// Option string: {id=cairn.ResultCache;capacity=1G;...}, the fields of DatabaseCacheOptions.
// Thread-safety: immutable once it is configured.

#pragma once

#include "cairn/result_cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/listener.h"

namespace cairn {

// InvalidArgument, naming the field.
rocksdb::Status ValidateDatabaseCacheOptions(const DatabaseCacheOptions& options);

class ResultCacheListener final : public rocksdb::EventListener {
 public:
  explicit ResultCacheListener(const DatabaseCacheOptions& options = DatabaseCacheOptions());
  static const char* kClassName() { return "cairn.ResultCache"; }
  const char* Name() const override { return kClassName(); }
  rocksdb::Status PrepareOptions(const rocksdb::ConfigOptions& config) override;

  const DatabaseCacheOptions& options() const { return options_; }

  // That of the options; null if there is none.
  static const ResultCacheListener* In(const rocksdb::DBOptions& options);

 private:
  DatabaseCacheOptions options_;
};

// As the option of an environment: "64M" or "{capacity=64M;...}".
rocksdb::Status ParseDatabaseCacheOptions(const std::string& text, DatabaseCacheOptions* options);

}  // namespace cairn
