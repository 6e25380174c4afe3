#include <algorithm>
#include <array>

#include "core/supports.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// b, hq, hkv, lq, lk, d, dv of the canaries, the smallest first that softmax and both products have a part in. A kernel
// that is wrong on one of them may be right on the next: a single key leaves next to nothing to err in.
using Sizes = std::array<Index, 7>;
constexpr Sizes canary_sizes[] = {
    {1, 1, 1, 2, 3, 4, 4}, {1, 1, 1, 1, 1, 1, 1}, {1, 2, 2, 16, 16, 64, 64}, {2, 2, 2, 64, 64, 128, 128}};
constexpr std::uint64_t canary_seed = 0x63616E617279;

// The least size that is offered from `n` on.
Index offered(const DimRange& range, Index n) {
  const Index step = std::max<Index>(range.multiple, 1);
  const Index least = std::max({n, range.min, Index{1}});
  return std::min((least + step - 1) / step * step, range.max);
}

// Nothing where the subject takes no problem of about that size.
std::optional<Problem> canary(const Sizes& size, const Supports& s, Format dtype) {
  Problem p;
  p.dtype = dtype;
  p.b = offered(s.b, size[0]);
  p.hkv = offered(s.hkv, size[2]);
  p.hq = offered(s.hq, std::max(size[1], p.hkv));
  if (p.hq != p.hkv && (!s.gqa || p.hq % p.hkv != 0)) p.hkv = offered(s.hkv, p.hq);
  p.lq = offered(s.lq, size[3]);
  p.lk = offered(s.lk, size[4]);
  p.d = offered(s.d, size[5]);
  p.dv = s.dv_equals_d ? p.d : offered(s.dv, size[6]);
  p.values = Values::normal;
  p.seed = canary_seed;
  if (p.hkv < 1 || p.hq % p.hkv != 0 || declined(p, s, {&dtype, 1})) return std::nullopt;
  return p;
}

}  // namespace

std::vector<Problem> canaries(const Supports& supports, Format dtype) {
  std::vector<Problem> taken;
  for (const Sizes& size : canary_sizes)
    if (std::optional<Problem> problem = canary(size, supports, dtype)) taken.push_back(std::move(*problem));
  return taken;
}

}  // namespace attest::ops::of_attention
