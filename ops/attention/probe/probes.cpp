#include "ops/attention/probes.hpp"

#include <algorithm>
#include <array>

#include "core/contract_numbers.hpp"
#include "core/supports.hpp"
#include "ops/attention/probe/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// Stages by the rows that speak of them; softmax has two.
struct Part {
  Stage stage;
  std::string_view row;
};
constexpr std::array parts{
    Part{Stage::operand, "operand"},       Part{Stage::scale, "scale"},     Part{Stage::qk, "qk"},
    Part{Stage::score, "score"},           Part{Stage::softcap, "softcap"}, Part{Stage::softmax, "softmax (exp)"},
    Part{Stage::softmax, "softmax (sum)"}, Part{Stage::weights, "weights"}, Part{Stage::pv, "pv"},
    Part{Stage::partial, "partial"},       Part{Stage::output, "output"}};

const ProbeRow* find(const std::vector<ProbeRow>& rows, std::string_view stage) {
  const auto found = std::ranges::find(rows, stage, &ProbeRow::stage);
  return found == rows.end() ? nullptr : &*found;
}

// The widest format that all parts of a stage are at least; nullopt if one of them says nothing.
std::optional<Format> least_of(const std::vector<ProbeRow>& rows, Stage stage) {
  std::optional<Format> least;
  for (const Part& part : parts) {
    if (part.stage != stage) continue;
    const ProbeRow* row = find(rows, part.row);
    if (row == nullptr || !row->at_least) return std::nullopt;
    if (!least || holds(*least, *row->at_least)) least = row->at_least;
  }
  return least;
}

std::optional<Format> most_of(const std::vector<ProbeRow>& rows, Stage stage) {
  std::optional<Format> most;
  for (const Part& part : parts)
    if (const ProbeRow* row = find(rows, part.row); part.stage == stage && row != nullptr && row->at_most)
      if (!most || holds(*most, *row->at_most)) most = row->at_most;
  return most;
}

// What every row whose name begins so observed; empty if they differ or there is none.
std::string all_observed(const std::vector<ProbeRow>& rows, std::string_view prefix) {
  std::string found;
  for (const ProbeRow& row : rows) {
    if (!row.stage.starts_with(prefix)) continue;
    if (!found.empty() && row.observed != found) return {};
    found = row.observed;
  }
  return found;
}

class AttentionProbes final : public Probes {
 public:
  [[nodiscard]] std::vector<ProbeRow> stages(const ProbeTarget& target) const override {
    const Asking asking = of(target);
    auto [rows, permitting, guilty] = stage_rows(asking);
    const Asking further{asking.subject, permitting, asking.policy_declared, asking.maker, asking.further,
                         false,          guilty};
    for (ProbeRow& row : number_rows(further, rows)) rows.push_back(std::move(row));
    return rows;
  }
  [[nodiscard]] std::vector<ProbeRow> semantics(const ProbeTarget& target) const override {
    Asking asking = of(target);
    asking.meaning = true;
    std::vector<ProbeRow> rows = mask_rows(asking);
    for (ProbeRow& row : meaning_rows(asking)) rows.push_back(std::move(row));
    return rows;
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
      const bool again =
          std::ranges::any_of(taken, [&](const ops::Problem& other) { return other.as<Problem>() == p; });
      if (!again && !declined(p, supports.attention, {&dtype, 1})) taken.push_back(std::move(p));
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

  [[nodiscard]] Answered ask(const ops::Problem& problem, Subject& subject) const override {
    const Problem& p = problem.as<Problem>();
    properties::Trial trial(p, contract_for(policy_for(p.dtype)), subject);
    Answered answered;
    try {
      const properties::Result& result = trial.base();
      answered.call = result.call;
      for (Index b = 0; b < p.b; ++b) {
        std::vector<double>& to = b == 0 ? answered.first_sample : answered.others;
        for (Index h = 0; h < p.hq; ++h)
          for (Index i = 0; i < p.lq; ++i)
            for (Index c = 0; c < p.dv; ++c) to.push_back(result.out.at(b, h, i, c));
      }
    } catch (const properties::CallFailed& failed) {
      answered.call = failed.result;
    }
    return answered;
  }
  [[nodiscard]] std::string breach(const ops::Problem& problem, const ops::Contract& contract,
                                   Subject& subject) const override {
    return Shown(problem.as<Problem>(), contract.as<Contract>(), subject).witness();
  }

  [[nodiscard]] std::optional<Deterministic> deterministic(const ops::Contract& contract) const override {
    return contract.as<Contract>().deterministic;
  }
  [[nodiscard]] std::optional<BatchInvariance> batch_invariant(const ops::Contract& contract) const override {
    return contract.as<Contract>().batch_invariant;
  }

  [[nodiscard]] ops::Contract seen(const ops::Contract& contract, const std::vector<ProbeRow>& rows) const override {
    Contract c = contract.as<Contract>();
    for (const Part& part : parts) {
      const ProbeRow* row = find(rows, part.row);
      const bool keeps = row != nullptr && row->promised != "not said" && row->standing != Standing::contradicts;
      if (keeps) continue;  // nothing speaks against what is promised
      if (const auto least = least_of(rows, part.stage))
        c.policy.set(part.stage, *least);
      else if (const auto most = most_of(rows, part.stage))
        c.policy.set(part.stage, *most);
    }
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
    const auto equal = [&](std::string_view name) { return all_observed(rows, name) == equal_bits; };
    c.deterministic = !equal(row_reruns) || !equal(row_instances) ? std::optional(Deterministic::no)
                      : equal(row_threads)                        ? Deterministic::threads
                                                                  : Deterministic::rerun;
    const std::string batch = all_observed(rows, row_batch);
    c.batch_invariant = batch.starts_with(equal_bits) ? BatchInvariance::bitwise : BatchInvariance::bounded;
    return c;
  }

  // Whoever keeps the generous reading in a narrow format may be off by as much as that format rounds in exp, in a division and in
  // tanh, whatever the others are: what these may cost stays as it is. Sums may be cut, and lose what lies below the bits seen.
  [[nodiscard]] ops::Contract narrowed(const ops::Contract& generous,
                                       const std::vector<ProbeRow>& rows) const override {
    constexpr int fine = 22;  // bits; the three last of f32 are kappa's
    Contract c = generous.as<Contract>();
    const Policy before = c.policy;
    Arithmetic& how = c.arithmetic;
    for (const Stage stage :
         {Stage::scale, Stage::qk, Stage::score, Stage::softcap, Stage::softmax, Stage::weights, Stage::pv}) {
      const auto least = least_of(rows, stage);
      if (!least || !holds(*least, before[stage]) || *least == before[stage]) continue;
      if (stage == Stage::qk || stage == Stage::pv) {
        const ProbeRow* row = find(rows, name(stage));
        if (row->bits < fine || how.mma) continue;
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
      return generous;  // numbers that the subject declares say more than the formats could
    }
    return c;
  }
  [[nodiscard]] SubjectInfo holding(SubjectInfo info, const std::vector<ops::Contract>& contracts) const override {
    info.policies.clear();
    info.arithmetic.clear();
    for (const ops::Contract& contract : contracts) {
      info.policies.push_back(contract.as<Contract>().policy);
      info.arithmetic.push_back(contract.as<Contract>().arithmetic);
    }
    return info;
  }

 private:
  static Asking of(const ProbeTarget& target) {
    const Supports& supports = target.subject.info().supports;
    return {target.subject, target.contract.as<Contract>(), target.policy_declared,
            Maker(supports, target.dtype, {.forms = target.forms}),
            Maker(supports, target.dtype, {.rows = 48, .heads = 2, .samples = 2, .forms = target.forms})};
  }
};

}  // namespace

const Probes& probes() {
  static const AttentionProbes all;
  return all;
}

}  // namespace attest::ops::of_attention
