#include "engine/merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/case_table.hpp"
#include "engine/corpus.hpp"
#include "engine/failure.hpp"
#include "engine/file.hpp"
#include "engine/json_lines.hpp"
#include "engine/known.hpp"
#include "engine/stream.hpp"
#include "engine/summary.hpp"
#include "engine/triage.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uintmax_t largest_log = std::uintmax_t{1} << 32;

// Makes the union beside its place, and puts it there whole.
class Place {
 public:
  explicit Place(const fs::path& out) : out_(out), made_(out.string() + fmt::format(".merging-{}", ::getpid())) {
    std::error_code error;
    if (out.filename().empty()) throw usage_error("-o needs the name of a folder without a slash at its end");
    if (fs::exists(out, error) && !(fs::is_directory(out, error) && fs::is_empty(out, error)))
      throw usage_error(out.string() + " is there already: name a folder that is not, or an empty one");
    require_writable(made_);
  }
  ~Place() {
    std::error_code ignored;
    fs::remove_all(made_, ignored);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  [[nodiscard]] const fs::path& folder() const { return made_; }
  void finish() {
    std::error_code error;
    fs::rename(made_, out_, error);
    if (error) throw usage_error(fmt::format("{} cannot be written: {}", out_.string(), error.message()));
  }

 private:
  fs::path out_, made_;
};

// A reproducer, and where it came from.
struct Kept {
  Entry entry;
  fs::path folder;   // the folder of its file
  std::string text;  // its file without where that lies: settles between two that are equally small
};

bool before(const Kept& a, const Kept& b) {
  if (simpler(a.entry, b.entry) != simpler(b.entry, a.entry)) return simpler(a.entry, b.entry);
  const auto first = [](const Kept& kept) { return kept.entry.case_number.value_or(0); };
  return first(a) != first(b) ? first(a) < first(b) : a.text < b.text;
}

// The entry for a file of another folder: a file that it names relative to its own folder, and that is there, keeps its
// place.
Entry moved(Kept kept) {
  const auto from = [&](fs::path& file) {
    std::error_code error;
    if (!file.empty() && file.is_relative() && fs::exists(kept.folder / file, error))
      file = fs::weakly_canonical(fs::absolute(kept.folder) / file, error);
  };
  from(kept.entry.subject_file);
  if (kept.entry.subject_b) from(kept.entry.subject_b->file);
  return std::move(kept.entry);
}

// Writes an entry as write_entry() does; captured activations lie beside it.
fs::path write_moved(const Kept& kept, const fs::path& corpus) {
  const Entry entry = moved(kept);
  fs::path file = corpus / entry_path(entry);
  write_file(file, to_file_text(portable_entry(entry, file.parent_path())));
  if (const std::string captured = entry.problem.op().captured_file(entry.problem); !captured.empty()) {
    const fs::path name = fs::path(captured).filename();
    std::error_code error;
    fs::copy_file(kept.folder / name, file.parent_path() / name, fs::copy_options::skip_existing, error);
    if (error)
      throw usage_error(fmt::format("{} cannot be copied: {}", (kept.folder / name).string(), error.message()));
  }
  return file;
}

// ---- corpora --------------------------------------------------------------------------------------------------------

// A bucket without its law, and without the class of wrong numbers: --minimise tells one defect by it.
std::vector<Kept> minimised(std::vector<Kept> all) {
  std::ranges::stable_sort(all, before);
  std::vector<Kept> kept;
  std::map<std::string, std::set<std::string>> buckets;  // by subject
  for (Kept& one : all) {
    if (one.entry.expect == VerdictKind::fail) {
      std::set<std::string>& seen = buckets[one.entry.subject];
      if (is_known(seen, one.entry.bucket)) continue;
      seen.insert(one.entry.bucket);
    }
    kept.push_back(std::move(one));
  }
  return kept;
}

std::vector<Kept> entries_of(const std::vector<fs::path>& folders, Merged& told) {
  std::map<fs::path, Kept> by_name;  // the file's name, which the entry has in any corpus
  for (const fs::path& file : corpus_files(folders)) {
    try {
      const std::string text = read_file(file, largest_log);
      const std::string renewed = with_renewed_digest(text);
      Kept kept{entry_from_file_text(renewed, file.string()), file.parent_path(), renewed};
      ++told.entries;
      told.renewed += renewed != text;
      const auto [at, is_new] = by_name.emplace(entry_path(kept.entry), kept);
      if (!is_new && before(kept, at->second)) at->second = std::move(kept);
    } catch (const Error& error) {
      told.left_out.emplace_back(error.what());
    }
  }
  std::vector<Kept> all;
  all.reserve(by_name.size());
  for (auto& [name, kept] : by_name) all.push_back(std::move(kept));
  return all;
}

// ---- campaigns ------------------------------------------------------------------------------------------------------

struct FoundLine {
  Kept kept;
  ordered_json line;
};

// One shard, as its folder has it.
struct Part {
  explicit Part(const fs::path& folder_) : folder(folder_), held(folder_) {}
  fs::path folder;
  FolderHold held;
  ordered_json identity;
  Shard shard;
  std::uint64_t repeat = 1;
  Summary summary;  // its counts
  std::map<std::string, std::uint64_t> signatures;
  std::map<std::uint64_t, std::string> rows;  // lines, by case
  std::map<std::uint64_t, std::string> raw, shrunk;
  std::map<std::string, FoundLine> findings;  // the latest of each bucket
};

void read_identity(Part& part) {
  const fs::path file = part.folder / "campaign.json";
  if (!fs::exists(file)) throw usage_error(part.folder.string() + " holds no campaign, beside others that do");
  try {
    part.identity = parse_ordered_json(read_file(file, 1 << 20));
    if (part.identity.contains("subject_b"))
      throw usage_error(part.folder.string() + " holds a campaign of two subjects: merge takes those of one");
    if (part.identity.contains("merged"))
      throw usage_error(part.folder.string() + " is a union already: give the folders that it was made of");
    const auto text = part.identity.at("shard").get<std::string>();
    const std::size_t slash = text.find('/');
    part.shard = {std::stoull(text.substr(0, slash)), std::stoull(text.substr(slash + 1))};
    part.repeat = part.identity.at("r").get<std::uint64_t>();
    if (part.identity.contains("op"))
      if (const Op* op = ops::find_op(part.identity.at("op").get<std::string>())) part.summary.op = op;
    if (part.shard.index >= 1 && part.shard.index <= part.shard.count && part.repeat >= 1) return;
  } catch (const json::exception&) {
  } catch (const std::logic_error&) {  // no number
  }
  throw usage_error(file.string() + " is damaged, or of another version of attest");
}

void read_findings(Part& part) {
  const fs::path file = part.folder / "findings.jsonl";
  read_lines(file, [&](const json& line, std::string_view text) {
    if (line.contains("raw"))
      if (const auto number = line.at("case").get<std::uint64_t>(); number < part.summary.next_case)
        part.raw[number] = text;
    if (line.contains("shrunk"))
      if (const auto number = line.at("shrunk").get<std::uint64_t>(); number < part.summary.next_case)
        part.shrunk[number] = text;
    if (!line.contains("entry")) return;
    const auto entry_text = line.at("entry").get<std::string>();
    Kept kept{entry_from_file_text(entry_text, file.string()), part.folder, entry_text};
    std::string bucket = kept.entry.bucket;
    part.findings.insert_or_assign(std::move(bucket), FoundLine{std::move(kept), parse_ordered_json(text)});
  });
}

Part read_part(const fs::path& folder) {
  Part part(folder);
  read_identity(part);
  read_lines(folder / "progress.jsonl", [&](const json& line, std::string_view) {
    Summary counts;
    counts.op = part.summary.op;
    state_from_json(line.at("summary"), counts);
    part.summary = std::move(counts);
    part.signatures = line.at("signatures").get<std::map<std::string, std::uint64_t>>();
  });
  read_lines(folder / "cases.jsonl", [&](const json& line, std::string_view text) {
    if (const auto number = line.at(0).get<std::uint64_t>(); number < part.summary.next_case) part.rows[number] = text;
  });
  read_findings(part);
  return part;
}

void require_one_stream(const std::vector<Part>& parts) {
  const Part& first = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Part& other = parts[i];
    const auto differ = [&](const std::string& what, const std::string& a, const std::string& b) {
      throw usage_error(fmt::format("{} and {} are of two campaigns: {} is {} in the one, {} in the other",
                                    first.folder.string(), other.folder.string(), what, a, b));
    };
    for (const auto& [key, value] : first.identity.items())
      if (key != "shard" && (!other.identity.contains(key) || other.identity[key] != value))
        differ(key, json_text(value), other.identity.contains(key) ? json_text(other.identity[key]) : "absent");
    if (other.identity.size() != first.identity.size()) differ("what they are told by", "less", "more");
    if (other.shard.count != first.shard.count)
      differ("the number of shards", std::to_string(first.shard.count), std::to_string(other.shard.count));
    if (other.shard.index == parts[i - 1].shard.index)
      throw usage_error(fmt::format("{} and {} both hold shard {}/{}", parts[i - 1].folder.string(),
                                    other.folder.string(), other.shard.index, other.shard.count));
  }
}

// The first case that no shard has drawn, and why that is not the end of all of them; empty where it is.
std::pair<std::uint64_t, std::string> reached(const std::vector<Part>& parts) {
  const Part& first = parts.front();
  std::vector<std::uint64_t> missing;
  for (std::uint64_t index = 1, at = 0; index <= first.shard.count; ++index) {
    if (at < parts.size() && parts[at].shard.index == index)
      ++at;
    else
      missing.push_back(index);
  }
  if (!missing.empty())
    return {0, fmt::format(
                   "{} of {} shards are missing: {}", missing.size(), first.shard.count,
                   fmt::join(missing.begin(),
                             missing.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(missing.size(), 8)),
                             ", "))};
  std::uint64_t next = std::numeric_limits<std::uint64_t>::max(), last = 0;
  for (const Part& part : parts) {
    next = std::min(next, part.shard.next(part.summary.next_case, part.repeat));
    last = std::max(last, part.summary.next_case);
  }
  if (last > next)
    return {next,
            fmt::format("shards came to different cases: {} is the first that is missing, {} the last that was drawn",
                        next, last - 1)};
  return {next, ""};
}

void add_reasons(std::map<std::string, std::uint64_t>& into, const std::map<std::string, std::uint64_t>& more) {
  for (const auto& [reason, count] : more) into[reason] += count;
}

void add(Summary& into, const Summary& s) {
  into.cases += s.cases;
  into.executed += s.executed;
  into.judged += s.judged;
  into.judged_long += s.judged_long;
  for (const auto& [property, counts] : s.verdicts) {
    PropertyCounts& sum = into.verdicts[property];
    for (const auto& [kind, count] : counts.verdicts) sum.verdicts[kind] += count;
    add_reasons(sum.skipped, counts.skipped);
    add_reasons(sum.vacuous, counts.vacuous);
  }
  for (const auto& [about, more] : s.warned) into.warned[about].add(more);
  into.elements += s.elements;
  into.elements_long += s.elements_long;
  into.undetermined += s.undetermined;
  into.wide += s.wide;
  add_reasons(into.skipped, s.skipped);
  add_reasons(into.vacuous, s.vacuous);
  into.rejected += s.rejected;
  into.redrawn += s.redrawn;
  into.laws_left_out += s.laws_left_out;
  into.failing_cases += s.failing_cases;
  into.refused += s.refused;
  into.cut_off += s.cut_off;
  into.slow += s.slow;
  into.seconds += s.seconds;
  into.seconds_in += s.seconds_in;
}

// The lines of the cases that a campaign without shards would have kept, and how many failures of each kind it would
// have chosen.
struct Cases {
  std::string lines;
  std::map<std::string, std::uint64_t> chosen;
};
Cases cases_of(const std::vector<Part>& parts) {
  std::map<std::uint64_t, const std::string*> rows;
  for (const Part& part : parts)
    for (const auto& [number, line] : part.rows) rows[number] = &line;
  const Supports everything(attest::Supports::everything());
  CaseTable table(everything);
  Triage triage;
  for (const auto& [number, line] : rows) {
    CaseRow row = row_from_json(parse_json(*line));
    if (!row.failures.empty() && !row.signature.empty()) triage.ask(row.failures.front(), row.signature);
    table.add(std::move(row));
  }
  Cases cases;
  for (const CaseRow& row : table.rows()) cases.lines += *rows.at(row.number) + "\n";
  cases.chosen = std::move(triage.chosen);
  return cases;
}

// The smallest reproducer of each bucket; its counts of the first failure are the least of all.
std::vector<FoundLine> smallest(std::vector<Part>& parts, bool minimise) {
  std::map<std::string, FoundLine> best;
  for (Part& part : parts)
    for (auto& [bucket, found] : part.findings) {
      const auto [at, is_new] = best.emplace(bucket, found);
      if (is_new) continue;
      FoundLine& old = at->second;
      const auto first = std::min(old.line.at("case").get<std::uint64_t>(), found.line.at("case").get<std::uint64_t>());
      const double seconds =
          std::min(old.line.at("seconds_to_first").get<double>(), found.line.at("seconds_to_first").get<double>());
      if (before(found.kept, old.kept)) old = std::move(found);
      old.line["case"] = first;
      old.line["seconds_to_first"] = seconds;
    }
  std::vector<FoundLine> all;
  all.reserve(best.size());
  for (auto& [bucket, found] : best) all.push_back(std::move(found));
  const auto key = [](const FoundLine& found) {
    return std::pair(found.line.at("case").get<std::uint64_t>(), found.kept.entry.bucket);
  };
  if (minimise) {
    std::vector<Kept> kept;
    kept.reserve(all.size());
    for (const FoundLine& found : all) kept.push_back(found.kept);
    std::set<std::string> stay;
    for (const Kept& one : minimised(std::move(kept))) stay.insert(one.entry.bucket);
    std::erase_if(all, [&](const FoundLine& found) { return !stay.contains(found.kept.entry.bucket); });
  }
  std::ranges::sort(all, {}, key);
  return all;
}

}  // namespace

Merged merge_corpora(const std::vector<fs::path>& folders, const MergeOptions& options) {
  Merged told;
  told.folders = folders.size();
  std::vector<Kept> all = entries_of(folders, told);
  if (options.minimise) all = minimised(std::move(all));
  Place place(options.out);
  for (const Kept& kept : all) write_moved(kept, place.folder());
  told.written = all.size();
  place.finish();
  return told;
}

Merged merge_campaigns(const std::vector<fs::path>& folders, const MergeOptions& options) try {
  Merged told;
  told.folders = folders.size();
  std::vector<Part> parts;
  parts.reserve(folders.size());
  for (const fs::path& folder : folders) parts.push_back(read_part(folder));
  std::ranges::stable_sort(parts, {}, [](const Part& part) { return part.shard.index; });
  require_one_stream(parts);
  const auto [next_case, missing] = reached(parts);
  told.missing = missing;
  told.whole = missing.empty();
  told.subject = parts.front().identity.at("subject").get<std::string>();

  Place place(options.out);
  Summary summary;
  std::map<std::string, std::uint64_t> signatures;
  std::map<std::uint64_t, std::string> raw, shrunk;
  for (const Part& part : parts) {
    add(summary, part.summary);
    add_reasons(signatures, part.signatures);
    raw.insert(part.raw.begin(), part.raw.end());
    shrunk.insert(part.shrunk.begin(), part.shrunk.end());
    told.entries += part.findings.size();
  }
  summary.next_case = next_case;
  if (!told.whole)
    for (const Part& part : parts) summary.next_case = std::max(summary.next_case, part.summary.next_case);
  const Cases cases = cases_of(parts);
  std::string findings;
  for (const auto* lines : {&raw, &shrunk})
    for (const auto& [number, line] : *lines) findings += line + "\n";
  for (FoundLine& found : smallest(parts, options.minimise)) {
    const fs::path file =
        found.kept.entry.seen == VerdictKind::flaky ? fs::path() : write_moved(found.kept, place.folder() / "corpus");
    found.line["reproducer"] = file.empty() ? "" : (options.out / file.lexically_relative(place.folder())).string();
    found.line["entry"] = to_file_text(portable_entry(moved(found.kept), place.folder()));
    // A shard had drawn its own cases alone.
    if (told.whole) found.line["cases_to_first"] = found.line.at("case").get<std::uint64_t>() + 1;
    findings += json_text(found.line) + "\n";
    ++told.written;
  }
  ordered_json progress;
  progress["summary"] = state_to_json(summary);
  progress["signatures"] = signatures;
  progress["chosen"] = cases.chosen;
  progress["rules"] = ordered_json::array();
  write_file(place.folder() / "cases.jsonl", cases.lines);
  write_file(place.folder() / "findings.jsonl", findings);
  write_file(place.folder() / "progress.jsonl", json_text(progress) + "\n");
  ordered_json identity = parts.front().identity;
  identity["shard"] = "1/1";
  identity["avoid"] = false;
  if (!told.whole) {
    identity["merged"] = ordered_json::array();
    for (const Part& part : parts)
      identity["merged"].push_back(fmt::format("{}/{}", part.shard.index, part.shard.count));
  }
  write_file(place.folder() / "campaign.json", json_text(identity, 2) + "\n");
  place.finish();
  return told;
} catch (const json::exception& error) {
  throw usage_error(fmt::format("a folder is damaged, or of another version of attest: {}", error.what()));
}

}  // namespace attest::engine
