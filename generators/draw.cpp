#include "generators/draw.hpp"

#include <optional>
#include <utility>

#include "core/rng.hpp"
#include "core/supports.hpp"
#include "generators/accepted.hpp"
#include "generators/forms.hpp"
#include "generators/layout.hpp"
#include "generators/mask.hpp"
#include "generators/precision.hpp"
#include "generators/shape.hpp"
#include "generators/source.hpp"
#include "generators/values.hpp"

namespace attest {
namespace {

// The uses of a seed.
enum : std::uint64_t { shape_stream = 1, rest_stream = 2, batch_stream = 3, reshape_stream = 4, null_key_stream = 5 };

// One shape in so many has a batch past 65,535: one of the first thousand problems, whatever the seed.
constexpr std::uint64_t shapes_per_large_batch = 1000;

// Nothing of a shape that the domain's predicates turn away.
std::optional<Problem> draw_once(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size,
                                 bool large_batch) {
  Problem problem;
  Source shape(shape_key), rest(rest_key);
  draw_dtype(problem, domain, shape);
  if (!draw_shape(problem, domain, shape, size, large_batch) || !domain.may_accept_work_of(problem) ||
      !domain.may_accept_shape(problem))
    return std::nullopt;
  draw_masks(problem, domain, rest);
  draw_layouts(problem, domain, rest);
  draw_outputs(problem, domain, rest);
  draw_values(problem, domain, rest);
  draw_rows(problem, rest);
  Source of_null_key(extend(rest_key, null_key_stream));  // its own: what else is drawn does not hang on it
  draw_null_key(problem, domain, of_null_key);
  draw_forms(problem, domain, rest);
  return problem;
}

// The problem of these keys, of a batch past 65,535 in the first attempt alone.
Drawing draw_planned(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size,
                     bool large_batch) {
  return draw_until_accepted<Drawing>(domain, shape_key, rest_key,
                                      [&](std::uint64_t shape, std::uint64_t rest, std::uint64_t attempt) {
                                        return draw_once(domain, shape, rest, size, large_batch && attempt == 0);
                                      });
}

// The same call in another shape; as it is where that is no problem of the domain.
Problem reshaped(const Domain& domain, const Problem& planned, std::uint64_t key, int size) {
  Problem problem = planned;
  Source source(key);
  problem.rows = 0;
  if (!draw_shape(problem, domain, source, size, false)) return planned;
  draw_rows(problem, source);
  return domain.accepts(problem) && !declined(problem, domain.supports(), domain.dtypes()) ? problem : planned;
}

}  // namespace

Problem draw_from_keys(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size) {
  return draw_planned(domain, shape_key, rest_key, size, false).problem;
}

Drawing draw_counted(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat,
                     int size) {
  const std::uint64_t shape = case_number / repeat;
  const bool large_batch =
      size >= 100 && shape % shapes_per_large_batch == below(extend(seed, batch_stream), shapes_per_large_batch);
  const auto rest_key = [&](std::uint64_t number) { return extend(extend(seed, rest_stream), number); };
  const std::uint64_t first = shape * repeat;
  Drawing planned = draw_planned(domain, extend(extend(seed, shape_stream), shape), rest_key(first), size, large_batch);
  if (case_number == first) return planned;
  if (domain.supports().shapes_share_plans && case_number >= first + repeat / 2)
    planned.problem = reshaped(domain, planned.problem, extend(extend(seed, reshape_stream), shape), size);
  // The same call with something else in its tensors.
  return redraw_until_accepted(domain, std::move(planned), rest_key(case_number),
                               [&](Problem& problem, std::uint64_t key) {
                                 Source rest(key);
                                 redraw_masks(problem, domain, rest);
                                 redraw_values(problem, domain, rest);
                               });
}

Problem draw_problem(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat,
                     int size) {
  return draw_counted(domain, seed, case_number, repeat, size).problem;
}

}  // namespace attest
