// What tests of the model, the optimizer and the simulator ask for.

#pragma once

#include "cairn/msls.h"
#include "gtest/gtest.h"

namespace cairn::msls {

inline Popularity Keys(double keys, double skew) {
  Popularity p;
  const IndexStatus s = Popularity::Zipf(keys, skew, &p);
  EXPECT_TRUE(s.ok()) << s.message();
  return p;
}

// The thesis' LevelDB with items of 1,000 bytes.
inline StoreShape LevelDB1KB() {
  StoreShape store = StoreShape::Default(Design::kLevelDB);
  store.item_bytes = 1000;
  return store;
}

}  // namespace cairn::msls
