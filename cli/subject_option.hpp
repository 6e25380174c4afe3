#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/settings.hpp"
#include "core/policy.hpp"
#include "core/subject.hpp"
#include "engine/corpus.hpp"

namespace attest::cli {

// What a SUBJECT argument may be, for help texts.
std::string subject_help();

// --timeout, --in-process, --python.
std::vector<Option> subject_options();

// The subject that `text` names on the command line. Throws Error(usage or no_subject).
std::unique_ptr<SubjectFactory> open_subject(const Settings& settings, const std::string& text);
// The same under a policy that no option gives.
std::unique_ptr<SubjectFactory> open_subject(const Settings& settings, const std::string& text,
                                             const std::optional<Policy>& policy);
// The subject a corpus file names: builtin:, fault: and shipped adapters only, never a path.
std::unique_ptr<SubjectFactory> open_subject_of_file(const Settings& settings, const engine::Entry& entry);
// The built-in explicit kernel, which laws compare others with.
std::unique_ptr<SubjectFactory> open_peer();

nlohmann::ordered_json list_subjects();
nlohmann::ordered_json list_faults();

}  // namespace attest::cli
