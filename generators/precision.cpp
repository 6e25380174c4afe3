#include "generators/precision.hpp"

#include <array>
#include <span>

#include "generators/weighted.hpp"

namespace attest {
namespace {

constexpr std::array<std::uint16_t, 3> lse_weights{5, 3, 2};  // none f32 f64
constexpr std::array<std::uint16_t, 9> thread_weights{70, 20, 4, 2, 2, 0, 0, 0, 2};

}  // namespace

void draw_dtype(Problem& problem, const Domain& domain, Source& source) {
  problem.dtype = source.pick(std::span<const Format>(domain.dtypes()));
}

void draw_outputs(Problem& problem, const Domain& domain, Source& source) {
  const Domain::Fields& fields = domain.fields();
  problem.lse = static_cast<LseOutput>(weighted(source, lse_weights, fields.lse));
  problem.threads = fields.threads.lo < std::ssize(thread_weights) ? weighted(source, thread_weights, fields.threads)
                                                                   : fields.threads.lo;
}

}  // namespace attest
