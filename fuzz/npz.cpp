// Saved tensors. The first byte says which: 'n' an .npy, anything else an .npz.
#include "core/npz.hpp"

#include <vector>

#include "fuzz/target.hpp"

using namespace attest;

namespace {

volatile double seen;  // keeps the compiler from leaving out the reads

// Reads both ends of what an array claims to hold.
void check(const NamedArray& array) {
  if (array.type == NamedArray::Type::other) {
    fuzz::require(array.bytes.empty(), "bytes of a type that is not read");
    return;
  }
  fuzz::require(array.size() >= 0, "a negative size");
  if (array.size() == 0) return;
  seen = array.at(0);
  seen = array.at(array.size() - 1);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t most_bytes = 1 << 20;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  fuzz::accepts([&] {
    if (data[0] == 'n')
      check(read_npy(bytes, "in.npy"));
    else
      for (const NamedArray& array : read_npz(bytes, "in.npz", most_bytes)) check(array);
  });
  return 0;
}
