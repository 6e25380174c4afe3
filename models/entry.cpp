#include "models/entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/evidence.hpp"
#include "engine/file.hpp"
#include "graph/write.hpp"
#include "models/tensors.hpp"

namespace attest::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uintmax_t largest_entry = 1 << 20;

// Relative to `folder`, wherever the file lies; its name alone where no path leads there.
std::string portable(const fs::path& file, const fs::path& folder) {
  if (file.empty()) return {};
  std::error_code error;
  const fs::path near = fs::proximate(file, folder, error);
  return (error || near.empty() ? file.filename() : near).generic_string();
}

// Throws Error(usage) for a path that is not relative to the entry's folder, or holds what no text does.
fs::path found_from(const std::string& text, const fs::path& folder) {
  if (text.empty()) return {};
  constexpr std::size_t longest = 4096;
  const auto strange = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  if (fs::path(text).is_absolute() || text.size() > longest || std::ranges::any_of(text, strange))
    throw usage_error("an entry of a model names files relative to its own folder alone");
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder / text, error);
  return error ? folder / text : whole;
}

ordered_json to_json(const Entry& entry, const fs::path& folder) {
  ordered_json object{{"format", entry_format},
                      {"kind", "model"},
                      {"model", {{"file", portable(entry.model, folder)}, {"digest", entry.model_digest}}},
                      {"runtime", entry.runtime}};
  if (!entry.inputs.empty())
    object["inputs"] = {{"file", portable(entry.inputs, folder)}, {"digest", entry.inputs_digest}};
  if (!entry.outputs.empty())
    object["outputs"] = {{"file", portable(entry.outputs, folder)}, {"digest", entry.outputs_digest}};
  if (!entry.roles.empty()) object["roles"] = entry.roles;
  if (!entry.runtime_file.empty()) object["runtime_file"] = portable(entry.runtime_file, folder);
  object["version"] = entry.version;
  object["build"] = {{"level", entry.build.level}, {"static", entry.build.fixed}, {"threads", entry.build.threads}};
  object["policy"] = entry.policy;
  object["law"] = entry.law;
  object["problem"] = entry.problem;
  if (!entry.after.empty()) object["after"] = entry.after;
  object["expect"] = entry.expect;
  object["key"] = entry.key;
  object["reason"] = entry.reason;
  object["z"] = engine::real_to_json(entry.z);
  if (!entry.tensor.empty()) object["place"] = {{"tensor", entry.tensor}, {"node", entry.node}, {"op", entry.op}};
  if (!entry.segment.empty()) object["place"]["segment"] = entry.segment;
  object["original"] = entry.original;
  object["seed"] = entry.seed;
  object["case"] = entry.case_number;
  object["shrink_calls"] = entry.shrink_calls;
  object["minimal"] = entry.minimal;
  return object;
}

std::string digest_text(const ordered_json& object) { return hex64(digest_of(json_text(object))); }

// Reads members of an object; an error names the key.
class Members {
 public:
  Members(const ordered_json& object, std::string_view file) : object_(object), file_(file) {}

  [[nodiscard]] Error wrong(std::string_view key) const {
    return usage_error(fmt::format("{}: '{}' is missing, or not what an entry of a model has there", file_, key));
  }
  [[nodiscard]] std::string text(std::string_view key, bool needed = true) const {
    const auto found = object_.find(key);
    if (found == object_.end() && !needed) return {};
    if (found == object_.end() || !found->is_string()) throw wrong(key);
    return found->get<std::string>();
  }
  [[nodiscard]] std::uint64_t number(std::string_view key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_number_unsigned()) throw wrong(key);
    return found->get<std::uint64_t>();
  }
  [[nodiscard]] bool flag(std::string_view key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_boolean()) throw wrong(key);
    return found->get<bool>();
  }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> all;
    const auto found = object_.find(key);
    if (found == object_.end()) return all;
    if (!found->is_array()) throw wrong(key);
    for (const auto& one : *found) {
      if (!one.is_string()) throw wrong(key);
      all.push_back(one.get<std::string>());
    }
    return all;
  }
  [[nodiscard]] std::map<std::string, std::string> texts_by_name(std::string_view key) const {
    std::map<std::string, std::string> all;
    const auto found = object_.find(key);
    if (found == object_.end()) return all;
    if (!found->is_object()) throw wrong(key);
    for (const auto& [name, one] : found->items()) {
      if (!one.is_string()) throw wrong(key);
      all.emplace(name, one.get<std::string>());
    }
    return all;
  }
  [[nodiscard]] Members object(std::string_view key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_object()) throw wrong(key);
    return {*found, file_};
  }
  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(key); }

 private:
  const ordered_json& object_;
  std::string_view file_;
};

Entry entry_from(const Members& members, const fs::path& folder) {
  Entry entry;
  const Members model = members.object("model");
  entry.model = found_from(model.text("file"), folder);
  entry.model_digest = model.text("digest");
  if (members.has("inputs")) {
    const Members inputs = members.object("inputs");
    entry.inputs = found_from(inputs.text("file"), folder);
    entry.inputs_digest = inputs.text("digest");
  }
  if (members.has("outputs")) {
    const Members outputs = members.object("outputs");
    entry.outputs = found_from(outputs.text("file"), folder);
    entry.outputs_digest = outputs.text("digest");
  }
  entry.roles = members.texts_by_name("roles");
  entry.runtime = members.text("runtime");
  entry.runtime_file = found_from(members.text("runtime_file", false), folder);
  entry.version = members.text("version");
  const Members build = members.object("build");
  const std::uint64_t threads = build.number("threads");
  if (threads > 4096) throw build.wrong("threads");
  entry.build = {build.text("level"), build.flag("static"), static_cast<int>(threads)};
  entry.policy = members.text("policy");
  entry.law = members.text("law");
  entry.problem = members.text("problem");
  entry.after = members.texts("after");
  entry.expect = members.text("expect");
  if (entry.expect != "fail" && entry.expect != "pass") throw members.wrong("expect");
  entry.key = members.text("key");
  entry.reason = members.text("reason");
  if (members.has("place")) {
    const Members place = members.object("place");
    entry.tensor = place.text("tensor");
    entry.node = place.text("node");
    entry.op = place.text("op");
    entry.segment = place.texts("segment");
  }
  entry.original = members.text("original");
  entry.seed = members.number("seed");
  entry.case_number = members.number("case");
  const std::uint64_t calls = members.number("shrink_calls");
  if (calls > std::uint64_t{1} << 40) throw members.wrong("shrink_calls");
  entry.shrink_calls = static_cast<std::int64_t>(calls);
  entry.minimal = members.flag("minimal");
  return entry;
}

}  // namespace

bool is_entry(std::string_view text) {
  const json object = parse_json_or_discard(text, 4);
  return object.is_object() && object.contains("kind") && object["kind"] == "model";
}

Entry read_entry(const fs::path& file) {
  const std::string name = file.string();
  ordered_json object;
  try {
    object = parse_ordered_json(engine::read_file(file, largest_entry));
  } catch (const json::exception&) {
    throw usage_error(name + " is damaged: it is no JSON");
  }
  const Members members(object, name);
  if (!object.is_object() || members.text("kind") != "model") throw usage_error(name + " is no entry of a model");
  if (members.number("format") != entry_format)
    throw usage_error(
        fmt::format("{} has format {}, this version reads {}", name, members.number("format"), entry_format));
  const std::string stated = members.text("digest");
  ordered_json rest = object;
  rest.erase("digest");
  if (digest_text(rest) != stated) throw usage_error(name + " is damaged: its digest is not that of what it holds");
  return entry_from(members, file.parent_path());
}

fs::path file_of(const Entry& entry, const fs::path& folder) {
  std::string identity = entry.key + entry.runtime + to_text(entry.build) + entry.problem + entry.policy;
  for (const std::string& before : entry.after) identity += before;
  identity += entry.outputs_digest;
  // Options make builds long, and file_name_of cuts: never what tells two entries apart.
  constexpr std::size_t longest = 110;
  const std::string words = fmt::format("{}_{}_{}", entry.key, entry.runtime, entry.build.level).substr(0, longest);
  const std::string stem = engine::file_name_of(fmt::format("{}-{}", words, hex64(digest_of(identity)).substr(0, 8)));
  return folder / engine::file_name_of(entry.model.stem().string()) / (stem + ".json");
}

fs::path write_entry(const Entry& entry, const std::optional<Place>& place, const fs::path& folder) {
  const fs::path file = file_of(entry, folder), home = file.parent_path();
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(home), error);
  ordered_json object = to_json(entry, error ? home : whole);
  object["digest"] = digest_text(object);
  const auto beside = [&](std::string_view ending) { return fs::path(file).replace_extension(ending); };
  if (place && place->segment) {
    const Place::Segment& segment = *place->segment;
    engine::write_file(beside(".onnx"), graph::write_model(segment.model));
    NpzFile tensors;
    tensors.add(segment.before, segment.feeds);
    tensors.add("expected", segment.expected);
    if (segment.got) tensors.add("got", *segment.got);
    engine::write_file(beside(".npz"), tensors.bytes());
  }
  engine::write_file(file, json_text(object, 2) + "\n");
  return file;
}

std::vector<EntryDefect> grouped(std::vector<EntryFile> entries) {
  const auto key_of = [](const Entry& entry) {
    return std::tuple(entry.model_digest, entry.runtime, entry.tensor, entry.tensor.empty() ? entry.key : "");
  };
  std::vector<EntryDefect> defects;
  for (EntryFile& one : entries) {
    if (one.entry.expect != "fail") continue;
    const auto same = std::ranges::find_if(
        defects, [&](const EntryDefect& defect) { return key_of(defect.front().entry) == key_of(one.entry); });
    (same == defects.end() ? defects.emplace_back() : *same).push_back(std::move(one));
  }
  return defects;
}

}  // namespace attest::models
