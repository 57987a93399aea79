#include "trie_table/htable/htable_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "test/testutil/golden_file.h"
#include "test/testutil/test_seed.h"
#include "trie_table/htable/htable_layout.h"
#include "util/checksum.h"
#include "util/format_version.h"

namespace cairn {
namespace {

constexpr size_t kCapacity = BucketCapacity(4096);

LayoutOptions Options() { return {kCapacity, kMaxUnitEntries, kCapacity / 16}; }

std::vector<Cell> CellsOf(const std::vector<uint64_t>& hashes, const std::function<size_t(size_t)>& size) {
  std::vector<Cell> cells;
  for (size_t i = 0; i < hashes.size(); ++i) cells.push_back({hashes[i], size(i), 1});
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.hash < b.hash; });
  cells.erase(std::unique(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.hash == b.hash; }),
              cells.end());
  return cells;
}

// Everything that docs/design/htable.md demands of a group. Returns the fill of all but the last home bucket.
double CheckLayout(const std::vector<Cell>& cells, const GroupLayout& layout, const LayoutOptions& options,
                   GroupEnd end) {
  EXPECT_GT(layout.cells, 0u);
  EXPECT_LE(layout.cells, cells.size());
  if (end == GroupEnd::kLast) {
    EXPECT_EQ(cells.size(), layout.cells);
  }
  EXPECT_EQ(layout.homes.size(), layout.bounds.size());
  EXPECT_EQ(0u, layout.bounds[0]);
  std::vector<int> seen(cells.size());
  uint64_t bytes = 0;
  const auto step_of = [&](size_t cell) { return StepOf(cells[cell].hash, cells[0].hash, layout.shift); };
  const auto check_bucket = [&](const std::vector<uint32_t>& bucket) {
    size_t used = 0, entries = 0;
    for (size_t i = 0; i < bucket.size(); ++i) {
      used += cells[bucket[i]].bytes;
      entries += cells[bucket[i]].entries;
      ++seen[bucket[i]];
      if (i > 0) {
        EXPECT_LT(bucket[i - 1], bucket[i]);
      }
    }
    EXPECT_LE(used, options.capacity);
    EXPECT_LE(entries, options.max_entries);
    bytes += used;
  };
  for (size_t home = 0; home < layout.homes.size(); ++home) {
    if (home > 0) {
      EXPECT_LT(layout.bounds[home - 1], layout.bounds[home]);
    }
    check_bucket(layout.homes[home]);
    for (uint32_t cell : layout.homes[home]) {
      EXPECT_GE(step_of(cell), layout.bounds[home]);
      if (home + 1 < layout.homes.size()) {
        EXPECT_LT(step_of(cell), layout.bounds[home + 1]);
      }
    }
  }
  for (const auto& bucket : layout.spills) check_bucket(bucket);
  for (uint32_t cell : layout.extents) ++seen[cell];
  for (size_t cell = 0; cell < cells.size(); ++cell) EXPECT_EQ(cell < layout.cells ? 1 : 0, seen[cell]) << cell;
  return static_cast<double>(bytes) /
         static_cast<double>(options.capacity * (layout.homes.size() + layout.spills.size()));
}

std::vector<uint64_t> RandomHashes(std::mt19937_64* random, size_t n) {
  std::vector<uint64_t> hashes(n);
  for (uint64_t& hash : hashes) hash = (*random)();
  return hashes;
}

TEST(LayoutTest, FillsNineteenTwentiethsAtAnySizeUpToAFifthOfABucket) {
  std::mt19937_64 random(Seed());
  for (const size_t average : {25u, 100u, 200u, 300u, 400u}) {
    uint64_t used = 0, buckets = 0, spills = 0, all = 0;
    for (int group = 0; group < 20; ++group) {
      const std::vector<Cell> cells =
          CellsOf(RandomHashes(&random, 128 * 4072 / average), [&](size_t) { return 1 + random() % (2 * average); });
      const GroupLayout layout = LayOutGroup(cells, Options(), GroupEnd::kMoreFollows);
      CheckLayout(cells, layout, Options(), GroupEnd::kMoreFollows);
      for (size_t i = 0; i < layout.cells; ++i) used += cells[i].bytes;
      buckets += layout.homes.size() + layout.spills.size();
      for (const auto& bucket : layout.spills) spills += bucket.size();
      all += layout.cells;
    }
    const double fill = static_cast<double>(used) / static_cast<double>(buckets * 4096);
    printf("average %zu: fill %.4f, spilled %.4f\n", average, fill,
           static_cast<double>(spills) / static_cast<double>(all));
    EXPECT_GT(fill, 0.95) << average;
  }
}

// Of hashes that somebody chose, all may share a step, and hence a bucket.
TEST(LayoutTest, CellsThatCrowdBecomeExtents) {
  std::vector<uint64_t> hashes = {0, UINT64_MAX};
  for (uint64_t i = 0; i < 30000; ++i) hashes.push_back((uint64_t{1} << 63) + i);
  const std::vector<Cell> cells = CellsOf(hashes, [](size_t i) { return 100 + i % 7; });
  const GroupLayout layout = LayOutGroup(cells, Options(), GroupEnd::kLast);
  CheckLayout(cells, layout, Options(), GroupEnd::kLast);
  EXPECT_LE(layout.homes.size() + layout.spills.size(), 4u);
  EXPECT_GT(layout.extents.size(), 29900u);
}

TEST(LayoutTest, HoldsItsInvariantsForAnySizes) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 300; ++round) {
    const size_t n = 1 + random() % (round % 3 == 0 ? 5 : 2000);
    const size_t fixed = 1 + random() % 5000;
    const int kind = static_cast<int>(random() % 5);
    std::vector<uint64_t> hashes = RandomHashes(&random, n);
    // Hashes that crowd together, at one end or in a few places.
    if (random() % 3 == 0) {
      for (uint64_t& hash : hashes) hash = hash >> 40 | (hash & 3) << 62;
    }
    const std::vector<Cell> cells = CellsOf(hashes, [&](size_t i) {
      switch (kind) {
        case 0:
          return fixed;
        case 1:
          return size_t{1} + random() % 4096;
        case 2:
          return i % 2 == 0 ? size_t{2037} : size_t{100};  // two of which do not fit together
        case 3:
          return random() % 10 == 0 ? kCapacity - random() % 3 : size_t{10};
        default:
          return size_t{1} + random() % 200;
      }
    });
    for (const GroupEnd end : {GroupEnd::kMoreFollows, GroupEnd::kLast}) {
      CheckLayout(cells, LayOutGroup(cells, Options(), end), Options(), end);
    }
  }
}

TEST(LayoutTest, CompressedBucketsEndBetweenSteps) {
  std::mt19937_64 random(Seed());
  LayoutOptions options = Options();
  options.capacity = 60000;
  options.spill_threshold = SIZE_MAX;
  for (int round = 0; round < 100; ++round) {
    std::vector<uint64_t> hashes = RandomHashes(&random, 1 + random() % 3000);
    if (round % 3 == 0) {
      for (uint64_t& hash : hashes) hash = hash >> 44 | (hash & 1) << 63;
    }
    const std::vector<Cell> cells = CellsOf(hashes, [&](size_t) { return 1 + random() % 300; });
    const auto fit = [&](const std::vector<uint32_t>& home, const std::vector<size_t>& ends, size_t first) {
      size_t best = first;
      for (size_t e : ends) {
        size_t bytes = 0;
        if (e <= first) continue;
        for (size_t i = first; i < e; ++i) bytes += cells[home[i]].bytes;
        if (bytes > 9000) break;
        best = e;
      }
      return best;
    };
    for (const GroupEnd end : {GroupEnd::kMoreFollows, GroupEnd::kLast}) {
      CheckLayout(cells, LayOutCompressedGroup(cells, options, end, fit), options, end);
    }
  }
}

TEST(UnitTest, RoundTripsAndFindsByTag) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 200; ++round) {
    const bool wide = round % 2 == 0;
    const uint64_t base = random() >> 20;
    UnitBuilder builder;
    builder.Start(base, wide ? UnitBuilder::Offsets::kWide : UnitBuilder::Offsets::kNarrow);
    struct Item {
      uint64_t hash;
      std::string key, value;
      uint64_t seq;
      uint8_t type;
    };
    std::vector<Item> items(random() % 100);
    for (Item& item : items) {
      item = {random(), std::string(random() % 300, 'k'), std::string(random() % 300, 'v'),
              base + (random() >> (12 + random() % 52)), static_cast<uint8_t>(random() % 32)};
      item.seq = std::min(item.seq, (uint64_t{1} << 56) - 1);
      builder.Add(item.hash, {item.key, item.value, item.seq, item.type});
    }
    std::string payload;
    builder.AppendPayload(&payload);
    ASSERT_EQ(builder.size(), payload.size());
    const size_t size = payload.size();
    payload.resize(size + kUnitSlack);
    UnitView view;
    const IndexStatus opened = UnitView::Open(payload.data(), size, static_cast<uint16_t>(items.size()), wide, &view);
    ASSERT_TRUE(opened.ok()) << opened.message();
    for (uint32_t i = 0; i < items.size(); ++i) {
      const UnitEntry entry = view.Entry(i);
      EXPECT_EQ(items[i].key, entry.key);
      EXPECT_EQ(items[i].value, entry.value);
      EXPECT_EQ(items[i].seq, entry.seq);
      EXPECT_EQ(items[i].type, entry.type);
      EXPECT_EQ(entry.key, view.Key(i));
      uint32_t at = view.FindTag(items[i].hash, 0);
      while (at < i) at = view.FindTag(items[i].hash, at + 1);
      EXPECT_EQ(i, at);
    }
    // Any damage is refused or leaves a view that can be read.
    for (int damage = 0; damage < 20 && size > 0; ++damage) {
      std::string damaged = payload;
      damaged[random() % size] = static_cast<char>(random());
      const size_t cut = random() % 3 == 0 ? random() % size : size;
      if (!UnitView::Open(damaged.data(), cut, static_cast<uint16_t>(items.size()), wide, &view).ok()) continue;
      for (uint32_t i = 0; i < view.entries(); ++i) {
        const UnitEntry entry = view.Entry(i);
        EXPECT_LE(entry.value.data() + entry.value.size(), damaged.data() + cut);
      }
    }
  }
}

TEST(UnitTest, IsWrittenInPlaceAsItIsAppended) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 200; ++round) {
    const uint64_t base = random() >> 20;
    const size_t count = random() % 60;
    std::vector<std::string> bytes(2 * count);
    std::vector<UnitEntry> entries(count);
    std::vector<uint64_t> hashes(count);
    UnitBuilder builder;
    builder.Start(base, UnitBuilder::Offsets::kNarrow);
    size_t payload_size = kUnitPrefixSize;
    for (size_t i = 0; i < count; ++i) {
      bytes[2 * i].assign(random() % 300, static_cast<char>('a' + i % 26));
      bytes[2 * i + 1].assign(random() % 300, static_cast<char>('A' + i % 26));
      entries[i] = {bytes[2 * i], bytes[2 * i + 1], base + (random() >> (20 + random() % 44)),
                    static_cast<uint8_t>(random() % 32)};
      hashes[i] = random();
      builder.Add(hashes[i], entries[i]);
      payload_size += UnitEntrySize(entries[i], base);
    }
    std::string payload, appended;
    builder.AppendPayload(&payload);
    UnitHeader header;
    header.entries = static_cast<uint16_t>(count);
    header.stored = header.raw = static_cast<uint32_t>(payload.size());
    const uint64_t offset = random() % 1000 * kMinBucketSize;
    const size_t unit_size = kUnitHeaderSize + payload_size + (round % 2 == 0 ? 0 : random() % 100);
    AppendUnit(header, payload, offset, unit_size, &appended);

    // Exactly as much room as there must be.
    std::string written(unit_size, '\0');
    UnitWriter writer(written.data(), written.size(), base, count);
    for (size_t i = 0; i < count; ++i) writer.Add(hashes[i], entries[i]);
    EXPECT_EQ(writer.Finish(offset), payload.size());
    EXPECT_EQ(written, appended);
  }
}

TEST(IndexTest, FindsEveryBucketOfManyGroups) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 50; ++round) {
    std::vector<GroupPlan> groups(1 + random() % 100);
    std::set<uint64_t> firsts;
    while (firsts.size() < groups.size()) firsts.insert(random() >> (random() % 4 == 0 ? 20 : 0));
    HTableHeader header;
    header.bucket_size = 4096;
    uint32_t next_bucket = 0;
    size_t g = 0;
    for (uint64_t first : firsts) {
      GroupPlan& group = groups[g++];
      group.first = first;
      group.first_bucket = next_bucket;
      const auto next = std::next(firsts.find(first));
      group.shift = ShiftFor(first, next == firsts.end() ? UINT64_MAX : *next - 1);
      std::set<uint16_t> bounds{0};
      const size_t homes = 1 + random() % 100;
      while (bounds.size() < homes) bounds.insert(static_cast<uint16_t>(random()));
      group.bounds.assign(bounds.begin(), bounds.end());
      group.spill_buckets = static_cast<uint16_t>(random() % 3);
      std::set<uint32_t> spills;
      if (group.spill_buckets > 0) {
        for (uint64_t i = random() % 20; i > 0; --i) {
          spills.insert(static_cast<uint32_t>(random() << 8) | static_cast<uint32_t>(random() % group.spill_buckets));
        }
      }
      group.spills.assign(spills.begin(), spills.end());
      next_bucket += static_cast<uint32_t>(homes + group.spill_buckets);
      header.homes += homes;
      header.spill_buckets += group.spill_buckets;
      header.spills += spills.size();
    }
    header.groups = groups.size();
    header.group_index.offset = uint64_t{next_bucket} * 4096;
    std::string index_bytes, extent_bytes;
    AppendGroupIndex(groups, &index_bytes);
    AppendExtentIndex({}, &extent_bytes);
    HTableIndex index;
    const IndexStatus opened = HTableIndex::Open(header, index_bytes, extent_bytes, &index);
    ASSERT_TRUE(opened.ok()) << opened.message();
    uint32_t bucket = 0;
    HTableIndex::Place previous{};
    for (size_t i = 0; i < groups.size(); ++i) {
      for (size_t b = 0; b < groups[i].bounds.size(); ++b, ++bucket) {
        const uint64_t hash = groups[i].first + (uint64_t{groups[i].bounds[b]} << groups[i].shift);
        const HTableIndex::Place place = index.PlaceOf(bucket);
        EXPECT_EQ(i, place.group);
        EXPECT_EQ((uint64_t{groups[i].first_bucket} + b) * 4096, place.offset);
        if (bucket > 0) {
          EXPECT_EQ(place.offset, index.After(previous).offset);
        }
        previous = place;
        const bool within = i + 1 == groups.size() || hash < groups[i + 1].first;
        if (within && hash >= groups[i].first) {
          EXPECT_EQ(bucket, index.Find(hash).bucket);
        }
      }
      for (uint32_t s = 0; s < groups[i].spills.size(); ++s) {
        const HTableIndex::Spill spill = index.SpillAt(static_cast<uint32_t>(i), s);
        HTableIndex::Place place;
        place.group = static_cast<uint32_t>(i);
        place.step = spill.step;
        uint32_t cursor = 0;
        uint64_t offset = 0;
        bool found = false;
        while (index.FindSpill(place, spill.tag, &cursor, &offset)) found = found || offset == spill.offset;
        EXPECT_TRUE(found);
      }
    }
  }
}

// What is read of one place must have one size, whoever asks.
TEST(IndexTest, RefusesExtentsThatOverlapBuckets) {
  std::vector<GroupPlan> groups(2);
  groups[0].bounds = {0, 7};
  groups[0].spill_buckets = 1;
  groups[1].first = 1000;
  groups[1].first_bucket = 5;
  groups[1].bounds = {0};
  HTableHeader header;
  header.bucket_size = 4096;
  header.groups = 2;
  header.homes = 3;
  header.spill_buckets = 1;
  header.extents = 1;
  header.group_index.offset = uint64_t{8} * 4096;
  std::string index_bytes;
  AppendGroupIndex(groups, &index_bytes);
  const auto opens = [&](uint64_t offset, uint64_t end) {
    ExtentPlan extent;
    extent.offset = offset;
    extent.size = static_cast<uint32_t>(end - offset);
    std::string extent_bytes;
    AppendExtentIndex({extent}, &extent_bytes);
    HTableIndex index;
    return HTableIndex::Open(header, index_bytes, extent_bytes, &index).ok();
  };
  constexpr uint64_t kFirstEnd = 3 * 4096, kSecond = 5 * 4096, kSecondEnd = 6 * 4096;
  EXPECT_TRUE(opens(kFirstEnd, kSecond));
  EXPECT_TRUE(opens(kFirstEnd + 100, kSecond - 100));
  EXPECT_TRUE(opens(kSecondEnd, kSecondEnd + 16));
  EXPECT_FALSE(opens(0, 16));
  EXPECT_FALSE(opens(kFirstEnd - 16, kFirstEnd));
  EXPECT_FALSE(opens(kFirstEnd - 1, kFirstEnd + 16));
  EXPECT_FALSE(opens(kFirstEnd, kSecond + 1));
  EXPECT_FALSE(opens(kSecond, kSecond + 16));
  EXPECT_FALSE(opens(kSecondEnd - 1, kSecondEnd + 100));
  EXPECT_FALSE(opens(kFirstEnd, kSecondEnd));
}

// After a wanted change, with a new version number: CAIRN_UPDATE_GOLDEN=1 trie_table/htable/htable_format_test.
TEST(FormatTest, GoldenFiles) {
  const UnitEntry entries[] = {{"", "empty key", 9, 1},
                               {"key", std::string_view(), 1000, 0},
                               {"key", "older", 7, 1},
                               {"longer key", "merged", uint64_t{1} << 40, 2}};
  const uint64_t hashes[] = {0, 0x123456789abcdef0u, 0x123456789abcdef0u, 0xffffffffffffffffu};
  for (const bool wide : {false, true}) {
    UnitBuilder builder;
    builder.Start(7, wide ? UnitBuilder::Offsets::kWide : UnitBuilder::Offsets::kNarrow);
    for (size_t i = 0; i < std::size(entries); ++i) builder.Add(hashes[i], entries[i]);
    std::string payload, unit;
    builder.AppendPayload(&payload);
    UnitHeader header;
    header.wide = wide;
    header.entries = static_cast<uint16_t>(builder.entries());
    header.stored = header.raw = static_cast<uint32_t>(payload.size());
    AppendUnit(header, payload, 5 * 4096, 256, &unit);
    ExpectGolden(wide ? "htable_format_wide_unit" : "htable_format_unit", unit, "trie_table/htable");
  }

  std::vector<GroupPlan> groups(2);
  groups[0] = {0x100, 0, 1, 40, {0, 300, 65000}, {17u << 16 | 0xabu << 8, 300u << 16}};
  groups[1] = {uint64_t{1} << 63, 4, 0, 47, {0}, {}};
  std::string groups_bytes, extents_bytes, header_bytes;
  AppendGroupIndex(groups, &groups_bytes);
  ExpectGolden("htable_format_groups", groups_bytes, "trie_table/htable");
  AppendExtentIndex({{0x200, 5 * 4096, 12, 40000}, {0x200, 5 * 4096 + 40000, 0, 77}}, &extents_bytes);
  ExpectGolden("htable_format_extents", extents_bytes, "trie_table/htable");

  HTableHeader header;
  header.bucket_size = 4096;
  uint64_t number = 1;
  for (uint64_t* field : {&header.entries, &header.cells, &header.first_hash, &header.last_hash, &header.groups,
                          &header.homes, &header.spill_buckets, &header.spills, &header.extents, &header.used_bytes}) {
    *field = number << 33 | number;
    ++number;
  }
  for (FilePart* part : {&header.group_index, &header.extent_index, &header.dictionary, &header.filter,
                         &header.metaindex, &header.properties}) {
    *part = {number << 20, number << 10, static_cast<uint32_t>(0xdead0000u + number)};
    ++number;
  }
  header.AppendTo(&header_bytes);
  ExpectGolden("htable_format_header", header_bytes, "trie_table/htable");
}

// Whatever size its header has.
TEST(FormatTest, ALaterVersionIsRefused) {
  for (const size_t more : {0, 8}) {
    std::string bytes;
    HTableHeader header;
    header.AppendTo(&bytes);
    bytes.replace(bytes.size() - 4, 4, std::string(more, '\0'));
    bytes[8] = kHTableVersion + 1;
    PutU32(&bytes, Crc32c(bytes.data(), bytes.size()));
    const IndexStatus s = HTableHeader::Decode(bytes, 1 << 20, &header);
    EXPECT_EQ(IndexStatus::Code::kNotSupported, s.code());
    EXPECT_EQ("HTable of " + UnknownVersion(kHTableVersion + 1, kHTableVersion), s.message());
  }
}

}  // namespace
}  // namespace cairn
