#include "table/ordered/order_filter.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "test/testutil/golden_file.h"
#include "test/testutil/test_keys.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

using Random = std::mt19937_64;
using Keys = std::set<std::string>;

std::string Word(Random* random, size_t longest) {
  static const char* const kSyllables[] = {"lib",  "py", "thon3", "-dev", "doc", "gtk", "perl", "data", "x",
                                           "java", "0",  "qt5",   "a",    "sys", "net", "-",    "ruby"};
  std::string word;
  const size_t syllables = 1 + (*random)() % longest;
  for (size_t i = 0; i < syllables; ++i) {
    const size_t n = sizeof(kSyllables) / sizeof(kSyllables[0]);
    word += kSyllables[std::min((*random)() % n, (*random)() % n)];
  }
  return word;
}

// One way to make keys. A key is drawn as the targets are.
struct KeySet {
  const char* name;
  std::function<std::string(Random*)> draw;
  // Of targets that are drawn as the keys: share of those that are absent and cannot be told from a key at 6 bits.
  double most_unknown;
};

const std::vector<KeySet>& KeySets() {
  static const std::vector<KeySet> sets = {
      {"uniform", [](Random* r) { return BigEndian((*r)()); }, 0.10},
      {"bench", [](Random* r) { return BigEndian((*r)() % 1000000) + "00000000"; }, 0.10},
      {"time", [](Random* r) { return BigEndian(1700000000000 + (*r)() % 100000000) + BigEndian((*r)(), 2); }, 0.10},
      {"decimal", [](Random* r) { return "user" + Decimal((*r)() % 10000000, 12); }, 0.14},
      {"hex",
       [](Random* r) {
         char text[40];
         snprintf(text, sizeof(text), "%08llx-%08llx", (*r)() & 0xffffffffull, (*r)() & 0xffffffffull);
         return std::string(text);
       },
       0.14},
      {"composite",
       [](Random* r) {
         return "tenant" + Decimal((*r)() % 100, 4) + ":table" + Decimal((*r)() % 8, 2) + ":" +
                Decimal((*r)() % 10000, 10);
       },
       0.12},
      {"binary_composite",
       [](Random* r) { return BigEndian((*r)() % 50, 4) + BigEndian((*r)() % 4, 2) + BigEndian((*r)() % 20000, 8); },
       0.12},
      {"windows", [](Random* r) { return "sensor" + Decimal((*r)() % 500, 6) + BigEndian((*r)() % 3600000); }, 0.12},
      {"paths", [](Random* r) { return "/usr/share/doc/" + Word(r, 4) + "/" + Word(r, 2) + "/" + Word(r, 3) + ".gz"; },
       0.25},
      {"urls",
       [](Random* r) {
         return "https://www." + Word(r, 2) + ".org/" + Word(r, 3) + "/" + Decimal((*r)() % 100000, 1) +
                "?id=" + Word(r, 2);
       },
       0.2},
      {"long_prefix", [](Random* r) { return std::string(1024, 'p') + BigEndian((*r)(), 4); }, 0.10},
      {"two_prefixes", [](Random* r) { return std::string(1024, (*r)() % 2 == 0 ? 'p' : 'q') + BigEndian((*r)(), 4); },
       0.10},
      {"pairs",
       [](Random* r) {
         Random pair((*r)() % 3000);
         std::string key;
         for (int i = 0; i < 100; ++i) key.push_back(static_cast<char>(pair()));
         return key + BigEndian((*r)(), 2);
       },
       1},
      {"few_dense",
       [](Random* r) { return (*r)() % 2 == 0 ? BigEndian((*r)()) : "dense" + BigEndian((*r)() % 20000, 3); }, 0.15},
      {"short", [](Random* r) { return std::string(BigEndian((*r)()).substr(0, (*r)() % 4)); }, 1},
      {"zeros",
       [](Random* r) {
         std::string key(1 + (*r)() % 20, '\0');
         key[(*r)() % key.size()] = static_cast<char>((*r)() % 3);
         return key;
       },
       1},
  };
  return sets;
}

Keys Draw(const KeySet& set, size_t count, Random* random) {
  Keys keys;
  for (size_t i = 0; i < count; ++i) keys.insert(set.draw(random));
  return keys;
}

std::string Build(const Keys& keys, double bits) {
  OrderFilterBuilder builder(bits);
  for (const std::string& key : keys) {
    builder.Add(key.data(), key.size());
    builder.Add(key.data(), key.size());
  }
  EXPECT_EQ(keys.size(), builder.keys());
  EXPECT_GT(builder.memory(), 0u);
  return builder.Finish();
}

void PrintTo(const KeySet& set, std::ostream* out) { *out << set.name; }

// A target near the keys: one of them, changed a little, or another one of their kind.
std::string Target(const KeySet& set, const std::vector<std::string>& keys, Random* random) {
  const uint64_t kind = (*random)() % 8;
  if (kind < 4) return set.draw(random);
  std::string target = keys[(*random)() % keys.size()];
  if (kind == 5 && !target.empty()) target.back() = static_cast<char>((*random)());
  if (kind == 6) target += static_cast<char>((*random)() % 3);
  if (kind == 7) target.resize((*random)() % (target.size() + 1));
  return target;
}

// Fails unless the answer is right.
OrderAnswer CheckBefore(const OrderFilter& filter, const Keys& keys, const std::string& target) {
  std::string bound = "unset";
  const OrderAnswer answer = filter.FindBefore(target.data(), target.size(), &bound);
  auto behind = keys.upper_bound(target);
  if (answer == OrderAnswer::kNone) {
    EXPECT_EQ(keys.begin(), behind) << ::testing::PrintToString(target);
  } else if (answer == OrderAnswer::kBound) {
    EXPECT_LE(bound, target);
    if (behind != keys.begin()) {
      EXPECT_LT(*--behind, bound) << ::testing::PrintToString(target);
    }
  }
  return answer;
}

// Fails unless the answers are right; says whether the filter could tell what is behind.
OrderAnswer Check(const OrderFilter& filter, const Keys& keys, size_t least, const std::string& target) {
  std::string bound = "unset";
  const OrderAnswer answer = filter.Find(target.data(), target.size(), &bound);
  const auto next = keys.lower_bound(target);
  if (answer != OrderAnswer::kHere || target.back() != '\0') {
    EXPECT_EQ(answer == OrderAnswer::kHere, filter.MayContain(target.data(), target.size()));
  }
  if (answer == OrderAnswer::kNone) {
    EXPECT_EQ(keys.end(), next) << ::testing::PrintToString(target);
  } else if (answer == OrderAnswer::kBound) {
    EXPECT_LT(target, bound);
    EXPECT_GE(bound.size(), std::min<size_t>(least, 255));
    // Where the table ends a bound is not asked for, but is not wrong.
    if (next != keys.end()) {
      EXPECT_LE(bound, *next) << ::testing::PrintToString(target);
    }
  }
  CheckBefore(filter, keys, target);
  return answer;
}

class OrderFilterTest : public ::testing::TestWithParam<KeySet> {};

TEST_P(OrderFilterTest, NeverAboveTheNextKey) {
  Random random(Seed());
  const char* const more = getenv("CAIRN_ORDER_TARGETS");  // 10^8 in all, say: a long test
  const size_t targets = more != nullptr ? strtoull(more, nullptr, 0) / KeySets().size() : 64000;
  size_t tables = 0;
  for (size_t done = 0; done < targets; ++tables) {
    static const size_t kSizes[] = {1, 2, 3, 17, 200, 5000, 30000};
    static const double kBits[] = {6, 2.5, 4, 9, 20};
    const Keys keys = Draw(GetParam(), kSizes[tables % 7], &random);
    const std::vector<std::string> list(keys.begin(), keys.end());
    size_t least = SIZE_MAX;
    for (const std::string& key : list) least = std::min(least, key.size());
    const std::string bytes = Build(keys, kBits[tables % 5]);
    if (bytes.empty()) continue;
    OrderFilter filter;
    ASSERT_EQ(nullptr, filter.Open(bytes.data(), bytes.size()));
    EXPECT_EQ(keys.size(), filter.keys());
    for (const std::string& key : list) {
      // Nothing is known of whether the key itself is there: the table has to be asked.
      ASSERT_EQ(OrderAnswer::kHere, Check(filter, keys, least, key)) << ::testing::PrintToString(key);
      if (++done % 4 == 3) break;
    }
    for (size_t i = 0; i < 6000; ++i, ++done) {
      Check(filter, keys, least, Target(GetParam(), list, &random));
      if (HasFailure()) FAIL() << "with " << keys.size() << " keys";
    }
  }
}

// DBIter seeks a bound that many tables show. A bound of that and so on must come to a key: while each was one byte
// longer than the one before, a scan did not end.
TEST_P(OrderFilterTest, BoundsOfBoundsEnd) {
  Random random(Seed());
  for (const size_t size : {3, 20, 200, 5000}) {
    for (const double bits : {2.5, 6.0, 20.0}) {
      const Keys keys = Draw(GetParam(), size, &random);
      const std::vector<std::string> list(keys.begin(), keys.end());
      const std::string bytes = Build(keys, bits);
      if (bytes.empty()) continue;
      OrderFilter filter;
      ASSERT_EQ(nullptr, filter.Open(bytes.data(), bytes.size()));
      for (int i = 0; i < 2000; ++i) {
        std::string target = Target(GetParam(), list, &random), bound;
        const std::string first = target;
        for (int bounds = 1; filter.Find(target.data(), target.size(), &bound) == OrderAnswer::kBound; ++bounds) {
          ASSERT_LE(bounds, 2000) << ::testing::PrintToString(first) << " with " << size << " keys";
          target = bound;
        }
      }
    }
  }
}

TEST_P(OrderFilterTest, KnowsMost) {
  Random random(Seed());
  const Keys keys = Draw(GetParam(), 50000, &random);
  const std::string bytes = Build(keys, 6);
  ASSERT_FALSE(bytes.empty());
  OrderFilter filter;
  ASSERT_EQ(nullptr, filter.Open(bytes.data(), bytes.size()));
  size_t absent = 0, unknown = 0, unknown_before = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string target = GetParam().draw(&random);
    if (keys.count(target) != 0) continue;
    ++absent;
    std::string bound;
    if (filter.Find(target.data(), target.size(), &bound) == OrderAnswer::kHere) ++unknown;
    if (filter.FindBefore(target.data(), target.size(), &bound) == OrderAnswer::kHere) ++unknown_before;
  }
  const double share = absent == 0 ? 0 : static_cast<double>(unknown) / static_cast<double>(absent);
  printf("%s: %zu keys, %.2f bits per key, %zu groups, unknown %.4f of %zu, before %zu\n", GetParam().name, keys.size(),
         static_cast<double>(bytes.size()) * 8 / static_cast<double>(keys.size()), filter.groups(), share, absent,
         unknown_before);
  EXPECT_LE(share, GetParam().most_unknown);
  // A key's kept bits tell as much of what is behind it as of what is before.
  EXPECT_LE(unknown_before, 2 * unknown + absent / 50);
}

TEST_P(OrderFilterTest, AnyBytesAreReadWithinBounds) {
  Random random(Seed());
  const Keys keys = Draw(GetParam(), 3000, &random);
  const std::vector<std::string> list(keys.begin(), keys.end());
  const std::string bytes = Build(keys, 5);
  ASSERT_FALSE(bytes.empty());
  for (size_t round = 0; round < 300; ++round) {
    std::string broken = bytes;
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      const size_t at = random() % 4 == 0 ? random() % 200 : random();
      broken[at % broken.size()] = static_cast<char>(random());
    }
    if (round % 3 == 0) broken.resize(random() % (broken.size() + 1));
    // An allocation of its own, so that a sanitizer sees what is read beyond it.
    const std::vector<char> copy(broken.begin(), broken.end());
    OrderFilter filter;
    if (filter.Open(copy.data(), copy.size()) != nullptr) continue;
    for (int i = 0; i < 50; ++i) {
      const std::string target = Target(GetParam(), list, &random);
      std::string bound;
      filter.Find(target.data(), target.size(), &bound);
      filter.FindBefore(target.data(), target.size(), &bound);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(KeySets, OrderFilterTest, ::testing::ValuesIn(KeySets()),
                         [](const ::testing::TestParamInfo<KeySet>& set) { return std::string(set.param.name); });

TEST(OrderFilter, EveryTruncationIsRefused) {
  Random random(Seed());
  const std::string bytes = Build(Draw(KeySets()[0], 100, &random), 6);
  for (size_t size = 0; size < bytes.size(); ++size) {
    OrderFilter filter;
    EXPECT_NE(nullptr, filter.Open(bytes.data(), size));
  }
}

// LOG says so, and the table is read without it.
TEST(OrderFilter, ALaterVersionIsRefused) {
  Random random(Seed());
  std::string bytes = Build(Draw(KeySets()[0], 100, &random), 6);
  ++bytes[3];
  OrderFilter filter;
  EXPECT_STREQ("of a later version, which a later Cairn reads", filter.Open(bytes.data(), bytes.size()));
}

// A table of numbers with text behind them. What the first segments have chosen is not kept where it does not suit.
TEST(OrderFilter, SegmentsOfOtherKeysChooseTheirOwnCode) {
  Random random(1);
  const auto draw = [&random](const char* name, char first, size_t count) {
    for (const KeySet& set : KeySets()) {
      if (strcmp(set.name, name) != 0) continue;
      Keys keys;
      while (keys.size() < count) keys.insert(first + set.draw(&random));
      return keys;
    }
    return Keys();
  };
  Keys numbers = draw("uniform", 'a', 150000);
  Keys text = draw("hex", 'b', 400000);
  const double apart = static_cast<double>(Build(numbers, 6).size() + Build(text, 6).size());
  numbers.merge(text);
  EXPECT_LT(static_cast<double>(Build(numbers, 6).size()), 1.1 * apart);
}

TEST(OrderFilter, NoKeysNoFilter) {
  OrderFilterBuilder builder(6);
  EXPECT_EQ("", builder.Finish());
}

TEST(OrderFilter, GivesUpWhereItWouldBeLarge) {
  OrderFilterBuilder builder(6);
  for (int i = 0; i < 40; ++i) {
    const std::string key =
        std::string(size_t{1} << 20, static_cast<char>('a' + i / 2)) + BigEndian(static_cast<uint64_t>(i));
    builder.Add(key.data(), key.size());
    EXPECT_LT(builder.memory(), size_t{64} << 20);
  }
  EXPECT_EQ("", builder.Finish());
}

// Searches go on together, in filters that a target lies before, in and behind.
TEST_P(OrderFilterTest, SearchesTogetherAnswerAsAlone) {
  constexpr size_t kFilters = 5;
  Random random(Seed());
  const Keys all = Draw(GetParam(), 3000, &random);
  const std::vector<std::string> keys(all.begin(), all.end());
  // One over a half of the keys, and one over what is left of each quarter.
  Keys parts[kFilters];
  for (size_t i = 0; i < keys.size(); ++i) {
    parts[random() % 2 == 0 ? 0 : 1 + i * (kFilters - 1) / keys.size()].insert(keys[i]);
  }
  std::vector<std::string> bytes;
  for (const Keys& part : parts) {
    std::string built = part.empty() ? "" : Build(part, 6);
    if (!built.empty()) bytes.push_back(std::move(built));
  }
  std::vector<OrderFilter> filters(bytes.size());
  for (size_t i = 0; i < filters.size(); ++i) ASSERT_EQ(nullptr, filters[i].Open(bytes[i].data(), bytes[i].size()));
  std::vector<OrderSearch> searches(filters.size());
  for (int round = 0; round < 2000; ++round) {
    const std::string target = Target(GetParam(), keys, &random);
    for (size_t i = 0; i < filters.size(); ++i) searches[i].Begin(&filters[i], target.data(), target.size());
    OrderSearch::Advance(searches.data(), searches.size());
    for (size_t i = 0; i < filters.size(); ++i) {
      std::string bound = "unset", alone = "unset";
      const OrderAnswer answer = searches[i].Answer(OrderSide::kBehind, &bound);
      ASSERT_EQ(filters[i].Find(target.data(), target.size(), &alone), answer);
      ASSERT_EQ(alone, bound);
      bound = alone = "unset";
      const OrderAnswer before = searches[i].Answer(OrderSide::kBefore, &bound);
      ASSERT_EQ(filters[i].FindBefore(target.data(), target.size(), &alone), before);
      ASSERT_EQ(alone, bound);
    }
  }
}

// What lies in memory before a target is none of its business; an empty one has no last byte.
TEST(OrderFilter, AnEmptyTargetIsReadWithinBounds) {
  Random random(Seed());
  for (int round = 0; round < 400; ++round) {
    Keys keys;
    const uint64_t other = 2 + random() % 20;
    for (int i = 0; i < 600; ++i) {
      std::string key;
      for (size_t left = 1 + random() % 12; left > 0; --left) {
        key.push_back(random() % other == 0 ? static_cast<char>(random() % 4) : '\0');
      }
      keys.insert(key);
    }
    keys.erase(keys.begin(), std::next(keys.begin(), static_cast<std::ptrdiff_t>(random() % (keys.size() / 2))));
    const std::string bytes = Build(keys, 2.5 + static_cast<double>(random() % 10));
    OrderFilter filter;
    ASSERT_EQ(nullptr, filter.Open(bytes.data(), bytes.size()));
    std::string bounds[2];
    OrderAnswer answers[2];
    for (int i = 0; i < 2; ++i) {
      const std::string behind(1, i == 0 ? '\0' : 'x');
      answers[i] = filter.Find(behind.data() + 1, 0, &bounds[i]);
    }
    ASSERT_EQ(answers[0], answers[1]);
    ASSERT_EQ(bounds[0], bounds[1]);
    if (answers[0] == OrderAnswer::kBound) {
      ASSERT_FALSE(bounds[0].empty());
      ASSERT_LE(bounds[0], *keys.begin());
    }
  }
}

// One file of each kind of code: none, by the position, by the bytes before.
TEST(OrderFilter, BytesStayAsTheyAre) {
  const auto golden = [](const char* name, const Keys& keys) {
    OrderFilterBuilder builder(6);
    for (const std::string& key : keys) builder.Add(key.data(), key.size());
    ExpectGolden(name, builder.Finish(), "table/ordered");
  };
  Random random(1);
  Keys plain, rows, words;
  for (int i = 0; i < 100; ++i) plain.insert(BigEndian(random()));
  for (int i = 0; i < 60; ++i) plain.insert("word/" + Word(&random, 6));
  for (int i = 0; i < 400; ++i) {
    // One after the other: which of two calls in an expression comes first differs from processor to processor.
    const std::string row = Decimal(random() % 100000, 8);
    const std::string tenant = Decimal(random() % 10, 3);
    rows.insert(std::string("tenant").append(tenant).append(":").append(row));
    words.insert(Word(&random, 8));
  }
  golden("order_filter_plain", plain);
  golden("order_filter_rows", rows);
  golden("order_filter_words", words);
}

}  // namespace
}  // namespace cairn
