#include "properties/trial.hpp"

#include <algorithm>

#include "ops/attention/parts.hpp"
#include "ops/attention/probe/questions.hpp"
#include "properties/property.hpp"

namespace attest::ops::of_attention {
namespace {

using probing::narrow_stage;

class AttentionTrial final : public Trial {
 public:
  AttentionTrial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer)
      : own_(problem, contract, subject, peer) {}

  void base() override { own_.base(); }
  void peer_base() override { own_.peer_result(); }
  Verdict check(const Law& law) override {
    return law.own == narrow_stage ? check_narrow_stage() : properties::all_laws()[law.own].check(own_);
  }
  [[nodiscard]] std::int64_t subject_calls() const noexcept override { return own_.subject_calls() + further_calls_; }
  [[nodiscard]] properties::Trial::Nanoseconds elapsed() const noexcept override {
    properties::Trial::Nanoseconds all = own_.elapsed();
    all.subject += further_elapsed_;
    return all;
  }

 private:
  Verdict check_narrow_stage() {
    const Supports& supports = own_.subject().info().supports;
    const std::uint64_t key = probing::narrow_stage_key(own_.problem().seed);
    const Problem drawn = probing::at_usual_sizes(key) ? at_usual_sizes(own_.problem(), supports, key) : own_.problem();
    const Maker maker(supports, drawn);
    return probing::check_narrow_stage(narrow_questions(maker, own_.contract(), key), key, own_.contract(),
                                       own_.subject(), further_calls_, further_elapsed_);
  }

  properties::Trial own_;
  std::int64_t further_calls_ = 0, further_elapsed_ = 0;
};

}  // namespace

std::vector<Law> laws(const Op& op) {
  std::vector<Law> all;
  for (const properties::Property& law : properties::all_laws())
    all.push_back({&op, law.name, law.statement, law.doc, law.kind, law.asks, law.claim, all.size()});
  // Before the one that is statistical.
  all.insert(std::ranges::find(all, properties::Kind::statistical, &Law::kind), probing::narrow_stage_law(&op));
  return all;
}

std::optional<std::string> not_applicable(const Law& law, const Problem& p, const Contract& contract,
                                          const SubjectInfo& info) {
  if (law.own != narrow_stage) return properties::all_laws()[law.own].not_applicable(p, contract, info);
  if (p.b * p.hq * p.lq * p.dv * p.lk * p.d == 0) return "no output elements, no keys or no coordinates";
  return std::nullopt;
}

std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer) {
  return std::make_unique<AttentionTrial>(problem, contract, subject, peer);
}

}  // namespace attest::ops::of_attention
