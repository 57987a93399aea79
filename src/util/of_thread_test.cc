#include "src/util/of_thread.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace cairn {
namespace {

std::atomic<int> made{0}, alive{0};

struct Counted {
  Counted() : text(100, 'c') {
    ++made;
    ++alive;
  }
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
    const int made_before = made;
    bool usable = false;
    std::thread([&] {
      // The first to be made is the last to end.
      static thread_local std::unique_ptr<UsesItAtTheEnd> last(new UsesItAtTheEnd{&usable});
      ASSERT_NE(last, nullptr);
      EXPECT_TRUE(IsUsable());
    }).join();
    EXPECT_TRUE(usable);
    EXPECT_EQ(made, made_before + 2);
    EXPECT_EQ(alive, before);
  }
}

TEST(OfThreadTest, ServesPthreadKeys) {
  static bool usable;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void* /*value*/) { usable = IsUsable(); }), 0);
  for (const bool before_the_object : {false, true}) {
    SCOPED_TRACE(before_the_object);
    const int before = alive;
    usable = false;
    std::thread([&] {
      const auto set = [&] { EXPECT_EQ(pthread_setspecific(key, &usable), 0); };
      if (before_the_object) set();
      EXPECT_TRUE(IsUsable());
      if (!before_the_object) set();
    }).join();
    EXPECT_TRUE(usable);
    EXPECT_EQ(alive, before);
  }
  EXPECT_EQ(pthread_key_delete(key), 0);
}

}  // namespace
}  // namespace cairn
