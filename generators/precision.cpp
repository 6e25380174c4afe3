#include "generators/precision.hpp"

#include <iterator>
#include <span>

#include "generators/weighted.hpp"

namespace attest {

void draw_dtype(Problem& problem, const Domain& domain, Source& source) {
  problem.dtype = source.pick(std::span<const Format>(domain.dtypes()));
}

void draw_outputs(Problem& problem, const Domain& domain, Source& source) {
  draw_field<&Problem::lse>(problem, domain, source);
  const Range threads = domain.range<&Problem::threads>();
  if (threads.lo < std::ssize(field_of<&Problem::threads>().weights))
    draw_field<&Problem::threads>(problem, domain, source);
  else
    problem.threads = threads.lo;
}

}  // namespace attest
