#include "ops/layer_norm.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/layer_norm/documents.hpp"
#include "generators/layer_norm/coverage.hpp"
#include "generators/layer_norm/domain.hpp"
#include "ops/domain.hpp"
#include "ops/layer_norm/parts.hpp"
#include "ops/layer_norm/probes.hpp"

namespace attest::ops {
namespace of_layer_norm {
namespace {

using attest::layer_norm::Layout;
using attest::layer_norm::Stage;
using attest::layer_norm::Values;

using LayerNormDomain = DomainOf<attest::layer_norm::Domain>;

// ---- traits ---------------------------------------------------------------------------------------------------------

const Problem& problem_of(const Looked& at) { return at.problem.as<Problem>(); }

Trait remainder_of_hidden(Index divisor) {
  return {"hidden%" + std::to_string(divisor), Trait::Kind::remainder, {}, 0, [divisor](const Looked& at) {
            return static_cast<double>(problem_of(at).hidden % divisor);
          }};
}

bool strided(const Problem& p) {
  return p.x_layout != Layout::contiguous || p.residual_layout != Layout::contiguous ||
         p.param_layout != Layout::contiguous || p.out_layout != Layout::contiguous;
}

std::vector<Trait> make_traits(const Op& op) {
  std::vector<Trait> all;
  for (const ops::Field* field : fields_by_merit(op)) all.push_back(trait_of(*field));
  all.push_back(
      {"strided", Trait::Kind::flag, {}, 0, [](const Looked& at) { return strided(problem_of(at)) ? 1. : 0.; }});
  all.push_back(
      {"offset_size", Trait::Kind::number, {}, 0, [](const Looked& at) { return std::fabs(problem_of(at).offset); }});
  for (const Index divisor : {2, 4, 8, 16, 32, 64}) all.push_back(remainder_of_hidden(divisor));
  return all;
}

constexpr Op::Neighbours neighbours[] = {without_edits_of<Problem>, origin_at_zero, seed_at_zero, with_zeroed_elements};

class LayerNorm final : public Op {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "layer_norm"; }
  [[nodiscard]] bool owns(const std::type_info& type) const noexcept override {
    return type == typeid(attest::layer_norm::Problem) || type == typeid(attest::layer_norm::Policy) ||
           type == typeid(attest::layer_norm::Contract);
  }
  [[nodiscard]] std::span<const ops::Field> fields() const override {
    static const std::vector<ops::Field> all = erased(attest::layer_norm::fields());
    return all;
  }
  [[nodiscard]] const ops::Problem& defaults() const override {
    static const ops::Problem none{Problem{}};
    return none;
  }

  // ---- words
  [[nodiscard]] std::string to_text(const ops::Problem& p) const override {
    return attest::layer_norm::to_text(own(p));
  }
  [[nodiscard]] ops::Problem problem_from_text(std::string_view line) const override {
    return attest::layer_norm::problem_from_text(line);
  }
  [[nodiscard]] nlohmann::ordered_json to_json(const ops::Problem& p) const override {
    return attest::layer_norm::to_json(own(p));
  }
  [[nodiscard]] ops::Problem problem_from_json(const nlohmann::json& object, const std::string&) const override {
    return attest::layer_norm::problem_from_json(object);
  }
  void validate(const ops::Problem& p) const override { attest::layer_norm::validate(own(p)); }
  [[nodiscard]] std::string to_text(const ops::Policy& policy) const override {
    return attest::layer_norm::to_text(policy.as<Policy>());
  }
  [[nodiscard]] ops::Policy policy_from_text(std::string_view text) const override {
    return attest::layer_norm::policy_from_text(text);
  }
  [[nodiscard]] Format storage(const ops::Policy& policy) const override { return policy.as<Policy>()[Stage::storage]; }
  [[nodiscard]] ops::Policy policy(const ops::Contract& contract) const override {
    return contract.as<Contract>().policy;
  }
  [[nodiscard]] nlohmann::ordered_json to_json(const ops::Contract& contract) const override {
    return attest::layer_norm::to_json(contract.as<Contract>());
  }
  [[nodiscard]] ops::Contract contract_from_json(const nlohmann::json& object,
                                                 const ops::Policy& policy) const override {
    return attest::layer_norm::contract_from_json(object, policy.as<Policy>());
  }

  // ---- stages
  [[nodiscard]] std::vector<ops::NamedPolicy> named_policies() const override {
    std::vector<ops::NamedPolicy> all;
    for (const attest::layer_norm::NamedPolicy& row : attest::layer_norm::named_policies())
      all.push_back({row.name, row.doc, row.policy});
    return all;
  }
  [[nodiscard]] Format stage(const ops::Policy& policy, std::size_t n) const override {
    return policy.as<Policy>()[static_cast<Stage>(n)];
  }
  void set_stage(ops::Policy& policy, std::size_t n, Format format) const override {
    policy.as<Policy>().set(static_cast<Stage>(n), format);
  }
  [[nodiscard]] std::vector<std::size_t> narrowable() const override {
    std::vector<std::size_t> all;
    for (const Stage stage : {Stage::sum, Stage::statistics, Stage::normalise, Stage::affine, Stage::output})
      all.push_back(static_cast<std::size_t>(stage));
    return all;
  }
  [[nodiscard]] std::vector<std::pair<std::string, ops::Contract>> relaxed(
      const ops::Contract& contract) const override {
    Contract other = contract.as<Contract>();
    if (other.arithmetic.variance == attest::layer_norm::Variance::one_pass) return {};
    other.arithmetic.variance = attest::layer_norm::Variance::one_pass;
    other.arithmetic.merge = attest::layer_norm::Merge::none;
    other.arithmetic.merge_depth = 0;
    return {{"variance=one_pass", other}};
  }

  // ---- what a problem is
  [[nodiscard]] Format dtype(const ops::Problem& p) const override { return own(p).dtype; }
  [[nodiscard]] std::uint64_t seed(const ops::Problem& p) const override { return own(p).seed; }
  [[nodiscard]] Index work(const ops::Problem& p) const override { return own(p).elements(); }
  [[nodiscard]] std::string_view unit_of_work() const noexcept override { return "elements"; }
  [[nodiscard]] bool is_long(const ops::Problem& p) const override {
    constexpr Index long_rows = 1024;
    return own(p).hidden >= long_rows;
  }
  [[nodiscard]] std::string_view long_in_words() const noexcept override { return "in rows of 1,024 or more"; }
  void clear_edits(ops::Problem& p) const override { p.as<Problem>().edits.clear(); }

  // ---- what subjects say of it
  [[nodiscard]] bool offered(const SubjectInfo& info) const override { return info.layer_norm.has_value(); }
  [[nodiscard]] const std::vector<Format>& dtypes(const SubjectInfo& info) const override {
    return info.layer_norm.value().dtypes;
  }
  [[nodiscard]] bool policy_declared(const SubjectInfo& info) const override {
    return info.layer_norm.value().policy_declared;
  }
  [[nodiscard]] ops::Contract contract(const SubjectInfo& info, const ops::Problem& p) const override {
    return contract(info, own(p).dtype);
  }
  [[nodiscard]] ops::Contract contract(const SubjectInfo& info, Format dtype) const override {
    return info.layer_norm.value().contract(dtype, info.name);
  }
  [[nodiscard]] ops::Contract with_policy(ops::Contract contract, const ops::Policy& policy) const override {
    contract.as<Contract>().policy = policy.as<Policy>();
    // Reading it holds its numbers against each other.
    return contract_from_json(nlohmann::json(to_json(contract)), policy);
  }
  [[nodiscard]] ops::Contract contract_beside(const ops::Problem& problem, const SubjectInfo& info,
                                              const ops::Contract& given) const override {
    const Format dtype = given.as<Contract>().policy[Stage::storage];
    return own(problem).dtype == dtype ? given : contract(info, problem);
  }
  [[nodiscard]] std::optional<std::string> declined(const ops::Problem& p, const ops::Supports& supports,
                                                    std::span<const Format> dtypes) const override {
    return attest::layer_norm::declined(own(p), supports.layer_norm, dtypes);
  }

  // ---- drawing and running
  [[nodiscard]] std::unique_ptr<Domain> domain(const ops::Supports& supports,
                                               std::vector<Format> dtypes) const override {
    return std::make_unique<LayerNormDomain>(name(), supports.layer_norm, std::move(dtypes));
  }
  [[nodiscard]] std::vector<ops::Problem> canaries(const ops::Supports& supports, Format dtype) const override {
    std::vector<ops::Problem> taken;
    for (const auto& [rows, hidden] : {std::pair<Index, Index>{2, 8}, {1, 64}, {4, 256}, {8, 1024}}) {
      Problem p;
      p.dtype = dtype;
      p.rows = rows;
      p.hidden = hidden;
      p.values = Values::normal;
      p.norm = supports.layer_norm.layer ? attest::layer_norm::Norm::layer : attest::layer_norm::Norm::rms;
      p.gamma = p.beta = attest::layer_norm::Weights::near;
      if (!supports.layer_norm.gamma) p.gamma = attest::layer_norm::Weights::none;
      if (!supports.layer_norm.beta) p.beta = attest::layer_norm::Weights::none;
      if (!supports.layer_norm.param_same) p.param_type = attest::layer_norm::ParamType::f32;
      p.seed = 0x63616E617279;
      if (!attest::layer_norm::declined(p, supports.layer_norm, {&dtype, 1})) taken.emplace_back(p);
    }
    return taken;
  }
  [[nodiscard]] std::unique_ptr<Trial> trial(const ops::Problem& p, const ops::Contract& contract, Subject& subject,
                                             Subject* peer) const override {
    return of_layer_norm::trial(own(p), contract.as<Contract>(), subject, peer);
  }
  [[nodiscard]] std::vector<Law> laws() const override { return of_layer_norm::laws(*this); }
  [[nodiscard]] std::optional<std::string> not_applicable(const Law& law, const ops::Problem& p,
                                                          const ops::Contract& contract,
                                                          const SubjectInfo&) const override {
    return of_layer_norm::not_applicable(law, own(p), contract.as<Contract>());
  }

  // ---- two subjects
  [[nodiscard]] std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(
      const SubjectInfo& a, const SubjectInfo& b, const std::vector<Format>& dtypes,
      const std::optional<ops::Policy>& policy) const override {
    return of_layer_norm::narrowed_to_both(a, b, dtypes, policy ? std::optional(policy->as<Policy>()) : std::nullopt);
  }

  // ---- one call apart from a trial
  [[nodiscard]] std::unique_ptr<Exchange> exchange(const ops::Problem& p) const override {
    return of_layer_norm::exchange(own(p));
  }
  [[nodiscard]] SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                                     const ops::Policy& policy, const SavedWords& words) const override {
    return of_layer_norm::saved_call(inputs, outputs, policy.as<Policy>(), words);
  }
  [[nodiscard]] ops::Problem saved_problem(const Exchange& saved, Evidence& witness,
                                           const std::filesystem::path&) const override {
    return of_layer_norm::saved_problem(saved, witness);
  }
  [[nodiscard]] const std::vector<SavedWord>& saved_words() const override { return of_layer_norm::saved_words(); }
  [[nodiscard]] std::vector<OtherCall> other_calls(const SavedWords& words) const override {
    return of_layer_norm::other_calls(words);
  }
  [[nodiscard]] std::string options_in_words(const Exchange& exchange) const override {
    return of_layer_norm::options_in_words(exchange);
  }
  [[nodiscard]] std::vector<std::unique_ptr<Subgraph>> subgraphs(const graph::Connections& graph) const override {
    return of_layer_norm::subgraphs(graph);
  }
  [[nodiscard]] std::vector<Unrecognised> unrecognised(const graph::Connections& graph) const override {
    return of_layer_norm::unrecognised(graph);
  }
  [[nodiscard]] PythonReference python(const Exchange& exchange, const ops::Contract& contract) const override {
    return of_layer_norm::python(exchange, contract.as<Contract>());
  }
  [[nodiscard]] std::vector<Quote> quotes_on(std::span<const Quote> documents, const ops::Problem& p,
                                             std::span<const std::string_view> promises) const override {
    return attest::layer_norm::quotes_on(documents, own(p), promises);
  }
  [[nodiscard]] Coverage coverage(const Domain& domain, std::uint64_t seed, std::uint64_t count) const override {
    return cover(dynamic_cast<const LayerNormDomain&>(domain).own(), seed, count);
  }
  [[nodiscard]] std::optional<std::string> without_elements(const ops::Problem& p) const override {
    if (own(p).elements() > 0) return std::nullopt;
    return "give rows of the problem a size of 1 or more";
  }

  // ---- shrinking
  [[nodiscard]] const std::vector<ops::Dimension>& dimensions() const override {
    static const std::vector<ops::Dimension> all = [] {
      std::vector<ops::Dimension> list;
      for (const Dimension& dimension : of_layer_norm::dimensions())
        list.push_back(erased<&ops::Supports::layer_norm>(dimension));
      return list;
    }();
    return all;
  }
  [[nodiscard]] std::array<Index, 4> witness_extents(const ops::Problem& problem) const override {
    return {own(problem).rows, own(problem).hidden, 1, 1};
  }
  [[nodiscard]] ops::Problem capped(ops::Problem p, Index most, const std::optional<Witness>& witness,
                                    const ops::Supports& supports) const override {
    return of_layer_norm::capped(std::move(p.as<Problem>()), most, witness, supports.layer_norm);
  }
  [[nodiscard]] ops::Problem sliced(ops::Problem p, Index samples, const Witness& witness,
                                    const ops::Supports& supports) const override {
    return of_layer_norm::sliced(std::move(p.as<Problem>()), samples, witness, supports.layer_norm);
  }
  [[nodiscard]] ops::Problem with_plain_numbers(ops::Problem p) const override {
    p.as<Problem>().values = Values::normal;
    return p;
  }
  void fit(const ops::Problem&, ops::Problem& to, const ops::Supports& supports) const override {
    of_layer_norm::fit(to.as<Problem>(), supports.layer_norm);
  }
  [[nodiscard]] std::span<const Neighbours> further_neighbours() const override { return neighbours; }
  // Two elements: the fewest that differ from their mean.
  [[nodiscard]] std::optional<ops::Problem> least_telling(ops::Problem least) const override {
    least.as<Problem>().hidden = 2;
    return least;
  }
  [[nodiscard]] std::vector<ops::Escape> escapes(const ops::Problem& shape,
                                                 const ops::Problem& original) const override {
    return of_layer_norm::escapes(own(shape), own(original));
  }
  [[nodiscard]] ops::Problem sampled(ops::Problem problem) const override {
    constexpr Index most_rows = 64, most_elements = Index{1} << 16;
    Problem& p = problem.as<Problem>();
    p.rows *= std::clamp<Index>(most_elements / std::max<Index>(p.elements(), 1), 1, most_rows);
    return problem;
  }

  // ---- telling
  [[nodiscard]] std::string further_formats(const ops::Problem& problem) const override {
    const Problem& p = own(problem);
    const bool params = p.gamma != attest::layer_norm::Weights::none || p.beta != attest::layer_norm::Weights::none;
    if (!params || p.param_format() == p.dtype) return {};
    return "+params-" + std::string(attest::name(p.param_format()));
  }
  [[nodiscard]] std::string shape_class(const ops::Problem& problem) const override {
    return std::string("ln") + size_class(own(problem).rows) + size_class(own(problem).hidden);
  }
  [[nodiscard]] std::vector<Trait> traits() const override { return make_traits(*this); }
  [[nodiscard]] std::unique_ptr<Reading> reading(const Call& call) const override {
    return of_layer_norm::reading(call.as<attest_layer_norm>());
  }

  [[nodiscard]] const Probes* probes() const noexcept override { return &of_layer_norm::probes(); }
  [[nodiscard]] const Grading* grading() const noexcept override { return &of_layer_norm::grading(); }

 private:
  static const Problem& own(const ops::Problem& problem) { return problem.as<Problem>(); }
};

}  // namespace
}  // namespace of_layer_norm

const Op& layer_norm_op() {
  static const of_layer_norm::LayerNorm op;
  return op;
}

}  // namespace attest::ops
