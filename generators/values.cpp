#include "generators/values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "generators/weighted.hpp"

namespace attest {
namespace {

double power_of_two(Index exponent) { return std::ldexp(1.0, static_cast<int>(exponent)); }

// 2^e (1 + f), with `bits` random bits in f.
double significand(Source& source, Index exponent, int bits) {
  const double fraction = static_cast<double>(source.below(Index{1} << bits));
  return power_of_two(exponent) * (1 + std::ldexp(fraction, -bits));
}

// f16 holds no number past 65504: distributions multiply the amplitude by up to 64.
Index most_exponent(Format dtype) { return std::min(20, (max_exponent(dtype) + 1) / 2); }

double draw_amplitude(Source& source, Format dtype) {
  const Index kind = source.below(64);
  if (kind < 36) return 1;
  if (kind < 50) return power_of_two(source.between(-3, 3));
  if (kind < 57) return significand(source, source.between(-3, 2), 3);
  if (kind < 63) return power_of_two(source.between(-8, 5));
  return power_of_two(source.chance(1, 2) ? source.between(-14, -9) : source.between(6, most_exponent(dtype)));
}

double draw_magnitude(Source& source, const Problem& problem) {
  const Index width = std::max<Index>(problem.d, 1), root = bits_of(width) / 2;
  const Index kind = source.below(16);
  if (kind < 4) return power_of_two(-root);                        // near 1/sqrt(d), exact in every format
  if (kind < 5) return 1 / std::sqrt(static_cast<double>(width));  // the default, but given
  if (kind < 8) return 1;
  if (kind < 10) return power_of_two(source.between(-6, 2));
  if (kind < 12) return significand(source, source.between(-6, 0), 10);
  if (kind < 15) {
    const int bits = source.chance(1, 2) ? 23 : 52;
    return significand(source, source.between(-6, 0), bits);
  }
  const Index usual = std::min(16, max_exponent(problem.dtype) - 5), extreme = source.chance(1, 4) ? 4 * usual : usual;
  return power_of_two(source.chance(1, 2) ? source.between(-extreme, -7) : source.between(3, extreme));
}

// Levels are given in nats: what the scale takes from them, the amplitude gives back.
double amplitude_of_levels(const Problem& problem) {
  const double scale = std::fabs(problem.effective_scale());
  const Index most = most_exponent(problem.dtype);
  return power_of_two(scale == 0 ? 0 : std::clamp<Index>(-std::ilogb(scale), -most, most));
}

// Draws the number of octaves by which scores are below the ends of the format: a few, or so many that they are 2^14 to
// 2^24, where float32 still resolves a nat, or two.
Index draw_octaves_below(Format dtype, Source& source) {
  if (has_short_range(dtype)) return source.between(1, 4);
  if (source.chance(1, 2)) return source.between(1, 100);
  return std::ilogb(largest_finite(dtype)) + 1 - source.between(14, 24);
}

// Returns the amplitude with which scores at the ends of the format stay inside it: it takes away the factor that a
// scale above 1 adds. In half of the problems they are lower, so that no factor log2 e takes them out, and still
// thousands apart.
double amplitude_of_ends(const Problem& problem, Source& source) {
  const double scale = std::fabs(problem.effective_scale());
  const Index lower = source.chance(1, 2) ? draw_octaves_below(problem.dtype, source) : 0;
  if (!(scale > 1)) return power_of_two(-lower);
  const Index octave = std::ilogb(scale), least = std::ilogb(smallest_normal(problem.dtype));
  return power_of_two(std::max(-lower - octave - (power_of_two(octave) < scale ? 1 : 0), least));
}

// Sets a scale below 1 to 1 in half of these problems: it takes scores from the ends, and a q that gave it back might
// overflow before it.
void leave_at_ends(Problem& problem, Source& source, Supports::Scale supported) {
  if (problem.values == Values::ends && supported != Supports::Scale::only_default &&
      std::fabs(problem.effective_scale()) < 1 && source.chance(1, 2))
    problem.scale = 1;
}

std::optional<double> draw_scale(Source& source, const Problem& problem, Supports::Scale supported) {
  if (supported == Supports::Scale::only_default || source.chance(1, 2)) return std::nullopt;
  const Index sign = supported == Supports::Scale::any ? source.below(8) : 2;
  const double magnitude = draw_magnitude(source, problem);
  return sign == 0 ? 0 : sign == 1 ? -magnitude : magnitude;
}

double draw_softcap(Source& source) {
  constexpr auto usual = std::to_array<double>({1, 8, 30, 50});
  const Index kind = source.below(16);
  if (kind < 13) return 0;
  if (kind == 13) return source.pick(usual);
  if (kind == 14 &&
      source.chance(1, 3))  // as good as none, past what 16 bits hold among them; or far below every score
    return power_of_two(source.chance(2, 3) ? source.between(9, 40) : source.between(-20, -5));
  if (kind == 14) return power_of_two(source.between(-4, 8));
  return significand(source, source.between(-3, 6), 10);
}

void draw_distribution(Problem& problem, const Domain& domain, Source& source) {
  draw_field<&Problem::values>(problem, domain, source);
  problem.amplitude = draw_amplitude(source, problem.dtype);
  draw_field<&Problem::q_form>(problem, domain, source);
  draw_field<&Problem::k_form>(problem, domain, source);
  draw_field<&Problem::v_form>(problem, domain, source);
}

// Fits the levels' amplitude once the scale is known.
void fit_levels(Problem& problem, Source& source) {
  if (problem.values == Values::levels && source.chance(3, 4)) problem.amplitude = amplitude_of_levels(problem);
  if (problem.values == Values::ends && source.chance(3, 4)) problem.amplitude = amplitude_of_ends(problem, source);
}

// Half the bits: distinct enough, and the text stays short.
std::uint64_t draw_seed(Source& source) { return source.next() >> 32; }

}  // namespace

void draw_values(Problem& problem, const Domain& domain, Source& source) {
  draw_distribution(problem, domain, source);
  problem.scale = draw_scale(source, problem, domain.supports().scale);
  leave_at_ends(problem, source, domain.supports().scale);
  fit_levels(problem, source);
  problem.softcap = domain.supports().softcap ? draw_softcap(source) : 0;
  problem.seed = draw_seed(source);
}

void draw_null_key(Problem& problem, const Domain& domain, Source& source) {
  draw_field<&Problem::null_key>(problem, domain, source);
}

void redraw_values(Problem& problem, const Domain& domain, Source& source) {
  draw_distribution(problem, domain, source);
  fit_levels(problem, source);
  problem.seed = draw_seed(source);
}

}  // namespace attest
