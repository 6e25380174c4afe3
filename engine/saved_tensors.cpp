#include "engine/saved_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/file.hpp"

namespace attest::engine {
namespace {

using nlohmann::json;

// RFC 4648, section 4; nullopt for anything else.
std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  static const auto values = [] {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::array<std::uint8_t, 256> table{};
    table.fill(64);
    for (std::size_t i = 0; i < digits.size(); ++i)
      table[static_cast<unsigned char>(digits[i])] = static_cast<std::uint8_t>(i);
    return table;
  }();
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::uint8_t value = values[static_cast<unsigned char>(c)];
    if (value == 64) return std::nullopt;
    bits = bits << 6 | value;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> held & 0xff));
  }
  return bytes;
}

class Polygraphy {
 public:
  explicit Polygraphy(const std::string& name) : name_(name) {}

  std::vector<NamedArray> read(std::string_view text, const SavedRun& run) const {
    const json root = parse(text);
    const json& iterations = all_of(root, run);
    if (run.iteration >= iterations.size())
      refuse(fmt::format("it holds {} iterations, counted from 0: there is no iteration {}", iterations.size(),
                         run.iteration));
    return arrays_of(iterations[run.iteration]);
  }
  std::vector<std::vector<NamedArray>> read_all(std::string_view text) const {
    const json root = parse(text);
    std::vector<std::vector<NamedArray>> all;
    for (const json& iteration : all_of(root, {})) all.push_back(arrays_of(iteration));
    return all;
  }

 private:
  [[nodiscard]] const json& all_of(const json& root, const SavedRun& run) const {
    const json& iterations = root.is_array() ? root : iterations_of(root, run);
    if (!iterations.is_array() || iterations.empty()) refuse("it holds no iteration");
    return iterations;
  }

  [[nodiscard]] std::vector<NamedArray> arrays_of(const json& iteration) const {
    if (!iteration.is_object()) refuse("an iteration must be an object from name to array");
    const json& outputs =
        iteration.contains("outputs") && !is_array(iteration["outputs"]) ? iteration["outputs"] : iteration;
    std::vector<NamedArray> arrays;
    for (const auto& [key, value] : outputs.items())
      if (value.is_object()) arrays.push_back(array(key, value));
    return arrays;
  }

  [[noreturn]] void refuse(const std::string& reason) const { throw usage_error(fmt::format("{}: {}", name_, reason)); }

  [[nodiscard]] json parse(std::string_view text) const {
    constexpr int deepest = 16;
    bool deep = false;
    json root;
    try {
      root = parse_json(text, deepest, &deep);
    } catch (const json::exception&) {
      refuse("it is neither an .npz, an .npy nor JSON that Polygraphy writes: it is truncated or of another kind");
    }
    if (deep) refuse("its JSON is nested deeper than Polygraphy's");
    return root;
  }

  [[nodiscard]] const json& iterations_of(const json& root, const SavedRun& run) const {
    if (!root.is_object() || !root.contains("lst") || !root["lst"].is_array())
      refuse("its JSON is not what Polygraphy writes for --save-inputs or --save-outputs");
    std::vector<std::string> names;
    for (const json& pair : root["lst"]) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_array())
        refuse("its JSON is not what Polygraphy writes for --save-outputs: a runner must be [name, iterations]");
      names.push_back(pair[0].get<std::string>());
    }
    if (!run.runner && names.size() == 1) return root["lst"][0][1];
    const auto found = run.runner ? std::ranges::find(names, *run.runner) : names.end();
    if (found == names.end())
      refuse(fmt::format("it holds the runners {}: name one of them with --runner", fmt::join(names, ", ")));
    return root["lst"][static_cast<std::size_t>(found - names.begin())][1];
  }

  static bool is_array(const json& value) {
    return value.is_object() && (value.contains("array") || value.contains("values"));
  }

  // {"array": base64 of an .npy}, in outputs inside {"values": ...}.
  [[nodiscard]] NamedArray array(const std::string& key, const json& value) const {
    const json& inner = value.contains("values") ? value["values"] : value;
    if (!inner.is_object() || !inner.contains("array") || !inner["array"].is_string())
      refuse(fmt::format("{} is no NumPy array: torch tensors and others must be saved as NumPy arrays", key));
    const auto bytes = from_base64(inner["array"].get_ref<const std::string&>());
    if (!bytes) refuse(fmt::format("the array of {} is no base64 text: the file is damaged", key));
    NamedArray array = read_npy(*bytes, fmt::format("{}: {}", name_, key));
    array.name = key;
    return array;
  }

  const std::string& name_;
};

}  // namespace

std::vector<NamedArray> read_polygraphy(std::string_view text, const std::string& name, const SavedRun& run) {
  return Polygraphy(name).read(text, run);
}

std::vector<std::vector<NamedArray>> read_saved_runs(const std::filesystem::path& file) {
  const std::string text = read_file(file, most_array_bytes);
  if (text.starts_with("PK") || text.starts_with("\x93NUMPY")) return {read_saved_tensors(file)};
  return Polygraphy(file.string()).read_all(text);
}

std::vector<NamedArray> read_saved_tensors(const std::filesystem::path& file, const SavedRun& run) {
  const std::string text = read_file(file, most_array_bytes), name = file.string();
  const auto bytes = std::as_bytes(std::span(text));
  const bool zip = text.starts_with("PK"), array = text.starts_with("\x93NUMPY");
  if ((zip || array) && (run.runner || run.iteration > 0))
    throw usage_error(
        fmt::format("{}: an {} holds one run alone: --runner and --iteration choose from Polygraphy's JSON", name,
                    zip ? ".npz" : ".npy"));
  if (zip) return read_npz(bytes, name);
  if (array) {
    std::vector<NamedArray> arrays{read_npy(bytes, name)};
    arrays.front().name = file.stem().string();
    return arrays;
  }
  return read_polygraphy(text, name, run);
}

}  // namespace attest::engine
