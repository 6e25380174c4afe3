#include "generators/problem_gen.hpp"

#include <ostream>
#include <utility>

#include <rapidcheck/Random.h>
#include <rapidcheck/seq/Create.h>
#include <rapidcheck/shrinkable/Create.h>

#include "generators/draw.hpp"

namespace attest {

rc::Gen<Problem> problem_gen(const Domain& domain, Candidates candidates) {
  return [domain, candidates = std::move(candidates)](const rc::Random& random, int size) {
    rc::Random stream = random;
    const std::uint64_t shape_key = stream.next(), rest_key = stream.next();
    return rc::shrinkable::shrinkRecur(
        draw_from_keys(domain, shape_key, rest_key, size), [candidates](const Problem& problem) {
          return rc::seq::fromContainer(candidates ? candidates(problem) : std::vector<Problem>{});
        });
  };
}

void showValue(const Problem& problem, std::ostream& out) { out << to_text(problem); }

}  // namespace attest
