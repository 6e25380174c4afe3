#include "engine/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/bucket.hpp"
#include "engine/check.hpp"
#include "engine/evidence.hpp"
#include "engine/file.hpp"
#include "engine/processor.hpp"
#include "engine/shrink/candidates.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uintmax_t largest_file = std::uintmax_t{16} << 20;
constexpr int deepest = 16;
constexpr std::size_t digest_digits = 16;
constexpr std::string_view digest_before = "  \"digest\": \"", digest_after = "\"\n}\n";

// The place of the digest that ends the text of an entry, its key included; nullopt if the text ends in another way.
std::optional<std::size_t> place_of_digest(std::string_view text) {
  const std::size_t tail = digest_before.size() + digest_digits + digest_after.size();
  if (text.size() < tail || !text.substr(text.size() - tail).starts_with(digest_before) ||
      !text.ends_with(digest_after))
    return std::nullopt;
  return text.size() - tail;
}

constexpr Index most_literals = 4096;

// Copies captured activations that are too many to be literal. Throws Error(usage) if another file has their name
// there.
void keep_captured(const std::string& file, const fs::path& folder) {
  const fs::path copy = folder / fs::path(file).filename();
  std::error_code error;
  if (fs::equivalent(file, copy, error)) return;
  fs::create_directories(folder, error);
  if (fs::exists(copy, error)) {
    constexpr std::uintmax_t most = std::uintmax_t{1} << 32;
    if (read_file(copy, most) != read_file(file, most))
      throw usage_error(fmt::format(
          "{} is another file than {}, which the reproducer beside it needs: rename one of them", copy.string(), file));
    return;
  }
  fs::copy_file(file, copy, error);
  if (error) throw usage_error(fmt::format("{} cannot be written: {}", copy.string(), error.message()));
}

// Tells whether PATH:NAME says this name and nothing else.
bool is_subject_name(std::string_view name) {
  return !name.empty() && name.find_first_of(":/") == std::string_view::npos;
}

// Reads a corpus file step by step; every refusal names the file, the line and the reason.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Entry read() {
    const json object = parse();
    check_format(object);
    check_digest();
    try {
      return entry(object);
    } catch (const Error& error) {
      refuse(line_, error.what());
    }
  }

 private:
  [[noreturn]] void refuse(std::size_t line, const std::string& reason) const {
    throw usage_error(fmt::format("{}:{}: {}", name_, line, reason));
  }
  [[nodiscard]] std::size_t line_at(std::size_t byte) const {
    const auto head = text_.substr(0, std::min(byte, text_.size()));
    return 1 + static_cast<std::size_t>(std::ranges::count(head, '\n'));
  }

  json parse() const {
    if (text_.size() > largest_file) refuse(1, "the file is larger than any entry of ours");
    if (text_.empty()) refuse(1, "the file is empty");
    bool deeper = false;
    const auto refuse_deeper = [&] {
      if (deeper) refuse(1, fmt::format("JSON is nested deeper than {} levels", deepest));
    };
    try {
      json object = parse_json(text_, deepest, &deeper);
      refuse_deeper();
      if (!object.is_object()) refuse(1, "a corpus entry must be a JSON object");
      return object;
    } catch (const json::parse_error& error) {
      refuse_deeper();
      const bool ended = error.byte >= text_.size();
      refuse(line_at(error.byte),
             ended ? "the file is truncated: JSON ends in the middle" : "the file is damaged: this is not JSON");
    } catch (const json::exception&) {
      refuse(1, "the file is damaged: it holds a number that no double can hold");
    }
  }

  void check_format(const json& object) const {
    const std::size_t line = line_of("format");
    if (object.value("kind", json()) == "model")
      refuse(line_of("kind"), "an entry of a model, which `attest replay` alone runs (docs/graphs.md)");
    if (!object.contains("format") || !object["format"].is_number_unsigned())
      refuse(line, "not a corpus entry: it states no format version");
    const auto format = object["format"].get<std::uint64_t>();
    if (format != static_cast<std::uint64_t>(corpus_format))
      refuse(line, fmt::format("format version {}, and this attest reads version {}: {}", format, corpus_format,
                               format > corpus_format ? "use a later attest" : "write the entry again"));
  }

  // The last member is the digest of every byte before it.
  void check_digest() const {
    const auto at = place_of_digest(text_);
    if (!at) refuse(line_at(text_.size()), "the file is damaged: it does not end with its digest");
    const std::string expected = hex64(digest_of(text_.substr(0, *at)));
    if (text_.substr(*at + digest_before.size(), digest_digits) != expected)
      refuse(line_at(*at), "the file is damaged or was edited: its digest is not that of its contents");
  }

  [[nodiscard]] std::size_t line_of(std::string_view key) const {
    const std::size_t at = text_.find(fmt::format("\"{}\":", key));
    return at == std::string_view::npos ? 1 : line_at(at);
  }

  // A member of `object`; leaves its line behind for messages.
  const json& member(const json& object, const std::string& key) {
    line_ = line_of(key);
    const auto found = object.find(key);
    if (found == object.end()) throw usage_error("the entry has no '" + key + "'");
    return *found;
  }
  std::string string(const json& object, const std::string& key) {
    const json& value = member(object, key);
    if (!value.is_string()) throw usage_error("'" + key + "' must be a string");
    return value.get<std::string>();
  }
  bool flag(const json& object, const std::string& key) {
    const json& value = member(object, key);
    if (!value.is_boolean()) throw usage_error("'" + key + "' must be true or false");
    return value.get<bool>();
  }
  std::uint64_t count(const json& object, const std::string& key) {
    const json& value = member(object, key);
    if (!value.is_number_unsigned()) throw usage_error("'" + key + "' must be a whole number that is not negative");
    return value.get<std::uint64_t>();
  }
  std::vector<std::string> strings(const json& object, const std::string& key) {
    const json& value = member(object, key);
    std::vector<std::string> list;
    if (!value.is_array()) throw usage_error("'" + key + "' must be an array of strings");
    for (const json& item : value) {
      if (!item.is_string()) throw usage_error("'" + key + "' must be an array of strings");
      list.push_back(item.get<std::string>());
    }
    return list;
  }
  std::vector<EarlierCall> earlier_calls(const json& object) {
    const json& value = member(object, "after");
    if (!value.is_array()) throw usage_error("'after' must be an array of calls");
    std::vector<EarlierCall> calls;
    for (const json& item : value) {
      if (!item.is_object()) throw usage_error("a call of 'after' must be an object");
      EarlierCall call{problem_from_text(string(item, "text")), strings(item, "laws")};
      if (!call.problem.op().captured_file(call.problem).empty())
        throw usage_error("a call of 'after' cannot take its values from a file");
      for (const std::string& name : call.laws) law_named(name, call.problem.op());
      calls.push_back(std::move(call));
    }
    return calls;
  }
  Rate rate(const json& object) {
    constexpr std::uint64_t most_runs = 1'000'000;
    const std::uint64_t seen = count(object, "seen"), runs = count(object, "runs");
    if (seen < 1 || seen > runs || runs > most_runs)
      throw usage_error("'seen' must be in 1..runs, and runs at most 1000000");
    return {static_cast<int>(seen), static_cast<int>(runs)};
  }
  VerdictKind kind(const json& object, const std::string& key) {
    const auto found = verdict_kind_from_name(string(object, key));
    if (!found) throw usage_error("'" + key + "' is no verdict that this version knows");
    return *found;
  }

  // Entries of laws whose place ensemble-error took are its own.
  static bool refile(std::string& law) {
    const bool replaced = law == "statistical-bound" || law == "aggregate-error";
    if (replaced) law = ensemble_error_name;
    return replaced;
  }

  Explained explained(const json& object) {
    std::string law = string(object, "property");
    refile(law);
    return {{std::move(law), kind(object, "verdict"), string(object, "what")},
            string(object, "predicate"),
            {count(object, "failing"), count(object, "asked"), count(object, "failing_elsewhere"),
             count(object, "elsewhere")}};
  }

  // Reads the file that holds an external subject, and the subject's name there.
  void subject_file(const json& object, const fs::path& folder, const std::string& subject, fs::path& file,
                    std::string& name) {
    const auto plain = [](const std::string& text) {
      return text.size() <= 4096 && std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
    };
    const fs::path path = string(object, "subject_file");
    if (!plain(path.native()) || path.is_absolute() || !path.has_filename())
      throw usage_error("'subject_file' must be a file, relative to the entry's folder");
    if (!subject.starts_with("external:")) throw usage_error("'subject_file' goes with an external subject alone");
    name = string(object, "subject_name");
    if (!plain(name) || !is_subject_name(name))
      throw usage_error("'subject_name' must be a name as it stands behind the colon of PATH:NAME");
    file = fs::absolute(folder / path);
  }
  std::string subject_of(const json& object) {
    std::string subject = string(object, "subject");
    if (portable_subject(subject) != subject)
      throw usage_error(
          "the subject '" + subject +
          "' is a path, and a path is never taken from a file: give it on the command line, --subject PATH");
    return subject;
  }
  SecondSubject second_subject(const json& object, const fs::path& folder, const Op& op) {
    if (!object.is_object()) throw usage_error("'subject_b' must be an object");
    SecondSubject b;
    b.subject = subject_of(object);
    b.version = string(object, "subject_version");
    if (object.contains("subject_file")) subject_file(object, folder, b.subject, b.file, b.name);
    b.contract = contract(object, op);
    return b;
  }
  Contract contract(const json& object, const Op& op) {
    const json& contract = member(object, "contract");
    if (!contract.is_object()) throw usage_error("'contract' must be an object");
    return op.contract_from_json(contract, op.policy_from_text(string(contract, "policy")));
  }

  Entry entry(const json& object) {
    Entry e;
    e.attest_version = string(object, "attest_version");
    e.subject = subject_of(object);
    e.subject_version = string(object, "subject_version");
    const fs::path folder = fs::path(name_).has_parent_path() ? fs::path(name_).parent_path() : fs::path(".");
    if (object.contains("subject_file")) subject_file(object, folder, e.subject, e.subject_file, e.subject_name);
    e.problem = problem_from_json(member(object, "problem"), folder.string());
    if (string(object, "text") != to_text(portable_problem(e.problem)))
      throw usage_error("'text' and 'problem' are not the same problem");
    const Op& op = e.problem.op();
    e.contract = contract(object, op);
    if (storage_of(policy_of(e.contract)) != storage_of(e.problem))
      throw usage_error("the policy's storage format is not the problem's dtype");
    e.policy_given = flag(object, "policy_given");
    if (object.contains("as_probed")) e.as_probed = flag(object, "as_probed");
    e.property = string(object, "property");
    if (refile(e.property)) e.refiled = string(object, "property");
    law_named(e.property, op);
    if (object.contains("subject_b")) e.subject_b = second_subject(member(object, "subject_b"), folder, op);
    if (compares(e.property) != e.subject_b.has_value())
      throw usage_error("'subject_b' goes with a law of two subjects, and such a law with it");
    e.with = strings(object, "with");
    for (const std::string& name : e.with) law_named(name, op);
    if (object.contains("after")) e.after = earlier_calls(object);
    const json& expect = member(object, "expect");
    e.expect = kind(expect, "verdict");
    if (e.expect != VerdictKind::pass && e.expect != VerdictKind::fail)
      throw usage_error("an entry expects 'pass' or 'fail', nothing else");
    e.bucket = string(expect, "bucket");
    if (!e.refiled.empty() && e.bucket.starts_with(e.refiled)) e.bucket.replace(0, e.refiled.size(), e.property);
    e.reference = string(expect, "reference");
    if (e.expect == VerdictKind::fail && e.bucket.empty())
      throw usage_error("an expected failure must name its bucket");
    if (object.contains("processor")) e.processor = string(object, "processor");
    if (!is_processor(e.processor))
      throw usage_error(
          "'processor' must be an architecture and names of instructions, as in \"x86_64 avx2 amx_bf16\"");
    if (object.contains("shown")) e.shown = rate(member(object, "shown"));
    const json& seen = member(object, "seen");
    e.seen = kind(seen, "kind");
    e.reason = string(seen, "reason");
    if (seen.contains("witness")) e.evidence = evidence_from_json(member(seen, "witness"));
    const json& origin = member(object, "origin");
    e.original = string(origin, "original");
    if (origin.contains("lse_added") && flag(origin, "lse_added"))
      throw usage_error(
          "an earlier attest added a log-sum-exp to this problem, which the failure did not have: write it anew with "
          "`attest check SUBJECT --problem TEXT --corpus DIR` and the text of 'original' here");
    if (origin.contains("seed")) e.seed = count(origin, "seed");
    if (origin.contains("case")) e.case_number = count(origin, "case");
    e.shrink_calls = static_cast<std::int64_t>(std::min<std::uint64_t>(count(object, "shrink_calls"), INT64_MAX));
    e.minimal = flag(object, "minimal");
    e.neighbours = strings(object, "neighbours");
    if (object.contains("explained")) e.explained = explained(member(object, "explained"));
    return e;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t line_ = 1;
};

}  // namespace

namespace {

void write_file_of(const fs::path& file, const std::string& name, ordered_json& object) {
  if (file.empty() || !is_subject_name(name)) return;
  // An absolute path is nobody else's business.
  object["subject_file"] = (file.is_absolute() ? file.filename() : file).string();
  object["subject_name"] = name;
}

ordered_json second_to_json(const SecondSubject& b) {
  ordered_json object{{"subject", b.subject}, {"subject_version", b.version}};
  write_file_of(b.file, b.name, object);
  object["contract"] = to_json(b.contract);
  return object;
}

// The path as a file of `folder` has it.
fs::path portable_file(const fs::path& whole, const fs::path& folder) {
  if (!whole.is_absolute()) return whole;  // as it stands in a file already
  std::error_code error;
  const fs::path base = fs::weakly_canonical(fs::absolute(folder), error), file = fs::weakly_canonical(whole, error);
  const fs::path above = base.relative_path(), found = file.relative_path();
  const bool near = !error && !above.empty() && *above.begin() == *found.begin();
  return near ? file.lexically_relative(base) : file.filename();
}

// A subject's message without the files that this machine keeps: "(at kernel.py:12, traceback in /tmp/t.txt)" keeps its
// place, "(more in worker.log)" goes.
std::string portable_reason(std::string reason) {
  for (const std::string_view file : {", traceback in ", " (traceback in ", " (more in "}) {
    const std::size_t begin = reason.rfind(file), end = reason.find(')', begin);
    if (begin == std::string::npos || end == std::string::npos) continue;
    reason.erase(begin, end - begin + (file.front() == ',' ? 0 : 1));
  }
  return reason;
}

}  // namespace

Problem portable_problem(Problem problem) {
  const Op& op = problem.op();
  return op.portable(std::move(problem));
}

Entry portable_entry(Entry entry, const fs::path& folder) {
  entry.problem = portable_problem(std::move(entry.problem));
  entry.reason = portable_reason(std::move(entry.reason));
  entry.subject_file = portable_file(entry.subject_file, folder);
  if (entry.subject_b) entry.subject_b->file = portable_file(entry.subject_b->file, folder);
  return entry;
}

ordered_json to_json(const Entry& e) {
  ordered_json object;
  object["format"] = corpus_format;
  object["attest_version"] = e.attest_version;
  object["subject"] = e.subject;
  object["subject_version"] = e.subject_version;
  write_file_of(e.subject_file, e.subject_name, object);
  object["text"] = to_text(portable_problem(e.problem));
  object["problem"] = to_json(portable_problem(e.problem));
  object["policy_given"] = e.policy_given;
  if (e.as_probed) object["as_probed"] = true;
  object["contract"] = to_json(e.contract);
  if (e.subject_b) object["subject_b"] = second_to_json(*e.subject_b);
  object["property"] = e.property;
  object["with"] = e.with;
  if (!e.after.empty()) object["after"] = to_json(e.after);
  object["expect"] = {{"verdict", name(e.expect)}, {"bucket", e.bucket}, {"reference", e.reference}};
  if (!e.processor.empty()) object["processor"] = e.processor;
  if (e.shown) object["shown"] = {{"seen", e.shown->seen}, {"runs", e.shown->runs}};
  object["seen"] = {{"kind", name(e.seen)}, {"reason", e.reason}};
  if (e.evidence) object["seen"]["witness"] = to_json(*e.evidence);
  object["origin"]["original"] = e.original;
  if (e.seed) object["origin"]["seed"] = *e.seed;
  if (e.case_number) object["origin"]["case"] = *e.case_number;
  object["shrink_calls"] = e.shrink_calls;
  object["minimal"] = e.minimal;
  object["neighbours"] = e.neighbours;
  if (e.explained) object["explained"] = to_json(*e.explained);
  return object;
}

ordered_json to_json(const Explained& explained) {
  return {{"property", explained.key.property},
          {"verdict", name(explained.key.kind)},
          {"what", explained.key.what},
          {"predicate", explained.predicate},
          {"failing", explained.counts.failing},
          {"asked", explained.counts.asked},
          {"failing_elsewhere", explained.counts.failing_elsewhere},
          {"elsewhere", explained.counts.elsewhere}};
}

bool is_saved(const Entry& entry) noexcept { return entry.subject.starts_with("saved:"); }

FailureKey failure_key_of(const Entry& entry) {
  return key_of(entry.property, {entry.seen, entry.reason, entry.evidence, {}});
}

ordered_json to_json(const std::vector<EarlierCall>& calls) {
  ordered_json list = ordered_json::array();
  for (const EarlierCall& call : calls) list.push_back({{"text", to_text(call.problem)}, {"laws", call.laws}});
  return list;
}

std::string to_file_text(const Entry& entry) {
  // Everything but the closing brace, and a comma for the digest that follows. Bytes that are no UTF-8 are replaced.
  std::string text = json_text(to_json(entry), 2);
  text.resize(text.size() - 2);
  text += ",\n";
  const std::string digest = hex64(digest_of(text));
  return text + std::string(digest_before) + digest + std::string(digest_after);
}

std::string with_renewed_digest(std::string_view text) {
  std::string renewed(text);
  if (const auto at = place_of_digest(text))
    renewed.replace(*at + digest_before.size(), digest_digits, hex64(digest_of(text.substr(0, *at))));
  return renewed;
}

Entry entry_from_file_text(std::string_view text, const std::string& name) { return Reader(text, name).read(); }

Entry read_entry(const fs::path& file) { return entry_from_file_text(read_file(file, largest_file), file.string()); }

fs::path entry_path(const Entry& entry) {
  std::string content = entry.property + "\n" + to_text(portable_problem(entry.problem));
  for (const EarlierCall& call : entry.after) content += "\n" + to_text(call.problem);
  if (entry.subject_b) content += "\n" + entry.subject_b->subject;
  const std::uint64_t hash = digest_of(content);
  return fs::path(file_name_of(entry.subject)) /
         fmt::format("{}-{}.json", file_name_of(entry.bucket.empty() ? entry.property : entry.bucket),
                     hex64(hash).substr(0, 8));
}

fs::path write_entry(const Entry& entry, const fs::path& folder) {
  if (auto plain = entry.problem.op().literal(entry.problem, most_literals)) {
    Entry alone = entry;
    alone.problem = std::move(*plain);
    return write_entry(alone, folder);
  }
  const fs::path file = folder / entry_path(entry);
  if (const std::string captured = entry.problem.op().captured_file(entry.problem); !captured.empty())
    keep_captured(captured, file.parent_path());
  write_file(file, to_file_text(portable_entry(entry, file.parent_path())));
  return file;
}

std::vector<fs::path> corpus_files(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error)) throw usage_error(path.string() + " does not exist");
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    fs::recursive_directory_iterator walk(path, error), end;
    if (error) throw usage_error(fmt::format("{} cannot be read: {}", path.string(), error.message()));
    for (; walk != end; walk.increment(error))
      if (walk->path().extension() == ".json" && walk->is_regular_file(error)) files.push_back(walk->path());
    // A folder that cannot be entered ends the walk: its content must not go missing silently.
    if (error) throw usage_error(fmt::format("{} cannot be read to its end: {}", path.string(), error.message()));
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace attest::engine
