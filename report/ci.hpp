#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace attest::report {

// Reports for CI, from the object that --json writes (docs/cli.md), which may come from a file. Throws Error(usage)
// where that is none.

// A record of a model (report/models.hpp) in the terms of one of a kernel, as far as these reports read it. Throws
// nlohmann's exceptions.
nlohmann::json ci_record(const nlohmann::json& model);

// The file that holds a subject, as the command line names it; empty for what attest brings along.
std::string file_of(std::string_view subject);

// Both take either record. JUnit's XML: a test case for each law; one that failed with a new finding has it as its
// failure, one that judged nothing is skipped.
std::string junit_xml(const nlohmann::json& summary);
// SARIF 2.1.0: a result for each finding, with the bucket as its fingerprint.
nlohmann::ordered_json sarif_json(const nlohmann::json& summary);

// The result of one corpus entry in a replay.
struct ReplayedCase {
  enum class Outcome { passed, failed, error, skipped };
  std::string file, subject, property, bucket, sentence;
  Outcome outcome = Outcome::passed;
};
std::string junit_xml(const std::vector<ReplayedCase>& cases);
nlohmann::ordered_json sarif_json(const std::vector<ReplayedCase>& cases);

}  // namespace attest::report
