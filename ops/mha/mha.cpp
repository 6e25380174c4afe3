#include "ops/mha.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/mha/call.hpp"
#include "core/mha/documents.hpp"
#include "generators/mha/coverage.hpp"
#include "generators/mha/domain.hpp"
#include "ops/domain.hpp"
#include "ops/mha/parts.hpp"
#include "ops/mha/probes.hpp"

namespace attest::ops {
namespace of_mha {
namespace {

using attest::mha::Layout;

// ---- traits ---------------------------------------------------------------------------------------------------------

const Problem& problem_of(const Looked& at) { return at.problem.as<Problem>(); }

Trait flag(std::string name, bool (*holds)(const Problem&)) {
  return {
      std::move(name), Trait::Kind::flag, {}, 0, [holds](const Looked& at) { return holds(problem_of(at)) ? 1. : 0.; }};
}
Trait remainder(std::string_view name, Index Problem::*member, Index divisor) {
  return {std::string(name) + '%' + std::to_string(divisor),
          Trait::Kind::remainder,
          {},
          0,
          [member, divisor](const Looked& at) { return static_cast<double>(problem_of(at).*member % divisor); }};
}

bool strided(const Problem& p) {
  return p.x_layout != Layout::contiguous || p.memory_layout != Layout::contiguous ||
         p.weight_layout != Layout::contiguous || p.out_layout != Layout::contiguous;
}

std::vector<Trait> make_traits(const Op& op) {
  std::vector<Trait> all;
  for (const ops::Field* field : fields_by_merit(op)) all.push_back(trait_of(*field));
  all.push_back(flag("strided", strided));
  all.push_back(flag("kv_heads<heads", [](const Problem& p) { return p.kv_heads < p.heads; }));
  all.push_back(flag("l<m", [](const Problem& p) { return p.l < p.m; }));
  all.push_back(flag("l>m", [](const Problem& p) { return p.l > p.m; }));
  all.push_back(flag("in_biases", [](const Problem& p) { return p.has_in_biases(); }));
  all.push_back(flag("out_bias", [](const Problem& p) { return p.has_out_bias(); }));
  all.push_back(flag("masked", [](const Problem& p) { return p.padding != attest::mha::Padding::none; }));
  all.push_back(flag("heads*head_dim==e", [](const Problem& p) { return p.q_width() == p.e; }));
  for (const Index divisor : {2, 4, 8, 16, 32, 64}) {
    all.push_back(remainder("e", &Problem::e, divisor));
    all.push_back(remainder("head_dim", &Problem::head_dim, divisor));
    all.push_back(remainder("m", &Problem::m, divisor));
  }
  return all;
}

constexpr Op::Neighbours neighbours[] = {without_edits_of<Problem>, origin_at_zero, seed_at_zero, with_zeroed_elements};

class Mha final : public Op {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "mha"; }
  [[nodiscard]] bool owns(const std::type_info& type) const noexcept override {
    return type == typeid(attest::mha::Problem) || type == typeid(attest::mha::Policy) ||
           type == typeid(attest::mha::Contract);
  }
  [[nodiscard]] std::span<const ops::Field> fields() const override {
    static const std::vector<ops::Field> all = erased(attest::mha::fields());
    return all;
  }
  [[nodiscard]] const ops::Problem& defaults() const override {
    static const ops::Problem none{Problem{}};
    return none;
  }

  // ---- words
  [[nodiscard]] std::string to_text(const ops::Problem& p) const override { return attest::mha::to_text(own(p)); }
  [[nodiscard]] ops::Problem problem_from_text(std::string_view line) const override {
    return attest::mha::problem_from_text(line);
  }
  [[nodiscard]] nlohmann::ordered_json to_json(const ops::Problem& p) const override {
    return attest::mha::to_json(own(p));
  }
  [[nodiscard]] ops::Problem problem_from_json(const nlohmann::json& object, const std::string&) const override {
    return attest::mha::problem_from_json(object);
  }
  void validate(const ops::Problem& p) const override { attest::mha::validate(own(p)); }
  [[nodiscard]] std::string to_text(const ops::Policy& policy) const override {
    return attest::mha::to_text(policy.as<Policy>());
  }
  [[nodiscard]] ops::Policy policy_from_text(std::string_view text) const override {
    return attest::mha::policy_from_text(text);
  }
  [[nodiscard]] Format storage(const ops::Policy& policy) const override {
    return policy.as<Policy>().attention[Stage::storage];
  }
  [[nodiscard]] ops::Policy policy(const ops::Contract& contract) const override {
    const Contract& own = contract.as<Contract>();
    return Policy{own.attention.policy, own.gemm};
  }
  [[nodiscard]] nlohmann::ordered_json to_json(const ops::Contract& contract) const override {
    return attest::mha::to_json(contract.as<Contract>());
  }
  [[nodiscard]] ops::Contract contract_from_json(const nlohmann::json& object,
                                                 const ops::Policy& policy) const override {
    return attest::mha::contract_from_json(object, policy.as<Policy>());
  }

  // ---- stages: those of attention, then gemm
  [[nodiscard]] std::vector<NamedPolicy> named_policies() const override {
    std::vector<NamedPolicy> all;
    for (const attest::NamedPolicy& row : attest::named_policies())
      all.push_back({row.name, row.doc, Policy{row.policy, row.policy[Stage::qk]}});
    return all;
  }
  [[nodiscard]] Format stage(const ops::Policy& policy, std::size_t n) const override {
    const Policy& own = policy.as<Policy>();
    return n < stage_count ? own.attention[static_cast<Stage>(n)] : own.gemm;
  }
  void set_stage(ops::Policy& policy, std::size_t n, Format format) const override {
    Policy& own = policy.as<Policy>();
    if (n < stage_count)
      own.attention.set(static_cast<Stage>(n), format);
    else
      own.gemm = format;
  }

  // ---- what a problem is
  [[nodiscard]] Format dtype(const ops::Problem& p) const override { return own(p).dtype; }
  [[nodiscard]] std::uint64_t seed(const ops::Problem& p) const override { return own(p).seed; }
  [[nodiscard]] Index work(const ops::Problem& p) const override { return own(p).multiply_adds(); }
  [[nodiscard]] bool is_long(const ops::Problem& p) const override {
    constexpr Index long_rows = 256;
    return own(p).m >= long_rows || own(p).e >= long_rows;
  }
  [[nodiscard]] std::string_view long_in_words() const noexcept override {
    return "with 256 tokens of memory or a width of 256, or more";
  }
  void clear_edits(ops::Problem& p) const override { p.as<Problem>().edits.clear(); }

  // ---- what subjects say of it
  [[nodiscard]] bool offered(const SubjectInfo& info) const override { return info.mha.has_value(); }
  [[nodiscard]] const std::vector<Format>& dtypes(const SubjectInfo& info) const override {
    return info.mha.value().dtypes;
  }
  [[nodiscard]] bool policy_declared(const SubjectInfo& info) const override {
    return info.mha.value().policy_declared;
  }
  [[nodiscard]] ops::Contract contract(const SubjectInfo& info, const ops::Problem& p) const override {
    return contract(info, own(p).dtype);
  }
  [[nodiscard]] ops::Contract contract(const SubjectInfo& info, Format dtype) const override {
    return info.mha.value().contract(dtype, info.name);
  }
  [[nodiscard]] ops::Contract with_policy(ops::Contract contract, const ops::Policy& policy) const override {
    // Reading it holds its numbers against each other.
    return contract_from_json(nlohmann::json(to_json(contract)), policy);
  }
  [[nodiscard]] ops::Contract contract_beside(const ops::Problem& problem, const SubjectInfo& info,
                                              const ops::Contract& given) const override {
    const Format dtype = given.as<Contract>().attention.policy[Stage::storage];
    return own(problem).dtype == dtype ? given : contract(info, problem);
  }
  [[nodiscard]] std::optional<std::string> declined(const ops::Problem& p, const ops::Supports& supports,
                                                    std::span<const Format> dtypes) const override {
    return attest::mha::declined(own(p), supports.mha, dtypes);
  }

  // ---- drawing and running
  [[nodiscard]] std::unique_ptr<Domain> domain(const ops::Supports& supports,
                                               std::vector<Format> dtypes) const override {
    return of_mha::domain(supports.mha, std::move(dtypes));
  }
  [[nodiscard]] std::vector<ops::Problem> canaries(const ops::Supports& supports, Format dtype) const override {
    return of_mha::canaries(supports.mha, dtype);
  }
  [[nodiscard]] std::unique_ptr<Trial> trial(const ops::Problem& p, const ops::Contract& contract, Subject& subject,
                                             Subject* peer) const override {
    return of_mha::trial(own(p), contract.as<Contract>(), subject, peer);
  }
  [[nodiscard]] std::vector<Law> laws() const override { return of_mha::laws(*this); }
  [[nodiscard]] std::optional<std::string> not_applicable(const Law& law, const ops::Problem& p,
                                                          const ops::Contract& contract,
                                                          const SubjectInfo& info) const override {
    return of_mha::not_applicable(law, own(p), contract.as<Contract>(), info.mha.value().supports);
  }

  // ---- two subjects
  [[nodiscard]] std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(
      const SubjectInfo& a, const SubjectInfo& b, const std::vector<Format>& dtypes,
      const std::optional<ops::Policy>& policy) const override {
    return of_mha::narrowed_to_both(a, b, dtypes, policy ? std::optional(policy->as<Policy>()) : std::nullopt);
  }

  // ---- one call apart from a trial
  [[nodiscard]] std::unique_ptr<Exchange> exchange(const ops::Problem& p) const override {
    return of_mha::exchange(own(p));
  }
  [[nodiscard]] SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                                     const ops::Policy& policy, const SavedWords& words) const override {
    return of_mha::saved_call(inputs, outputs, policy.as<Policy>(), words);
  }
  [[nodiscard]] ops::Problem saved_problem(const Exchange& saved, Evidence&,
                                           const std::filesystem::path&) const override {
    return of_mha::saved_problem(saved);
  }
  [[nodiscard]] const std::vector<SavedWord>& saved_words() const override { return of_mha::saved_words(); }
  [[nodiscard]] std::vector<OtherCall> other_calls(const SavedWords& words) const override {
    return of_mha::other_calls(words);
  }
  [[nodiscard]] std::string options_in_words(const Exchange& exchange) const override {
    return of_mha::options_in_words(exchange);
  }
  [[nodiscard]] PythonReference python(const Exchange& exchange, const ops::Contract& contract) const override {
    return of_mha::python(exchange, contract.as<Contract>());
  }
  [[nodiscard]] std::vector<Quote> quotes_on(std::span<const Quote> documents, const ops::Problem& p,
                                             std::span<const std::string_view> promises) const override {
    return attest::mha::quotes_on(documents, own(p), promises);
  }
  [[nodiscard]] Coverage coverage(const Domain& domain, std::uint64_t seed, std::uint64_t count) const override {
    return cover(dynamic_cast<const DomainOf<attest::mha::Domain>&>(domain).own(), seed, count);
  }

  [[nodiscard]] std::vector<std::unique_ptr<Subgraph>> subgraphs(const graph::Connections& graph) const override {
    return of_mha::subgraphs(graph);
  }
  [[nodiscard]] std::vector<Unrecognised> unrecognised(const graph::Connections& graph) const override {
    return of_mha::unrecognised(graph);
  }

  // ---- shrinking
  [[nodiscard]] const std::vector<ops::Dimension>& dimensions() const override {
    static const std::vector<ops::Dimension> all = [] {
      std::vector<ops::Dimension> list;
      for (const Dimension& dimension : of_mha::dimensions()) list.push_back(erased<&ops::Supports::mha>(dimension));
      return list;
    }();
    return all;
  }
  [[nodiscard]] std::array<Index, 4> witness_extents(const ops::Problem& problem) const override {
    const Problem& p = own(problem);
    return {p.b, p.l, p.e, 1};
  }
  [[nodiscard]] ops::Problem capped(ops::Problem p, Index most, const std::optional<Witness>& witness,
                                    const ops::Supports& supports) const override {
    return of_mha::capped(std::move(p.as<Problem>()), most, witness, supports.mha);
  }
  [[nodiscard]] ops::Problem sliced(ops::Problem p, Index samples, const Witness& witness,
                                    const ops::Supports& supports) const override {
    return of_mha::sliced(std::move(p.as<Problem>()), samples, witness, supports.mha);
  }
  [[nodiscard]] ops::Problem with_plain_numbers(ops::Problem p) const override {
    p.as<Problem>().weights = attest::mha::Weights::dense;
    return p;
  }
  void fit(const ops::Problem& from, ops::Problem& to, const ops::Supports& supports) const override {
    of_mha::fit(own(from), to.as<Problem>(), supports.mha);
  }
  [[nodiscard]] std::span<const Neighbours> further_neighbours() const override { return neighbours; }
  // Two tokens, between which there is a choice.
  [[nodiscard]] std::optional<ops::Problem> least_telling(ops::Problem least) const override {
    Problem& p = least.as<Problem>();
    p.m = 2;
    if (p.self) p.l = 2;
    return least;
  }
  [[nodiscard]] std::vector<ops::Escape> escapes(const ops::Problem& shape,
                                                 const ops::Problem& original) const override {
    return of_mha::escapes(own(shape), own(original));
  }
  [[nodiscard]] ops::Problem sampled(ops::Problem problem) const override {
    return of_mha::sampled(std::move(problem.as<Problem>()));
  }

  // ---- telling
  [[nodiscard]] std::string shape_class(const ops::Problem& problem) const override {
    const Problem& p = own(problem);
    return std::string("t") + size_class(p.l) + size_class(p.m) + "e" + size_class(p.e) + "h" + size_class(p.heads) +
           size_class(p.head_dim);
  }
  [[nodiscard]] std::vector<Trait> traits() const override { return make_traits(*this); }

  // ---- explaining
  [[nodiscard]] std::unique_ptr<Reading> reading(const Call& call) const override {
    return of_mha::reading(call.as<attest_mha>());
  }
  // The bound of stages names the first that is none that could be made of those before.
  [[nodiscard]] std::string_view isolated_stage(std::string_view law, const ops::Problem&, const ops::Contract&,
                                                const Verdict& verdict) const override {
    return law == "stage-bound" && verdict.evidence ? std::string_view(verdict.evidence->tensor) : std::string_view();
  }
  [[nodiscard]] const Probes* probes() const noexcept override { return &of_mha::probes(); }
  [[nodiscard]] const Grading* grading() const noexcept override { return &of_mha::grading(); }

 private:
  static const Problem& own(const ops::Problem& problem) { return problem.as<Problem>(); }
};

}  // namespace
}  // namespace of_mha

const Op& mha_op() {
  static const of_mha::Mha op;
  return op;
}

}  // namespace attest::ops
