// libFuzzer target: OrderFilter::Open, Find and FindBefore on any bytes, and, with the input taken as keys, that what
// is built never gives a bound above the next key or at or below the one before, and reads within its bytes when they
// were changed.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "table/ordered/order_filter.h"
#include "test/fuzz/edits.h"

namespace {

void FindAround(const cairn::OrderFilter& filter, const char* target, size_t size) {
  std::string bound;
  filter.Find(target, size, &bound);
  filter.FindBefore(target, size, &bound);
}

void OpenAnyBytes(const uint8_t* data, size_t size) {
  // An allocation of its own, so that what is read beyond it is seen.
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  cairn::OrderFilter filter;
  if (filter.Open(bytes.data(), bytes.size()) != nullptr) return;
  for (size_t at = 0; at < size && at < 64; ++at) FindAround(filter, bytes.data() + at, (size - at) % 40);
}

// Bytes that a builder made, and changes.
void OpenChanged(std::string changed, cairn::fuzz::Input* edits, const std::set<std::string>& keys) {
  cairn::fuzz::Edit(edits, &changed);
  const std::vector<char> bytes = cairn::fuzz::Exact(changed);
  cairn::OrderFilter filter;
  if (filter.Open(bytes.data(), bytes.size()) != nullptr) return;
  size_t asked = 0;
  for (const std::string& each : keys) {
    if (++asked > 16) break;
    FindAround(filter, each.data(), each.size());
    const std::string other = each + '\x55';
    FindAround(filter, other.data(), other.size());
  }
}

// The first byte chooses the bits, the next the keys' length and how many are made of one, so that a short input makes
// as many as it takes for a code of their bytes; the third how many bytes at the end are changes. A key shares the
// bytes of the one before that a byte says.
void BuildFromBytes(const uint8_t* data, size_t size) {
  if (size < 5) return;
  const size_t changes = std::min<size_t>(data[2] % 32, size - 5);
  cairn::fuzz::Input edits(data + size - changes, changes);
  size -= changes;
  cairn::OrderFilterBuilder builder(2.5 + data[0] % 10);
  const size_t length = 1 + data[1] % 12, alike = 1 + data[1] / 12;
  std::set<std::string> keys;
  std::string key;
  for (size_t at = 3; at + 1 + length <= size; at += 1 + length) {
    key.resize(data[at] % (key.size() + 1));
    key.append(reinterpret_cast<const char*>(data + at + 1), length);
    keys.insert(key);
    for (size_t i = 1; i < alike && keys.size() < 140; ++i) keys.insert(key + static_cast<char>(i * i) + key);
  }
  for (const std::string& each : keys) builder.Add(each.data(), each.size());
  const std::string bytes = builder.Finish();
  if (bytes.empty()) return;
  cairn::OrderFilter filter;
  if (filter.Open(bytes.data(), bytes.size()) != nullptr) abort();
  const auto check = [&](const std::string& target) {
    std::string bound;
    const auto next = keys.lower_bound(target);
    switch (filter.Find(target.data(), target.size(), &bound)) {
      case cairn::OrderAnswer::kNone:
        if (next != keys.end()) abort();
        break;
      case cairn::OrderAnswer::kBound:
        if (bound <= target || (next != keys.end() && bound > *next)) abort();
        break;
      case cairn::OrderAnswer::kHere:
        break;
    }
    auto behind = keys.upper_bound(target);
    switch (filter.FindBefore(target.data(), target.size(), &bound)) {
      case cairn::OrderAnswer::kNone:
        if (behind != keys.begin()) abort();
        break;
      case cairn::OrderAnswer::kBound:
        if (bound > target || (behind != keys.begin() && *--behind >= bound)) abort();
        break;
      case cairn::OrderAnswer::kHere:
        break;
    }
  };
  size_t at = 0;
  for (const std::string& each : keys) {
    if (at++ % (1 + keys.size() / 64) != 0) continue;
    check(each);
    check(each + '\0');
    check(each.substr(0, each.size() / 2));
    std::string other = each;
    other.back() = static_cast<char>(other.back() + 1);
    check(other);
  }
  OpenChanged(bytes, &edits, keys);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenAnyBytes(data, size);
  BuildFromBytes(data, size);
  return 0;
}
