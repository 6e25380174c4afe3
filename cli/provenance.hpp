#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/subject.hpp"

namespace attest::cli {

// The facts about this run that reports show beside its results: {ended, user, system, processor, command,
// attest}, ended as "2026-11-29T07:42:10Z", and of the subject {libraries, line} as far as they are known. The moment
// is that of the first call, so that all reports of a run agree.
nlohmann::ordered_json provenance();
nlohmann::ordered_json provenance(const SubjectInfo& subject);

}  // namespace attest::cli
