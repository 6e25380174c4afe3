#include "cli/settings.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "core/error.hpp"
#include "core/problem.hpp"
#include "engine/file.hpp"

namespace attest::cli {
namespace {

// A scalar of a file as the text that the command line would take.
std::string scalar_text(const toml::node& node, std::string_view key, std::string_view source) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto integer = node.value_exact<std::int64_t>()) return std::to_string(*integer);
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  throw usage_error(fmt::format("{}: {} must be a string, an integer or true/false", source, key));
}

toml::table parsed(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw usage_error(fmt::format("{}, line {}: {}", source, error.source().begin.line, error.description()));
  }
}

// The text of a file of this folder, empty where there is none.
std::string text_here(const char* path) {
  constexpr std::uintmax_t largest_file = 1 << 20;
  std::error_code error;  // set for a folder that cannot be searched: read_file says so
  return std::filesystem::exists(path, error) || error ? engine::read_file(path, largest_file) : "";
}

constexpr std::string_view graph_table = "graph", profiles_table = "profiles", waivers_table = "waive";

// [graph.size] batch = "1..8" and size.batch = "1..8" of [graph] are one thing in TOML.
std::vector<std::pair<std::string, std::string>> graph_items(const toml::table& graph, std::string_view source) {
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& [kind, node] : graph) {
    const toml::table* const own = node.as_table();
    if (own == nullptr)
      throw usage_error(
          fmt::format("{}: {}.{} must be a table: keys of [{}] are size.AXIS, values.INPUT and role.INPUT", source,
                      graph_table, kind.str(), graph_table));
    for (const auto& [name, value] : *own) {
      const std::string key = fmt::format("{}.{}", kind.str(), name.str());
      items.emplace_back(key, scalar_text(value, fmt::format("{}.{}", graph_table, key), source));
    }
  }
  return items;
}

WaiverSetting waiver_of(const toml::node& node, std::string_view source) {
  const auto refused = [source](std::string_view what) {
    return usage_error(
        fmt::format("{}: {} of [[{}]]; it has an entry (a file or folder of reproducers), a reason, and "
                    "until, a date as in until = 2027-03-31",
                    source, what, waivers_table));
  };
  if (!node.is_table()) throw refused("a line");
  WaiverSetting waiver;
  for (const auto& [key, value] : *node.as_table()) {
    const auto date = value.value_exact<toml::date>();
    const auto text = value.value_exact<std::string>();
    if (key == "until" && date)
      waiver.until = fmt::format("{:04}-{:02}-{:02}", date->year, date->month, date->day);
    else if (key == "entry" && text && !text->empty())
      waiver.entry = *text;
    else if (key == "reason" && text && !text->empty())
      waiver.reason = *text;
    else
      throw refused(fmt::format("wrong {}", key.str()));
  }
  for (const auto& [name, value] :
       {std::pair{"entry", &waiver.entry}, {"reason", &waiver.reason}, {"until", &waiver.until}})
    if (value->empty()) throw refused(fmt::format("no {}", name));
  return waiver;
}

// Filled by declare(), which every verb calls before the command line is parsed.
struct Verbs {
  std::vector<std::string> names;  // in the order of `attest --help`
  std::set<std::string, std::less<>> keys;
};
Verbs& all_verbs() {
  static Verbs verbs;
  return verbs;
}

}  // namespace

std::vector<Option> under(std::string_view group, std::vector<Option> options) {
  for (Option& option : options) option.group = group;
  return options;
}

int read_jobs(const Settings& settings) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(settings.integer("jobs", 1, 4096).value_or(cores));
}

std::optional<double> parse_duration(std::string_view text) noexcept {
  double unit = 0;
  if (text.ends_with('s')) unit = 1;
  if (text.ends_with('m')) unit = 60;
  if (text.ends_with('h')) unit = 3600;
  if (unit == 0) return std::nullopt;
  text.remove_suffix(1);
  const auto amount = text.starts_with("0x") ? std::nullopt : parse_double(text);
  if (!amount || !(*amount > 0) || *amount > 1e7) return std::nullopt;
  return *amount * unit;
}

void Settings::declare(CLI::App& app, const std::vector<Option>& options) {
  all_verbs().names.push_back(app.get_name());
  for (const Option& option : options) {
    options_.push_back(option);
    const std::string key(option.name);
    all_verbs().keys.insert(key);
    const std::string flags = (option.letter.empty() ? "" : fmt::format("-{},", option.letter)) + "--" + key;
    CLI::Option* added = nullptr;
    if (option.value.empty())
      added = app.add_flag(flags, switches_[key], std::string(option.help));
    else
      words_[key].option = added = app.add_option(flags, words_[key].text, std::string(option.help))
                                       ->type_name(std::string(option.value))
                                       ->take_last();
    if (!option.group.empty()) added->group(std::string(option.group));
  }
}

bool Settings::has(std::string_view key) const {
  return std::any_of(options_.begin(), options_.end(), [&](const Option& option) { return option.name == key; });
}

void Settings::take(std::string_view key, const std::string& value, const std::string& source) {
  if (!has(key)) {
    std::string names;
    for (const Option& option : options_) names += (names.empty() ? "" : ", ") + std::string(option.name);
    throw usage_error(fmt::format("{}: there is no key '{}' for this verb: it has {}", source, key, names));
  }
  if (key == "bisect")  // main() must know it before anything can fail
    throw usage_error(fmt::format("{}: bisect is a flag of the command line alone", source));
  values_.try_emplace(std::string(key), Value{value, source});
}

void Settings::read_params(std::string_view params) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  while (true) {
    params.remove_prefix(std::min(params.find_first_not_of(blanks), params.size()));
    if (params.empty()) return;
    const std::string_view item = params.substr(0, params.find_first_of(blanks));
    params.remove_prefix(item.size());
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) throw usage_error(fmt::format("ATTEST_PARAMS: '{}' is not key=value", item));
    take(item.substr(0, equals), std::string(item.substr(equals + 1)), "ATTEST_PARAMS");
  }
}

// A file of settings: its name in messages, where its tables are in it, and what it says.
struct Settings::File {
  std::string_view name, prefix;
  toml::table table;
};

void Settings::read_profile(std::string_view profile, const std::vector<File>& files) {
  bool found = false;
  for (const File& file : files)
    if (const toml::table* const own = file.table[profiles_table][profile].as_table()) {
      found = true;
      for (const auto& [key, node] : *own)
        if (has(key.str()) || !all_verbs().keys.contains(key.str()))
          take(key.str(), scalar_text(node, key.str(), file.name), std::string(file.name));
    }
  if (!found)
    throw usage_error(
        fmt::format("ATTEST_PROFILE={}: neither attest.toml has a table [profiles.{}] nor pyproject.toml "
                    "[tool.attest.profiles.{}]",
                    profile, profile, profile));
}

void Settings::read_toml(std::string_view verb, const File& file) {
  const auto read = [&](std::string_view key, const toml::node& node) {
    take(key, scalar_text(node, key, file.name), std::string(file.name));
  };
  if (const toml::table* own = file.table[verb].as_table())
    for (const auto& [key, node] : *own) read(key.str(), node);
  for (const auto& [name, node] : file.table) {
    const std::string_view key = name.str();
    if (key == waivers_table && node.is_array()) {
      for (const toml::node& one : *node.as_array()) waivers_.push_back(waiver_of(one, file.name));
    } else if (key == graph_table && node.is_table()) {
      if (graph_.empty()) graph_ = graph_items(*node.as_table(), file.name);
    } else if (node.is_table()) {
      const std::vector<std::string>& verbs = all_verbs().names;
      if (key != profiles_table && std::find(verbs.begin(), verbs.end(), key) == verbs.end())
        throw usage_error(fmt::format(
            "{}: there is no table [{}{}]: tables are named after verbs ({}), or [{}{}], [{}{}.NAME] or [[{}{}]]",
            file.name, file.prefix, key, fmt::join(verbs, ", "), file.prefix, graph_table, file.prefix, profiles_table,
            file.prefix, waivers_table));
    } else if (has(key) || !all_verbs().keys.contains(key)) {
      read(key, node);  // the top level speaks to every verb that has the key
    }
  }
}

void Settings::complete(std::string_view verb) {
  const char* const params = std::getenv("ATTEST_PARAMS");
  const char* const profile = std::getenv("ATTEST_PROFILE");
  complete(verb, params == nullptr ? "" : params, text_here("attest.toml"), text_here("pyproject.toml"),
           profile == nullptr ? "" : profile);
  // A subject can read the environment that this program was started with: the settings leave it.
  if (char* const text = std::getenv("ATTEST_PARAMS"); text != nullptr) std::memset(text, 0, std::strlen(text));
}

void Settings::complete(std::string_view verb, std::string_view params, std::string_view toml,
                        std::string_view pyproject, std::string_view profile) {
  for (const auto& [key, given] : switches_)
    if (given) values_[key] = {"true", ""};
  for (const auto& [key, word] : words_)
    if (word.option->count() > 0) values_[key] = {word.text, ""};
  read_params(params);
  std::vector<File> files{{"attest.toml", "", parsed(toml, "attest.toml")}};
  toml::table project = parsed(pyproject, "pyproject.toml");
  if (toml::table* const own = project["tool"]["attest"].as_table())
    files.push_back({"pyproject.toml", "tool.attest.", std::move(*own)});
  if (!profile.empty()) read_profile(profile, files);
  for (const File& file : files) read_toml(verb, file);
}

std::string Settings::origin(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->second.source.empty()) return fmt::format("--{}", key);
  return fmt::format("{} in {}", key, found->second.source);
}

std::optional<std::string> Settings::text(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second.text);
}

bool Settings::flag(std::string_view key) const {
  const auto value = text(key);
  if (!value || *value == "false") return false;
  if (*value == "true" || *value == "1") return true;
  throw usage_error(fmt::format("{}={}: it must be true or false", origin(key), *value));
}

std::optional<std::uint64_t> Settings::integer(std::string_view key, std::uint64_t lo, std::uint64_t hi) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto number = parse_whole<std::uint64_t>(*value);
  if (!number || *number < lo || *number > hi)
    throw usage_error(fmt::format("{} {}: it must be an integer in {}..{}", origin(key), *value, lo, hi));
  return number;
}

std::optional<double> Settings::seconds(std::string_view key) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto duration = parse_duration(*value);
  if (!duration)
    throw usage_error(
        fmt::format("{} {}: it must be a time greater than 0 such as 30s, 5m or 2h", origin(key), *value));
  return duration;
}

std::optional<std::uint64_t> Settings::bytes(std::string_view key) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  constexpr std::string_view units = "MGT";
  constexpr double megabyte = 1 << 20, most = 1e18;
  const std::size_t unit = value->empty() ? units.npos : units.find(value->back());
  if (unit != units.npos && !value->starts_with("0x")) {
    const auto amount = parse_double(std::string_view(*value).substr(0, value->size() - 1));
    const double size = amount.value_or(0) * std::ldexp(megabyte, static_cast<int>(10 * unit));
    if (size >= megabyte && size <= most) return static_cast<std::uint64_t>(size);
  }
  throw usage_error(fmt::format("{} {}: it must be an amount of memory such as 512M, 8G or 1.5G", origin(key), *value));
}

}  // namespace attest::cli
