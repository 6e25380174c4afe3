#include "ops/mha/probes.hpp"

#include <algorithm>
#include <array>

#include "core/supports.hpp"
#include "ops/mha/probe/parts.hpp"
#include "ops/probe/sizes.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Projected;
using attest::mha::Weights;

bool permits(const Contract& contract, Projected way) { return contract.projections[static_cast<std::size_t>(way)]; }

// One subject, as its blocks are asked and as its attention is.
class Probing {
 public:
  Probing(const ProbeTarget& target, const ops::Contract& contract)
      : own_(contract.as<Contract>()),
        maker_(target.subject.info().mha.value().supports, target.dtype),
        within_(attention_within(maker_.supports())),
        heart_(maker_),
        asking_{{target.subject, target.dtype, contract, target.policy_declared},
                own_.attention,
                heart_,
                of_attention::Maker(within_, target.dtype),
                of_attention::Maker(within_, target.dtype, {.rows = 48, .heads = 2, .samples = 2})} {}
  Probing(const Probing&) = delete;
  Probing& operator=(const Probing&) = delete;

  of_attention::Asking& attention() noexcept { return asking_; }
  [[nodiscard]] BlockAsking block() const noexcept { return {asking_.asked, own_, maker_}; }

  [[nodiscard]] std::vector<probing::StageQuestions> questions() const {
    std::vector<probing::StageQuestions> all = of_attention::asked_stages(asking_);
    std::erase_if(all, [](const probing::StageQuestions& of) { return of.part == "softcap"; });  // a block has none
    std::ranges::move(gemm_questions(maker_), std::back_inserter(all));
    return all;
  }

 private:
  const Contract own_;
  const BlockMaker maker_;
  const attest::Supports within_;
  const Heart heart_;
  of_attention::Asking asking_;
};

class BlockProbes final : public Probes {
 public:
  [[nodiscard]] std::vector<ProbeRow> stages(const ProbeTarget& target) const override {
    const Probing probing(target, target.contract);
    const Contract& own = target.contract.as<Contract>();
    auto [rows, permitting, guilty] =
        probing::stage_rows(probing.block().asked, probing.questions(),
                            PlainBlock(permits(own, Projected::rounded) || permits(own, Projected::separate)));
    Probing further(target, permitting);
    further.attention().asked.guilty = guilty;
    further.attention().asked.promised = &target.contract;
    for (ProbeRow& row : number_rows(further.attention(), rows)) rows.push_back(std::move(row));
    for (ProbeRow& row : given_rows(probing.block())) rows.push_back(std::move(row));
    return rows;
  }
  [[nodiscard]] std::vector<ProbeRow> kept(const ProbeTarget& target, const AsksStage& asks) const override {
    const Probing probing(target, target.contract);
    return probing::kept_rows(target, probing.questions(), PlainBlock(false), [&](std::size_t stage) {
      return (stage == gemm_stage || of_attention::is_narrowed(stage)) && asks(stage);
    });
  }
  [[nodiscard]] std::vector<ProbeRow> semantics(const ProbeTarget& target) const override {
    Probing probing(target, target.contract);
    probing.attention().asked.meaning = true;
    std::vector<ProbeRow> rows = mask_rows(probing.attention());
    for (ProbeRow& row : meaning_rows(probing.attention())) rows.push_back(std::move(row));
    for (ProbeRow& row : block_rows(probing.block())) rows.push_back(std::move(row));
    return rows;
  }

  [[nodiscard]] std::vector<ops::Problem> sizes(const ops::Supports& supports, Format dtype) const override {
    const BlockMaker maker(supports.mha, dtype);
    const Supports& s = supports.mha;
    struct Size {
      Index l, m, heads, head_dim;
    };
    constexpr std::array sizes{Size{1, 1, 1, 1}, Size{16, 16, 4, 16}, Size{128, 128, 4, 64}, Size{1, 1024, 4, 64},
                               Size{256, 256, 8, 64}};
    std::vector<ops::Problem> taken;
    for (const Size& size : sizes) {
      const Index heads = s.heads.nearest(size.heads), d = s.head_dim.nearest(size.head_dim);
      auto p = maker.blank({1, s.l.nearest(size.l), s.m.nearest(size.m), heads, heads, d, heads * d});
      if (!p) continue;
      p->weights = Weights::dense;
      p->seed = 0x70726F6265;
      p->scale.reset();
      probing::take_size(taken, std::move(*p), s, dtype);
    }
    return taken;
  }
  [[nodiscard]] std::optional<ops::Problem> with_samples(const ops::Problem& problem, Index samples,
                                                         const ops::Supports& supports) const override {
    Problem p = problem.as<Problem>();
    p.b = samples;
    if (!supports.mha.b.offers(samples)) return std::nullopt;
    return p;
  }
  [[nodiscard]] std::optional<ops::Problem> with_threads(const ops::Problem& problem, Index threads) const override {
    Problem p = problem.as<Problem>();
    p.threads = threads;
    return p;
  }
  [[nodiscard]] std::optional<Deterministic> deterministic(const ops::Contract& contract) const override {
    return contract.as<Contract>().attention.deterministic;
  }
  [[nodiscard]] std::optional<BatchInvariance> batch_invariant(const ops::Contract& contract) const override {
    return contract.as<Contract>().attention.batch_invariant;
  }

  [[nodiscard]] ops::Contract seen(const ops::Contract& contract, const std::vector<ProbeRow>& rows) const override {
    Contract c = contract.as<Contract>();
    const Policy policy = probing::policy_seen(contract, rows).as<Policy>();
    c.attention.policy = policy.attention;
    c.gemm = policy.gemm;
    of_attention::take_meanings(c.attention, rows);
    return c;
  }
  // Narrows as attention does. Projections may stay in the accumulator, which the generous reading permits.
  [[nodiscard]] ops::Contract narrowed(const ops::Contract& generous,
                                       const std::vector<ProbeRow>& rows) const override {
    constexpr int fine = 22;  // bits
    Contract c = generous.as<Contract>();
    const Format before = c.gemm;
    const bool all_fine =
        std::ranges::all_of(rows, [](const ProbeRow& row) { return row.of_stage != gemm_stage || row.bits >= fine; });
    const auto least = probing::least_of(rows, gemm_stage);
    if (least && holds(*least, before) && *least != before && all_fine && !c.attention.arithmetic.mma) {
      c.gemm = *least;
      c.attention.arithmetic.kappa = std::max(c.attention.arithmetic.kappa, 8.0);
      std::ranges::fill(c.projections, true);
      c.heads_unrounded = c.heads_rounded = true;
    }
    auto attention = of_attention::narrowed(c.attention, rows);
    if (!attention) return generous;
    c.attention = std::move(*attention);
    return c;
  }
  [[nodiscard]] SubjectInfo holding(SubjectInfo info, const std::vector<ops::Contract>& contracts,
                                    const std::vector<FormChoice>& /*apart*/) const override {
    auto& offer = info.mha.value();
    offer.contracts.clear();
    for (const ops::Contract& contract : contracts) offer.contracts.push_back(contract.as<Contract>());
    return info;
  }
};

}  // namespace

const Probes& probes() {
  static const BlockProbes all;
  return all;
}

}  // namespace attest::ops::of_mha
