#include "cairn/ect.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "gtest/gtest.h"
#include "table/ect/ect_block_layout.h"
#include "table/ect/ect_codes.h"
#include "table/ect/ect_layout.h"
#include "test/testutil/bytes_at_the_end.h"
#include "test/testutil/golden_file.h"
#include "test/testutil/test_seed.h"
#include "util/checksum.h"
#include "util/format_version.h"
#include "util/mix64.h"

namespace cairn {
namespace {

using Hashes = std::vector<uint64_t>;

Hashes Uniform(size_t n, uint64_t seed) {
  Hashes hashes(n);
  for (uint64_t& hash : hashes) hash = NextSplitMix64(&seed);
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

// Inputs that a hash function should not make, but may.
std::vector<std::pair<std::string, Hashes>> AwkwardInputs(uint64_t seed) {
  std::vector<std::pair<std::string, Hashes>> inputs;
  std::mt19937_64 random(seed);
  inputs.push_back({"none", {}});
  for (uint64_t hash : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, UINT64_MAX}) inputs.push_back({"one", {hash}});
  inputs.push_back({"two ends", {0, UINT64_MAX}});
  inputs.push_back({"two neighbours", {41, 42}});
  inputs.push_back({"two equal", {42, 42}});
  inputs.push_back({"three, two equal", {0, UINT64_MAX, UINT64_MAX}});
  inputs.push_back({"a thousand equal", Hashes(1000, 77)});
  inputs.push_back({"a thousand equal at the end", Hashes(1000, UINT64_MAX)});
  Hashes consecutive(5000);
  for (size_t i = 0; i < consecutive.size(); ++i) consecutive[i] = 1000 + i;
  inputs.push_back({"consecutive", consecutive});
  Hashes powers;
  for (int bit = 0; bit < 64; ++bit) powers.push_back(uint64_t{1} << bit);
  inputs.push_back({"powers of two", powers});
  Hashes clusters;
  for (int i = 0; i < 100; ++i) {
    const uint64_t base = random();
    for (int j = 0; j < 60; ++j) clusters.push_back(base + random() % 100);
  }
  std::sort(clusters.begin(), clusters.end());
  inputs.push_back({"clusters with equal hashes", clusters});
  Hashes duplicates = Uniform(3000, random());
  for (int i = 0; i < 3000; ++i) duplicates.push_back(duplicates[random() % 3000]);
  std::sort(duplicates.begin(), duplicates.end());
  inputs.push_back({"duplicates", duplicates});
  Hashes overfull = Uniform(20000, random());
  const uint64_t somewhere = random() >> 1;
  for (int i = 0; i < 25600; ++i) overfull.push_back(somewhere + random() % (uint64_t{1} << 40));
  std::sort(overfull.begin(), overfull.end());
  inputs.push_back({"one bucket overfull 100 times", overfull});
  Hashes heavy = Uniform(2000, random());
  for (int i = 0; i < 25600; ++i) heavy.push_back(heavy[1000]);
  std::sort(heavy.begin(), heavy.end());
  inputs.push_back({"one hash 25,600 times", heavy});
  return inputs;
}

std::string Build(const Hashes& hashes, const EctOptions& options, const std::vector<uint64_t>& starts = {}) {
  EctBuilder builder(options);
  size_t next = 0;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (next < starts.size() && starts[next] == i) {
      builder.StartBlock();
      ++next;
    }
    builder.Add(hashes[i]);
  }
  EXPECT_EQ(hashes.size(), builder.keys());
  std::string bytes;
  const IndexStatus status = builder.Finish(&bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

EctIndex OpenGood(const std::string& bytes) {
  EctIndex index;
  const IndexStatus status = EctIndex::Open(bytes.data(), bytes.size(), EctVerify::kChecksum, &index);
  EXPECT_TRUE(status.ok()) << status.message();
  return index;
}

// Every hash that was added must be found at its own positions, and nothing else.
void CheckDense(const Hashes& hashes, const EctIndex& index) {
  ASSERT_EQ(hashes.size(), index.keys());
  ASSERT_FALSE(index.sparse());
  for (size_t begin = 0, end; begin < hashes.size(); begin = end) {
    for (end = begin + 1; end < hashes.size() && hashes[end] == hashes[begin];) ++end;
    const EctMatch match = index.Lookup(hashes[begin]);
    ASSERT_EQ(begin, match.rank) << "hash " << hashes[begin];
    ASSERT_EQ(end - begin, match.count) << "hash " << hashes[begin];
  }
}

// What members and strangers get from a sparse index must agree with the dense one.
void CheckSparse(const Hashes& hashes, const EctIndex& dense, const EctIndex& sparse, uint64_t seed) {
  ASSERT_EQ(dense.keys(), sparse.keys());
  std::mt19937_64 random(seed);
  Hashes questions = hashes;
  for (int i = 0; i < 2000; ++i) {
    questions.push_back(random());
    if (!hashes.empty()) questions.push_back(hashes[random() % hashes.size()] ^ (uint64_t{1} << random() % 64));
  }
  for (uint64_t hash : questions) {
    const EctMatch one = dense.Lookup(hash), block = sparse.Lookup(hash);
    ASSERT_EQ(one.count == 0, block.count == 0) << "hash " << hash;
    if (one.count == 0) continue;
    ASSERT_LE(block.rank, one.rank) << "hash " << hash;
    ASSERT_GE(block.rank + block.count, one.rank + one.count) << "hash " << hash;
    // Only equal hashes may make a lookup read more than one block.
    if (one.count == 1) {
      ASSERT_EQ(sparse.BlockOf(one.rank), sparse.BlockOf(block.rank)) << "hash " << hash;
      ASSERT_EQ(sparse.BlockOf(one.rank), sparse.BlockOf(block.rank + block.count - 1)) << "hash " << hash;
    }
  }
}

TEST(Ect, FindsEveryKeyOfAwkwardInputs) {
  for (const auto& [name, hashes] : AwkwardInputs(Seed())) {
    SCOPED_TRACE(name);
    for (uint32_t hmax : {2u, 5u, 64u, 120u}) {
      for (uint32_t skip_leaves : {3u, 20u, 160u, 1000000u}) {
        EctOptions options;
        options.hmax = hmax;
        options.skip_leaves = skip_leaves;
        const std::string bytes = Build(hashes, options);
        CheckDense(hashes, OpenGood(bytes));
        if (HasFatalFailure()) FAIL() << "hmax " << hmax << ", skip_leaves " << skip_leaves;
      }
    }
  }
}

TEST(Ect, FindsEveryKeyOfUniformInputs) {
  std::mt19937_64 random(Seed());
  for (size_t n : {1, 2, 3, 16, 255, 256, 257, 1000, 8191, 8192, 8193, 100000}) {
    const Hashes hashes = Uniform(n, random());
    for (uint32_t group : {16u, 64u, 256u, 1000u}) {
      EctOptions options;
      options.group = group;
      options.hmax = 2 + random() % 119;
      options.skip_leaves = 3 + random() % 300;
      const std::string bytes = Build(hashes, options);
      CheckDense(hashes, OpenGood(bytes));
      if (HasFatalFailure()) FAIL() << n << " keys, group " << group << ", hmax " << options.hmax;
    }
  }
}

TEST(Ect, DenseAndSparseAgree) {
  auto inputs = AwkwardInputs(Seed());
  inputs.push_back({"uniform", Uniform(50000, Seed())});
  for (const auto& [name, hashes] : inputs) {
    SCOPED_TRACE(name);
    const std::string dense = Build(hashes, EctOptions());
    for (uint32_t items : {2u, 3u, 7u, 16u, 100u, 1000u, 100000u}) {
      for (uint32_t skip_leaves : {5u, 160u}) {
        EctOptions options;
        options.block_items = items;
        options.skip_leaves = skip_leaves;
        const std::string sparse = Build(hashes, options);
        CheckSparse(hashes, OpenGood(dense), OpenGood(sparse), Seed());
        if (HasFatalFailure()) FAIL() << items << " items a block, skip_leaves " << skip_leaves;
        EXPECT_EQ((hashes.size() + items - 1) / items, hashes.empty() ? 0 : OpenGood(sparse).blocks());
      }
    }
  }
}

TEST(Ect, BlocksOfVariableSize) {
  std::mt19937_64 random(Seed());
  auto inputs = AwkwardInputs(random());
  inputs.push_back({"uniform", Uniform(50000, random())});
  for (const auto& [name, hashes] : inputs) {
    SCOPED_TRACE(name);
    if (hashes.empty()) continue;
    for (uint64_t mean : {1, 4, 30, 3000}) {
      std::vector<uint64_t> starts = {0};
      for (;;) {
        const uint64_t next = starts.back() + 1 + random() % (2 * mean - 1);
        if (next >= hashes.size()) break;
        starts.push_back(next);
      }
      EctOptions options;
      const std::string dense = Build(hashes, options, starts);
      const EctIndex dense_index = OpenGood(dense);
      CheckDense(hashes, dense_index);
      options.prune_at_started_blocks = true;
      options.skip_leaves = 3 + random() % 200;
      const std::string sparse = Build(hashes, options, starts);
      const EctIndex index = OpenGood(sparse);
      EXPECT_EQ(starts.size(), index.blocks());
      for (size_t block = 0; block < starts.size(); ++block) {
        const uint64_t end = block + 1 < starts.size() ? starts[block + 1] : hashes.size();
        for (uint64_t rank : {starts[block], (starts[block] + end) / 2, end - 1}) {
          ASSERT_EQ(block, index.BlockOf(rank));
          ASSERT_EQ(block, dense_index.BlockOf(rank));
        }
      }
      CheckSparse(hashes, dense_index, index, random());
      if (HasFatalFailure()) FAIL() << "mean " << mean;
    }
  }
}

TEST(Ect, StrangersGetPositionsWithinTheIndex) {
  std::mt19937_64 random(Seed());
  const Hashes hashes = Uniform(10000, random());
  const std::string bytes = Build(hashes, EctOptions());
  const EctIndex index = OpenGood(bytes);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t hash = random();
    const EctMatch match = index.Lookup(hash);
    ASSERT_LE(match.count, 1u);
    ASSERT_LE(match.rank + match.count, hashes.size());
    const EctMatch bucket = index.Bucket(hash);
    const uint64_t position = std::lower_bound(hashes.begin(), hashes.end(), hash) - hashes.begin();
    ASSERT_LE(bucket.rank, position);
    ASSERT_GE(bucket.rank + bucket.count, position);
    if (match.count == 1) {
      ASSERT_GE(match.rank, bucket.rank);
      ASSERT_LT(match.rank, bucket.rank + bucket.count);
    }
  }
  EXPECT_EQ(0u, index.Lookup(hashes.front() - 1).count);
  EXPECT_EQ(0u, index.Lookup(hashes.back() + 1).count);
  EXPECT_EQ(hashes.size(), index.Bucket(UINT64_MAX).rank);
  EXPECT_EQ(0u, index.Bucket(0).rank + index.Bucket(0).count);
}

TEST(Ect, BatchesAnswerLikeLookups) {
  std::mt19937_64 random(Seed());
  for (uint32_t items : {0u, 16u}) {
    const Hashes hashes = Uniform(20000, random());
    EctOptions options;
    options.block_items = items;
    const std::string bytes = Build(hashes, options);
    const EctIndex index = OpenGood(bytes);
    for (size_t n : {0, 1, 15, 16, 17, 1000}) {
      Hashes questions;
      for (size_t i = 0; i < n; ++i) questions.push_back(i % 2 == 0 ? hashes[random() % hashes.size()] : random());
      std::vector<EctMatch> matches(n);
      index.LookupBatch(questions.data(), n, matches.data());
      for (size_t i = 0; i < n; ++i) {
        const EctMatch match = index.Lookup(questions[i]);
        ASSERT_EQ(match.rank, matches[i].rank);
        ASSERT_EQ(match.count, matches[i].count);
      }
    }
  }
}

TEST(Ect, StreamingBuildsTheSameIndex) {
  const Hashes hashes = Uniform(300000, Seed());
  EctOptions options;
  const std::string kept = Build(hashes, options);
  options.expected_keys = hashes.size();
  options.first_hash = hashes.front();
  options.last_hash = hashes.back();
  EXPECT_TRUE(kept == Build(hashes, options));
  for (uint64_t wrong : {uint64_t{1}, uint64_t{10000}, uint64_t{3000000}}) {
    options.expected_keys = wrong;
    options.first_hash = 0;
    options.last_hash = UINT64_MAX;
    const std::string bytes = Build(hashes, options);
    CheckDense(hashes, OpenGood(bytes));
  }
}

TEST(Ect, PartOfTheHashSpaceCostsNoMore) {
  Hashes part = Uniform(100000, Seed());
  const double whole = OpenGood(Build(part, EctOptions())).BitsPerKey();
  for (uint64_t& hash : part) hash = (uint64_t{0xabcdef} << 40) + (hash >> 24);
  const double narrow = OpenGood(Build(part, EctOptions())).BitsPerKey();
  EXPECT_NEAR(whole, narrow, 0.02);
}

TEST(Ect, KeepsWithinItsBits) {
  const Hashes hashes = Uniform(1000000, Seed());
  EctOptions options;
  EXPECT_LE(OpenGood(Build(hashes, options)).BitsPerKey(), 2.5);
  options.block_items = 16;
  EXPECT_LE(OpenGood(Build(hashes, options)).BitsPerKey(), 1.0);
}

TEST(Ect, RefusesWrongArguments) {
  const auto error = [](const EctOptions& options, const Hashes& hashes) {
    EctBuilder builder(options);
    for (uint64_t hash : hashes) builder.Add(hash);
    std::string bytes = "kept";
    const IndexStatus status = builder.Finish(&bytes);
    EXPECT_EQ(IndexStatus::Code::kInvalidArgument, status.code());
    EXPECT_EQ("kept", bytes);
    return status.message();
  };
  EctOptions options;
  EXPECT_NE(std::string::npos, error(options, {2, 1}).find("position 1"));
  options.group = 15;
  EXPECT_NE(std::string::npos, error(options, {}).find("group 15"));
  options = EctOptions();
  options.hmax = 121;
  EXPECT_NE(std::string::npos, error(options, {}).find("hmax 121"));
  options = EctOptions();
  options.block_items = 1;
  EXPECT_NE(std::string::npos, error(options, {}).find("block_items 1"));
  options = EctOptions();
  options.skip_leaves = 2;
  EXPECT_NE(std::string::npos, error(options, {}).find("skip_leaves 2"));
  options = EctOptions();
  options.prune_at_started_blocks = true;
  EXPECT_NE(std::string::npos, error(options, {1}).find("no block"));
  options = EctOptions();
  options.expected_keys = 10;
  options.first_hash = 5;
  options.last_hash = 9;
  EXPECT_NE(std::string::npos, error(options, {5, 9, 10}).find("position 2"));

  EctBuilder late{EctOptions()};
  late.Add(1);
  late.StartBlock();
  late.Add(2);
  std::string bytes;
  EXPECT_FALSE(late.Finish(&bytes).ok());
  EctBuilder twice{EctOptions()};
  EXPECT_TRUE(twice.Finish(&bytes).ok());
  EXPECT_FALSE(twice.Finish(&bytes).ok());
}

// Small indexes that together use every part of the format.
std::vector<std::pair<std::string, std::string>> Specimens() {
  std::vector<std::pair<std::string, std::string>> specimens;
  EctOptions options;
  specimens.push_back({"empty", Build({}, options)});
  specimens.push_back({"dense", Build(Uniform(600, 1), options)});
  options.hmax = 8;
  options.skip_leaves = 30;
  options.group = 64;
  specimens.push_back({"hmax8", Build(Uniform(600, 2), options)});
  options = EctOptions();
  options.block_items = 16;
  specimens.push_back({"sparse16", Build(Uniform(1500, 3), options)});
  std::vector<uint64_t> starts = {0};
  uint64_t seed = 4;
  while (starts.back() < 1100) starts.push_back(starts.back() + 1 + NextSplitMix64(&seed) % 30);
  options = EctOptions();
  options.prune_at_started_blocks = true;
  specimens.push_back({"started", Build(Uniform(1200, 5), options, starts)});
  Hashes duplicates = Uniform(300, 6);
  duplicates.insert(duplicates.end(), 70, duplicates[100]);
  duplicates.push_back(duplicates[200]);
  std::sort(duplicates.begin(), duplicates.end());
  specimens.push_back({"duplicates", Build(duplicates, EctOptions())});
  return specimens;
}

// After a wanted change, with a new version number: CAIRN_UPDATE_GOLDEN=1 table/ect/ect_test.
TEST(Ect, GoldenFiles) {
  for (const auto& [name, bytes] : Specimens()) ExpectGolden("ect_" + name, bytes, "table/ect");
  // One that has all buckets, nodes and codes of a large index.
  const std::string large = Build(Uniform(200000, 7), EctOptions());
  EXPECT_EQ(1084696306u, Crc32c(large.data(), large.size() - 4));
}

// An index in a heap block of exactly its size, so that a sanitizer sees every read outside.
void AskEverything(const std::string& bytes, EctVerify verify) {
  std::unique_ptr<char[]> exact(new char[bytes.size()]);
  memcpy(exact.get(), bytes.data(), bytes.size());
  EctIndex index;
  if (!EctIndex::Open(exact.get(), bytes.size(), verify, &index).ok()) {
    EXPECT_EQ(0u, index.keys());
    return;
  }
  uint64_t seed = 99;
  for (int i = 0; i < 300; ++i) {
    const EctMatch match = index.Lookup(NextSplitMix64(&seed));
    ASSERT_LE(match.rank, index.keys());
    ASSERT_LE(match.count, index.keys() - match.rank);
    if (match.count > 0) {
      ASSERT_LT(index.BlockOf(match.rank), std::max<uint64_t>(index.blocks(), 1));
    }
  }
}

TEST(Ect, EveryDamagedByteIsFoundOrHarmless) {
  for (const auto& [name, bytes] : Specimens()) {
    SCOPED_TRACE(name);
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (uint8_t flip : {0x01, 0x80, 0xff}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        EctIndex index;
        const IndexStatus status = EctIndex::Open(damaged.data(), damaged.size(), EctVerify::kChecksum, &index);
        ASSERT_FALSE(status.ok()) << "byte " << at;
        ASSERT_FALSE(status.message().empty());
        AskEverything(damaged, EctVerify::kStructure);
        // As a malicious writer would: with the right checksum.
        const uint32_t crc = Crc32c(damaged.data(), damaged.size() - 4);
        memcpy(&damaged[damaged.size() - 4], &crc, 4);
        AskEverything(damaged, EctVerify::kChecksum);
        if (HasFatalFailure()) FAIL() << "byte " << at << " flipped by " << int{flip};
      }
    }
  }
}

TEST(Ect, RandomTriesAreHarmless) {
  std::mt19937_64 random(Seed());
  for (const auto& [name, bytes] : Specimens()) {
    for (int round = 0; round < 500; ++round) {
      std::string damaged = bytes;
      const size_t begin = EctHeader::kBytes + random() % (bytes.size() - EctHeader::kBytes);
      const size_t end = begin + random() % (bytes.size() - begin);
      for (size_t i = begin; i < end; ++i) damaged[i] = round % 3 == 0 ? 0 : static_cast<char>(random());
      AskEverything(damaged, EctVerify::kStructure);
      if (HasFatalFailure()) FAIL() << name << " round " << round;
    }
  }
}

// A trie whose codes go on behind its end, in what fills the index up: a lookup must give up there before it reads a
// code that is longer than what is left.
TEST(Ect, ReadsNoCodeThatBeginsBehindTheTries) {
  EctHeader header;
  header.keys = 5;
  header.last_hash = UINT64_MAX;
  header.multiplier = 1;  // one bucket, whose suffixes are the hashes
  header.buckets = 1;
  header.hmax = EctCodes::kMinHmax;  // codes of any length
  header.skip_leaves = 64;
  header.rank_bits = 3;
  header.bit_bits = 2;
  header.directory_bytes = header.RecordBytes();
  BitWriter entries, tries;
  entries.Put(0, header.rank_bits + header.bit_bits);
  entries.Put(header.keys, header.rank_bits);
  entries.Put(3, header.bit_bits);
  EctCodes::Get(header.hmax)->Encode(5, 3, &tries);
  header.trie_bits = tries.size();
  ASSERT_EQ(3u, header.trie_bits);
  for (int i = 0; i < 12; ++i) EctCodes::Get(header.hmax)->Encode(3, 0, &tries);
  tries.Put(0, 48);
  tries.Put(1, 1);
  std::string bytes, directory(EctHeader::kRecordBaseBytes, '\0'), coded;
  header.EncodeTo(&bytes);
  entries.AppendBytes(&directory);
  directory.resize(header.directory_bytes);
  tries.AppendBytes(&coded);
  coded.resize(header.TrieBytes());
  bytes += directory + coded;
  PutU32(&bytes, Crc32c(bytes.data(), bytes.size()));
  const test::BytesAtTheEnd damaged(bytes);
  ASSERT_NE(nullptr, damaged.data());
  EctIndex index;
  ASSERT_TRUE(EctIndex::Open(damaged.data(), bytes.size(), EctVerify::kChecksum, &index).ok());
  const EctMatch match = index.Lookup(uint64_t{1} << 63);
  EXPECT_EQ(0u, match.rank);
  EXPECT_EQ(5u, match.count);
}

TEST(Ect, EveryTruncationIsRefused) {
  for (const auto& [name, bytes] : Specimens()) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      std::unique_ptr<char[]> exact(new char[size]);
      memcpy(exact.get(), bytes.data(), size);
      EctIndex index;
      ASSERT_FALSE(EctIndex::Open(exact.get(), size, EctVerify::kStructure, &index).ok()) << name << " " << size;
    }
    EctIndex index;
    const std::string longer = bytes + '\0';
    ASSERT_FALSE(EctIndex::Open(longer.data(), longer.size(), EctVerify::kStructure, &index).ok());
  }
}

TEST(Ect, NewerVersionsAreNotSupported) {
  std::string bytes = Build({1, 2, 3}, EctOptions());
  bytes[8] = 2;
  EctIndex index;
  const IndexStatus s = EctIndex::Open(bytes.data(), bytes.size(), EctVerify::kChecksum, &index);
  EXPECT_EQ(IndexStatus::Code::kNotSupported, s.code());
  EXPECT_EQ(0u, s.message().find("ECT index of " + UnknownVersion(2, 1)));
}

// Such a property is damaged, or of a table with a key at either end.
TEST(EctFractions, HoldForAllHashesThatThereAre) {
  EXPECT_EQ(0u, EctFraction(0, 0, UINT64_MAX));
  EXPECT_EQ(0u, EctFraction(1, 0, UINT64_MAX));
  EXPECT_EQ(uint32_t{1} << 31, EctFraction(uint64_t{1} << 63, 0, UINT64_MAX));
  EXPECT_EQ(UINT32_MAX, EctFraction(UINT64_MAX - 1, 0, UINT64_MAX));
  EXPECT_EQ(UINT32_MAX, EctFraction(UINT64_MAX, 0, UINT64_MAX));
  EXPECT_EQ(uint32_t{1} << 31, EctFraction(5, 0, 9));
}

TEST(EctCodes, AreCompleteAndDecodeWhatTheyEncode) {
  for (uint32_t hmax : {2u, 3u, 31u, 64u, 120u}) {
    const EctCodes* codes = EctCodes::Get(hmax);
    for (uint64_t n = 3; n <= 300; ++n) {
      double kraft = 0;
      for (uint64_t left = 0; left < n; ++left) {
        BitWriter writer;
        codes->Encode(n, left, &writer);
        ASSERT_GT(writer.size(), 0u);
        kraft += std::pow(0.5, static_cast<double>(writer.size()));
        const uint64_t size = writer.size();
        writer.Put(0x2aaaaaaaaaaaaa, 57);
        std::string bytes;
        writer.AppendBytes(&bytes);
        bytes.append(32, '\0');
        uint64_t at = 0;
        ASSERT_EQ(left, codes->Decode(reinterpret_cast<const uint8_t*>(bytes.data()), n, &at)) << n;
        ASSERT_EQ(size, at) << n;
        if (n <= hmax) {
          ASSERT_LE(size, EctCodes::kMaxHuffmanBits);
        }
      }
      if (n <= hmax) {
        EXPECT_EQ(1.0, kraft) << n;
      }
      EXPECT_LE(kraft, 1.0) << n;
    }
  }
}

TEST(EctCodes, GammaTakesLargeValues) {
  for (uint64_t z : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 20, (uint64_t{1} << 41) - 1}) {
    for (unsigned k : {0u, 1u, 19u}) {
      BitWriter writer;
      writer.Put(1, 3);
      EctCodes::EncodeGamma(z, k, &writer);
      std::string bytes;
      writer.AppendBytes(&bytes);
      bytes.append(32, '\0');
      uint64_t at = 3;
      EXPECT_EQ(z, EctCodes::DecodeGamma(reinterpret_cast<const uint8_t*>(bytes.data()), k, &at));
      EXPECT_EQ(writer.size(), at);
    }
  }
  const uint8_t zeros[32] = {};
  uint64_t at = 0;
  EXPECT_EQ(UINT64_MAX, EctCodes::DecodeGamma(zeros, 0, &at));
}

// The sums of damage stay modulo 2^64, which undefined-behaviour sanitizers see.
TEST(EctCodes, DamagedCodesAreNoNumbersOfLeaves) {
  for (unsigned n_bits : {33u, 36u, 39u, 40u}) {
    for (uint64_t last = 0; last < 2; ++last) {
      BitWriter writer;
      writer.Put(0, 48);
      writer.Put(1, 1);
      writer.Put(LowMask(48), 48);
      writer.Put(LowMask(24) - 1 + last, 24);
      std::string bytes;
      writer.AppendBytes(&bytes);
      bytes.append(32, '\0');
      uint64_t at = 0;
      const uint64_t n = uint64_t{1} << n_bits;
      ASSERT_LE(n, EctCodes::Get(2)->Decode(reinterpret_cast<const uint8_t*>(bytes.data()), n, &at)) << n_bits;
    }
  }
}

TEST(Checksum, IsThatOfThePage) {
  EXPECT_EQ(0xe3069283u, Crc32c("123456789", 9));
  EXPECT_EQ(0xe3069283u, Crc32c("6789", 4, Crc32c("12345", 5)));
}

}  // namespace
}  // namespace cairn
