// The order in which weighted values are added. A query of zeros makes every weight 1; v holds M at key i, -M at key j
// and a unit at every other key: what is left of the units tells how many met neither M nor -M before these cancelled.
// Every column of every head and sample asks of a pair of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/attention/probe/parts.hpp"
#include "ops/probe/sum_tree.hpp"

namespace attest::ops::of_attention {
namespace {

using probing::SumTree;
using probing::TermPair;

// The numbers of a question: M swamps units that are added to it, and out holds what is left of `at_once` units.
struct Numbers {
  double large, unit;
  Index at_once;
};

// By the format that v and out are stored in. For f16: units whose mean over n keys is its least number, so many that
// their sum lies 27 bits below M, past what f32 and the alignment of tensor cores keep; the same in wider formats, for a
// subject that rounds to f16 between.
std::vector<Numbers> numbers_for(Format storage, Index keys) {
  int exponent = 0;
  while (two_to(exponent) < static_cast<double>(keys)) ++exponent;
  const Numbers narrow{0x1p15, two_to(exponent - 24), std::max<Index>(1, (Index{1} << 12) >> exponent)};
  if (has_short_range(storage)) return {narrow};
  return {{0x1p100, 1, Index{1} << std::min(precision(storage) - 1, 22)}, narrow};
}

class SumOrderProbe {
 public:
  SumOrderProbe(const ProbeTarget& target, Problem call) : subject_(target.subject), call_(std::move(call)) {}

  SumOrder order() {
    SumOrder told{call_, called(), call_.lk, {}, {}, {}};
    for (const Numbers& numbers : numbers_for(call_.dtype, call_.lk)) {
      numbers_ = numbers;
      reason_.clear();
      const std::optional<SumTree> tree = seen();
      if (tree) {
        told.words = tree->words();
        told.nested = tree->nested();
      }
      told.reason = reason_;
      if (tree) break;
    }
    return told;
  }

 private:
  std::optional<SumTree> seen() {
    const Index keys = call_.lk;
    if (keys < 2 || call_.dv < 1) return failed("one key has no order");
    // Without M nothing is lost, and with it something is.
    const std::vector<Index> controls = common(std::vector<TermPair>{{0, 0}, {keys / 2, keys / 2}});
    if (!reason_.empty()) return std::nullopt;
    if (std::ranges::any_of(controls, [](Index lost) { return lost != 0; }))
      return failed("units alone do not come back: keys are masked, numbers are flushed, or sums are too short");
    bool any_lost = false;
    std::optional<SumTree> tree = probing::sum_tree(keys, [&](std::span<const TermPair> pairs) {
      std::vector<Index> counts = common(pairs);
      any_lost = any_lost || std::ranges::any_of(counts, [](Index count) { return count > 2; });
      return counts;
    });
    if (!reason_.empty()) return std::nullopt;
    if (!tree && keys > 2 && !any_lost)
      return failed("nothing is lost beside M: sums are exact, or wider than out tells");
    if (!tree) return failed("no order explains it: it depends on the values, or differs between columns");
    // Other columns, heads and samples ask other pairs than before.
    std::vector<TermPair> others;
    for (Index n = 0; n < 2 * width(); ++n) {
      const Index i = n * 7919 % keys, j = (i + 1 + n * 104729 % (keys - 1)) % keys;
      others.push_back({i, j});
    }
    const std::vector<Index> counts = common(others);
    if (!reason_.empty()) return std::nullopt;
    for (std::size_t n = 0; n < others.size(); ++n)
      if (counts[n] != tree->common(others[n])) return failed("columns, heads or samples differ in their order");
    return tree;
  }

  [[nodiscard]] std::string called() const {
    const auto counted = [](Index n, std::string_view what) {
      return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
    };
    return fmt::format("{}{}, {} of {}", counted(call_.lq, "row"),
                       call_.b == 1 ? "" : ", " + counted(call_.b, "sample"), counted(call_.hq, "head"), call_.dv);
  }

  // The number of pairs that one call asks of: one a column, but no more than its elements can be set for.
  [[nodiscard]] Index width() const {
    constexpr Index most_elements = Index{1} << 18;
    return std::min(call_.b * call_.hkv * call_.dv,
                    std::max<Index>(1, most_elements / std::min(call_.lk, numbers_.at_once)));
  }

  // The numbers of keys under the lowest common node of each pair: i = j asks without M, and counts what is lost then.
  std::vector<Index> common(std::span<const TermPair> pairs) {
    std::vector<Index> counts;
    while (!pairs.empty() && reason_.empty()) {
      const auto some = pairs.first(static_cast<std::size_t>(std::min(width(), std::ssize(pairs))));
      std::vector<Index> left(some.size());
      for (Index begin = 0; begin < call_.lk && reason_.empty(); begin += numbers_.at_once)
        add_left(some, begin, std::min(call_.lk, begin + numbers_.at_once), left);
      for (const Index units : left) counts.push_back(call_.lk - units);
      pairs = pairs.subspan(some.size());
    }
    return counts;
  }

  // Adds how many units of the keys begin .. end-1 are left of each pair.
  void add_left(std::span<const TermPair> pairs, Index begin, Index end, std::vector<Index>& left) {
    Problem asked = call_;
    for (std::size_t n = 0; n < pairs.size(); ++n) {
      const auto [i, j] = pairs[n];
      const auto put = [&, at = place(n)](Index key, double value) {
        set(asked, Edit::Tensor::v, {at.sample, at.head, key, at.column}, value);
      };
      for (Index key = begin; key < end; ++key)
        if (i == j || (key != i && key != j)) put(key, numbers_.unit);
      if (i == j) continue;
      put(i, numbers_.large);
      put(j, -numbers_.large);
    }
    const Answered answered = ops::ask(asked, subject_);
    if (answered.call.status != CallStatus::done) {
      reason_ = answered.call.message.empty() ? "a call failed" : answered.call.message;
      return;
    }
    for (std::size_t n = 0; n < pairs.size(); ++n) {
      const auto [sample, head, column] = place(n);
      const Index row = (head * (call_.hq / call_.hkv) * call_.lq + call_.lq - 1) * call_.dv + column;
      const Index of_sample = call_.hq * call_.lq * call_.dv;
      const double out = sample == 0 ? answered.first_sample.at(static_cast<std::size_t>(row))
                                     : answered.others.at(static_cast<std::size_t>((sample - 1) * of_sample + row));
      const double units = out * static_cast<double>(call_.lk) / numbers_.unit, whole = std::round(units);
      if (!(whole >= 0 && whole <= static_cast<double>(call_.lk))) {
        reason_ =
            fmt::format("out[{},{},{},{}] = {:.9g} counts no keys: a mask hides some of the {}, or out is no mean",
                        sample, head, call_.lq - 1, column, out, call_.lk);
        return;
      }
      left[n] += static_cast<Index>(whole);
    }
  }

  struct Column {
    Index sample, head, column;
  };
  [[nodiscard]] Column place(std::size_t pair) const {
    const auto n = static_cast<Index>(pair);
    return {n / call_.dv / call_.hkv, n / call_.dv % call_.hkv, n % call_.dv};
  }
  std::nullopt_t failed(std::string_view reason) {
    reason_ = reason;
    return std::nullopt;
  }

  Subject& subject_;
  const Problem call_;
  Numbers numbers_{};
  std::string reason_;
};

}  // namespace

std::vector<SumOrder> sum_orders(const ProbeTarget& target, Index keys, const Problem* call) {
  const Supports& supports = target.subject.info().supports;
  std::vector<Problem> calls;
  if (call != nullptr) {
    calls.push_back(Maker(supports, *call).blank(1, 1, 1, 1));
  } else {
    constexpr Index width = 64, heads = 4, rows = 64, samples = 8;
    for (const auto& [queries, batch] : {std::pair{Index{1}, Index{1}}, {rows, Index{1}}, {Index{1}, samples}}) {
      const Maker maker(supports, target.dtype,
                        {.rows = queries, .heads = heads, .samples = batch, .forms = target.forms});
      Problem one = maker.blank(queries, keys, width, width);
      if (std::ranges::find(calls, one) == calls.end()) calls.push_back(std::move(one));
    }
  }
  std::vector<SumOrder> orders;
  orders.reserve(calls.size());
  for (Problem& one : calls) orders.push_back(SumOrderProbe(target, std::move(one)).order());
  return orders;
}

}  // namespace attest::ops::of_attention
