#include "graph/ensemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "core/rng.hpp"

namespace attest::graph {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double most_squared = 1e150;  // stands for an infinite z in T

// Exponentials end at the least normal number, and some runtimes flush what is below to zero; f16 has its subnormals.
double floor_of(Format format) noexcept {
  return has_short_range(format) ? half_smallest_subnormal(format) : smallest_normal(format);
}

// The mean of those that are finite; 0 of none.
double mean(std::span<const double> x) {
  double sum = 0, count = 0;
  for (const double v : x)
    if (std::isfinite(v)) sum += v, ++count;
  return count > 0 ? sum / count : 0;
}

// The first of several lanes alone.
Array first_lane(const Array& x) {
  Array first{x.type, x.shape, 1, {}, {}};
  if (is_floating(x.type))
    first.floats.assign(x.lane(0).begin(), x.lane(0).end());
  else
    first.integers.assign(x.integer_lane(0).begin(), x.integer_lane(0).end());
  return first;
}

// w(v) of each element, see Ensemble.
std::vector<double> pooled(std::span<const double> v, const std::vector<Index>& shape) {
  std::vector<double> w(v.size(), 0);
  if (shape.empty() || v.size() < 2) return w;
  const auto length = shape.back() < 4 ? v.size() : static_cast<std::size_t>(shape.back());
  for (std::size_t row = 0; row < v.size(); row += length)
    std::fill_n(w.begin() + static_cast<std::ptrdiff_t>(row), length, mean(v.subspan(row, length)));
  return w;
}

// sqrt(a^2 + b^2 + c^2) of numbers whose squares may be 0 or infinite; none is negative, c is above 0.
double root_of_squares(double a, double b, double c) {
  const double most = std::max({a, b, c});
  if (!std::isfinite(a) || !std::isfinite(b)) return infinite;
  return most * std::sqrt(a / most * (a / most) + b / most * (b / most) + c / most * (c / most));
}

std::vector<double> offsets(std::span<const double> x, std::span<const double> from) {
  std::vector<double> off(x.size());
  std::transform(x.begin(), x.end(), from.begin(), off.begin(), std::minus<>());
  return off;
}

bool is_wide(const Spread& spread) {
  double low = 0, high = 0;
  for (const double r : spread.reference.floats) {
    if (!std::isfinite(r)) continue;
    low = std::min(low, r);
    high = std::max(high, r);
  }
  const auto wide = std::count_if(spread.deviation.begin(), spread.deviation.end(),
                                  [range = high - low](double s) { return !(8 * s <= range); });
  return 2 * static_cast<std::size_t>(wide) > spread.deviation.size();
}

// Collects z over outputs.
class Score {
 public:
  explicit Score(Judgement& judgement) : judgement_(judgement) {}

  void element(Scored one, bool floating) {
    if (!one.determined) {
      ++judgement_.undetermined;
      return;
    }
    ++judgement_.judged;
    if (one.z > judgement_.z) {
      judgement_.z = one.z;
      judgement_.witness = std::move(one.at);
    }
    if (!floating) return;
    const double limited = std::min(one.z, most_squared);
    squares_ += limited * limited;
    ++count_;
  }
  void finish() {
    if (count_ >= least_for_t) judgement_.t = std::sqrt(squares_ / static_cast<double>(count_));
  }

 private:
  Judgement& judgement_;
  double squares_ = 0;
  Index count_ = 0;
};

}  // namespace

Scored scored(const std::string& name, const Array& out, const Spread& spread, std::size_t element) {
  const double s = spread.deviation[element];
  const auto at = static_cast<Index>(element);
  if (!is_floating(out.type)) {
    const std::int64_t r = spread.reference.integers[element], got = out.integers[element];
    return {{name, at, static_cast<double>(got), static_cast<double>(r), 0}, got == r ? 0 : infinite, s == 0};
  }
  const double r = spread.reference.floats[element], got = out.floats[element];
  const double z = std::isfinite(got) ? std::fabs(got - r) / s : infinite;
  return {{name, at, got, r, s}, z, std::isfinite(r) && std::isfinite(s)};
}

Ensemble::Ensemble(const Program& program, Feeds feeds, Precision precision, std::uint64_t seed,
                   std::function<bool()> stop)
    : program_(program),
      feeds_(std::move(feeds)),
      precision_(std::move(precision)),
      seed_(seed),
      stop_(std::move(stop)) {}

void Ensemble::gather(int upto) {
  if (gathered_members_ >= upto) return;
  const bool first = gathered_.empty();
  std::vector<std::unique_ptr<Arithmetic>> lanes;
  lanes.push_back(exact());
  if (first) lanes.push_back(nearest());
  const auto before = static_cast<Index>(lanes.size());
  for (int i = gathered_members_; i < upto; ++i) lanes.push_back(member(extend(seed_, static_cast<std::uint64_t>(i))));
  std::vector<const Arithmetic*> views;
  views.reserve(lanes.size());
  for (const auto& lane : lanes) views.push_back(lane.get());

  const auto results = program_.run(feeds_, views, precision_, stop_);
  gathered_.resize(results.size());
  for (std::size_t o = 0; o < results.size(); ++o) {
    const Array& result = results[o];
    Gathered& to = gathered_[o];
    if (first) {
      to.reference = first_lane(result);
      if (is_floating(result.type)) to.own.nearest = offsets(result.lane(1), to.reference.floats);
      to.agreed.assign(static_cast<std::size_t>(result.size()), true);
    }
    for (Index l = before; l < static_cast<Index>(lanes.size()); ++l) {
      if (is_floating(result.type)) {
        to.own.members.push_back(offsets(result.lane(l), to.reference.floats));
      } else {
        for (std::size_t i = 0; i < to.agreed.size(); ++i)
          to.agreed[i] = to.agreed[i] && result.integer_lane(l)[i] == to.reference.integers[i];
      }
    }
  }
  gathered_members_ = upto;
}

// Inputs and weights are rounded to nearest, as they are where they are stored: only the rounding of float32 between is
// left to chance.
void Ensemble::gather_lesser() {
  std::vector<std::unique_ptr<Arithmetic>> lanes;
  lanes.push_back(exact());
  lanes.push_back(nearest());
  for (int i = 0; i < many_members; ++i)
    lanes.push_back(member(extend(seed_, static_cast<std::uint64_t>(i)), Conversion::to_nearest));
  std::vector<const Arithmetic*> views;
  for (const auto& lane : lanes) views.push_back(lane.get());
  for (const Precision& less : precision_.that_store_less()) {
    const auto results = program_.run(feeds_, views, less, stop_);
    for (std::size_t o = 0; o < results.size(); ++o) {
      const Array& result = results[o];
      Gathered& to = gathered_[o];
      if (is_floating(result.type)) {
        Offsets& found = to.lesser.emplace_back();
        // A result of a single lane stands for all lanes.
        const auto lane = [&](Index l) {
          return offsets(result.lane(std::min(l, result.lanes - 1)), to.reference.floats);
        };
        found.nearest = lane(1);
        for (int i = 0; i < many_members; ++i) found.members.push_back(lane(2 + i));
      } else {
        for (Index l = 0; l < result.lanes; ++l)
          for (std::size_t i = 0; i < to.agreed.size(); ++i)
            to.agreed[i] = to.agreed[i] && result.integer_lane(l)[i] == to.reference.integers[i];
      }
    }
  }
}

// The unit of each element: the largest offset, rounded down to a power of two, of those that w(v) pools; 1 where there
// is none.
std::vector<double> Ensemble::units_of(const Gathered& gathered, int members) {
  const std::vector<Index>& shape = gathered.reference.shape;
  const std::size_t size = gathered.reference.floats.size();
  std::vector<double> units(size, 1);
  const std::size_t length = shape.empty() || shape.back() < 4 ? size : static_cast<std::size_t>(shape.back());
  for (std::size_t row = 0; row < size; row += length) {
    double most = 0;
    const auto look = [&](const std::vector<double>& off) {
      for (std::size_t i = row; i < row + length; ++i)
        if (std::isfinite(off[i])) most = std::max(most, std::fabs(off[i]));
    };
    look(gathered.own.nearest);
    for (int m = 0; m < members; ++m) look(gathered.own.members[static_cast<std::size_t>(m)]);
    if (!(most > 0)) continue;
    const double unit = std::max(std::ldexp(1.0, std::ilogb(most)), std::numeric_limits<double>::min());
    std::fill_n(units.begin() + static_cast<std::ptrdiff_t>(row), length, unit);
  }
  return units;
}

Spread Ensemble::spread_of(const Gathered& gathered, int members) const {
  Spread spread{gathered.reference, {}, false};
  if (!is_floating(gathered.reference.type)) {
    for (const bool agreed : gathered.agreed) spread.deviation.push_back(agreed ? 0 : infinite);
    return spread;
  }
  const auto& r = gathered.reference.floats;
  const Format format = precision_.result(format_of(gathered.reference.type));
  // Squares of f64 leave the range of a double where their roots do not: they are taken in units of the largest of a
  // row.
  const std::vector<double> units =
      format == Format::f64 ? units_of(gathered, members) : std::vector<double>(r.size(), 1.0);
  std::vector<double> v(r.size());
  const auto widen = [&](const Offsets& found) {
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double nearest = found.nearest[i] / units[i];
      double squares = 0;
      for (int m = 0; m < members; ++m) {
        const double off = found.members[static_cast<std::size_t>(m)][i] / units[i];
        squares += off * off;
      }
      const double own = squares / members + nearest * nearest;
      if (std::isnan(own) || own > v[i]) v[i] = own;  // NaN stays
    }
  };
  widen(gathered.own);
  for (const Offsets& lesser : gathered.lesser) widen(lesser);
  const auto w = pooled(v, gathered.reference.shape);
  const double floor = floor_of(format), root3 = std::sqrt(3.0);
  for (std::size_t i = 0; i < r.size(); ++i) {
    const double unit = unit_roundoff(format) * r[i];
    double s = std::sqrt(v[i] + w[i] / 16 + unit * unit / 3 + floor * floor);
    if (format == Format::f64)
      s = root_of_squares(units[i] * std::sqrt(v[i] + w[i] / 16), std::fabs(unit) / root3, floor);
    spread.deviation.push_back(s);
  }
  spread.wide = is_wide(spread);
  return spread;
}

const std::vector<Spread>& Ensemble::spreads(int members) {
  auto& spreads = members == few_members ? few_ : many_;
  if (!spreads.empty()) return spreads;
  // The spreads of few members are taken on the way to many.
  if (members != few_members && gathered_.empty()) this->spreads(few_members);
  gather(members);
  if (members == many_members) gather_lesser();
  for (const Gathered& one : gathered_) spreads.push_back(spread_of(one, members));
  if (members == many_members) many_t_ = largest_t(spreads);
  return spreads;
}

double Ensemble::largest_t(const std::vector<Spread>& spreads) const {
  double largest = 0;
  // Takes in T of one run, whose offsets `offsets_of` finds among an output's.
  const auto take = [&](auto&& offsets_of) {
    double squares = 0, count = 0;
    for (std::size_t o = 0; o < spreads.size(); ++o) {
      if (!is_floating(spreads[o].reference.type)) continue;
      const auto& r = spreads[o].reference.floats;
      const std::vector<double>& off = offsets_of(gathered_[o]);
      for (std::size_t i = 0; i < r.size(); ++i) {
        const double s = spreads[o].deviation[i];
        if (!std::isfinite(r[i]) || !std::isfinite(s)) continue;
        squares += off[i] / s * (off[i] / s);
        ++count;
      }
    }
    if (count > 0) largest = std::max(largest, std::sqrt(squares / count));
  };
  const auto take_all = [&](auto&& of) {
    take([&](const Gathered& one) -> const auto& { return of(one).nearest; });
    for (std::size_t m = 0; m < static_cast<std::size_t>(gathered_members_); ++m)
      take([&](const Gathered& one) -> const auto& { return of(one).members[m]; });
  };
  take_all([](const Gathered& one) -> const Offsets& { return one.own; });
  for (std::size_t k = 0; k < precision_.that_store_less().size(); ++k)
    take_all([k](const Gathered& one) -> const Offsets& { return one.lesser[k]; });
  return largest;
}

double Ensemble::t_limit() {
  spreads(many_members);
  return failing_t * std::max(1.0, many_t_);
}

Judgement Ensemble::judge_by(const std::vector<Array>& outputs, int members) {
  Judgement judgement;
  judgement.members = members;
  const auto& expected = spreads(members);
  if (members == many_members) judgement.t_limit = t_limit();
  const auto mismatch = [&judgement](std::string what) {
    judgement.outcome = Judgement::Outcome::failed;
    judgement.z = infinite;
    judgement.mismatch = std::move(what);
    return judgement;
  };
  if (outputs.size() != expected.size())
    return mismatch(fmt::format("{} outputs in place of {}", outputs.size(), expected.size()));
  Score score(judgement);
  bool narrow = false;  // some output says something
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Array &out = outputs[o], &reference = expected[o].reference;
    const std::string& name = program_.model().outputs[o].name;
    if (out.type != reference.type || out.shape != reference.shape)
      return mismatch(fmt::format("output '{}' is {} {} in place of {} {}", name, graph::name(out.type),
                                  shape_text(out.shape), graph::name(reference.type), shape_text(reference.shape)));
    const Index before = judgement.judged;
    for (std::size_t i = 0; i < expected[o].deviation.size(); ++i)
      score.element(scored(name, out, expected[o], i), is_floating(out.type));
    narrow = narrow || (!expected[o].wide && judgement.judged > before);
  }
  score.finish();
  const bool fails = !(judgement.z <= failing_z) || !(judgement.t.value_or(0) <= judgement.t_limit);
  if (fails)
    judgement.outcome = Judgement::Outcome::failed;
  else if (!narrow)
    judgement.outcome = Judgement::Outcome::vacuous;
  return judgement;
}

Judgement Ensemble::judge(const std::vector<Array>& outputs) {
  const Judgement few = judge_by(outputs, few_members);
  const bool accepted = few.z <= accepted_z && few.t.value_or(0) <= accepted_t;
  return accepted ? few : judge_by(outputs, many_members);
}

}  // namespace attest::graph
