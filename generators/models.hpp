#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/index.hpp"
#include "generators/source.hpp"

namespace attest {

// The shapes that a domain draws: any, small ones mostly; those of models; or both: one in `shapes_per_model` that of a
// model.
enum class SizeRegime : std::uint8_t { both, small, models };
constexpr auto sizes_names = std::to_array<std::string_view>({"both", "small", "models"});
// Throws Error(usage) for another name.
SizeRegime sizes_named(std::string_view name);

// The shapes that a domain draws.
class Sized {
 public:
  // Chooses small shapes, those of models, or both; SizeRegime::both at first.
  void draw_sizes(SizeRegime sizes) noexcept { sizes_ = sizes; }
  [[nodiscard]] SizeRegime sizes() const noexcept { return sizes_; }

 private:
  SizeRegime sizes_ = SizeRegime::both;
};
// Throws Error(usage): SizeRegime::models where the subject takes no shape of a model.
[[noreturn]] void refuse_models();

inline constexpr Index shapes_per_model = 10;

// An attention of a model in use, as its published configuration says it (docs/sizes.md has the sources).
struct ModelHeads {
  std::string_view model;
  Index d, dv, heads, kv_heads;
  Index queries, keys;  // lengths that the model fixes, in tokens; 0: those of any text
};
std::span<const ModelHeads> model_heads() noexcept;

// Widths of a token, in elements, from 768 to 16,384.
std::span<const Index> model_widths() noexcept;

// The lengths of a prefill or of an encoder, ascending, in tokens; the numbers of keys that a decoding step reads; and
// those, from fewer on, where several requests share a call.
std::span<const Index> prefill_lengths() noexcept;
std::span<const Index> cached_lengths() noexcept;
std::span<const Index> paged_lengths() noexcept;

// Requests that a server puts into one call.
inline constexpr auto serving_batches = std::to_array<Index>({1, 2, 8, 17, 64, 256});

// Draws one of ascending `sizes` from `least` to `most`, or else the largest that is not above `most`, or the first;
// one in four is one off. At least 1.
Index draw_size(Source& source, std::span<const Index> sizes, Index most, Index least = 0);

// Returns 2^n times `first`, n at most `doublings`: n or more with probability 1/3^n.
Index draw_model_work(Source& source, Index first, int doublings);

}  // namespace attest
