// One line of key=value, as on the command line and in corpus files.
#include <nlohmann/json.hpp>

#include "core/problem.hpp"
#include "fuzz/target.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Problem problem;
  if (!fuzz::accepts([&] { problem = problem_from_text(fuzz::as_text(data, size)); })) return 0;
  const std::string text = to_text(problem);
  fuzz::require(to_text(problem_from_text(text)) == text, "text does not come back: " + text);
  fuzz::require(to_text(problem_from_json(nlohmann::json::parse(to_json(problem).dump()))) == text,
                "JSON does not come back: " + text);
  fuzz::require(problem.multiply_adds() >= 0, "negative work: " + text);
  return 0;
}
