#include "graph/problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "graph/constraints.hpp"

namespace attest::graph {
namespace {

constexpr std::string_view regime_names[] = {"normal",
                                             "uniform",
                                             "offset-10",
                                             "offset-100",
                                             "far",
                                             "wide",
                                             "large",
                                             "tiny",
                                             "integers",
                                             "constant",
                                             "sparse",
                                             "mask-1e4",
                                             "mask-lowest",
                                             "most",
                                             "half",
                                             "few",
                                             "prefix",
                                             "all",
                                             "any",
                                             "same",
                                             "ends",
                                             "long-or-short",
                                             "longest",
                                             "given",
                                             "given-permuted",
                                             "given-noise-1e-3",
                                             "given-noise-1e-1",
                                             "given-noise-1"};

constexpr Regime of_floats[] = {Regime::normal, Regime::uniform,   Regime::integers,   Regime::constant,
                                Regime::sparse, Regime::offset_10, Regime::offset_100, Regime::large,
                                Regime::tiny,   Regime::far,       Regime::wide};
constexpr Regime of_addends[] = {Regime::normal,   Regime::mask_1e4, Regime::mask_lowest,
                                 Regime::integers, Regime::large,    Regime::far};
constexpr Regime of_flags[] = {Regime::all, Regime::prefix, Regime::most, Regime::half, Regime::few};
constexpr Regime of_ids[] = {Regime::any, Regime::same, Regime::ends};
constexpr Regime of_lengths[] = {Regime::longest, Regime::long_or_short};
constexpr Regime of_numbers[] = {Regime::integers, Regime::constant, Regime::wide};
constexpr Regime of_given[] = {Regime::given, Regime::given_permuted, Regime::given_noise_1e_3,
                               Regime::given_noise_1e_1, Regime::given_noise_1};

bool is_plain(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name)
    text += is_plain(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return text;
}

// nullopt where it is nothing that escaped() gives.
std::optional<std::string> unescaped(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (!is_plain(text[i])) return std::nullopt;
      name += text[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* const end = text.data() + i + 3;
    if (std::from_chars(text.data() + i + 1, end, value, 16).ptr != end) return std::nullopt;
    name += static_cast<char>(value);
    i += 2;
  }
  if (escaped(name) != text) return std::nullopt;
  return name;
}

template <class T>
T number_from(std::string_view item, std::string_view text, T least, T most) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most)
    throw usage_error(fmt::format("'{}' in a problem: it must be an integer from {} to {}", item, least, most));
  return value;
}

std::optional<Regime> regime_of(std::string_view text) {
  const auto* const found = std::find(std::begin(regime_names), std::end(regime_names), text);
  if (found == std::end(regime_names)) return std::nullopt;
  return static_cast<Regime>(found - std::begin(regime_names));
}

Regime regime_from(std::string_view item, std::string_view text) {
  if (const auto found = regime_of(text)) return *found;
  throw usage_error(fmt::format("'{}' in a problem: regimes are {}", item, fmt::join(regime_names, ", ")));
}

constexpr bool is_given(Regime regime) noexcept { return regime >= Regime::given; }

std::string open_name(const Input& input, std::size_t axis) {
  const auto& symbol = input.shape[axis].symbol;
  return symbol.empty() ? fmt::format("{}.{}", input.name, axis) : symbol;
}

// ---- numbers of one input

struct Element {
  std::uint64_t key;         // hash of its coordinates
  std::uint64_t row_key;     // hash of all but the last of them
  Index at = 0, length = 1;  // along the last axis
};

double float_value(Regime regime, Format format, const Element& e, std::uint64_t of_all) {
  const bool half = format == Format::f16;
  const double x = normal(e.key);
  switch (regime) {
    case Regime::uniform:
      return (symmetric_uniform(mix(e.key)) + 1) / 2;
    case Regime::offset_10:
      return x + 10;
    case Regime::offset_100:
      return x + 100;
    case Regime::far:
      return x + (half ? 500 : 1e4);
    case Regime::wide:
      return std::ldexp(x, static_cast<int>(below(mix(e.key), half ? 20 : 24)) - 12);
    case Regime::large:
      return x * (half ? 30 : 100);
    case Regime::tiny:
      return x * (half ? 1e-3 : 1e-20);
    case Regime::integers:
      return static_cast<double>(below(e.key, 9)) - 4;
    case Regime::constant:
      return normal(of_all);
    case Regime::sparse:
      return below(mix(e.key), 5) == 0 ? x : 0;
    default:
      return x;
  }
}

bool kept(Regime regime, const Element& e) {
  const auto share = [&e](std::uint64_t tenths) {
    const bool first = e.at == 0 && below(mix(e.row_key), 5) > 0;
    return first || below(e.key, 10) < tenths;
  };
  switch (regime) {
    case Regime::most:
      return share(9);
    case Regime::half:
      return share(5);
    case Regime::few:
      return share(1);
    case Regime::prefix:
      return e.at < 1 + static_cast<Index>(below(mix(e.row_key), static_cast<std::uint64_t>(e.length)));
    default:
      return true;
  }
}

void set_float(Array& x, std::size_t i, Regime regime, const Element& e, std::uint64_t of_all) {
  const Format format = format_of(x.type);
  if (regime == Regime::mask_1e4 || regime == Regime::mask_lowest) {
    const double out = regime == Regime::mask_1e4 ? -1e4 : -largest_finite(format);
    // The share of kept keys differs between masks.
    constexpr Regime shares[] = {Regime::most, Regime::half, Regime::few};
    x.floats[i] = kept(shares[below(of_all, 3)], e) ? 0 : round_to(format, out);
    return;
  }
  x.floats[i] = round_to(format, float_value(regime, format, e, of_all));
}

std::int64_t integer_value(Regime regime, const Element& e, std::uint64_t of_all, std::uint64_t count, Index longest) {
  switch (regime) {
    case Regime::any:
      return static_cast<std::int64_t>(below(e.key, count));
    case Regime::same:
      return static_cast<std::int64_t>(below(of_all, count));
    case Regime::ends:
      return (e.key & 1) != 0 ? static_cast<std::int64_t>(count - 1) : 0;
    case Regime::longest:
      return longest;
    case Regime::long_or_short:
      return below(e.key, 3) == 0 ? longest
                                  : 1 + static_cast<Index>(below(mix(e.key), static_cast<std::uint64_t>(longest)));
    default:
      return kept(regime, e) ? 1 : 0;
  }
}

// A number of Role::numbers: a small one of either sign, one for all, or one of all of 8 bits (16 in a wider type).
std::int64_t plain_integer(Regime regime, Type type, const Element& e, std::uint64_t of_all, bool divisor) {
  const auto [least, most] = range_of(type);
  const std::int64_t width = regime != Regime::wide ? 9 : most < 256 ? 256 : 1 << 16;
  const std::int64_t first = std::max<std::int64_t>(least, regime == Regime::wide ? -(1 << 15) : -4);
  const std::uint64_t key = regime == Regime::constant ? of_all : e.key;
  const std::int64_t value = first + static_cast<std::int64_t>(below(key, static_cast<std::uint64_t>(width)));
  return divisor && value == 0 ? 1 : value;
}

// f(number, element) for each element of a tensor.
template <class F>
void each_element(std::span<const Index> shape, std::uint64_t key, F f) {
  std::vector<Index> at(shape.size(), 0);
  Index count = 1;
  for (const Index length : shape) count *= length;
  for (Index i = 0; i < count; ++i) {
    Element e{key, key, 0, 1};
    for (std::size_t k = 0; k < shape.size(); ++k) {
      e.row_key = e.key;
      e.key = extend(e.key, static_cast<std::uint64_t>(at[k]));
    }
    if (!shape.empty()) {
      e.at = at.back();
      e.length = shape.back();
    }
    f(static_cast<std::size_t>(i), e);
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (++at[k] < shape[k]) break;
      at[k] = 0;
    }
  }
}

// ---- drawing

// Bits in a row.
class Source {
 public:
  explicit Source(std::uint64_t key) : key_(key) {}
  Index below(Index n) {
    return static_cast<Index>(attest::below(extend(key_, count_++), static_cast<std::uint64_t>(n)));
  }

 private:
  std::uint64_t key_, count_ = 0;
};

// A size where kernels change their ways: powers of two and their neighbours, small numbers; else any, each octave as
// often.
Index size_drawn(Source& source) {
  const Index octave = Index{1} << source.below(9);
  switch (source.below(4)) {
    case 0:
      return 1 + source.below(8);
    case 1:
      return octave + source.below(octave);
    default:
      return std::max<Index>(1, octave + source.below(3) - 1);
  }
}

}  // namespace

std::string_view name(Regime regime) noexcept { return regime_names[static_cast<int>(regime)]; }

Regime regime_named(std::string_view name) {
  if (const auto found = regime_of(name)) return *found;
  throw usage_error(fmt::format("'{}' is no way to make an input: there are {}", name, fmt::join(regime_names, ", ")));
}

std::span<const Regime> regimes_of(Role role) noexcept {
  switch (role) {
    case Role::addend:
      return of_addends;
    case Role::flags:
      return of_flags;
    case Role::ids:
      return of_ids;
    case Role::lengths:
      return of_lengths;
    case Role::numbers:
      return of_numbers;
    case Role::given:
      return {};
    default:
      return of_floats;
  }
}

std::string to_text(const Problem& problem) {
  std::string text;
  for (const auto& [axis, size] : problem.sizes) text += fmt::format("size.{}={} ", escaped(axis), size);
  for (const auto& [input, regime] : problem.values) text += fmt::format("values.{}={} ", escaped(input), name(regime));
  if (problem.given > 0) text += fmt::format("given={} ", problem.given);
  return text + fmt::format("seed={}", problem.seed);
}

Problem problem_from_text(std::string_view line) {
  Problem problem;
  std::set<std::string, std::less<>> seen;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view item = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == item.npos ? std::string_view() : item.substr(equals + 1);
    const std::size_t dot = key.find('.');
    const auto named = unescaped(dot == key.npos ? std::string_view() : key.substr(dot + 1));
    if (!seen.insert(std::string(key)).second)
      throw usage_error(fmt::format("'{}' in a problem: it is given twice", item));
    if (key == "seed")
      problem.seed = number_from<std::uint64_t>(item, value, 0, ~std::uint64_t{0});
    else if (key == "given")
      problem.given = number_from<Index>(item, value, 0, longest_size);
    else if (dot != key.npos && key.substr(0, dot) == "size" && named)
      problem.sizes.emplace(*named, number_from<Index>(item, value, 1, longest_size));
    else if (dot != key.npos && key.substr(0, dot) == "values" && named)
      problem.values.emplace(*named, regime_from(item, value));
    else
      throw usage_error(
          fmt::format("'{}' in a problem: items are size.AXIS=N, values.INPUT=REGIME, given=N and seed=N", item));
  }
  return problem;
}

Family::Family(const Program& program) : Family(program, Constraints{}) {}

Family::Family(const Program& program, const Constraints& constraints)
    : program_(program),
      constraints_(std::make_unique<Constraints>(constraints)),
      uses_(uses_of_inputs(program, constraints.roles, constraints.given != nullptr)) {
  std::set<std::string> names;
  for (const Input& input : program.model().inputs)
    for (std::size_t k = 0; k < input.shape.size(); ++k)
      if (!input.shape[k].length) names.insert(open_name(input, k));
  open_axes_.assign(names.begin(), names.end());
  for (const auto& [axis, ranges] : constraints.sizes)
    if (names.count(axis) == 0)
      throw usage_error(fmt::format("size.{}: the model has no such open axis; it has {}", axis,
                                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  const auto& inputs = program.model().inputs;
  for (const auto& [input, regimes] : constraints.values) {
    const auto known = std::ranges::find(inputs, input, &Input::name);
    if (known == inputs.end()) throw usage_error(fmt::format("values.{}: the model has no such input", input));
    const auto n = static_cast<std::size_t>(known - inputs.begin());
    std::vector<std::string_view> possible;
    for (const Regime regime : this->regimes(n)) possible.push_back(graph::name(regime));
    if (choices(n).empty())
      throw usage_error(
          fmt::format("values.{}: the input is made in none of these ways: {}", input, fmt::join(possible, ", ")));
  }
}

Family::~Family() = default;

std::size_t Family::count_given() const noexcept { return constraints_->given ? constraints_->given->size() : 0; }

std::vector<Regime> Family::regimes(std::size_t input) const {
  const auto of_role = regimes_of(uses_[input].role);
  std::vector<Regime> all(of_role.begin(), of_role.end());
  if (count_given() > 0) all.insert(all.end(), std::begin(of_given), std::end(of_given));
  return all;
}

std::vector<Regime> Family::choices(std::size_t input) const {
  std::vector<Regime> choices;
  for (const Regime regime : regimes(input))
    if (constraints_->permits(program_.model().inputs[input].name, regime)) choices.push_back(regime);
  return choices;
}

Problem Family::of_length(Index length) const {
  Problem problem;
  problem.seed = 1;
  for (const std::string& axis : open_axes_) problem.sizes[axis] = constraints_->near(axis, length);
  const auto& inputs = program_.model().inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) problem.values[inputs[i].name] = choices(i).front();
  return problem;
}

bool Family::permits(const Problem& problem) const {
  return std::ranges::all_of(problem.sizes,
                             [&](const auto& one) { return constraints_->permits(one.first, one.second); }) &&
         std::ranges::all_of(problem.values,
                             [&](const auto& one) { return constraints_->permits(one.first, one.second); });
}

std::vector<Problem> Family::simpler(const Problem& problem) const {
  std::vector<Problem> found;
  const auto add = [&](Problem candidate) {
    if (!(candidate == problem) && permits(candidate) && std::ranges::find(found, candidate) == found.end())
      found.push_back(std::move(candidate));
  };
  // An axis by itself; and all that are equally long, which they may have to be though no symbol says so.
  const auto add_cut = [&](auto&& cut) {
    std::map<Index, Problem> together;
    std::set<Index> several;
    for (const auto& [axis, size] : problem.sizes) {
      const Index less = cut(axis, size);
      if (less < 1) continue;
      Problem candidate = problem;
      candidate.sizes[axis] = less;
      add(std::move(candidate));
      const auto [whole, first] = together.emplace(size, problem);
      whole->second.sizes[axis] = less;
      if (!first) several.insert(size);
    }
    for (auto& [size, candidate] : together)
      if (several.contains(size)) add(std::move(candidate));
  };
  Problem of_first = problem;
  of_first.given = 0;
  add(std::move(of_first));
  add_cut([](const std::string& /*axis*/, Index /*size*/) { return Index{1}; });
  add_cut([](const std::string& /*axis*/, Index size) { return (size + 1) / 2; });
  const auto& inputs = program_.model().inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (const Regime regime : choices(i)) {
      if (regime == problem.values.at(inputs[i].name)) break;
      Problem candidate = problem;
      candidate.values[inputs[i].name] = regime;
      add(std::move(candidate));
    }
  add_cut([this](const std::string& axis, Index size) { return constraints_->below(axis, size); });
  return found;
}

std::vector<Index> Family::shape(const Input& input, const Problem& problem) const {
  std::vector<Index> lengths;
  for (std::size_t k = 0; k < input.shape.size(); ++k)
    lengths.push_back(input.shape[k].length ? *input.shape[k].length : problem.sizes.at(open_name(input, k)));
  return lengths;
}

std::set<std::string> Family::sequences() const {
  std::set<std::string> found;
  for (const Input& input : program_.model().inputs)
    for (std::size_t k = 1; k < input.shape.size(); ++k)
      if (!input.shape[k].length) found.insert(open_name(input, k));
  return found;
}

double Family::largest_input(const Problem& problem) const {
  double largest = 0;
  for (const Input& input : program_.model().inputs) {
    double count = 1;
    for (const Index length : shape(input, problem)) count *= static_cast<double>(length);
    largest = std::max(largest, count);
  }
  return largest;
}

Problem Family::draw(std::uint64_t seed, std::uint64_t number, Index most, Index at_least) const {
  const std::uint64_t key = extend(mix(seed), number);
  Source source(key);
  Problem problem;
  problem.seed = extend(key, ~std::uint64_t{0});
  const auto& inputs = program_.model().inputs;
  const std::size_t sets = count_given();
  if (number < sets) {
    set_given(problem, static_cast<Index>(number));
    for (const Input& input : inputs) problem.values[input.name] = Regime::given;
    return problem;
  }
  // One problem of five confuses axes that are equally long, or have a single element.
  const bool alike = source.below(5) == 0;
  const Index common = size_drawn(source);
  for (const std::string& axis : open_axes_) {
    const Index own = size_drawn(source);
    problem.sizes[axis] = constraints_->near(axis, !alike ? own : source.below(2) == 0 ? 1 : common);
  }
  bool other_lengths = true;
  if (sets > 0) {
    other_lengths = source.below(2) == 0;
    Problem as_given;
    set_given(as_given, source.below(static_cast<Index>(sets)));
    problem.given = as_given.given;
    for (auto& [axis, size] : problem.sizes)
      if (!other_lengths) size = constraints_->near(axis, as_given.sizes.at(axis));
  }
  std::map<std::string, Index> floors;  // least lengths of sequences that are to be long
  if (at_least > 1 && other_lengths) {
    const std::set<std::string> sequences = this->sequences();
    const Index drawn = at_least + source.below(source.below(2) == 0 ? 3 : at_least / 2);
    const Index length = alike && common >= at_least ? common : drawn;
    // All sequences, or all but one in a quarter of the cases: few queries and many keys, say.
    const auto count = std::ssize(sequences);
    const Index left_out = count > 1 && !alike && source.below(4) == 0 ? source.below(count) : -1;
    Index at = 0;
    for (const std::string& axis : sequences) {
      if (at++ == left_out) continue;
      Index& size = problem.sizes.at(axis);
      const bool is_short = size < at_least;
      if (is_short) size = constraints_->near(axis, length);
      floors[axis] = std::min(size, is_short ? drawn : at_least);
    }
  }
  const auto floor_of = [&](const std::string& axis) {
    const auto floor = floors.find(axis);
    return floor == floors.end() ? Index{1} : floor->second;
  };
  for (const Input& input : inputs) {
    for (;;) {
      double count = 1, open = 1;
      std::string longest;
      for (std::size_t k = 0; k < input.shape.size(); ++k) {
        if (input.shape[k].length) {
          count *= static_cast<double>(*input.shape[k].length);
          continue;
        }
        const std::string axis = open_name(input, k);
        const Index length = problem.sizes.at(axis);
        open *= static_cast<double>(length);
        if (constraints_->below(axis, length) >= floor_of(axis) &&
            (longest.empty() || length > problem.sizes.at(longest)))
          longest = axis;
      }
      if (longest.empty()) break;
      const auto square = open * static_cast<double>(problem.sizes.at(longest));
      if (count * open <= static_cast<double>(most) && square <= 16 * static_cast<double>(most)) break;
      const Index length = problem.sizes.at(longest), half = std::max(floor_of(longest), length / 2);
      problem.sizes.at(longest) = constraints_->permits(longest, half) ? half : constraints_->below(longest, length);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto choices = this->choices(i);
    const auto first_given = std::ranges::find(choices, true, is_given);
    if (first_given != choices.end()) choices.erase(choices.begin(), first_given);
    problem.values[inputs[i].name] =
        choices[static_cast<std::size_t>(source.below(static_cast<Index>(choices.size())))];
  }
  return problem;
}

// Sets `given` and the lengths of the owner's inputs.
void Family::set_given(Problem& problem, Index number) const {
  problem.given = number;
  for (const Input& input : program_.model().inputs) {
    const Array& own = (*constraints_->given)[static_cast<std::size_t>(number)].at(input.name);
    for (std::size_t k = 0; k < input.shape.size(); ++k)
      if (!input.shape[k].length) problem.sizes[open_name(input, k)] = own.shape[k];
  }
}

// Returns `x`, of zeros, filled from the owner's input number `input` of the problem.
Array Family::given(std::size_t input, const Problem& problem, Array x) const {
  const Input& of = program_.model().inputs[input];
  const Array& own = (*constraints_->given)[static_cast<std::size_t>(problem.given)].at(of.name);
  const Regime regime = problem.values.at(of.name);
  const std::uint64_t key = extend(mix(problem.seed), input);
  const bool floats = is_floating(x.type), adds = floats && uses_[input].role == Role::floats;
  // The places in `own` that elements of `x` come from, by axis.
  std::vector<std::vector<Index>> from;
  const bool open = std::ranges::any_of(of.shape, [](const Dimension& d) { return !d.length.has_value(); });
  bool moved = false;
  for (std::size_t k = 0; k < x.shape.size(); ++k) {
    std::vector<Index> order(static_cast<std::size_t>(own.shape[k]));
    std::iota(order.begin(), order.end(), Index{0});
    if (regime == Regime::given_permuted && (open ? !of.shape[k].length : !moved && order.size() > 1)) {
      moved = true;
      const std::uint64_t along = extend(mix(problem.seed), digest_of(open ? open_name(of, k) : of.name));
      std::ranges::sort(order, {}, [along](Index i) { return extend(along, static_cast<std::uint64_t>(i)); });
    }
    for (Index i = own.shape[k]; i < x.shape[k]; ++i)
      order.push_back(order[static_cast<std::size_t>(i - own.shape[k])]);
    from.push_back(std::move(order));
  }
  double magnitude = 0;  // the mean of finite numbers
  if (adds) {
    const auto finite = [](double value) { return std::isfinite(value); };
    const auto count = static_cast<double>(std::ranges::count_if(own.floats, finite));
    for (const double value : own.floats)
      if (finite(value)) magnitude += std::fabs(value) / count;
  }
  const bool noisy = regime >= Regime::given_noise_1e_3;
  const double level = regime == Regime::given_noise_1e_3 ? 1e-3 : regime == Regime::given_noise_1e_1 ? 0.1 : 1;
  const std::uint64_t of_64 = regime == Regime::given_noise_1e_3 ? 1 : regime == Regime::given_noise_1e_1 ? 8 : 32;
  const Format format = floats ? format_of(x.type) : Format::f64;
  std::size_t axes = x.shape.size();
  std::vector<Index> at(axes, 0);
  each_element(x.shape, key, [&](std::size_t i, const Element& e) {
    Index flat = 0;
    for (std::size_t k = 0; k < axes; ++k) flat = flat * own.shape[k] + from[k][static_cast<std::size_t>(at[k])];
    for (std::size_t k = axes; k-- > 0;) {
      if (++at[k] < x.shape[k]) break;
      at[k] = 0;
    }
    if (noisy && !adds && below(mix(e.key), 64) < of_64)
      flat = static_cast<Index>(below(e.key, static_cast<std::uint64_t>(own.size())));
    const auto source = static_cast<std::size_t>(flat);
    if (!floats) {
      x.integers[i] = own.integers[source];
      return;
    }
    x.floats[i] = own.floats[source];
    if (noisy && adds && std::isfinite(x.floats[i])) {
      const double largest = largest_finite(format);
      x.floats[i] = round_to(format, std::clamp(x.floats[i] + level * magnitude * normal(e.key), -largest, largest));
    }
  });
  return x;
}

void Family::check(const Problem& problem) const {
  for (const std::string& axis : open_axes_)
    if (problem.sizes.count(axis) == 0)
      throw usage_error(fmt::format("the problem has no size of the axis '{}'", axis));
  for (const auto& [axis, size] : problem.sizes) {
    if (!std::binary_search(open_axes_.begin(), open_axes_.end(), axis))
      throw usage_error(fmt::format("the model has no open axis '{}'", axis));
    if (size < 1 || size > longest_size)
      throw usage_error(fmt::format("the axis '{}' is 1 to {} long, not {}", axis, longest_size, size));
  }
  const auto& inputs = program_.model().inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto given = problem.values.find(inputs[i].name);
    if (given == problem.values.end())
      throw usage_error(fmt::format("the problem does not say how '{}' is made", inputs[i].name));
    const auto choices = regimes(i);
    if (is_given(given->second) && count_given() == 0)
      throw usage_error(fmt::format("'{}' is made as {}, of inputs of one's own: name these by --inputs",
                                    inputs[i].name, name(given->second)));
    if (std::find(choices.begin(), choices.end(), given->second) == choices.end()) {
      std::string names;
      for (const Regime one : choices) names += (names.empty() ? "" : ", ") + std::string(name(one));
      throw usage_error(fmt::format("'{}' cannot be made as {}: {}", inputs[i].name, name(given->second), names));
    }
  }
  if (problem.given > 0 && problem.given >= static_cast<Index>(count_given()))
    throw usage_error(
        fmt::format("given={}: there are {} inputs of one's own, counted from 0", problem.given, count_given()));
  for (const auto& [input, regime] : problem.values)
    if (std::none_of(inputs.begin(), inputs.end(), [&input = input](const Input& one) { return one.name == input; }))
      throw usage_error(fmt::format("the model has no input '{}'", input));
}

Feeds Family::feeds(const Problem& problem) const {
  check(problem);
  Index longest = 1;
  for (const auto& [axis, size] : problem.sizes) longest = std::max(longest, size);
  Feeds feeds;
  const auto& inputs = program_.model().inputs;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    const Input& input = inputs[n];
    const auto lengths = shape(input, problem);
    elements(lengths, most_elements, fmt::format("input '{}'", input.name));
    Array x = zeros(input.type, lengths);
    const Regime regime = problem.values.at(input.name);
    if (is_given(regime)) {
      feeds.emplace(input.name, given(n, problem, std::move(x)));
      continue;
    }
    const std::uint64_t key = extend(mix(problem.seed), n), of_all = extend(key, ~std::uint64_t{0});
    const auto count = static_cast<std::uint64_t>(uses_[n].count);
    each_element(lengths, key, [&](std::size_t i, const Element& e) {
      if (is_floating(x.type))
        set_float(x, i, regime, e, of_all);
      else if (uses_[n].role == Role::numbers)
        x.integers[i] = plain_integer(regime, x.type, e, of_all, uses_[n].divisor);
      else
        x.integers[i] = integer_value(regime, e, of_all, count, longest);
    });
    feeds.emplace(input.name, std::move(x));
  }
  return feeds;
}

bool Family::takes(const Problem& problem) const {
  const Feeds feeds = this->feeds(problem);
  try {
    (void)program_.run(feeds);
    return true;
  } catch (const Error& error) {
    if (error.exit() != Exit::usage) throw;
    return false;
  }
}

}  // namespace attest::graph
