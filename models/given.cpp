#include "models/given.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "engine/saved_tensors.hpp"
#include "graph/raw.hpp"
#include "models/tensors.hpp"

namespace attest::models {
namespace {

namespace fs = std::filesystem;

// "f32 [batch, 3]", with names of types as NamedArray::described().
std::string taken(const graph::Input& input) {
  std::vector<std::string> lengths;
  for (const graph::Dimension& d : input.shape)
    lengths.push_back(d.length ? fmt::format("{}", *d.length) : d.symbol.empty() ? "any" : d.symbol);
  return fmt::format("{} [{}]", name(static_cast<NamedArray::Type>(input.type)), fmt::join(lengths, ", "));
}

bool has_ending(const fs::path& file) {
  return file.extension() == ".npz" || file.extension() == ".npy" || file.extension() == ".json";
}

}  // namespace

graph::Feeds given_feeds(std::span<const NamedArray> arrays, const graph::Program& program,
                         const graph::Constraints& constraints, const std::string& where) {
  const auto& inputs = program.model().inputs;
  const std::vector<graph::Use> uses = graph::uses_of_inputs(program, constraints.roles, true);
  std::map<std::string, Index> symbols;
  graph::Feeds feeds;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    const graph::Input& input = inputs[n];
    const auto refuse = [&](const std::string& why) { throw usage_error(fmt::format("{}: {}", where, why)); };
    const auto found = std::ranges::find(arrays, input.name, &NamedArray::name);
    if (found == arrays.end()) {
      std::vector<std::string> held;
      for (const NamedArray& one : arrays) held.push_back(one.name);
      refuse(fmt::format("it has no array '{}', an input of the model ({}): it has {}", input.name, taken(input),
                         held.empty() ? "none" : fmt::format("{}", fmt::join(held, ", "))));
    }
    NamedArray array = *found;
    if (const auto type = static_cast<NamedArray::Type>(input.type); holds_bits_of(array, type)) array.type = type;
    bool fits = array.type == static_cast<NamedArray::Type>(input.type) && array.shape.size() == input.shape.size();
    for (std::size_t k = 0; fits && k < input.shape.size(); ++k) {
      const Index length = array.shape[k];
      fits = length >= 1 && length <= graph::longest_size && input.shape[k].length.value_or(length) == length;
    }
    if (!fits)
      refuse(fmt::format("'{}' is {}, and the model takes {}: save it with that type and shape, no axis empty",
                         input.name, found->described(), taken(input)));
    for (std::size_t k = 0; k < input.shape.size(); ++k) {
      const std::string& symbol = input.shape[k].symbol;
      if (input.shape[k].length || symbol.empty()) continue;
      const Index before = symbols.emplace(symbol, array.shape[k]).first->second;
      if (before != array.shape[k])
        refuse(fmt::format("'{}' is {}, where {} is {}, and an input before it has {}: save them with one length",
                           input.name, found->described(), symbol, array.shape[k], before));
    }
    graph::Array numbers = array_of(array);
    const auto nan = std::ranges::find_if(numbers.floats, [](double x) { return std::isnan(x); });
    if (nan != numbers.floats.end())
      refuse(fmt::format("{} is NaN, of which nothing is known of any result: give a number there",
                         element_text(input.name, numbers.shape, nan - numbers.floats.begin())));
    if (uses[n].role == graph::Role::ids)
      for (std::size_t i = 0; i < numbers.integers.size(); ++i)
        if (numbers.integers[i] < -uses[n].count || numbers.integers[i] >= uses[n].count)
          refuse(fmt::format("{} is {}, and the table that it is looked up in has {} rows: give one of these",
                             element_text(input.name, numbers.shape, static_cast<Index>(i)), numbers.integers[i],
                             uses[n].count));
    feeds.emplace(input.name, std::move(numbers));
  }
  return feeds;
}

GivenInputs read_given(const fs::path& path, const graph::Program& program, const graph::Constraints& constraints) {
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry& one : fs::directory_iterator(path, error))
      if (has_ending(one.path())) files.push_back(one.path());
    std::ranges::sort(files);
    if (error || files.empty())
      throw usage_error(fmt::format("{}: the folder holds no .npz, .npy or .json of inputs", path.string()));
  } else {
    if (!fs::is_regular_file(path, error))
      throw usage_error(fmt::format("{}: there is no such file or folder of inputs", path.string()));
    files.push_back(path);
  }
  std::vector<graph::Feeds> sets;
  std::string bytes;
  for (const fs::path& file : files) {
    auto runs = engine::read_saved_runs(file);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      auto& arrays = runs[i];
      const auto& inputs = program.model().inputs;
      if (file.extension() == ".npy" && inputs.size() == 1 && arrays.size() == 1) arrays[0].name = inputs[0].name;
      sets.push_back(given_feeds(arrays, program, constraints,
                                 runs.size() == 1 ? file.string() : fmt::format("{}, iteration {}", file.string(), i)));
      for (const auto& [name, array] : sets.back())
        bytes += fmt::format("{}{}", name, graph::shape_text(array.shape)) + graph::raw_bytes(array);
      bytes = hex64(digest_of(bytes));
    }
  }
  return {path, bytes, std::make_shared<const std::vector<graph::Feeds>>(std::move(sets))};
}

graph::Constraints constraints_of(const Entry& entry, const graph::Program& program) {
  graph::Constraints constraints;
  for (const auto& [input, role] : entry.roles) graph::constrain(constraints, "role." + input, role);
  if (entry.inputs.empty()) return constraints;
  GivenInputs given;
  try {
    given = read_given(entry.inputs, program, constraints);
  } catch (const Error& error) {
    throw Error(Exit::no_subject, fmt::format("the inputs of the entry cannot be read: {}", error.what()));
  }
  if (given.digest != entry.inputs_digest)
    throw Error(Exit::no_subject, fmt::format("{} does not hold the inputs that the entry was made with: they have "
                                              "changed",
                                              entry.inputs.string()));
  constraints.given = given.sets;
  return constraints;
}

}  // namespace attest::models
