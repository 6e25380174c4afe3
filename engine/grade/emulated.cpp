#include "engine/grade/emulated.hpp"

#include "core/rng.hpp"

namespace attest::engine {
namespace {

void copy(const Tensor& from, const attest_tensor& to) {
  if (!from.present()) return;
  const auto n = from.shape();
  const Index last = n.size() > 3 ? n[3] : 1;
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < n[1]; ++b)
      for (Index c = 0; c < n[2]; ++c)
        for (Index d = 0; d < last; ++d) store(to, a, b, c, d, from.at(a, b, c, d));
}

class Answering final : public Subject {
 public:
  Answering(const EmulatedResult& result, const SubjectInfo& info) : result_(result), info_(info) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& each : calls) {
      const auto& call = each.as<attest_attention>();
      copy(result_.out, call.out);
      copy(result_.lse, call.lse);
    }
    return std::vector<CallResult>(calls.size());
  }

 private:
  const EmulatedResult& result_;
  const SubjectInfo& info_;
};

}  // namespace

std::vector<EmulatedResult> emulated_results(
    const std::function<EmulatedKernel(const attest::Policy&, std::uint64_t number)>& kernel, std::uint64_t draws,
    const attest::Policy& policy, const attest::Problem& problem, const Inputs& inputs, std::uint64_t key) {
  std::vector<EmulatedResult> results;
  const Index size = problem.multiply_adds();
  if (!kernel || size < 1 || size > most_emulated) return results;
  const bool semantics = contract_for(policy).softcap_before_bias;
  for (std::uint64_t draw = 0; results.size() < draws; ++draw) {
    EmulatedResult result;
    result.number = extend(key, draw);
    const EmulatedKernel emulated = kernel(policy, result.number);
    if (emulated.contract.softcap_before_bias != semantics) continue;  // another function of its inputs
    result.out = make_out(problem);
    result.lse = make_lse(problem);
    result.contract = emulated.run(problem, inputs, result.out, result.lse);
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<Subject> answering(const EmulatedResult& result, const SubjectInfo& info) {
  return std::make_unique<Answering>(result, info);
}

}  // namespace attest::engine
