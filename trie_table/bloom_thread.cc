#include "trie_table/bloom_thread.h"

namespace cairn {

thread_local FilterThread* this_filter_thread __attribute__((tls_model("initial-exec"))) = nullptr;

FilterThread* NewFilterThread() {
  static thread_local FilterThread thread;
  return &thread;
}

}  // namespace cairn
