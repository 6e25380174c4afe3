// Probes the meaning of options: epsilon, the divisor, the mean, gamma, beta, the residual, constant rows, and NaN.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ops/layer_norm/probe/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using probing::by_meaning;
using probing::near;

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

class Meanings {
 public:
  explicit Meanings(const Asking& asking)
      : asking_(asking), maker_(asking.maker), n_(asking.maker.width(2)), even_(n_ % 2 == 0) {}

  std::vector<ProbeRow> rows() {
    epsilon();
    divisor();
    mean();
    weights();
    residual();
    statistics_of_rows();
    constant_rows();
    not_numbers();
    return std::move(rows_);
  }

 private:
  // 1 and -1, so that t is too where epsilon is small.
  [[nodiscard]] Problem ones() const {
    Problem p = maker_.blank(n_);
    p.values = Values::alternating;
    return p;
  }
  [[nodiscard]] Problem in_norm(Problem p, Norm norm) const {
    p.norm = norm;
    return p;
  }

  void epsilon() {
    if (!even_) return;
    Problem p = ones();
    p.epsilon = 3;
    const double root = std::sqrt(3.0);
    rows_.push_back(by_meaning(asking_.asked, "epsilon", p, out_at(0),
                               {{0.5, "inside the root"},
                                {0.25, "outside: root + epsilon"},
                                {1 / (1 + root), "outside: root + root of epsilon"},
                                {1, "dropped"},
                                {1 / root, "the larger of variance and epsilon"},
                                {1 / std::sqrt(10.0), "squared, inside the root"},
                                {1 / std::sqrt(7.0), "inside the root, twice"}}));
    // Several sizes of epsilon show whether one number stands in its place.
    std::string observed = "as given";
    std::optional<Shown> example;
    std::optional<double> first;
    for (const double given : {0.25, two_to(-6), 2.0}) {
      p.epsilon = given;
      example.emplace(asking_.asked.ask(p));
      if (!example->done()) break;
      const double t = example->at({}), seen = 1 / (t * t) - 1;
      if (std::fabs(seen - given) <= 0.1 * given + 0.02 * unit_roundoff(maker_.dtype()) / unit_roundoff(Format::bf16))
        continue;
      if (!first) {
        first = seen;
        observed = fmt::format("{:.3g} in its place", std::max(seen, 0.0));
      } else if (!near(*first, seen)) {
        observed = "another one each time";
      }
      if (example->outside()) break;
    }
    rows_.push_back(held_row("epsilon given", "as given", observed, *example));
  }

  // Finds the divisor of the sum of squares from a row of 1, zeros and -1, with an odd number of elements where it can.
  void divisor() {
    const Index odd = maker_.width(3), n = odd > 8 ? n_ : odd;
    Row x(static_cast<std::size_t>(n), 0);
    if (n < 2) return;
    x[0] = 1;
    x.back() = -1;
    const Problem p = maker_.of_row(x);
    const Shown shown = asking_.asked.ask(p);
    std::string observed;
    if (shown.done()) {
      const double t = shown.at({}), count = t * t * 2, of = static_cast<double>(n);
      observed = std::fabs(count - of) < 0.25       ? "n"
                 : std::fabs(count - of + 1) < 0.25 ? "n - 1"
                                                    : fmt::format("{:.3g} where n is {}", count, n);
      if (of * unit_roundoff(maker_.dtype()) > 0.05) observed = cannot_tell("rows are too long");
    }
    rows_.push_back(held_row("divisor", "n", observed, shown));
  }

  void mean() {
    if (!even_) return;
    Problem p = ones();
    p.offset = 3;  // 4 and 2
    const double first = 4 / std::sqrt(10.0);
    const Meaning subtracted{1, "subtracted"}, left{first, "left where it is"},
        half{4, "subtracted from the variance alone"}, other{1 / std::sqrt(10.0), "subtracted from the values alone"};
    if (maker_.supports().layer)
      rows_.push_back(by_meaning(asking_.asked, "mean, LayerNorm", in_norm(p, Norm::layer), out_at(0),
                                 {subtracted, left, half, other}));
    if (maker_.supports().rms)
      rows_.push_back(by_meaning(asking_.asked, "mean, RMSNorm", in_norm(p, Norm::rms), out_at(0),
                                 {left, subtracted, half, other}));
  }

  void weights() {
    if (!even_) return;
    if (maker_.supports().gamma) {
      Problem p = ones();
      set_gamma(p, 0, 2);
      const bool offset = asking_.contract.gamma_offset == 1;
      const Meaning plain{2, "gamma"}, one_more{3, "1 + gamma"}, dropped{1, "dropped"};
      rows_.push_back(
          by_meaning(asking_.asked, "factor", p, out_at(0),
                     offset ? std::vector{one_more, plain, dropped} : std::vector{plain, one_more, dropped}));
      Problem q = ones();
      for (Index i = 0; i < n_ && i < 8; ++i) set_gamma(q, i, static_cast<double>(i) + 2);
      const double one = offset ? 1 : 0;
      rows_.push_back(by_meaning(asking_.asked, "gamma by", q,
                                 [](const probing::Elements& out) {
                                   return -out("out", {0, 1, 0, 0});
                                 },
                                 {{3 + one, "column"}, {2 + one, "one for all columns"}}));
    }
    if (!maker_.supports().beta) return;
    Problem p = ones();
    const double gamma = maker_.supports().gamma ? 2 : 1;
    const double factor = asking_.contract.gamma_offset == 1 && maker_.supports().gamma ? gamma + 1 : gamma;
    if (maker_.supports().gamma) set_gamma(p, 0, gamma);
    set_beta(p, 0, 5);
    std::vector<Meaning> meanings{{factor + 5, "added after gamma"}};
    if (factor != 1) meanings.push_back({factor * 6, "added before gamma"});
    meanings.push_back({factor, "dropped"});
    meanings.push_back({factor - 5, "subtracted"});
    rows_.push_back(by_meaning(asking_.asked, "beta", p, out_at(0), meanings));
  }

  // x of 1 and -1, and a residual of which the first half is 2, the other -2.
  void residual() {
    if (!maker_.supports().residual) return;
    const Index n = maker_.width(4);
    if (n % 4 != 0) return;
    Problem p = maker_.blank(n);
    p.values = Values::alternating;
    p.residual = Residual::zero;
    for (Index i = 0; i < n; ++i) set_residual(p, i, i < n / 2 ? 2 : -2);
    const double root = std::sqrt(5.0);  // sums are 3, 1, -1, -3
    rows_.push_back(by_meaning(asking_.asked, "residual", p, out_at(0),
                               {{3 / root, "added to x before"},
                                {3, "added to the result"},
                                {1, "dropped"},
                                {3 / root + 2, "added before and after"},
                                {-1 / root, "subtracted"}}));
    if (!maker_.supports().sum_out) return;
    p.sum_out = true;
    rows_.push_back(by_meaning(asking_.asked, "sum_out", p, probing::element({}, "sum_out"),
                               {{3, "x + residual"}, {1, "x"}, {2, "the residual"}, {3 / root, "the result"}}));
  }

  // A row of 1 and -1 above rows of 3 and -3.
  void statistics_of_rows() {
    const Maker& many = asking_.further;
    Problem p = many.blank(n_);
    if (!even_ || p.rows < 2) return;
    p.values = Values::alternating;
    p.amplitude = 3;
    for (Index i = 0; i < n_; ++i) set_x(p, i, i % 2 == 0 ? 1 : -1);
    const auto count = static_cast<double>(p.rows);
    const double all = 1 / std::sqrt((1 + 9 * (count - 1)) / count);
    rows_.push_back(by_meaning(asking_.asked, "statistics of", p, out_at(0),
                               {{1, "each row"}, {all, "all rows"}, {1.0 / 3, "another row"}}));
  }

  [[nodiscard]] static std::string in_words(double got, double beta) {
    return got == beta       ? "beta"
           : std::isnan(got) ? "nan"
           : std::isinf(got) ? "infinity"
           : near(got, beta) ? "beta, nearly"
                             : fmt::format("{:.4g} where beta is {:.4g}", got, beta);
  }
  void constant_row(std::string stage, Problem p) {
    const double beta = maker_.supports().beta ? 3 : 0;
    if (maker_.supports().beta) set_beta(p, 0, beta);
    const Shown shown = asking_.asked.ask(p);
    const std::string observed = shown.done() ? in_words(shown.at({}), beta) : "";
    // The result is beta where sums are exact; elsewhere the bound says how far it may be off.
    const bool agrees = observed == "beta";
    rows_.push_back(row_of(std::move(stage), p.epsilon > 0 ? "beta" : "not said", observed, shown,
                           p.epsilon == 0 ? Standing::unsaid
                           : agrees       ? Standing::agrees
                                          : Standing::open));
  }
  void constant_rows() {
    Problem p = maker_.blank(n_);
    p.epsilon = two_to(-17);
    p.offset = 1;
    if (maker_.layer()) {
      constant_row("constant row", p);
      Problem far = p;
      far.hidden = maker_.width(1000);
      far.offset = round_to(maker_.dtype(), 1000.1);
      constant_row("constant row of 1000.1", far);
      p.epsilon = 0;
      constant_row("constant row, epsilon 0", p);
    }
    p.offset = 0;
    p.epsilon = two_to(-17);
    constant_row("row of zeros", p);
    if (maker_.width(1) == 1 && maker_.layer()) {
      Problem lone = maker_.blank(1);
      lone.epsilon = two_to(-17);
      lone.offset = 5;
      constant_row("row of one element", lone);
    }
  }

  void not_number(std::string stage, const Problem& p, Index column) {
    const bool said = asking_.contract.nan == NanRule::propagates;
    const Shown shown = asking_.asked.ask(p);
    const bool comes = shown.done() && !std::isfinite(shown.at({0, column, 0, 0}));
    const Standing standing = !said ? Standing::unsaid : comes ? Standing::agrees : Standing::contradicts;
    rows_.push_back(row_of(std::move(stage), said ? "comes through" : "not said", comes ? "comes through" : "is gone",
                           shown, standing));
  }
  void not_numbers() {
    if (!even_) return;
    Problem p = ones();
    set_x(p, 0, nan);
    not_number("NaN in x", p, 1);
    if (maker_.supports().residual) {
      Problem q = ones();
      set_residual(q, 0, nan);
      not_number("NaN in residual", q, 1);
    }
    if (maker_.supports().gamma) {
      Problem q = ones();
      set_gamma(q, 0, nan);
      not_number("NaN in gamma", q, 0);
    }
    if (maker_.supports().beta) {
      Problem q = ones();
      set_beta(q, 0, nan);
      not_number("NaN in beta", q, 0);
    }
    Problem q = ones();
    set_x(q, 0, infinity);
    const Shown shown = asking_.asked.ask(q);
    const std::string observed = !shown.done()                 ? ""
                                 : std::isfinite(shown.at({})) ? "a finite number"
                                 : std::isnan(shown.at({}))    ? "nan"
                                                               : "infinity";
    rows_.push_back(row_of("infinity in x", "not said", observed, shown, Standing::unsaid));
    leaks();
  }
  // NaN in the first row, and what the next one gives.
  void leaks() {
    Problem p = asking_.further.blank(n_);
    if (p.rows < 2) return;
    p.values = Values::alternating;
    set_x(p, 0, nan);
    const Shown shown = asking_.asked.ask(p);
    const bool clean = shown.done() && near(shown.at({1, 0, 0, 0}), 1);
    rows_.push_back(row_of("NaN in another row", "not read", clean ? "not read" : "comes through", shown,
                           clean ? Standing::agrees : Standing::open));
  }

  const Asking& asking_;
  const Maker& maker_;
  const Index n_;
  const bool even_;
  std::vector<ProbeRow> rows_;
};

}  // namespace

std::vector<ProbeRow> meaning_rows(const Asking& asking) { return Meanings(asking).rows(); }

}  // namespace attest::ops::of_layer_norm
