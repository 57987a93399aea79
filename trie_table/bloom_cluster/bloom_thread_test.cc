#include "trie_table/bloom_cluster/bloom_thread.h"

#include <limits.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/perf_context.h"

namespace cairn {
namespace {

TEST(FilterThreadTest, EachThreadHasItsOwn) {
  constexpr int kThreads = 600;
  std::vector<FilterThread*> found(kThreads);
  std::atomic<int> ready{0}, differ{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) {
    threads.emplace_back([&, i] {
      found[static_cast<size_t>(i)] = ThisFilterThread();
      ready++;
      while (ready < kThreads) std::this_thread::yield();
      for (int j = 0; j < 100; j++) {
        if (ThisFilterThread() != found[static_cast<size_t>(i)]) differ++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differ, 0);
  EXPECT_EQ(std::set<FilterThread*>(found.begin(), found.end()).size(), static_cast<size_t>(kThreads));
}

TEST(FilterThreadTest, AThreadThatEndsGivesItsRecordsBack) {
  std::set<const HazardRecord*> records;
  for (int i = 0; i < 1000; i++) {
    std::thread([&] { records.insert({ThisFilterThread()->hazard(), ThisFilterThread()->lookup_hazard()}); }).join();
  }
  EXPECT_EQ(records.size(), 2u);
  for (const HazardRecord* const record : records) EXPECT_FALSE(record->taken.load());
}

// As of an application whose threads close their databases by their pthread keys, and have looked nothing up before.
TEST(FilterThreadTest, AThreadThatAsksByItsKeysGivesItsRecordsBack) {
  static std::set<const HazardRecord*> records;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void* /*value*/) { records.insert(ThisFilterThread()->hazard()); }), 0);
  for (int i = 0; i < 1000; i++) {
    std::thread([&] {
      EXPECT_NE(rocksdb::get_perf_context(), nullptr);  // a thread-local object of RocksDB's, which would lose 32 bytes
      EXPECT_EQ(pthread_setspecific(key, &key), 0);
    }).join();
  }
  EXPECT_EQ(records.size(), 1u);
  EXPECT_EQ(pthread_key_delete(key), 0);
}

// One that is made when no key's destructor will run again is lost. The next thread, which has the same address, must
// not find it: it knows of variables of a thread that has ended.
TEST(FilterThreadTest, AThreadDoesNotFindWhatOneThatHasEndedHasLost) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "its runtime knows nothing of a thread after the last round of keys";
#endif
  static std::vector<FilterThread*> lost;  // all of them, so that nobody takes one for a leak
  static pthread_key_t key;
  ThisFilterThread();  // the library's key comes first
  ASSERT_EQ(pthread_key_create(&key,
                               [](void* value) {
                                 int* const left = static_cast<int*>(value);
                                 if (--*left > 0) {
                                   EXPECT_EQ(pthread_setspecific(key, value), 0);
                                 } else {
                                   lost.push_back(ThisFilterThread());
                                 }
                               }),
            0);
  for (size_t i = 1; i <= 10; i++) {
    int left = PTHREAD_DESTRUCTOR_ITERATIONS;
    std::thread([&] { EXPECT_EQ(pthread_setspecific(key, &left), 0); }).join();
    ASSERT_EQ(lost.size(), i);
    std::thread([] { EXPECT_NE(ThisFilterThread(), lost.back()); }).join();
  }
  EXPECT_EQ(pthread_key_delete(key), 0);
}

// As an application's own thread-local object that closes its database.
struct LooksUpAtTheEnd {
  ~LooksUpAtTheEnd() {
    FilterThread* const thread = ThisFilterThread();
    *alive = thread != nullptr && thread->hazard()->taken.load() && thread == ThisFilterThread();
  }
  bool* alive;
};

TEST(FilterThreadTest, ServesThreadLocalObjectsThatEndLater) {
  for (int i = 0; i < 10; i++) {
    bool alive = false;
    std::thread([&] {
      // The first to be made is the last to end.
      static thread_local std::unique_ptr<LooksUpAtTheEnd> last(new LooksUpAtTheEnd{&alive});
      ASSERT_NE(last, nullptr);
      ThisFilterThread();
    }).join();
    EXPECT_TRUE(alive);
  }
}

}  // namespace
}  // namespace cairn
