// A problem as JSON, as in corpus files.
#include <nlohmann/json.hpp>

#include "core/problem.hpp"
#include "fuzz/target.hpp"
#include "subjects/message.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const nlohmann::json object = parse_foreign(fuzz::as_text(data, size));
  Problem problem;
  if (!fuzz::accepts([&] { problem = problem_from_json(object); })) return 0;
  const std::string text = to_text(problem);
  fuzz::require(to_text(problem_from_text(text)) == text, "text does not come back: " + text);
  fuzz::require(to_text(problem_from_json(nlohmann::json::parse(to_json(problem).dump()))) == text,
                "JSON does not come back: " + text);
  return 0;
}
