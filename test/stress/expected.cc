#include "test/stress/expected.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace cairn::stress {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics are shared between processes");

void Shared::Fail(const std::string& text) {
  int none = 0;
  if (!failed.compare_exchange_strong(none, 1)) return;
  std::snprintf(message, sizeof(message), "%s", text.c_str());
  failed.store(2);
}

Shared* MapShared(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

std::string KeyOf(int index) {
  char text[16];
  std::snprintf(text, sizeof(text), "key%06d", index);
  return text;
}

int IndexOf(const std::string& key) {
  if (key.size() != 9 || key.compare(0, 3, "key") != 0) return -1;
  const int index = std::atoi(key.c_str() + 3);
  return index < kKeys ? index : -1;
}

std::string ValueOf(int key, uint64_t number) {
  std::string value = std::to_string(number) + "/" + std::to_string(key) + "/";
  const uint64_t mixed = (number + static_cast<uint64_t>(key)) * 0x9e3779b97f4a7c15u;
  const uint64_t length = mixed % 97 == 0 ? 5000 : mixed % 300;
  value.append(length, static_cast<char>('a' + number % 26));
  return value;
}

bool NumberOf(int key, const std::string& value, uint64_t* number) {
  *number = std::strtoull(value.c_str(), nullptr, 10);
  return value == ValueOf(key, *number);
}

namespace {

std::string Named(int family, int key) { return "key " + std::to_string(key) + " of family " + std::to_string(family); }

std::string SettleSlot(Shared* shared, Slot* slot, const std::function<uint64_t(int family, int key)>& found) {
  const int count = slot->pending.load();
  int there = 0;
  int missing = 0;
  for (int i = 0; i < count; ++i) {
    const PendingWrite& write = slot->writes[i];
    const uint64_t number = found(write.family, write.key);
    shared->numbers[write.family][write.key].store(number);
    if (number != write.number && number != write.before) {
      return Named(write.family, write.key) + " is number " + std::to_string(number) + ", neither " +
             std::to_string(write.before) + " nor " + std::to_string(write.number);
    }
    // What was not there, and is deleted, tells nothing.
    if (write.before == write.number) continue;
    ++(number == write.number ? there : missing);
  }
  const std::string batch = "a batch of " + std::to_string(count) + " writes";
  if (there > 0 && missing > 0) return batch + " is torn: " + std::to_string(missing) + " of them are missing";
  if (missing > 0 && slot->acknowledged.load() != 0) return batch + " was acknowledged, and is lost";
  slot->pending.store(0);
  slot->acknowledged.store(0);
  return "";
}

}  // namespace

std::string Settle(Shared* shared, const std::function<uint64_t(int family, int key)>& found) {
  for (Slot& slot : shared->slots) {
    const std::string wrong = SettleSlot(shared, &slot, found);
    if (!wrong.empty()) return wrong;
  }
  for (int family = 0; family < kFamilies; ++family) {
    for (int key = 0; key < kKeys; ++key) {
      const uint64_t number = found(family, key);
      const uint64_t expected = shared->numbers[family][key].load();
      if (number == expected) continue;
      return Named(family, key) + " is number " + std::to_string(number) + "; number " + std::to_string(expected) +
             " was acknowledged";
    }
  }
  return "";
}

}  // namespace cairn::stress
