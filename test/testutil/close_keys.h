// Keys that lie as close as keys can, and what lies beside them, for tests that compare whole databases.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "rocksdb/slice.h"
#include "test/testutil/random.h"
#include "test/testutil/test_keys.h"

namespace cairn::test {

inline std::string Printable(const rocksdb::Slice& key) {
  return key.size() > 80 ? rocksdb::Slice(key.data(), 20).ToString(true) + ".." + std::to_string(key.size()) + ".." +
                               rocksdb::Slice(key.data() + key.size() - 20, 20).ToString(true)
                         : key.ToString(true);
}

// Keys that lie as close as keys can.
inline std::vector<std::string> MakeKeys(Random* random) {
  std::vector<std::string> keys;
  const size_t count = 5 + random->Uniform(random->OneIn(4) ? 3000 : 200);
  const uint64_t base = random->OneIn(3) ? 0 : random->Next() >> random->Uniform(60);
  const uint64_t kind = random->Uniform(8);
  const std::string shared(random->OneIn(6) ? 1100 : 9, random->OneIn(2) ? '\0' : '\xff');
  const uint64_t stride = uint64_t{1} << random->Uniform(20);
  for (size_t i = 0; i < count; ++i) {
    switch (kind) {
      case 0:  // prefixes of one another
      case 1: {
        static const char kBytes[] = {'\0', '\1', 'a', '\xfe', '\xff'};
        std::string key = kind == 0 ? "" : shared;
        for (uint64_t left = random->Uniform(7); left > 0; --left) key.push_back(kBytes[random->Uniform(5)]);
        keys.push_back(key);
        break;
      }
      case 2:  // neighbours
        keys.push_back(BigEndian(base + i));
        break;
      case 3:  // equal but for a bit
        keys.push_back(shared + BigEndian(base ^ (uint64_t{1} << random->Uniform(64))));
        break;
      case 4:  // spread
        keys.push_back(BigEndian(random->Next()));
        break;
      case 5: {  // text
        char text[40];
        snprintf(text, sizeof(text), "user%08llu:%03u", (base % 100000000ULL) + (i / 3ULL),
                 static_cast<unsigned>(random->Uniform(7)));
        keys.emplace_back(text);
        break;
      }
      case 6:  // runs of one byte
        keys.push_back(std::string(random->Uniform(200), random->OneIn(2) ? '\xff' : '\0') +
                       std::string(random->Uniform(3), 'x'));
        break;
      default:
        keys.push_back(BigEndian(base + i * stride) + std::string(random->Uniform(3), '\0'));
    }
  }
  if (kind == 1 && random->OneIn(20)) keys.emplace_back(1 << 20, 'a');
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

// A key, or what lies next to it.
inline std::string Near(std::string key, Random* random) {
  switch (random->Uniform(8)) {
    case 0:
      return key + '\0';
    case 1:
      return key + std::string(2, '\0');
    case 2:
      if (!key.empty()) key.pop_back();
      return key;
    case 3:
      if (!key.empty()) ++key.back();
      return key;
    case 4:
      if (!key.empty()) --key.back();
      return key;
    case 5:
      return key.substr(0, random->Uniform(key.size() + 1));
    default:
      return key;
  }
}

}  // namespace cairn::test
