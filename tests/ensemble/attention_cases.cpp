#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/inputs.hpp"
#include "core/rng.hpp"
#include "ensemble/redraws.hpp"
#include "ensemble/sample.hpp"
#include "generators/domain.hpp"
#include "generators/draw.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "kernels/registry.hpp"
#include "tests/ensemble/cases.hpp"

namespace attest::testing {
namespace {

namespace em = emulator;

constexpr struct {
  const char* policy;
  bool mma;
} policies[] = {{"f32", false}, {"f16", false}, {"bf16", false}, {"f16-acc16", false},
                {"f64", false}, {"f32", true},  {"f16", true},   {"bf16", true}};

// Rows in order in T, as a textbook has them: the maximum first, or rescaled at every new one.
template <class T>
void plain_rows(const Inputs& in, bool softcap_first, bool online, Format format, Tensor& out) {
  const auto shape = in.q.shape(), values = in.v.shape();
  const Index group = shape[1] / in.k.shape()[1], keys = in.k.shape()[2];
  constexpr T none = -std::numeric_limits<T>::infinity();
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i) {
        const Index length = in.kv_lengths.present() ? static_cast<Index>(in.kv_lengths.at(b)) : keys;
        const KeyRange range = key_range(in, i, shape[2], length);
        std::vector<std::pair<Index, T>> scores;
        T top = none;
        for (Index j = range.first; j < range.last; ++j) {
          if (in.keep.present() && in.keep.at(b, h, i, j) == 0) continue;
          T s = 0;
          for (Index c = 0; c < shape[3]; ++c)
            s += static_cast<T>(in.q.at(b, h, i, c)) * static_cast<T>(in.k.at(b, h / group, j, c));
          s *= static_cast<T>(in.scale);
          const auto cap = [&] {
            if (in.softcap > 0) s = std::tanh(s / static_cast<T>(in.softcap)) * static_cast<T>(in.softcap);
          };
          if (softcap_first) cap();
          if (in.bias.present()) s += static_cast<T>(in.bias.at(b, h, i, j));
          if (!softcap_first) cap();
          if (s == none) continue;
          scores.emplace_back(j, s);
          if (!online) top = std::max(top, s);
        }
        T total = 0;
        std::vector<T> sums(static_cast<std::size_t>(values[3]));
        for (const auto& [j, s] : scores) {
          if (online && s > top) {
            const T keep = top == none ? T(0) : std::exp(top - s);
            total *= keep;
            for (T& x : sums) x *= keep;
            top = s;
          }
          const T weight = std::exp(s - top);
          total += weight;
          for (Index c = 0; c < values[3]; ++c)
            sums[static_cast<std::size_t>(c)] += weight * static_cast<T>(in.v.at(b, h / group, j, c));
        }
        for (Index c = 0; c < values[3]; ++c)
          out.set(
              b, h, i, c,
              scores.empty() ? 0 : round_to(format, static_cast<double>(sums[static_cast<std::size_t>(c)] / total)));
      }
}

using Run = std::function<void(const Inputs&, Tensor& out)>;
struct Subject {
  std::string name;
  bool conforming;
  Run run;
};

class Case {
 public:
  Case(std::uint64_t seed, std::uint64_t n) : key_(extend(mix(seed), n)) {
    const auto& [text, mma] = policies[pick(std::size(policies))];
    policy_ = policy_from_text(text);
    mma_ = mma;
    if (pick(5) == 0)
      people();
    else
      problem_ = draw_problem(domain(policy_[Stage::storage]), seed, n, 1);
    problem_.lse = LseOutput::none;
    problem_.threads = 1;
    promise();
  }

  void subjects(Subjects which) {
    if (which != Subjects::faulty) conforming();
    if (which != Subjects::conforming) faulty();
  }

  void ask(const EnsembleTold& told) {
    for (const Subject& subject : subjects_) {
      ensemble::Redraws redraws(problem_);
      const auto draw = [&](int n) {
        const auto& [problem, inputs] = redraws(n);
        Tensor out = make_out(problem);
        subject.run(inputs, out);
        return ensemble::sample(problem, contract_, inputs, out);
      };
      told({subject.name, subject.conforming, to_text(problem_), to_text(contract_.policy), ensemble::ask(draw)});
    }
  }

 private:
  std::uint64_t pick(std::uint64_t n) { return below(key_ = mix(key_), n); }

  static const Domain& domain(Format storage) {
    static const std::vector<Domain> all = [] {
      std::vector<Domain> domains;
      const Contract plain = contract_for(policy_from_text("f32"));
      for (const Format format : {Format::f32, Format::f16, Format::bf16, Format::f64}) {
        domains.emplace_back(Supports{}, std::vector{format}).assume([plain](const Problem& p) {
          return p.multiply_adds() >= 1 && p.multiply_adds() <= Index{1} << 17 && !ensemble::refusal(p, plain);
        });
      }
      return domains;
    }();
    for (const Domain& one : all)
      if (one.dtypes().front() == storage) return one;
    return all.front();
  }

  void people() {
    Problem& p = problem_;
    p.dtype = policy_[Stage::storage];
    p.d = pick(2) != 0 ? 64 : 128;
    p.dv = 16;
    p.lk = static_cast<Index>(32 * std::exp2(6.0 * static_cast<double>(pick(1000)) / 999.0));
    constexpr Index queries[] = {1, 4, 8};
    p.lq = queries[pick(3)];
    p.causal = pick(4) == 0;
    p.align = Align::bottom_right;
    constexpr Values values[] = {Values::normal,  Values::normal, Values::normal, Values::uniform,
                                 Values::outlier, Values::offset, Values::peaked, Values::flat};
    p.values = values[pick(8)];
    p.seed = pick(1u << 31);
  }

  // Any contract, the narrowest that a scheme keeps, a built-in kernel's, or that of the policy alone.
  void promise() {
    const std::uint64_t kind = pick(4);
    if (kind == 0) {
      const auto all = kernels::builtin_kernels();
      builtin_ = &all[pick(all.size())];
      if (mma_) builtin_ = kernels::find_kernel(all, pick(2) != 0 ? "fused-ampere" : "fused-hopper");
      contract_ = builtin_->contract(policy_);
    } else if (kind == 1) {
      plain_ = !mma_;
      contract_ = mma_ ? em::draw_mma_contract(policy_, static_cast<int>(1 + pick(2))) : contract_for(policy_);
    } else {
      contract_ = mma_ ? em::draw_mma_contract(policy_, static_cast<int>(pick(em::mma_variants)))
                       : em::draw_contract(policy_, static_cast<int>(pick(em::contract_variants)));
    }
    if (contract_.empty_row == EmptyRow::unspecified) contract_.empty_row = EmptyRow::zero;
    drawn_ = em::draw_variant(contract_, problem_, mix(key_ ^ 11));
    if (kind == 3) contract_ = em::tightened(contract_, drawn_);
  }

  void emulate(std::string name, bool conforming, const Contract& contract, const em::Variant& variant) {
    subjects_.push_back({std::move(name), conforming, [contract, variant](const Inputs& in, Tensor& out) {
                           Tensor none;
                           em::run(in, contract, variant, out, none);
                         }});
  }

  void conforming() {
    emulate("emulated, drawn", true, contract_, drawn_);
    emulate("emulated, drawn again", true, contract_, em::draw_variant(contract_, problem_, mix(key_ ^ 14)));
    em::Variant end = em::draw_variant(contract_, problem_, mix(key_ ^ 12));
    constexpr em::Error ends[] = {em::Error::up, em::Error::down, em::Error::in_turn, em::Error::by_call};
    constexpr em::Error tanh_ends[] = {em::Error::outwards, em::Error::inwards, em::Error::in_turn, em::Error::by_call};
    end.exp_error = ends[pick(4)];
    end.div_error = pick(2) != 0 ? em::Error::up : em::Error::down;
    end.tanh_error = tanh_ends[pick(4)];
    if (contract_.arithmetic.kappa >= 3) end.truncate_qk = end.truncate_pv = end.truncate_sum = true;
    end.lazy = contract_.lazy_nats();
    emulate("emulated, at the contract's end", true, contract_, end);
    em::Variant in_order = drawn_;
    in_order.qk = in_order.pv = in_order.row_sum = em::Order::forward;
    in_order.exp_error = in_order.tanh_error = in_order.div_error = em::Error::none;
    emulate("emulated, in order", true, contract_, in_order);
    if (splits()) emulate("emulated, split", true, contract_, split());
    if (plain_)
      for (const bool online : {false, true})
        subjects_.push_back({online ? "plain loop, online" : "plain loop", true,
                             [online, wide = policy_[Stage::qk] == Format::f64, of = policy_[Stage::output],
                              first = contract_.softcap_before_bias](const Inputs& in, Tensor& out) {
                               wide ? plain_rows<double>(in, first, online, of, out)
                                    : plain_rows<float>(in, first, online, of, out);
                             }});
    if (builtin_ != nullptr)
      subjects_.push_back({"builtin:" + std::string(builtin_->name), true,
                           [kernel = builtin_, contract = contract_](const Inputs& in, Tensor& out) {
                             const Tensor none;
                             kernel->run(in.call(out, none), contract);
                           }});
  }

  [[nodiscard]] bool splits() const {
    return contract_.arithmetic.lse_merge != LseMerge::none && contract_.arithmetic.normalise_after;
  }
  [[nodiscard]] em::Variant split() const {
    em::Variant v = em::draw_variant(contract_, problem_, mix(key_ ^ 13));
    v.normalise = em::Normalise::online;
    v.splits = contract_.arithmetic.splits_max ? std::min<Index>(4, *contract_.arithmetic.splits_max) : 4;
    return v;
  }

  // A stage in fewer bits than promised, and what else is off.
  void faulty() {
    const auto narrowed = [&](const char* name, Stage stage, Format format, const em::Variant& variant) {
      Contract contract = contract_;
      if (precision(format) >= precision(contract.policy[stage])) return;
      contract.policy.set(stage, format);
      emulate(name, false, contract, variant);
    };
    narrowed("softmax in f16", Stage::softmax, Format::f16, drawn_);
    if (!contract_.arithmetic.mma) narrowed("pv in f16", Stage::pv, Format::f16, drawn_);
    narrowed("scores in bf16", Stage::score, Format::bf16, drawn_);
    narrowed("softmax in f32", Stage::softmax, Format::f32, drawn_);
    if (splits()) narrowed("partial results in bf16", Stage::partial, Format::bf16, split());
    em::Variant off = drawn_;
    off.defect = em::Defect::exp_off;
    emulate("exp off by 1e-3", false, contract_, off);
  }

  std::uint64_t key_;
  Policy policy_;
  bool mma_ = false, plain_ = false;
  Problem problem_;
  Contract contract_;
  const kernels::KernelEntry* builtin_ = nullptr;
  em::Variant drawn_;
  std::vector<Subject> subjects_;
};

}  // namespace

void attention_case(std::uint64_t seed, std::uint64_t n, Subjects which, const EnsembleTold& told) {
  Case one(seed, n);
  one.subjects(which);
  one.ask(told);
}

}  // namespace attest::testing
