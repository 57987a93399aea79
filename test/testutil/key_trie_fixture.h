// A database of a trie in key order, so small that tables move through all depths within seconds.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/port/open_into.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/trie_fixture.h"
#include "util/mix64.h"

namespace cairn {

class KeyTrieFixture : public testing::Test {
 protected:
  static constexpr uint64_t kWriteBuffer = 64 << 10;
  static constexpr int kRootTrigger = 4;
  static constexpr uint64_t kKeys = 20000;  // some 9 roots of values of 100 bytes

  KeyTrieFixture() {
    trie_ = ShapedTrie<KeyTrieOptions>(/*fan_out=*/4, /*slots=*/6, /*trigger=*/4, /*depth=*/3, kRootTrigger);
    trie_.filter_bits = 16;
    trie_.space_bound = 1.5;
    options_.create_if_missing = true;
    options_.write_buffer_size = kWriteBuffer;
    options_.compression = rocksdb::kNoCompression;
    options_.max_background_jobs = 3;
    options_.force_consistency_checks = true;
  }

  void Open() {
    db_.reset();
    ASSERT_OK(UseItsTrie());
    ASSERT_OK(cairn::Open(options_, dir_ / "db", port::Into(&db_)));
  }

  virtual rocksdb::Status UseItsTrie() { return UseTrie(&options_, trie_); }

  static std::string Key(uint64_t number) {
    const std::string text = std::to_string(number);
    return "k" + std::string(9 - std::min<size_t>(9, text.size()), '0') + text;
  }
  static std::string Value(uint64_t number, int round) {
    std::string value = std::to_string(round) + ":";
    while (value.size() < 100) value += std::to_string(SplitMix64(number + value.size()));
    return value;
  }
  void Settle() {
    ASSERT_OK(db_->Flush({}));
    ASSERT_OK(WaitForTrieCompaction(db_.get()));
  }
  TrieStats Stats() {
    TrieStats stats;
    EXPECT_OK(GetTrieStats(db_.get(), db_->DefaultColumnFamily(), &stats));
    return stats;
  }

  test::TempDir dir_;
  KeyTrieOptions trie_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

// The same in the order of keys or, as "hash", of their hashes.
class EitherOrderFixture : public KeyTrieFixture, public testing::WithParamInterface<std::string> {
 protected:
  bool in_hash_order() const { return GetParam() == "hash"; }

  rocksdb::Status UseItsTrie() override {
    if (!in_hash_order()) return KeyTrieFixture::UseItsTrie();
    HashTrieOptions trie;
    static_cast<TrieOptions&>(trie) = trie_;
    trie.format = "sst";
    trie.seed = 0;
    return UseTrie(&options_, trie);
  }
};

}  // namespace cairn
