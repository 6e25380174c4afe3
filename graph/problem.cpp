#include "graph/problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/error.hpp"
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

}  // namespace

std::string open_name(const Input& input, std::size_t axis) {
  const auto& symbol = input.shape[axis].symbol;
  return symbol.empty() ? fmt::format("{}.{}", input.name, axis) : symbol;
}

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
