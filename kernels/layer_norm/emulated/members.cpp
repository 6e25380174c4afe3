#include "kernels/layer_norm/emulated/members.hpp"

#include <fmt/format.h>

#include "core/rng.hpp"

namespace attest::emulator::layer_norm {

Scheme member_scheme(const Contract& contract, Index hidden, bool rms, std::uint64_t seed, int n) {
  Scheme s = draw_scheme(contract, hidden, rms, extend(seed, static_cast<std::uint64_t>(n)));
  if (s.order > Order::shuffled) s.order = static_cast<Order>(mix(s.seed) % 3);
  const bool any = std::holds_alternative<attest::layer_norm::AnyDepth>(contract.arithmetic.depth);
  const int turn = n / 4;
  if (n % 4 == 2 && any) {
    s.shape = Shape::chain;
    s.order = turn % 2 != 0 ? Order::backward : Order::forward;
  } else if (n % 4 == 1 || n % 4 == 3) {
    s.root = n % 4 == 1 ? RootError::up : RootError::down;
    s.root_share = 1;
    if (any && turn % 2 != 0) {
      s.shape = Shape::chain;
      s.order = turn / 2 % 2 != 0 ? Order::shuffled : Order::forward;
    }
  }
  const bool off = contract.arithmetic.rsqrt_ulp > 0.5 || contract.arithmetic.rsqrt_rel;
  const bool once = off ? n % 2 == 0 && turn % 2 != 0 : (n + turn) % 2 != 0;
  if (once)
    s.root = RootError::nearest;
  else if (!off)
    s.root = RootError::exact;
  return s;
}

std::string in_words(const Scheme& s) {
  constexpr const char* orders[] = {"forward", "backward", "shuffled", "by magnitude", "by falling magnitude",
                                    "by value"};
  std::string text;
  switch (s.shape) {
    case Shape::chain:
      text = "sums one by one";
      break;
    case Shape::dealt:
      text = fmt::format("sums in {} lanes", s.lanes);
      break;
    case Shape::chunked:
      text = fmt::format("sums in {} chunks", s.lanes);
      break;
    case Shape::halves:
      text = fmt::format("sums of halves, down to {} elements", s.block);
      break;
  }
  text += fmt::format(", {}", orders[static_cast<int>(s.order)]);
  if (s.fma) text += ", fma";
  if (s.divide_by_root) text += ", divided by the root";
  return text;
}

}  // namespace attest::emulator::layer_norm
