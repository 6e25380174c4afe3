#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/policy.hpp"

namespace attest {

// The format of a block's sum: an f32 cut toward zero, one that keeps 13 fraction bits of it, an f16 to nearest.
enum class MmaResult : std::uint8_t { f32, e8m13, f16 };

// The accumulators of tensor cores (docs/bounds.md, section 4c). A block of products and the running sum are aligned to
// the largest of their exponents, each is cut toward zero to `frac` bits below it, and their exact sum is rounded once.
struct Mma {
  std::int64_t block =
      1;  // products at once, at least: all blocks but the last of a dot product, of a tile or of a split
  int frac = 23;
  MmaResult out = MmaResult::f32;
  bool only = false;  // no product is added by itself, rounded to nearest, as outside a tensor core

  friend bool operator==(const Mma&, const Mma&) = default;
};

inline constexpr std::int64_t largest_mma_block = 1024;
inline constexpr int largest_mma_frac = 35;

constexpr int fraction_bits(MmaResult result) noexcept {
  constexpr int bits[] = {23, 13, 10};
  return bits[static_cast<int>(result)];
}
// The format that holds such results.
constexpr Format format_of(MmaResult result) noexcept { return result == MmaResult::f16 ? Format::f16 : Format::f32; }

// Tells whether sums kept in `accumulator` may be made of such blocks: not in f64, and not where a result holds less
// than it does.
bool adds_blocks_in(const Mma& mma, Format accumulator) noexcept;

// Returns a generation's block products by its name, for the operands that `policy` permits: volta, turing, ampere,
// ada, hopper, blackwell, cdna3, ada-fp8, hopper-fp8. The instruction with the fewest products at once counts among
// those that take such operands.
std::optional<Mma> mma_of_generation(std::string_view name, const Policy& policy);

// "hopper", "8/24/f32", "8/24/f32/only" or {"block": 8, "frac": 24, "out": "f32", "only": true}. Throws Error(usage).
Mma mma_from_json(const nlohmann::json& value, const Policy& policy);
nlohmann::ordered_json to_json(const Mma& mma);
// "8/24/f32" or "8/24/f32/only".
std::string to_text(const Mma& mma);
// Tells whether a JSON value of the key `mma` is one of these, rather than an object from dtype to them.
bool is_mma_object(const nlohmann::json& value);

// Returns the largest error of one addition, in units roundoff of `accumulator`: that of a block with a single product.
double units_of_mma(const Mma& mma, Format accumulator) noexcept;

}  // namespace attest
