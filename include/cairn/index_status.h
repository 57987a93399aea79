// The outcome of what must not depend on RocksDB (an index, a filter, a cache, a model): nothing, or a sentence for
// people.
//
// Thread-safety: a value; distinct objects may be used from any thread.
#pragma once

#include <string>
#include <utility>

namespace cairn {

class IndexStatus {
 public:
  enum class Code {
    kOk,
    kInvalidArgument,  // the caller's options or keys cannot be used
    kCorruption,       // the bytes are damaged or not of this format
    kNotSupported,     // the bytes are of a newer version of the format, or the keys do not suit it
    kIoError,          // the system refused a file
  };

  IndexStatus() = default;
  static IndexStatus OK() { return IndexStatus(); }
  static IndexStatus InvalidArgument(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
  static IndexStatus Corruption(std::string message) { return {Code::kCorruption, std::move(message)}; }
  static IndexStatus IoError(std::string message) { return {Code::kIoError, std::move(message)}; }
  static IndexStatus NotSupported(std::string message) { return {Code::kNotSupported, std::move(message)}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  // What is wrong, where (byte offset), and what to do about it. Empty if ok().
  const std::string& message() const { return message_; }

 private:
  IndexStatus(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code_ = Code::kOk;
  std::string message_;
};

}  // namespace cairn
