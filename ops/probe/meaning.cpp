#include "ops/probe/meaning.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace attest::ops::probing {

bool near(double a, double b) noexcept {
  return std::fabs(a - b) <= 0.03 * std::max(std::fabs(a), std::fabs(b)) + 0.005;
}

std::string meaning_of(double value, const std::vector<Meaning>& meanings, const std::string& what) {
  for (const Meaning& meaning : meanings)
    if (near(value, meaning.value)) return meaning.words;
  return std::isnan(value) ? "NaN" : fmt::format("{}{:.4g} where {:.4g} is meant", what, value, meanings.front().value);
}

ProbeRow by_meaning(const Asked& asked, std::string stage, const Problem& problem, const Read& read,
                    const std::vector<Meaning>& meanings, const std::string& what) {
  const Shown shown = asked.ask(problem);
  std::string observed = shown.done() ? meaning_of(read(shown.elements()), meanings, what) : "";
  return held_row(std::move(stage), meanings.front().words, std::move(observed), shown);
}

ProbeRow output_rounding(const Asked& asked, const Quarters& make, std::string_view unasked) {
  const std::string stage = "output rounding", promised = "to nearest";
  if (!is_short(asked.dtype)) return untold(stage, promised, "a sum is rounded before it is stored");
  const double u = std::ldexp(1.0, 1 - precision(asked.dtype));
  std::optional<Shown> last;
  std::array<double, 4> found{};
  std::size_t n = 0;
  for (const int quarters : {1, 2, 3, 6}) {  // 6: half a unit above an odd one
    const auto call = make(quarters);
    if (!call) return untold(stage, promised, unasked);
    last.emplace(asked.ask(call->first));
    if (!last->done()) return refused_row(stage, promised, *last);
    found[n++] = (call->second(last->elements()) - 1) / u;
    if (last->outside()) break;
  }
  std::string observed = cannot_tell("means are not exact");
  Standing standing = Standing::open;
  if (found[0] == 0 && found[2] == 1) {
    observed = found[1] == 0 && found[3] == 2 ? "to nearest, ties to even" : "to nearest";
    standing = Standing::agrees;
  } else if (found[0] == 0 && found[2] == 0) {
    observed = "toward zero";
  } else if (found[0] == 1 && found[2] == 1) {
    observed = "away from zero";
  }
  return row_of(stage, promised, std::move(observed), *last, standing);
}

}  // namespace attest::ops::probing
