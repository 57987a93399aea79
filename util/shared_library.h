// A library that is loaded when it is first needed, so that a machine can do without it.

#pragma once

#include <dlfcn.h>

#include <string>

namespace cairn {

// `Functions` are pointers to the library's functions.
template <class Functions>
struct SharedLibrary {
  Functions functions = {};
  std::string error;  // why it cannot be used; empty: it can

  explicit SharedLibrary(const char* name) : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) error = dlerror();
  }

  template <class Function>
  void Find(const char* symbol, Function* function) {
    if (!error.empty()) return;
    *function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (*function == nullptr) error = std::string(name_) + " has no " + symbol;
  }

 private:
  const char* const name_;
  void* const handle_;  // never closed
};

}  // namespace cairn
