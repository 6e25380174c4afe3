#include "kernels/emulated/members.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "core/rng.hpp"

namespace attest::emulator {
namespace {

// Number n of a walk over 0..count-1 in an order of the seed, which begins one further each time round.
std::size_t walked(std::size_t count, std::uint64_t seed, std::size_t n) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t key = seed;
  for (std::size_t at = count; at > 1; --at) std::swap(order[at - 1], order[below(key = mix(key), at)]);
  return order[(n + n / count) % count];
}

// The schemes that a contract permits, as one number each.
class Schemes {
 public:
  Schemes(const Arithmetic& a, double scale) : exps_(a.exp2 ? 2 : 1) {
    if (a.normalise_after) ways_ = {Normalise::online, Normalise::after};
    if (a.normalise_before) ways_.push_back(Normalise::before);
    if (a.normalise_lse) ways_.insert(ways_.end(), {Normalise::by_lse, Normalise::anew});
    if (a.fold_q) places_.push_back(ScaleOn::q);
    if (a.fold_k) places_.push_back(ScaleOn::k);
    if (a.exp2 && scale > 0) places_.push_back(ScaleOn::exponent);
    if (a.fold_sqrt && scale > 0) places_.push_back(ScaleOn::square_roots);
  }
  [[nodiscard]] std::size_t count() const { return places_.size() * ways_.size() * exps_ * 2; }
  void set(Variant& v, std::size_t n) const {
    v.scale_on = places_[n % places_.size()];
    n /= places_.size();
    v.normalise = ways_[n % ways_.size()];
    n /= ways_.size();
    v.exp2 = n % exps_ != 0;
    v.fma = n / exps_ != 0;
  }

 private:
  std::vector<Normalise> ways_;
  std::vector<ScaleOn> places_{ScaleOn::score};
  std::size_t exps_;
};

void add_in_order(Variant& v, const Contract& contract, bool reversed) {
  v.qk = v.pv = v.row_sum = Order::forward;
  if (contract.arithmetic.key_order == KeyOrder::any) v.reversed = reversed;
}

// Takes every freedom to an end, each to one of its own: an error that is alike everywhere cancels where weights are
// divided by their sum.
void go_to_the_end(Variant& v, const Contract& contract, std::uint64_t key) {
  const auto pick = [&](std::uint64_t n) { return below(key = mix(key), n); };
  const Arithmetic& a = contract.arithmetic;
  constexpr Error ends[] = {Error::none, Error::up, Error::down, Error::in_turn, Error::by_call};
  for (Error* error : {&v.exp_error, &v.rescale_error, &v.tanh_error, &v.div_error}) *error = ends[pick(5)];
  if (a.kappa >= 3)
    for (bool* truncates : {&v.truncate_qk, &v.truncate_pv, &v.truncate_sum}) *truncates = pick(4) != 0;
  if (a.mma) {
    v.blocks_qk = v.blocks_pv = v.blocks_sum = Blocks::chained;
    v.blocks_at_once = 1;
  }
  if (a.lse_merge != LseMerge::none && pick(2) != 0)
    v.splits = std::min(static_cast<Index>(a.splits_max.value_or(64)), Index{1} + (Index{1} << pick(7)));
  v.lazy = contract.lazy_nats();
}

}  // namespace

Variant member_variant(const Contract& contract, const Problem& problem, std::uint64_t seed, int n) {
  const auto at = static_cast<std::uint64_t>(n);
  Variant v = draw_variant(contract, problem, extend(seed, at));
  const Schemes schemes(contract.arithmetic, problem.effective_scale());
  schemes.set(v, walked(schemes.count(), seed, at));
  v.in_octaves = v.in_octaves && v.exp2;
  if (n % 4 == 2)
    add_in_order(v, contract, n / 4 % 2 != 0);
  else if (n % 4 != 0)
    go_to_the_end(v, contract, v.seed);
  return v;
}

std::string in_words(const Variant& v) {
  constexpr const char* orders[] = {"forward", "backward", "pairwise", "in lanes", "shuffled"};
  constexpr const char* places[] = {"score", "q", "k", "exponent", "q and k"};
  constexpr const char* ways[] = {"online", "divided at the end", "weights divided first", "weights by log-sum-exp",
                                  "weights made anew and divided"};
  std::string text = ways[static_cast<int>(v.normalise)];
  if (v.normalise == Normalise::online && v.tile < (Index{1} << 30)) text += fmt::format(" in tiles of {}", v.tile);
  if (v.splits > 1) text += fmt::format(", {} splits", v.splits);
  text += fmt::format(", sums {} (scores) and {} (values), scale on {}", orders[static_cast<int>(v.qk)],
                      orders[static_cast<int>(v.pv)], places[static_cast<int>(v.scale_on)]);
  if (v.exp2) text += ", exp2";
  if (v.fma) text += ", fma";
  if (v.blocks_qk != Blocks::none || v.blocks_pv != Blocks::none) text += ", tensor cores";
  if (v.truncate_pv) text += ", sums truncated";
  return text;
}

}  // namespace attest::emulator
