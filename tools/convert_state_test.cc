#include "tools/convert_state.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "rocksdb/env.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/golden_file.h"
#include "util/hash.h"

namespace cairn {
namespace {

ConvertState Sample() {
  ConvertState state;
  state.source = "/some where/db";
  state.source_id = "an-id";
  state.source_sequence = 18446744073709551615u;
  state.engine = "trie_sst";
  state.engine_options = {"fan_out=8;slots=4", ""};
  state.step = ConvertStep::kVerify;
  state.families.resize(2);
  state.families[0].name = "default";
  state.families[0].copied = {true, 12, 0, std::string("\0key\n ", 6)};
  state.families[0].compared = {false, 7, 1234567890123456789u, "k"};
  state.families[1].name = "a family\nwith a name";
  state.families[1].converted = false;
  return state;
}

TEST(ConvertState, RoundTrip) {
  const std::string text = EncodeConvertState(Sample());
  ConvertState state;
  ASSERT_TRUE(DecodeConvertState(text, &state).ok());
  EXPECT_EQ(text, EncodeConvertState(state));
  EXPECT_EQ("/some where/db", state.source);
  EXPECT_EQ((std::vector<std::string>{"fan_out=8;slots=4", ""}), state.engine_options);
  ASSERT_EQ(2u, state.families.size());
  EXPECT_TRUE(state.families[0].copied.finished);
  EXPECT_EQ(std::string("\0key\n ", 6), state.families[0].copied.key);
  EXPECT_EQ(1234567890123456789u, state.families[0].compared.fingerprint);
  EXPECT_FALSE(state.families[1].converted);
  EXPECT_EQ("a family\nwith a name", state.families[1].name);
}

// After a wanted change, with a new version number: CAIRN_UPDATE_GOLDEN=1 build/test/convert_state_test.
TEST(ConvertState, GoldenFile) { ExpectGolden("convert_state", EncodeConvertState(Sample()), "tools"); }

TEST(ConvertState, ALaterVersionIsRefused) {
  std::string text = EncodeConvertState(Sample());
  const std::string version = "\"cairn_convert\": 2";
  text.replace(text.find(version), version.size(), "\"cairn_convert\": 3");
  const size_t mark = text.rfind("checksum ");
  char sum[20];
  snprintf(sum, sizeof(sum), "%016llx", static_cast<unsigned long long>(rocksdb::Hash64(text.data(), mark)));
  text = text.substr(0, mark) + "checksum " + sum + "\n";
  const std::unique_ptr<rocksdb::Env> env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  ASSERT_TRUE(ReplaceFile(env.get(), "/d", kConvertStateFile, text).ok());
  ConvertState state;
  const rocksdb::Status s = LoadConvertState(env.get(), "/d", &state);
  EXPECT_TRUE(s.IsNotSupported());
  EXPECT_CONTAINS(s.ToString(), std::string("/d/") + kConvertStateFile);
  EXPECT_CONTAINS(s.ToString(), "format version 3; Cairn ");
}

TEST(ConvertState, AnyNameRoundTrips) {
  for (int first = 0; first < 256; first++) {
    for (const char* rest : {"", "-", "%", "%2", " x"}) {
      ConvertState state;
      state.source = static_cast<char>(first) + std::string(rest);
      ConvertState decoded;
      ASSERT_TRUE(DecodeConvertState(EncodeConvertState(state), &decoded).ok()) << first << rest;
      EXPECT_EQ(state.source, decoded.source);
    }
  }
}

TEST(ConvertState, EveryTruncationAndEveryFlippedBitIsNoticed) {
  const std::string text = EncodeConvertState(Sample());
  ConvertState state;
  for (size_t size = 0; size < text.size(); size++) {
    EXPECT_TRUE(DecodeConvertState(text.substr(0, size), &state).IsCorruption()) << size;
  }
  for (size_t i = 0; i < text.size(); i++) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_TRUE(DecodeConvertState(damaged, &state).IsCorruption()) << i;
  }
}

TEST(ConvertState, ReplacesItsFileAndSaysWhenThereIsNone) {
  std::unique_ptr<rocksdb::Env> env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  ASSERT_TRUE(env->CreateDir("/d").ok());
  ConvertState state;
  EXPECT_TRUE(LoadConvertState(env.get(), "/d", &state).IsNotFound());
  ASSERT_TRUE(SaveConvertState(env.get(), "/d", Sample()).ok());
  ConvertState later = Sample();
  later.step = ConvertStep::kWhole;
  ASSERT_TRUE(SaveConvertState(env.get(), "/d", later).ok());
  ASSERT_TRUE(LoadConvertState(env.get(), "/d", &state).ok());
  EXPECT_EQ(ConvertStep::kWhole, state.step);
  EXPECT_TRUE(env->FileExists("/d/CAIRN_CONVERT.tmp").IsNotFound());
}

}  // namespace
}  // namespace cairn
