#pragma once
#include <array>
#include <cmath>
#include <memory>
#include <string_view>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"
#include "oracle/call.hpp"

namespace attest::oracle {

// What a number must be, whatever its size.
enum class Expect : std::uint8_t { number, nan, nonfinite };

// What one element could be if the kernel keeps its contract, before it is rounded to the tensor's type.
struct Enclosure {
  double y = 0;                     // the float64 reference
  double lo = 0, hi = 0;            // a finite value lies in [lo, hi]; lo == hi where the rule is exact
  double hull_lo = 0, hull_hi = 0;  // of the attended values of its column; infinite for a log-sum-exp
  Expect expect = Expect::number;
  bool nonfinite_ok = false;  // NaN and infinities are permitted too
  bool undetermined = false;  // a finite value is not judged
  bool zero_ok = false;       // 0 is permitted too: the row may have lost every key
  bool empty_row = false;
};

// Where the elements of conforming kernels lie as a rule (docs/bounds.md, section 7): y +- (1.05 lambda s + bias), before
// rounding. A finding outside is improbable, not impossible.
struct StatisticalEnclosure {
  bool applies = false;  // false: nothing is said, and the rigorous enclosure alone decides
  bool by_box =
      false;  // errors of the weights are too large to act linearly: a box takes the place of part of lambda s
  double s = 0, bias = 0;
  double lo = 0, hi = 0;  // never wider than the rigorous enclosure
};

// What the elements of one result say to the statistical tiers.
struct Statistics {
  // At most near_lambda where every element is proven to need no more, and then an upper bound; else what `index` needs,
  // which is the largest, or the first above stop_lambda.
  double largest_lambda = 0;
  std::array<Index, 4> index{};
  // Tier three: T over the elements whose s has a cheap lower bound, in rows that a quick level judges. None of a result of
  // fewer than least_elements.
  double squares = 0;
  Index elements = 0;
  [[nodiscard]] double t() const { return elements > 0 ? std::sqrt(squares / static_cast<double>(elements)) : 0; }

  static constexpr double near_lambda = 4, stop_lambda = 5;
};

// Why the statistical tiers do not speak of a contract, as one clause; empty if they do.
std::string_view statistical_refusal(const Contract& contract);

// The float64 reference and the proven bounds of docs/bounds.md for one problem. Judges what a kernel returned.
class AttentionOracle {
 public:
  // Keeps references to all three; cheap. `inputs` are the problem's, or have its shape.
  // With directed rounding no error is taken for random: the statistical tiers are silent.
  AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs,
                  RoundingMode rounding = RoundingMode::nearest);
  // Of inputs that are known as intervals around `inputs`: enclosures hold whatever a conforming kernel makes of any of them.
  // The statistical tiers are silent.
  AttentionOracle(const Contract& contract, const Problem& problem, const Inputs& inputs, const Radii& radii);
  ~AttentionOracle();
  AttentionOracle(const AttentionOracle&) = delete;
  AttentionOracle& operator=(const AttentionOracle&) = delete;

  // Judges every element of the judged rows, `lse` only if it is present, in the order of their indices: out's columns
  // of a row, then its lse. Fails with the first element that no conforming kernel could have returned; counts end there.
  // pass otherwise, or vacuous: "undetermined" if nothing could be judged, "wide" if every judged enclosure holds the
  // whole hull of its values. Counts.wide is all of judged for the latter and 0 for any other verdict.
  // Fills in `statistics`, if given, for the rows judged; the verdict is the rigorous tier's, with or without.
  Verdict judge(const Tensor& out, const Tensor& lse, Statistics* statistics = nullptr);
  // The same by the full formulas for every element: what judge() must agree with.
  Verdict judge_slowly(const Tensor& out, const Tensor& lse);

  Enclosure out_enclosure(Index b, Index h, Index i, Index column);
  Enclosure lse_enclosure(Index b, Index h, Index i);
  // What holds a finite value whatever became of the row's weights: the hull of the attended values widened by section 4,
  // with 0 where the sum of the weights may be infinite or every key lost. `undetermined` where nothing is known of it:
  // rows without keys, values or masked values that are not finite, and an empty row's value that is not fixed.
  Enclosure hull_enclosure(Index b, Index h, Index i, Index column);
  // Tier two of an element of out.
  StatisticalEnclosure statistical_enclosure(Index b, Index h, Index i, Index column, double lambda);
  // T of tier three from the whole of s, over the elements of which s has a meaning, or `most` of them spread evenly. Slow:
  // it takes a second look where T from the cheap part of s, which is larger, objects. 0 where there is no such element.
  double slow_t(const Tensor& out, Index most = 4096);
  // The least lambda whose enclosure, rounded to `tensor`, holds `got`: 0 at least, infinite above 2^20, NaN where the
  // tier does not apply.
  double lambda_needed(Index b, Index h, Index i, Index column, Format tensor, double got);

 private:
  // What the full formulas know: made where the quick levels leave something open.
  struct Full;
  Full& full();

  const Problem& problem_;
  Call call_;
  bool has_statistics_;
  Index finite_head_ = -1;  // a key/value head known to hold finite values only
  std::unique_ptr<Full> full_;
};

}  // namespace attest::oracle
