#include "core/encode.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace attest {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ATTEST_ENCODE_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_ENCODE_CLONES
#endif

ATTEST_ENCODE_CLONES void encode(DType type, std::span<const double> from, std::byte* to, Index stride) noexcept {
  with_element(
      type, [&](auto element) __attribute__((always_inline)) {
        using Bits = typename decltype(element)::Bits;
        const auto store = [](std::span<const double> numbers, Bits * bits) __attribute__((always_inline)) {
          for (std::size_t n = 0; n < numbers.size(); ++n) bits[n] = decltype(element)::encoded(numbers[n]);
        };
        if (stride == 1) return store(from, reinterpret_cast<Bits*>(to));
        std::array<Bits, 128> bits;
        for (std::size_t first = 0; first < from.size(); first += bits.size()) {
          const std::span<const double> some = from.subspan(first, std::min(bits.size(), from.size() - first));
          store(some, bits.data());
          for (std::size_t n = 0; n < some.size(); ++n, to += stride * static_cast<Index>(sizeof(Bits)))
            std::memcpy(to, &bits[n], sizeof(Bits));
        }
      });
}

}  // namespace attest
