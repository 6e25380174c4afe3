#include "ops/attention/probes.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/contract_numbers.hpp"
#include "core/error.hpp"
#include "core/supports.hpp"
#include "ops/attention/probe/model.hpp"
#include "ops/attention/probe/parts.hpp"
#include "ops/probe/sizes.hpp"

namespace attest::ops::of_attention {
namespace {

using probing::all_observed;
using probing::find;

// The plain kernel, which keeps the last problem that it was given.
class PlainAttention final : public probing::Model {
 public:
  [[nodiscard]] std::size_t schemes() const noexcept override { return std::size(of_attention::schemes); }
  [[nodiscard]] probing::Elements run(const ops::Problem& problem, const ops::Policy& policy,
                                      std::size_t scheme) const override {
    const Problem& own = problem.as<Problem>();
    const double out =
        round_to(own.dtype, modelled(plain_row(own), policy.as<Policy>(), of_attention::schemes[scheme]));
    return [out](std::string_view, const probing::Place&) { return out; };
  }
  [[nodiscard]] std::span<const Format> formats(std::size_t stage) const noexcept override {
    return formats_of(static_cast<Stage>(stage));
  }
};

std::optional<Format> least_of(const std::vector<ProbeRow>& rows, Stage stage) {
  return probing::least_of(rows, static_cast<std::size_t>(stage));
}

constexpr std::array narrowed_stages{Stage::scale,   Stage::qk,      Stage::score, Stage::softcap,
                                     Stage::softmax, Stage::weights, Stage::pv};

class AttentionProbes final : public Probes {
 public:
  [[nodiscard]] std::vector<ProbeRow> stages(const ProbeTarget& target) const override {
    Asking asking = of(target, target.contract);
    auto [rows, permitting, guilty] = probing::stage_rows(asking.asked, asked_stages(asking), PlainAttention());
    Asking further = of(target, permitting);
    further.asked.guilty = guilty;
    further.asked.promised = &target.contract;
    for (ProbeRow& row : number_rows(further, rows)) rows.push_back(std::move(row));
    return rows;
  }
  [[nodiscard]] std::vector<ProbeRow> kept(const ProbeTarget& target, const ops::AsksStage& asks) const override {
    return probing::kept_rows(target, asked_stages(of(target, target.contract)), PlainAttention(),
                              [&](std::size_t stage) { return is_narrowed(stage) && asks(stage); });
  }
  [[nodiscard]] std::vector<ProbeRow> semantics(const ProbeTarget& target) const override {
    Asking asking = of(target, target.contract);
    asking.asked.meaning = true;
    std::vector<ProbeRow> rows = mask_rows(asking);
    for (ProbeRow& row : meaning_rows(asking)) rows.push_back(std::move(row));
    return rows;
  }

  [[nodiscard]] std::vector<SumOrder> sum_orders(const ProbeTarget& target, Index terms,
                                                 const std::optional<ops::Problem>& call) const override {
    return of_attention::sum_orders(target, terms, call ? &call->as<Problem>() : nullptr);
  }

  [[nodiscard]] std::vector<ops::Problem> sizes(const ops::Supports& supports, Format dtype) const override {
    struct Size {
      Index heads, queries, keys, width;
    };
    constexpr std::array sizes{Size{1, 1, 1, 1}, Size{1, 16, 16, 64}, Size{4, 128, 128, 64}, Size{8, 1, 4096, 64},
                               Size{8, 512, 512, 64}};
    constexpr std::uint64_t seed = 0x70726F6265;
    std::vector<ops::Problem> taken;
    for (const Size& size : sizes) {
      const Maker maker(supports.attention, dtype, {.rows = size.queries, .heads = size.heads});
      Problem p = maker.blank(size.queries, size.keys, size.width, size.width);
      p.values = Values::normal;
      p.q_form = p.k_form = p.v_form = Form::drawn;
      p.seed = seed;
      p.scale.reset();
      probing::take_size(taken, std::move(p), supports.attention, dtype);
    }
    return taken;
  }
  [[nodiscard]] std::optional<ops::Problem> with_samples(const ops::Problem& problem, Index samples,
                                                         const ops::Supports& supports) const override {
    Problem p = problem.as<Problem>();
    p.b = samples;
    if (!supports.attention.b.offers(samples)) return std::nullopt;
    return p;
  }
  [[nodiscard]] std::optional<ops::Problem> with_threads(const ops::Problem& problem, Index threads) const override {
    Problem p = problem.as<Problem>();
    p.threads = threads;
    return p;
  }

  [[nodiscard]] std::optional<Deterministic> deterministic(const ops::Contract& contract) const override {
    return contract.as<Contract>().deterministic;
  }
  [[nodiscard]] std::optional<BatchInvariance> batch_invariant(const ops::Contract& contract) const override {
    return contract.as<Contract>().batch_invariant;
  }

  [[nodiscard]] ops::Contract seen(const ops::Contract& contract, const std::vector<ProbeRow>& rows) const override {
    Contract c = contract.as<Contract>();
    c.policy = probing::policy_seen(contract, rows).as<Policy>();
    take_meanings(c, rows);
    return c;
  }
  [[nodiscard]] ops::Contract narrowed(const ops::Contract& generous,
                                       const std::vector<ProbeRow>& rows) const override {
    auto c = of_attention::narrowed(generous.as<Contract>(), rows);
    return c ? ops::Contract(std::move(*c)) : generous;
  }
  [[nodiscard]] SubjectInfo holding(SubjectInfo info, const std::vector<ops::Contract>& contracts,
                                    const std::vector<FormChoice>& apart) const override {
    for (const FormChoice& choice : apart) {
      FormContract own{{choice}, {}};
      for (const Format dtype : info.dtypes) own.contracts.push_back(info.contract(dtype, own.forms));
      info.form_contracts.push_back(std::move(own));
    }
    info.policies.clear();
    info.arithmetic.clear();
    for (const ops::Contract& contract : contracts) {
      info.policies.push_back(contract.as<Contract>().policy);
      info.arithmetic.push_back(contract.as<Contract>().arithmetic);
    }
    return info;
  }

 private:
  static Asking of(const ProbeTarget& target, const ops::Contract& contract) {
    const Supports& supports = target.subject.info().supports;
    return {{target.subject, target.dtype, contract, target.policy_declared},
            contract.as<Contract>(),
            as_it_is(),
            Maker(supports, target.dtype, {.forms = target.forms}),
            Maker(supports, target.dtype, {.rows = 48, .heads = 2, .samples = 2, .forms = target.forms})};
  }
};

}  // namespace

void take_meanings(Contract& c, const std::vector<ProbeRow>& rows) {
  const std::string empty = all_observed(rows, "empty row");
  c.empty_row = empty == "zero"     ? EmptyRow::zero
                : empty == "nan"    ? EmptyRow::nan
                : empty == "mean_v" ? EmptyRow::mean_v
                                    : EmptyRow::unspecified;
  if (const ProbeRow* row = find(rows, "softcap and bias"))
    if (row->observed == "after the bias" || row->observed == "before the bias")
      c.softcap_before_bias = row->observed == "before the bias";
  c.nan = all_observed(rows, "NaN in q") == "comes through" && all_observed(rows, "NaN in k") == "comes through" &&
                  all_observed(rows, "NaN in v") == "comes through"
              ? NanRule::propagates
              : NanRule::unspecified;
  if (const ProbeRow* row = find(rows, "mask")) c.mask_added = row->observed == "is added to the score";
  const bool unread = all_observed(rows, "NaN in a closed key") == "not read" &&
                      all_observed(rows, "NaN in a later key") != "read: NaN comes through" &&
                      all_observed(rows, "NaN past the length") != "read: NaN comes through";
  c.masked_unread = c.mask_added                                              ? MaskedUnread::no
                    : unread                                                  ? MaskedUnread::yes
                    : all_observed(rows, "NaN past the length") == "not read" ? MaskedUnread::beyond_length
                                                                              : MaskedUnread::no;
  if (const ProbeRow* row = find(rows, "flush to zero"))
    c.arithmetic.flush_to_zero =
        row->observed == "yes" || row->observed == "of values and results" || row->observed == "of q and k";
  c.deterministic = probing::deterministic_seen(rows);
  c.batch_invariant = probing::batch_seen(rows);
}

bool is_narrowed(std::size_t stage) noexcept {
  return std::ranges::find(narrowed_stages, static_cast<Stage>(stage)) != narrowed_stages.end();
}

// A kernel that keeps the generous reading in a narrow format may be off by as much as that format rounds in exp, in a
// division and in tanh, whatever its other formats are: the bounds of these errors stay as they are. Sums may be cut,
// and lose the bits below those seen.
std::optional<Contract> narrowed(const Contract& generous, const std::vector<ProbeRow>& rows) {
  constexpr int fine = 22;  // bits; the three last of f32 are kappa's
  Contract c = generous;
  const Policy before = c.policy;
  Arithmetic& how = c.arithmetic;
  for (const Stage stage : narrowed_stages) {
    const auto least = least_of(rows, stage);
    if (!least || !holds(*least, before[stage]) || *least == before[stage]) continue;
    if (stage == Stage::qk || stage == Stage::pv) {
      if (find(rows, name(stage))->bits < fine || how.mma) continue;
      how.kappa = std::max(how.kappa, 8.0);
    }
    c.policy.set(stage, *least);
  }
  const auto coarser = [&](Stage stage) { return unit_roundoff(before[stage]) / unit_roundoff(c.policy[stage]); };
  if (coarser(Stage::softmax) > 1 && !how.exp_rel)
    how.exp_rel = 2 * how.exp_ulp * unit_roundoff(before[Stage::softmax]);
  how.div_ulp *= std::max(coarser(Stage::softmax), coarser(Stage::pv));
  how.tanh_ulp *= coarser(Stage::softcap);
  if (before[Stage::softmax] != c.policy[Stage::softmax] || before[Stage::pv] != c.policy[Stage::pv])
    if (!how.lazy) how.lazy = contract_for(c.policy).lazy_nats();
  try {
    check_numbers(c);
  } catch (const Error&) {
    return std::nullopt;  // numbers that the subject declares say more than the formats could
  }
  return c;
}

const Probes& probes() {
  static const AttentionProbes all;
  return all;
}

}  // namespace attest::ops::of_attention
