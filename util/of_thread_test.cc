#include "util/of_thread.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cairn {
namespace {

std::atomic<int> alive{0};

struct Counted {
  Counted() : text(100, 'c') { ++alive; }
  ~Counted() { --alive; }
  std::string text;
};

bool IsUsable() {
  Counted* const mine = OfThread<Counted>::Get();
  mine->text += "more";
  return mine == OfThread<Counted>::Get() && mine->text.size() > 100;
}

// As an application's own that uses the library at its end.
struct UsesItAtTheEnd {
  ~UsesItAtTheEnd() { *usable = IsUsable(); }
  bool* usable;
};

TEST(OfThreadTest, EachThreadHasItsOwn) {
  Counted* const mine = OfThread<Counted>::Get();
  EXPECT_EQ(mine, OfThread<Counted>::Get());
  Counted* others = nullptr;
  std::thread([&] { others = OfThread<Counted>::Get(); }).join();
  EXPECT_NE(mine, others);
}

TEST(OfThreadTest, EndsWithItsThread) {
  const int before = alive;
  for (int i = 0; i < 100; ++i) std::thread([] { EXPECT_TRUE(IsUsable()); }).join();
  EXPECT_EQ(alive, before);
}

TEST(OfThreadTest, ServesThreadLocalObjectsThatEndLater) {
  for (int i = 0; i < 10; ++i) {
    const int before = alive;
    bool usable = false;
    std::thread([&] {
      // The first to be made is the last to end.
      static thread_local std::unique_ptr<UsesItAtTheEnd> last(new UsesItAtTheEnd{&usable});
      ASSERT_NE(last, nullptr);
      EXPECT_TRUE(IsUsable());
    }).join();
    EXPECT_TRUE(usable);
    EXPECT_EQ(alive, before);
  }
}

TEST(OfThreadTest, ServesPthreadKeys) {
  static bool usable;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void* /*value*/) { usable = IsUsable(); }), 0);
  enum class Asks { kBefore, kAfter, kOnlyThere };
  for (const Asks asks : {Asks::kBefore, Asks::kAfter, Asks::kOnlyThere}) {
    SCOPED_TRACE(static_cast<int>(asks));
    for (int i = 0; i < 10; ++i) {
      const int before = alive;
      usable = false;
      std::thread([&] {
        const bool before_it = asks != Asks::kBefore || IsUsable();
        EXPECT_EQ(pthread_setspecific(key, &usable), 0);
        EXPECT_TRUE(before_it && (asks != Asks::kAfter || IsUsable()));
      }).join();
      EXPECT_TRUE(usable);
      EXPECT_EQ(alive, before);
    }
  }
  EXPECT_EQ(pthread_key_delete(key), 0);
}

// As where a program has taken all of them.
TEST(OfThreadTest, DoesWithoutPthreadKeys) {
  struct Another : Counted {};
  std::vector<pthread_key_t> keys(1);
  while (pthread_key_create(&keys.back(), nullptr) == 0) keys.emplace_back();
  keys.pop_back();
  const int before = alive;
  for (int i = 0; i < 10; ++i) std::thread([] { EXPECT_NE(OfThread<Another>::Get(), nullptr); }).join();
  EXPECT_EQ(alive, before);
  for (const pthread_key_t key : keys) EXPECT_EQ(pthread_key_delete(key), 0);
}

}  // namespace
}  // namespace cairn
