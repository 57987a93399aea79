// libFuzzer target: EliasFano::Open on any bytes, and on a sequence that the input describes and changes: what is built
// has its values, and whatever opens answers as one sequence, from within its bytes.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "test/fuzz/edits.h"
#include "util/bits.h"
#include "util/elias_fano.h"

namespace {

void Check(bool holds) {
  if (!holds) abort();
}

// False: refused.
bool OpenAndAsk(const std::string& bytes) {
  if (bytes.size() < 16) return false;
  const std::vector<char> exact = cairn::fuzz::Exact(bytes);
  const auto* const data = reinterpret_cast<const uint8_t*>(exact.data());
  const uint64_t universe = cairn::LoadU64(data + 8);
  cairn::EliasFano sequence;
  if (sequence.Open(data, exact.size(), universe) != nullptr) return false;
  uint64_t index = 0, previous = 0;
  const uint64_t questions = 1 + sequence.count() / 64;
  for (cairn::EliasFano::Iterator at(sequence, 0); at.Valid(); at.Next(), ++index) {
    Check(at.value() < universe && (index == 0 ? at.value() == 0 : at.value() > previous));
    previous = at.value();
    if (index % questions != 0) continue;
    Check(sequence.Get(index) == at.value() && sequence.Predecessor(at.value()) == index);
    if (index > 0) Check(sequence.Predecessor(at.value() - 1) == index - 1);
  }
  Check(index == sequence.count() && sequence.Predecessor(universe - 1) == index - 1);
  return true;
}

// Few bytes describe many values: what is only in long sequences, as samples, must not take long inputs.
std::string Build(cairn::fuzz::Input* input) {
  const size_t count = 1 + input->Number(2) % 1600;
  const auto gap_bits = static_cast<unsigned>(input->Number(1) % 24);
  const uint64_t behind = 1 + input->Number(2);
  uint64_t random = input->Number(2);
  std::vector<uint64_t> values = {0};
  while (values.size() < count) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    values.push_back(values.back() + 1 + (gap_bits == 0 ? 0 : random >> (64 - gap_bits)));
  }
  std::string bytes;
  cairn::EncodeEliasFano(values, values.back() + behind, &bytes);
  cairn::EliasFano sequence;
  Check(sequence.Open(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), values.back() + behind) == nullptr);
  Check(sequence.count() == count);
  for (size_t i = 0; i < count; i += 1 + count / 64) Check(sequence.Get(i) == values[i]);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenAndAsk(std::string(reinterpret_cast<const char*>(data), size));
  cairn::fuzz::Input input(data, size);
  std::string bytes = Build(&input);
  cairn::fuzz::Edit(&input, &bytes);
  OpenAndAsk(bytes);
  return 0;
}
