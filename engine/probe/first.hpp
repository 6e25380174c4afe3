#pragma once
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/subject.hpp"
#include "engine/corpus.hpp"
#include "engine/ops.hpp"

// A subject that says no policy, held to what it was seen to compute in where that is narrower than the most generous
// reading of its dtypes. That rests on one assumption: it computes alike in every call.
namespace attest::engine {

// The observations about a subject.
struct Observed {
  std::vector<Contract> contracts;  // one per dtype, in their order: the generous reading less what calls exclude
  std::vector<FormChoice> apart;    // values of forms that show less, and keep that reading
  std::vector<FormChoice> unasked;  // values of forms that there was no time to ask, and that keep it until they are
  std::optional<double> seconds;    // the time they had, where calls without forms did not come to an end
};
nlohmann::ordered_json to_json(const Observed& observed, const SubjectInfo& info, const Op& op);
// Throws Error(usage) for what to_json() does not give for such a subject, and what nlohmann throws.
Observed observed_from_json(const nlohmann::json& object, const SubjectInfo& info, const Op& op);

// The policies that differ from the most generous reading, as text, by dtype.
std::vector<std::pair<Format, std::string>> assumed_of(const Observed& observed, const SubjectInfo& declared,
                                                       const Op& op);

// Tells whether probes could say more of a subject than it does: it declares no policy, and a dtype has a stage whose
// generous format is narrower than calls can tell.
bool gains_by_probes(const SubjectInfo& info, const Op& op);

struct ProbeFirstOptions {
  int jobs = 1;
  double seconds = std::numeric_limits<double>::infinity();  // no call is begun later
  std::filesystem::path cache;                               // folder of what earlier probes showed; empty: none
  std::string subject;                                       // as on the command line
  std::filesystem::path content;                             // file or folder that the subject lies in; may be empty
};

struct ProbedFirst {
  std::unique_ptr<SubjectFactory> subject;
  std::optional<Observed> observed;  // nullopt: there is nothing to gain
  std::filesystem::path from;        // the file of the cache that said so; empty: none did
  bool asked = false;                // calls were made now
  double took = 0;                   // seconds
  std::vector<std::string> notes;    // sentences about a file of the cache that cannot be used, or written
};

// Asks the stages in no form, then in every form, one at a time; or takes what an earlier probe of this version showed,
// and asks the forms that this one did not come to. Throws Error(no_subject).
ProbedFirst probed_first(std::unique_ptr<SubjectFactory> subject, const Op& op, const ProbeFirstOptions& options);

// The subject held to observations.
std::unique_ptr<SubjectFactory> held_to(std::unique_ptr<SubjectFactory> subject, const Op& op,
                                        const Observed& observed);
// The same for an entry that was judged by what probes showed; as it is for another, and where the subject has come to
// declare a policy.
std::unique_ptr<SubjectFactory> held_to_entry(std::unique_ptr<SubjectFactory> subject, const Entry& entry);

}  // namespace attest::engine
