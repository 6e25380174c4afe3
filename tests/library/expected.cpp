#include "tests/library/expected.hpp"

#include "core/inputs.hpp"
#include "engine/stream.hpp"
#include "subjects/describe.hpp"

namespace expected {

std::string drawn(const std::string& describe, std::uint64_t seed, std::uint64_t number) {
  const attest::SubjectInfo info = attest::subject_info({"mine", "", describe, ""}, "mine");
  const auto domain = attest::engine::domain_for(info, attest::ops::first_op(info), std::nullopt, std::nullopt);
  return attest::ops::to_text(domain->draw(seed, number, 1).problem);
}

std::vector<double> q_and_scale(const std::string& problem) {
  const attest::Inputs inputs = attest::materialise(attest::ops::problem_from_text(problem).as<attest::Problem>());
  const attest_tensor q = inputs.q.view();
  std::vector<double> numbers;
  for (attest::Index b = 0; b < q.shape[0]; ++b)
    for (attest::Index h = 0; h < q.shape[1]; ++h)
      for (attest::Index i = 0; i < q.shape[2]; ++i)
        for (attest::Index d = 0; d < q.shape[3]; ++d) numbers.push_back(attest_load(&q, b, h, i, d));
  numbers.push_back(inputs.scale);
  return numbers;
}

}  // namespace expected
