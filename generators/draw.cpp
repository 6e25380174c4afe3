#include "generators/draw.hpp"

#include <string>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "core/supports.hpp"
#include "generators/layout.hpp"
#include "generators/mask.hpp"
#include "generators/precision.hpp"
#include "generators/shape.hpp"
#include "generators/source.hpp"
#include "generators/values.hpp"

namespace attest {
namespace {

// What a seed is used for.
enum : std::uint64_t { shape_stream = 1, rest_stream = 2 };

// Far more draws than any assumption needs that leaves a domain worth testing.
constexpr int most_attempts = 10'000;

Problem draw_once(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size) {
  Problem problem;
  Source shape(shape_key), rest(rest_key);
  draw_dtype(problem, domain, shape);
  draw_shape(problem, domain, shape, size);
  draw_masks(problem, domain, rest);
  draw_layouts(problem, domain, rest);
  draw_outputs(problem, domain, rest);
  draw_values(problem, domain, rest);
  draw_rows(problem, rest);
  return problem;
}

}  // namespace

Problem draw_from_keys(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, int size) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    Problem problem = draw_once(domain, shape_key, rest_key, size);
    if (domain.accepts(problem)) {
      if (const auto why = declined(problem, domain.supports(), domain.dtypes()))
        throw internal_error("a problem was drawn that is not to be asked, " + *why + ": " + to_text(problem));
      return problem;
    }
    shape_key = mix(shape_key);
    rest_key = mix(rest_key);
  }
  throw usage_error("none of " + std::to_string(most_attempts) +
                    " problems drawn satisfies the assumption: widen --assume");
}

Problem draw_problem(const Domain& domain, std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat,
                     int size) {
  return draw_from_keys(domain, extend(extend(seed, shape_stream), case_number / repeat),
                        extend(extend(seed, rest_stream), case_number), size);
}

}  // namespace attest
