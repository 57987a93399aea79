#include "util/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cairn {

void Futex::Sleep(uint32_t wakings, uint32_t bits) {
  syscall(SYS_futex, &wakings_, FUTEX_WAIT_BITSET_PRIVATE, wakings, nullptr, nullptr, bits);
}

void Futex::WakeSome(int threads, uint32_t bits) {
  wakings_.fetch_add(1);
  syscall(SYS_futex, &wakings_, FUTEX_WAKE_BITSET_PRIVATE, threads, nullptr, nullptr, bits);
}

}  // namespace cairn
