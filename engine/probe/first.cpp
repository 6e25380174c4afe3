#include "engine/probe/first.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/policy_stages.hpp"
#include "engine/bucket.hpp"
#include "engine/failure.hpp"
#include "engine/file.hpp"
#include "engine/probe/probe.hpp"
#include "engine/processor.hpp"
#include "engine/restated.hpp"
#include "engine/timed.hpp"
#include "ops/probe/stages.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;
using ProbeRows = std::vector<ProbeRow>;

// ---- asking ---------------------------------------------------------------------------------------------------------

using ops::probing::widest_told;

bool has_more(const Op& op, const Contract& generous, Format dtype) {
  const Policy policy = policy_of(generous);
  for (std::size_t stage = 0; stage < stages_of(op.name()).size(); ++stage)
    if (!ops::holds(op.stage(policy, stage), widest_told(dtype))) return true;
  return false;
}

// One dtype in one form.
struct ProbeTask {
  Format dtype;
  Contract generous;
  std::vector<FormChoice> forms;
  ops::AsksStage asks;
  std::optional<ProbeRows> rows;  // nullopt: time was over
};

void ask_tasks(const SubjectFactory& subject, const Op& op, int jobs, std::vector<ProbeTask>& tasks) {
  std::exception_ptr error;
#pragma omp parallel num_threads(std::min(jobs, static_cast <int>(tasks.size())))
  {
    std::unique_ptr<Subject> instance;
#pragma omp for schedule(dynamic)
    for (std::size_t n = 0; n < tasks.size(); ++n) {
      ProbeTask& task = tasks[n];
      try {
        if (!instance) instance = subject.open();
        task.rows = op.probes()->kept({*instance, task.dtype, task.generous, false, task.forms}, task.asks);
      } catch (const OutOfTime&) {
      } catch (...) {
#pragma omp critical
        error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

// Each further value of each form by itself, but for those that the subject has promises of their own for.
std::vector<FormChoice> choices_of(const SubjectInfo& info) {
  std::vector<FormChoice> all;
  for (const FormOffer& offer : info.supports.forms)
    for (std::size_t n = 1; n < offer.values.size(); ++n)
      if (const FormChoice choice{offer.name, offer.values[n]}; std::ranges::none_of(
              info.form_contracts, [&](const FormContract& own) { return own.forms == std::vector{choice}; }))
        all.push_back(choice);
  return all;
}

// Asks what `observed` has not been asked yet.
Observed observe(const SubjectFactory& subject, const Op& op, int jobs, double seconds,
                 std::optional<Observed> observed) {
  const SubjectInfo& info = subject.info();
  const std::vector<Format>& dtypes = op.dtypes(info);
  const double start = machine_seconds();
  const auto left = [=] { return start + seconds - machine_seconds(); };
  const auto place_of = [&](const ProbeTask& task) {
    return static_cast<std::size_t>(std::ranges::find(dtypes, task.dtype) - dtypes.begin());
  };
  const Timed timed(
      subject, [=] { return left() <= 0; }, left);
  const double first_call = (info.plan_ms + info.warm_up_ms.value_or(0)) / 1000;  // seconds
  const auto ask = [&](std::vector<ProbeTask>& tasks) {
    if (!tasks.empty() && left() > first_call) ask_tasks(timed, op, jobs, tasks);
  };
  if (!observed) {
    observed.emplace(Observed{{}, {}, choices_of(info), std::nullopt});
    std::vector<ProbeTask> plain;
    for (const Format dtype : dtypes) {
      const Contract generous = op.contract(info, dtype);
      observed->contracts.push_back(generous);
      const auto asks = [&op, dtype, policy = policy_of(generous)](std::size_t stage) {
        return !ops::holds(op.stage(policy, stage), widest_told(dtype));
      };
      if (has_more(op, generous, dtype)) plain.push_back({dtype, generous, {}, asks, {}});
    }
    ask(plain);
    for (const ProbeTask& task : plain) {
      if (task.rows)
        observed->contracts[place_of(task)] = op.probes()->narrowed(task.generous, *task.rows);
      else
        observed->seconds = seconds;
    }
  }
  // Asks forms about the formats that were gained.
  std::vector<ProbeTask> formed;
  for (std::size_t n = 0; n < dtypes.size(); ++n) {
    const Contract generous = op.contract(info, dtypes[n]);
    if (observed->contracts[n] == generous) continue;
    const auto gained = [&op, narrow = policy_of(observed->contracts[n]), policy = policy_of(generous)](auto stage) {
      return op.stage(narrow, stage) != op.stage(policy, stage);
    };
    for (const FormChoice& choice : observed->unasked) formed.push_back({dtypes[n], generous, {choice}, gained, {}});
  }
  ask(formed);
  const auto keeps = [&](const ProbeTask& task) {
    const Policy narrow = policy_of(observed->contracts[place_of(task)]);
    const Policy its = policy_of(op.probes()->narrowed(task.generous, *task.rows));
    for (std::size_t stage = 0; stage < stages_of(op.name()).size(); ++stage)
      if (task.asks(stage) && !ops::holds(op.stage(its, stage), op.stage(narrow, stage))) return false;
    return true;
  };
  for (const FormChoice& choice : std::exchange(observed->unasked, {})) {
    const auto of_choice = [&](const ProbeTask& task) { return task.forms.front() == choice; };
    if (std::ranges::any_of(formed, [&](const ProbeTask& task) { return of_choice(task) && !task.rows; }))
      observed->unasked.push_back(choice);
    else if (std::ranges::any_of(formed, [&](const ProbeTask& task) { return of_choice(task) && !keeps(task); }))
      observed->apart.push_back(choice);
  }
  return std::move(*observed);
}

// ---- the cache ------------------------------------------------------------------------------------------------------

constexpr int cache_format = 1;  // changes with the questions that are asked
constexpr std::uintmax_t largest_cache_file = 1 << 20;

// A digest of the file, or of those right in the folder; empty where there is none.
std::string digest_of_content(const fs::path& content) {
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_directory(content, error)) {
    for (const fs::directory_entry& file : fs::directory_iterator(content, error))
      if (file.is_regular_file(error)) files.push_back(file.path());
  } else if (!content.empty()) {
    files.push_back(content);
  }
  std::ranges::sort(files);
  std::string all;
  constexpr std::uintmax_t most = std::uintmax_t{1} << 32;
  for (const fs::path& file : files) all += hex64(digest_of(read_file(file, most)));
  return files.empty() ? "" : hex64(digest_of(all));
}

// The facts on which observations hang.
ordered_json cache_key(const SubjectInfo& info, const Op& op, const ProbeFirstOptions& options) {
  ordered_json declares;
  for (const Format dtype : op.dtypes(info)) declares.push_back(to_json(op.contract(info, dtype)));
  for (const Contract& contract : op.form_contracts(info)) declares.push_back(to_json(contract));
  for (const FormOffer& offer : info.supports.forms) declares.push_back({offer.name, offer.values});
  return {{"format", cache_format},
          {"attest", attest_version()},
          {"subject", portable_subject(options.subject)},
          {"op", op.name()},
          {"version", info.version},
          {"processor", processor()},
          {"device", info.device},
          {"content", digest_of_content(options.content)},
          {"declares", hex64(digest_of(json_text(declares)))}};
}

std::string digest_of_parts(const ordered_json& key, const ordered_json& observed) {
  return hex64(digest_of(json_text(key) + json_text(observed)));
}

// nullopt where there is no such file, or where it is not one of these, which `notes` say.
std::optional<Observed> cached(const fs::path& file, const ordered_json& key, const SubjectInfo& info, const Op& op,
                               std::vector<std::string>& notes) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  try {
    const ordered_json object = ordered_json::parse(read_file(file, largest_cache_file));
    const ordered_json& observed = object.at("observed");
    if (object.at("key") == key && object.at("digest") == digest_of_parts(key, observed))
      return observed_from_json(json(observed), info, op);
  } catch (const std::exception&) {
  }
  notes.push_back(fmt::format("{} is damaged, or is not about this subject: it is written anew", file.string()));
  return std::nullopt;
}

void keep_in_cache(const fs::path& file, const ordered_json& key, const ordered_json& observed,
                   std::vector<std::string>& notes) {
  const ordered_json object{{"key", key}, {"observed", observed}, {"digest", digest_of_parts(key, observed)}};
  try {
    write_file(file, json_text(object, 2) + "\n");
  } catch (const Error& error) {
    notes.push_back(fmt::format("what probes showed is not kept: {}", error.what()));
  }
}

}  // namespace

ordered_json to_json(const Observed& observed, const SubjectInfo& info, const Op& op) {
  ordered_json object;
  const std::vector<Format>& dtypes = op.dtypes(info);
  for (std::size_t n = 0; n < dtypes.size(); ++n)
    object["contracts"][std::string(name(dtypes[n]))] = to_json(observed.contracts[n]);
  const auto list = [&](const char* key, const std::vector<FormChoice>& choices) {
    object[key] = ordered_json::array();
    for (const FormChoice& choice : choices) object[key].push_back({choice.name, choice.value});
  };
  list("apart", observed.apart);
  list("unasked", observed.unasked);
  if (observed.seconds) object["seconds"] = *observed.seconds;
  return object;
}

Observed observed_from_json(const json& object, const SubjectInfo& info, const Op& op) {
  Observed observed;
  for (const Format dtype : op.dtypes(info)) {
    const json& contract = object.at("contracts").at(std::string(name(dtype)));
    const Policy policy = op.policy_from_text(contract.at("policy").get<std::string>());
    if (storage_of(policy) != dtype) throw usage_error("a contract is of another dtype");
    observed.contracts.push_back(op.contract_from_json(contract, policy));
  }
  for (const auto& [key, list] : {std::pair{"apart", &observed.apart}, {"unasked", &observed.unasked}})
    for (const json& choice : object.at(key))
      list->push_back({choice.at(0).get<std::string>(), choice.at(1).get<std::string>()});
  if (object.contains("seconds")) observed.seconds = object.at("seconds").get<double>();
  return observed;
}

std::vector<std::pair<Format, std::string>> assumed_of(const Observed& observed, const SubjectInfo& declared,
                                                       const Op& op) {
  std::vector<std::pair<Format, std::string>> assumed;
  const std::vector<Format>& dtypes = op.dtypes(declared);
  for (std::size_t n = 0; n < dtypes.size(); ++n)
    if (!(observed.contracts[n] == op.contract(declared, dtypes[n])))
      assumed.emplace_back(dtypes[n], to_text(policy_of(observed.contracts[n])));
  return assumed;
}

bool gains_by_probes(const SubjectInfo& info, const Op& op) {
  return op.probes() != nullptr && !op.policy_declared(info) && std::ranges::any_of(op.dtypes(info), [&](Format dtype) {
           return has_more(op, op.contract(info, dtype), dtype);
         });
}

std::unique_ptr<SubjectFactory> held_to(std::unique_ptr<SubjectFactory> subject, const Op& op,
                                        const Observed& observed) {
  const SubjectInfo& info = subject->info();
  if (assumed_of(observed, info, op).empty()) return subject;
  std::vector<FormChoice> generous = observed.apart;
  generous.insert(generous.end(), observed.unasked.begin(), observed.unasked.end());
  SubjectInfo held = op.probes()->holding(info, observed.contracts, generous);
  held.declared = std::make_shared<const SubjectInfo>(info);
  return restated(std::move(subject), std::move(held));
}

std::unique_ptr<SubjectFactory> held_to_entry(std::unique_ptr<SubjectFactory> subject, const Entry& entry) {
  const Op& op = entry.problem.op();
  const SubjectInfo& info = subject->info();
  if (!entry.as_probed || op.probes() == nullptr || !op.offered(info) || op.policy_declared(info)) return subject;
  Observed observed;
  for (const Format dtype : op.dtypes(info))
    observed.contracts.push_back(dtype == storage_of(entry.problem) ? entry.contract : op.contract(info, dtype));
  return held_to(std::move(subject), op, observed);
}

ProbedFirst probed_first(std::unique_ptr<SubjectFactory> subject, const Op& op, const ProbeFirstOptions& options) {
  ProbedFirst probed;
  const SubjectInfo& info = subject->info();
  if (gains_by_probes(info, op)) {
    const double start = machine_seconds();
    const ordered_json key = options.cache.empty() ? ordered_json() : cache_key(info, op, options);
    const fs::path file =
        options.cache.empty()
            ? fs::path()
            : options.cache / fmt::format("{}-{}.json", file_name_of(portable_subject(options.subject)),
                                          hex64(digest_of(json_text(key))));
    if (!file.empty()) probed.observed = cached(file, key, info, op, probed.notes);
    if (probed.observed) probed.from = file;
    if (probed.observed && probed.observed->seconds && options.seconds > 2 * *probed.observed->seconds)
      probed.observed.reset();
    if (!probed.observed || !probed.observed->unasked.empty()) {
      probed.observed = observe(*subject, op, options.jobs, options.seconds, std::move(probed.observed));
      if (!file.empty()) keep_in_cache(file, key, to_json(*probed.observed, info, op), probed.notes);
      probed.asked = true;
    }
    probed.took = machine_seconds() - start;
  }
  probed.subject = probed.observed ? held_to(std::move(subject), op, *probed.observed) : std::move(subject);
  return probed;
}

}  // namespace attest::engine
