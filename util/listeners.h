// Finds and adds listeners of a database's options by their class. Thread-safety: none; options are the caller's.

#pragma once

#include <algorithm>
#include <memory>

#include "rocksdb/listener.h"
#include "rocksdb/options.h"

namespace cairn {

// REQUIRES (both): Listener has kClassName().
template <class Listener>
bool HasListener(const rocksdb::DBOptions& options) {
  return std::any_of(options.listeners.begin(), options.listeners.end(), [](const auto& listener) {
    return listener != nullptr && listener->IsInstanceOf(Listener::kClassName());
  });
}

// One, unless there is one.
template <class Listener>
void AddListener(rocksdb::DBOptions* options) {
  if (!HasListener<Listener>(*options)) options->listeners.push_back(std::make_shared<Listener>());
}

}  // namespace cairn
