#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/settings.hpp"
#include "core/subject.hpp"
#include "engine/campaign.hpp"
#include "engine/corpus.hpp"
#include "subjects/resolve.hpp"

namespace attest::cli {

// The forms of a SUBJECT argument, for help texts.
std::string subject_help();

// --timeout, --in-process, --python.
std::vector<Option> subject_options();
// Says on stderr, once, what a file of the user's can do to others where the system has no fence (subjects/fence.hpp).
void say_what_is_not_kept_inside();

// Reads those options.
ResolveOptions resolve_options(const Settings& settings);

// The subject that `text` names on the command line; its output goes to `log_folder`, if one is named. `policy` is one
// that no option gives. The file of a subject that starts is noted: a corpus file may name it from then on. Throws
// Error(usage or no_subject).
std::unique_ptr<SubjectFactory> open_subject(const Settings& settings, const std::string& text,
                                             const std::filesystem::path& log_folder = {},
                                             const std::string& policy = {});
// The same of the second of two subjects: --python-b goes before --python.
std::unique_ptr<SubjectFactory> open_second(const Settings& settings, const std::string& text,
                                            const std::filesystem::path& log_folder);

// --probe-first, --no-probe-first, --probe-cache.
std::vector<Option> probe_first_options();
// Holds a subject that declares no policy to what its probes show, or showed (engine/probe/first.hpp), and says so in
// the options: by default where `by_default`, for a tenth of the campaign's time; to the end where the command line asks
// for it; never under a policy. A campaign folder goes on with what it has.
std::unique_ptr<SubjectFactory> probed_first(const Settings& settings, std::unique_ptr<SubjectFactory> subject,
                                             bool by_default, engine::CampaignOptions& options);
// Holds a subject to the observations that the campaign in `folder` began with, if it has any, and says so in the
// options. Throws Error(usage) for a damaged folder.
std::unique_ptr<SubjectFactory> held_as_begun(std::unique_ptr<SubjectFactory> subject,
                                              const std::filesystem::path& folder, engine::CampaignOptions& options);

// The subject that --subject or else the entry names, as the command line would: builtin:, fault:, a shipped adapter,
// or a file that the user has started before. Throws Error(no_subject), one sentence on what to pass, for any other
// external subject.
std::string subject_text(const Settings& settings, const engine::Entry& entry);
std::unique_ptr<SubjectFactory> open_subject_of_entry(const Settings& settings, const engine::Entry& entry);
// Tells whether there is one: an entry of saved numbers has none of its own, and --subject names one.
bool has_subject(const Settings& settings, const engine::Entry& entry);
// The second subject of an entry of two: that of --subject-b, or else as open_subject_of_entry does; under --python-b.
std::unique_ptr<SubjectFactory> open_second_of_entry(const Settings& settings, const engine::Entry& entry);
// --python-b, of verbs that start two subjects.
Option second_python();
// The built-in explicit kernel, which laws compare others with.
std::unique_ptr<SubjectFactory> open_peer();

nlohmann::ordered_json list_subjects();
nlohmann::ordered_json list_faults();

}  // namespace attest::cli
