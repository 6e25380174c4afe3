#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "core/supports.hpp"
#include "engine/shrink/candidates.hpp"

namespace attest::engine {
namespace {

template <auto Member>
Index get_member(const Problem& p) {
  return p.*Member;
}
template <auto Member>
void set_member(Problem& p, Index n) {
  p.*Member = n;
}
template <auto Member>
Dimension dimension(std::string_view name) {
  return {name, find_field(name)->simplest, get_member<Member>, set_member<Member>};
}

// The smaller of two extents; set, both give way by the same amount.
template <auto One, auto Other>
Dimension tied(std::string_view name) {
  return {name, 1, [](const Problem& p) { return std::min(p.*One, p.*Other); },
          [](Problem& p, Index n) {
            const Index by = std::min(p.*One, p.*Other) - n;
            p.*One -= by;
            p.*Other -= by;
          },
          true};
}

// Tiles of kernels end far below.
constexpr Index most_tile = Index{1} << 20;

// Labels worth trying on the way to the simplest, simplest first. Labels that are not listed are simpler than none.
struct Ladder {
  std::string_view field;
  std::vector<Index> steps;
};
template <class... Label>
std::vector<Index> steps(Label... labels) {
  return {static_cast<Index>(labels)...};
}
const std::vector<Ladder>& ladders() {
  static const std::vector<Ladder> table{
      {"dtype", steps(Format::f32, Format::f16, Format::bf16)},
      {"causal", {0}},
      {"align", steps(Align::top_left)},
      {"keep", steps(Keep::none, Keep::open, Keep::prefix, Keep::half)},
      {"keep_axes", {15}},
      {"bias", steps(Bias::none, Bias::zero, Bias::minus_inf, Bias::lowest, Bias::normal)},
      {"bias_axes", {15}},
      {"bias_type", steps(BiasType::same, BiasType::f32)},
      {"mask_layout", steps(Layout::bhsd)},
      {"lengths", steps(Lengths::none, Lengths::full, Lengths::one)},
      {"q_layout", steps(Layout::bhsd)},
      {"k_layout", steps(Layout::bhsd)},
      {"v_layout", steps(Layout::bhsd)},
      {"out_layout", steps(Layout::bhsd)},
      {"lse", steps(LseOutput::none, LseOutput::f32)},
      {"values", steps(Values::constant, Values::integers, Values::normal)},
      {"q_form", steps(Form::zero, Form::one, Form::power_of_two, Form::short_significand)},
      {"k_form", steps(Form::zero, Form::one, Form::power_of_two, Form::short_significand)},
      {"v_form", steps(Form::zero, Form::one, Form::power_of_two, Form::short_significand)},
  };
  return table;
}

// Numbers in [-4, 4] are short already: forms that keep bits would change nothing worth a call.
bool plain_values(const Problem& p) { return p.values == Values::constant || p.values == Values::integers; }
bool keeps_bits(Index form) {
  return form == static_cast<Index>(Form::power_of_two) || form == static_cast<Index>(Form::short_significand);
}

class Collector {
 public:
  Collector(const Problem& from, const ShrinkLimits& limits) : from_(from), limits_(limits) {}

  void add(Problem changed, std::string change) {
    std::optional<Problem> fitted = fit(from_, std::move(changed), limits_);
    if (!fitted) return;
    const auto same = [&](const Candidate& other) { return other.problem == *fitted; };
    if (std::ranges::none_of(found, same)) found.push_back({std::move(*fitted), std::move(change)});
  }

  std::vector<Candidate> found;

 private:
  const Problem& from_;
  const ShrinkLimits& limits_;
};

void add_dimension(Collector& out, const Problem& p, const Dimension& dimension, const Supports& supports) {
  const Index n = dimension.get(p);
  const Rungs by = rungs(dimension, p, supports);
  const Index least = by.least, unit = by.unit;
  const auto to = [&](Index m) {
    Problem changed = p;
    dimension.set(changed, m);
    out.add(std::move(changed), fmt::format("{}: {} -> {}", dimension.name, n, m));
  };
  if (n == least) return;
  if (dimension.other_way) {
    if (n > least) to(n - unit);
    return;
  }
  to(least);
  if (n < least) return;
  // The same remainder of a tile.
  for (Index tile = 2; tile < n && tile <= most_tile; tile *= 2)
    if (const Index rest = n % tile; rest > least && (rest - least) % unit == 0) to(rest);
  const Index steps = by.steps(n);
  if (steps > 3) to(least + steps / 2 * unit);
  if (steps > 1) to(n - unit);
}

void add_labels(Collector& out, const Problem& p, const Ladder& ladder) {
  const Field& field = *find_field(ladder.field);
  const Index now = field.get(p);
  const bool form = ladder.field.ends_with("_form");
  for (const Index step : ladder.steps) {
    if (step == now) return;
    if (form && plain_values(p) && keeps_bits(step)) continue;
    Problem changed = p;
    field.set(changed, step);
    const auto text = [&](Index value) {
      return field.labels.empty() ? std::to_string(value) : std::string(field.labels[static_cast<std::size_t>(value)]);
    };
    out.add(std::move(changed), fmt::format("{}: {} -> {}", field.name, text(now), text(step)));
  }
}

// How hard a number is to read: 1 before powers of two before two significant bits before anything.
int difficulty(double x) {
  const double magnitude = std::fabs(x);
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);
  const int sign = x < 0 ? 1 : 0;
  if (magnitude == 0) return 1;
  if (magnitude == 1) return 2 + sign;
  if (fraction == 0.5) return 4 + sign;
  if (fraction == 0.75) return 6 + sign;
  return 8 + sign;
}

void add_real(Collector& out, const Problem& p, const Field& field, std::optional<double> simplest) {
  const std::optional<double> now = field.get_real(p);
  if (now == simplest) return;
  const auto text = [](std::optional<double> x) { return x ? fmt::format("{}", *x) : std::string("default"); };
  const auto to = [&](std::optional<double> x) {
    Problem changed = p;
    field.set_real(changed, x);
    out.add(std::move(changed), fmt::format("{}: {} -> {}", field.name, text(now), text(x)));
  };
  to(simplest);
  if (!now || !std::isfinite(*now) || *now == 0) return;
  const double power = std::copysign(std::exp2(std::floor(std::log2(std::fabs(*now)))), *now);
  for (const double x : {1.0, -1.0, power, power * 1.5})
    if (difficulty(x) < difficulty(*now)) to(x);
  // A power of two comes nearer to 1 by halves of its exponent, then by one.
  if (power == *now && std::fabs(*now) != 1) {
    const int exponent = std::ilogb(*now);
    for (const int nearer : {exponent / 2, exponent - (exponent > 0 ? 1 : -1)})
      if (nearer != exponent && nearer != 0) to(std::copysign(std::ldexp(1.0, nearer), *now));
  }
}

void add_origin(Collector& out, const Problem& p) {
  Problem changed = p;
  changed.b0 = changed.hq0 = changed.hkv0 = changed.lq0 = changed.lk0 = changed.d0 = changed.dv0 = 0;
  out.add(std::move(changed), "origin -> 0");
}

void add_forms(Collector& out, const Problem& p) {
  for (const FormChoice& choice : p.forms) {
    Problem changed = p;
    std::erase(changed.forms, choice);
    out.add(std::move(changed), fmt::format("form.{}: {} -> the first", choice.name, choice.value));
  }
}

void add_seed(Collector& out, const Problem& p) {
  Problem changed = p;
  changed.seed = 0;
  out.add(std::move(changed), "seed -> 0");
}

// A mask that leaves a row one key cannot go, nor can the keys that it closes, while the other stays.
void add_single_key(Collector& out, const Problem& p) {
  Problem changed = reset(p, Group::masks);
  if (p.lk < 2 || changed == p) return;
  changed.lk = 1;
  out.add(std::move(changed), "masks and all keys but one");
}

void add_edits(Collector& out, const Problem& p) {
  // Zeros stay: they are as simple as an element can be, and what zeroed_elements() aims for.
  std::vector<Edit> others;
  std::ranges::copy_if(p.edits, std::back_inserter(others), [](const Edit& edit) { return edit.value != 0; });
  for (std::size_t chunk = others.size(); chunk > 0; chunk /= 2)
    for (std::size_t first = 0; first < others.size(); first += chunk) {
      Problem changed = p;
      const std::size_t count = std::min(chunk, others.size() - first);
      const std::span<const Edit> gone(others.data() + first, count);
      std::erase_if(changed.edits, [&](const Edit& edit) { return std::ranges::find(gone, edit) != gone.end(); });
      out.add(std::move(changed), fmt::format("edits {}..{} removed", first, first + count - 1));
    }
}

}  // namespace

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> table{
      dimension<&Problem::b>("b"),
      {"hkv", 1, [](const Problem& p) { return p.hkv; },
       [](Problem& p, Index n) {
         const Index group = p.hkv > 0 ? p.group() : 1;
         p.hkv = n;
         p.hq = n * group;
       }},
      {"group", 1, [](const Problem& p) { return p.hkv > 0 ? p.group() : 1; },
       [](Problem& p, Index n) { p.hq = p.hkv * n; }},
      dimension<&Problem::lq>("lq"),
      dimension<&Problem::lk>("lk"),
      {"last of lk", 1, get_member<&Problem::lk>, [](Problem& p, Index n) { p = last_keys(std::move(p), n); }, true},
      tied<&Problem::lq, &Problem::lk>("lq and lk"),
      dimension<&Problem::d>("d"),
      {"last of d", 1, get_member<&Problem::d>, [](Problem& p, Index n) { p = last_coordinates(std::move(p), n); },
       true},
      dimension<&Problem::dv>("dv"),
      tied<&Problem::d, &Problem::dv>("d and dv"),
      dimension<&Problem::window_left>("window_left"),
      dimension<&Problem::window_right>("window_right"),
      dimension<&Problem::threads>("threads"),
      dimension<&Problem::rows>("rows"),
  };
  return table;
}

Rungs rungs(const Dimension& dimension, const Problem& p, const Supports& s) {
  const auto step = [](const DimRange& range) { return std::max<Index>(range.multiple, 1); };
  const auto up = [](Index n, Index by) { return (n + by - 1) / by; };
  const Index n = dimension.get(p), row = row_step(s.alignment, p.dtype);
  const DimRange no_limit{dimension.simplest, DimRange{}.max, 1};
  // From n down by `unit` to no less than `least`.
  const auto down_to = [&](Index least, Index unit) {
    least = std::max(least, dimension.simplest);
    if (unit == 1) return Rungs{least, unit};
    return Rungs{n < least ? up(least, unit) * unit : n - (n - least) / unit * unit, unit};
  };
  // Of two that give way by the same amount.
  const auto together = [&](const DimRange& one, Index first, const DimRange& other, Index second, Index unit) {
    const Index least = std::max(one.min - (first - n), other.min - (second - n));
    return down_to(least, std::lcm(std::lcm(step(one), step(other)), unit));
  };
  const std::string_view name = dimension.name;
  if (name == "b") return down_to(s.b.min, step(s.b));
  if (name == "lq") return down_to(s.lq.min, step(s.lq));
  if (name == "lk" || name == "last of lk") return down_to(s.lk.min, step(s.lk));
  if (name == "lq and lk") return together(s.lq, p.lq, s.lk, p.lk, 1);
  if (name == "d" || name == "last of d")
    return s.dv_equals_d ? together(s.d, p.d, s.dv, p.d, row) : down_to(s.d.min, std::lcm(step(s.d), row));
  if (name == "dv") return s.dv_equals_d ? Rungs{n, 1} : down_to(s.dv.min, std::lcm(step(s.dv), row));
  if (name == "d and dv") return together(s.d, p.d, s.dv, p.dv, row);
  if (name == "hkv" || name == "group") {  // each stands for as many query heads as the other says
    const Index heads = std::max<Index>(name == "hkv" ? (p.hkv > 0 ? p.group() : 1) : p.hkv, 1);
    const DimRange own = name == "hkv" ? s.hkv : no_limit;
    const Index of_queries = step(s.hq) / std::gcd(step(s.hq), heads);
    return down_to(std::max(own.min, up(s.hq.min, heads)), std::lcm(step(own), of_queries));
  }
  return down_to(dimension.simplest, 1);
}

std::size_t steps() { return dimensions().size() + ladders().size() + 10; }

std::vector<Candidate> neighbours(std::size_t step, const Problem& p, const ShrinkLimits& limits) {
  Collector out(p, limits);
  const std::size_t after_dimensions = dimensions().size(), after_labels = after_dimensions + ladders().size();
  if (step < after_dimensions) {
    add_dimension(out, p, dimensions()[step], limits.supports);
  } else if (step < after_labels) {
    add_labels(out, p, ladders()[step - after_dimensions]);
  } else {
    switch (step - after_labels) {
      case 0:
        add_real(out, p, *find_field("scale"), std::nullopt);
        break;
      case 1:
        add_real(out, p, *find_field("softcap"), 0.0);
        break;
      case 2:
        add_real(out, p, *find_field("amplitude"), 1.0);
        break;
      case 3:
        add_edits(out, p);
        break;
      case 4:
        add_origin(out, p);
        break;
      case 5:
        add_seed(out, p);
        break;
      case 6:
        add_single_key(out, p);
        break;
      case 7:
        add_forms(out, p);
        break;
      case 8:
        if (auto plain = literal(p, most_shrunk_literals)) out.add(std::move(*plain), "captured values -> literal");
        break;
      default:
        for (Candidate& zeroed : zeroed_elements(p)) out.add(std::move(zeroed.problem), std::move(zeroed.change));
        break;
    }
  }
  return std::move(out.found);
}

std::vector<Candidate> neighbours(const Problem& p, const ShrinkLimits& limits) {
  std::vector<Candidate> all;
  for (std::size_t step = 0; step < steps(); ++step)
    for (Candidate& candidate : neighbours(step, p, limits))
      if (std::ranges::none_of(all, [&](const Candidate& other) { return other.problem == candidate.problem; }))
        all.push_back(std::move(candidate));
  return all;
}

}  // namespace attest::engine
