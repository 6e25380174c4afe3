#include "generators/draw.hpp"

#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "core/supports.hpp"
#include "generators/forms.hpp"
#include "generators/layout.hpp"
#include "generators/mask.hpp"
#include "generators/precision.hpp"
#include "generators/shape.hpp"
#include "generators/source.hpp"
#include "generators/values.hpp"

namespace attest {
namespace {

// What a seed is used for.
enum : std::uint64_t { shape_stream = 1, rest_stream = 2, batch_stream = 3 };

// One shape in so many has a batch past 65,535: one of the first thousand problems, whatever the seed.
constexpr std::uint64_t shapes_per_large_batch = 1000;

// Far more draws than any assumption needs that leaves a domain worth testing.
constexpr std::uint64_t most_attempts = 10'000;
// Of other contents for a plan, some of which the assumption permits.
constexpr std::uint64_t most_redraws = 100;

Problem draw_once(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size, bool large_batch) {
  Problem problem;
  Source shape(shape_key), rest(rest_key);
  draw_dtype(problem, domain, shape);
  draw_shape(problem, domain, shape, size, large_batch);
  draw_masks(problem, domain, rest);
  draw_layouts(problem, domain, rest);
  draw_outputs(problem, domain, rest);
  draw_values(problem, domain, rest);
  draw_rows(problem, rest);
  draw_forms(problem, domain, rest);
  return problem;
}

Drawing draw_until_accepted(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size,
                            bool large_batch) {
  for (std::uint64_t attempt = 0; attempt < most_attempts; ++attempt) {
    Problem problem = draw_once(domain, shape_key, rest_key, size, large_batch && attempt == 0);
    if (domain.accepts(problem)) {
      if (const auto why = declined(problem, domain.supports(), domain.dtypes()))
        throw internal_error("a problem was drawn that is not to be asked, " + *why + ": " + to_text(problem));
      return {std::move(problem), attempt};
    }
    shape_key = mix(shape_key);
    rest_key = mix(rest_key);
  }
  throw usage_error("none of " + std::to_string(most_attempts) +
                    " problems drawn satisfies the assumption: widen --assume");
}

// The same call with something else in its tensors; the same again where the assumption permits nothing else.
Drawing redraw_until_accepted(const Domain& domain, const Problem& planned, std::uint64_t rest_key) {
  for (std::uint64_t attempt = 0; attempt < most_redraws; ++attempt, rest_key = mix(rest_key)) {
    Problem problem = planned;
    Source rest(rest_key);
    redraw_masks(problem, domain, rest);
    redraw_values(problem, domain, rest);
    if (domain.accepts(problem)) return {std::move(problem), attempt};
  }
  return {planned, most_redraws};
}

}  // namespace

Problem draw_from_keys(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size) {
  return draw_until_accepted(domain, shape_key, rest_key, size, false).problem;
}

Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat,
                     int size) {
  const std::uint64_t shape = case_number / repeat;
  const bool large_batch =
      size >= 100 && shape % shapes_per_large_batch == below(extend(seed, batch_stream), shapes_per_large_batch);
  const auto rest_key = [&](std::uint64_t number) { return extend(extend(seed, rest_stream), number); };
  const std::uint64_t first = shape * repeat;
  Drawing planned =
      draw_until_accepted(domain, extend(extend(seed, shape_stream), shape), rest_key(first), size, large_batch);
  if (case_number == first) return planned;
  Drawing redrawn = redraw_until_accepted(domain, planned.problem, rest_key(case_number));
  redrawn.rejected += planned.rejected;
  return redrawn;
}

Problem draw_problem(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat,
                     int size) {
  return draw_counted(domain, seed, case_number, repeat, size).problem;
}

}  // namespace attest
