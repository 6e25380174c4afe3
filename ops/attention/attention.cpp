#include "ops/attention.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/contract_numbers.hpp"
#include "core/field.hpp"
#include "core/supports.hpp"
#include "generators/coverage.hpp"
#include "ops/attention/parts.hpp"
#include "ops/attention/probes.hpp"
#include "ops/attention/saved_call.hpp"
#include "properties/property.hpp"

namespace attest::ops {
namespace of_attention {
namespace {

// ---- neighbours that no single field gives --------------------------------------------------------------------------

using Candidates = std::vector<Candidate>;

// Zeros stay: they are as simple as an element can be, and what zeroed_elements() aims for.
Candidates without_edits(const ops::Problem& problem) {
  const Problem& p = problem.as<Problem>();
  std::vector<Edit> others;
  std::ranges::copy_if(p.edits, std::back_inserter(others), [](const Edit& edit) { return edit.value != 0; });
  Candidates found;
  for (std::size_t chunk = others.size(); chunk > 0; chunk /= 2)
    for (std::size_t first = 0; first < others.size(); first += chunk) {
      Problem changed = p;
      const std::size_t count = std::min(chunk, others.size() - first);
      const std::span<const Edit> gone(others.data() + first, count);
      std::erase_if(changed.edits, [&](const Edit& edit) { return std::ranges::find(gone, edit) != gone.end(); });
      found.push_back({std::move(changed), fmt::format("edits {}..{} removed", first, first + count - 1)});
    }
  return found;
}

// A mask that leaves a row one key cannot go, nor can the keys that it closes, while the other stays.
Candidates with_single_key(const ops::Problem& problem) {
  Problem changed = reset(problem, FieldGroup::masks).as<Problem>();
  if (changed.lk < 2 || changed == problem.as<Problem>()) return {};
  changed.lk = 1;
  return {{std::move(changed), "masks and all keys but one"}};
}

Candidates with_first_forms(const ops::Problem& problem) {
  const Problem& p = problem.as<Problem>();
  Candidates found;
  for (const FormChoice& choice : p.forms) {
    Problem changed = p;
    std::erase(changed.forms, choice);
    found.push_back({std::move(changed), fmt::format("form.{}: {} -> the first", choice.name, choice.value)});
  }
  return found;
}

Candidates as_literal(const ops::Problem& problem) {
  if (auto plain = literal(problem.as<Problem>(), most_shrunk_literals))
    return {{std::move(*plain), "captured values -> literal"}};
  return {};
}

Candidates with_zeroed_elements(const ops::Problem& problem) {
  Candidates found;
  for (auto& [zeroed, change] : zeroed_elements(problem.as<Problem>()))
    found.push_back({std::move(zeroed), std::move(change)});
  return found;
}

constexpr Op::Neighbours neighbours[] = {without_edits,    origin_at_zero, seed_at_zero,        with_single_key,
                                         with_first_forms, as_literal,     with_zeroed_elements};

// A line on sums that are judged as those of tensor cores, of each dtype; nothing for a subject without.
std::string tensor_cores(const SubjectInfo& info) {
  std::string dtypes;
  for (const Format dtype : info.dtypes) {
    const auto mma = info.contract(dtype).arithmetic.mma;
    if (mma) dtypes += fmt::format("{}{} {}", dtypes.empty() ? "" : ", ", attest::name(dtype), to_text(*mma));
  }
  return dtypes.empty() ? "" : fmt::format("sums are judged as those of tensor cores (contract: mma): {}\n", dtypes);
}

class Attention final : public Op {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "attention"; }
  [[nodiscard]] bool owns(const std::type_info& type) const noexcept override {
    return type == typeid(attest::Problem) || type == typeid(attest::Policy) || type == typeid(attest::Contract);
  }
  [[nodiscard]] std::span<const ops::Field> fields() const override {
    static const std::vector<ops::Field> all = erased(attest::fields());
    return all;
  }
  [[nodiscard]] const ops::Problem& defaults() const override {
    static const ops::Problem none{Problem{}};
    return none;
  }

  // ---- words
  [[nodiscard]] std::string to_text(const ops::Problem& p) const override { return attest::to_text(own(p)); }
  [[nodiscard]] ops::Problem problem_from_text(std::string_view line) const override {
    return attest::problem_from_text(line);
  }
  [[nodiscard]] nlohmann::ordered_json to_json(const ops::Problem& p) const override { return attest::to_json(own(p)); }
  [[nodiscard]] ops::Problem problem_from_json(const nlohmann::json& object, const std::string& folder) const override {
    return attest::problem_from_json(object, folder);
  }
  void validate(const ops::Problem& p) const override { attest::validate(own(p)); }
  [[nodiscard]] std::string to_text(const ops::Policy& policy) const override {
    return attest::to_text(policy.as<Policy>());
  }
  [[nodiscard]] ops::Policy policy_from_text(std::string_view text) const override {
    return attest::policy_from_text(text);
  }
  [[nodiscard]] Format storage(const ops::Policy& policy) const override { return policy.as<Policy>()[Stage::storage]; }
  [[nodiscard]] ops::Policy policy(const ops::Contract& contract) const override {
    return contract.as<Contract>().policy;
  }
  [[nodiscard]] nlohmann::ordered_json to_json(const ops::Contract& contract) const override {
    return attest::to_json(contract.as<Contract>());
  }
  [[nodiscard]] ops::Contract contract_from_json(const nlohmann::json& object,
                                                 const ops::Policy& policy) const override {
    return attest::contract_from_json(object, policy.as<Policy>());
  }

  // ---- stages
  [[nodiscard]] std::vector<ops::NamedPolicy> named_policies() const override {
    std::vector<ops::NamedPolicy> all;
    for (const attest::NamedPolicy& row : attest::named_policies()) all.push_back({row.name, row.doc, row.policy});
    return all;
  }
  [[nodiscard]] Format stage(const ops::Policy& policy, std::size_t n) const override {
    return policy.as<Policy>()[static_cast<Stage>(n)];
  }
  void set_stage(ops::Policy& policy, std::size_t n, Format format) const override {
    policy.as<Policy>().set(static_cast<Stage>(n), format);
  }

  // ---- what a problem is
  [[nodiscard]] Format dtype(const ops::Problem& p) const override { return own(p).dtype; }
  [[nodiscard]] std::uint64_t seed(const ops::Problem& p) const override { return own(p).seed; }
  [[nodiscard]] Index work(const ops::Problem& p) const override { return own(p).multiply_adds(); }
  [[nodiscard]] bool is_long(const ops::Problem& p) const override {
    constexpr Index long_keys = 256;
    return own(p).lk >= long_keys;
  }
  [[nodiscard]] std::string_view long_in_words() const noexcept override { return "with 256 keys or more"; }
  [[nodiscard]] const std::vector<FormChoice>& forms(const ops::Problem& p) const override { return own(p).forms; }
  void clear_forms(ops::Problem& p) const override { p.as<Problem>().forms.clear(); }
  void clear_edits(ops::Problem& p) const override { p.as<Problem>().edits.clear(); }
  [[nodiscard]] std::string captured_file(const ops::Problem& p) const override {
    return own(p).values == Values::file ? own(p).values_file : std::string();
  }
  [[nodiscard]] ops::Problem portable(ops::Problem problem) const override {
    Problem& p = problem.as<Problem>();
    p.values_file = std::filesystem::path(p.values_file).filename().string();
    return problem;
  }
  [[nodiscard]] std::optional<ops::Problem> literal(const ops::Problem& p, Index most) const override {
    return of_attention::literal(own(p), most);
  }
  [[nodiscard]] std::optional<ops::Problem> recorded(const Call& call, const ops::Problem* like) const override {
    return of_attention::recorded(call.as<attest_attention>(), like ? &like->as<Problem>() : nullptr);
  }

  // ---- what subjects say of it
  [[nodiscard]] bool offered(const SubjectInfo& info) const override {
    return std::ranges::count(info.ops, name()) != 0;
  }
  [[nodiscard]] const std::vector<Format>& dtypes(const SubjectInfo& info) const override { return info.dtypes; }
  [[nodiscard]] bool policy_declared(const SubjectInfo& info) const override { return info.policy_declared; }
  [[nodiscard]] ops::Contract contract(const SubjectInfo& info, const ops::Problem& p) const override {
    return info.contract(own(p).dtype, own(p).forms);
  }
  [[nodiscard]] ops::Contract contract(const SubjectInfo& info, Format dtype) const override {
    return info.contract(dtype);
  }
  [[nodiscard]] ops::Contract with_policy(ops::Contract contract, const ops::Policy& policy) const override {
    Contract& c = contract.as<Contract>();
    c.policy = policy.as<Policy>();
    check_numbers(c);
    return contract;
  }
  [[nodiscard]] ops::Contract contract_beside(const ops::Problem& problem, const SubjectInfo& info,
                                              const ops::Contract& given) const override {
    const Contract& g = given.as<Contract>();
    const Problem& p = own(problem);
    const Format dtype = g.policy[Stage::storage];
    if (p.dtype == dtype && info.form_contracts.empty()) return given;
    Contract its = info.contract(p.dtype, p.forms);
    if (p.dtype != dtype) return its;
    const auto index = static_cast<std::size_t>(std::ranges::find(info.dtypes, dtype) - info.dtypes.begin());
    const bool declared = g.policy == info.contract(dtype).policy ||
                          std::ranges::any_of(info.form_contracts, [&](const FormContract& of) {
                            return g.policy == of.contracts.at(index).policy;
                          });
    if (!declared) its.policy = g.policy;
    return its;
  }
  [[nodiscard]] std::vector<ops::Contract> form_contracts(const SubjectInfo& info) const override {
    std::vector<ops::Contract> all;
    for (const FormContract& of : info.form_contracts) all.insert(all.end(), of.contracts.begin(), of.contracts.end());
    return all;
  }
  [[nodiscard]] std::optional<std::string> declined(const ops::Problem& p, const ops::Supports& supports,
                                                    std::span<const Format> dtypes) const override {
    return attest::declined(own(p), supports.attention, dtypes);
  }

  // ---- drawing and running
  [[nodiscard]] std::unique_ptr<Domain> domain(const ops::Supports& supports,
                                               std::vector<Format> dtypes) const override {
    return of_attention::domain(supports.attention, std::move(dtypes));
  }
  [[nodiscard]] std::vector<ops::Problem> canaries(const ops::Supports& supports, Format dtype) const override {
    const std::vector<Problem> taken = of_attention::canaries(supports.attention, dtype);
    return {taken.begin(), taken.end()};
  }
  [[nodiscard]] std::unique_ptr<Trial> trial(const ops::Problem& p, const ops::Contract& contract, Subject& subject,
                                             Subject* peer) const override {
    return of_attention::trial(own(p), contract.as<Contract>(), subject, peer);
  }
  [[nodiscard]] std::vector<Law> laws() const override { return of_attention::laws(*this); }
  [[nodiscard]] std::optional<std::string> not_applicable(const Law& law, const ops::Problem& p,
                                                          const ops::Contract& contract,
                                                          const SubjectInfo& info) const override {
    return of_attention::not_applicable(law, own(p), contract.as<Contract>(), info);
  }

  // ---- two subjects
  [[nodiscard]] std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(
      const SubjectInfo& a, const SubjectInfo& b, const std::vector<Format>& dtypes,
      const std::optional<ops::Policy>& policy) const override {
    return of_attention::narrowed_to_both(a, b, dtypes, policy ? std::optional(policy->as<Policy>()) : std::nullopt);
  }

  // ---- one call apart from a trial
  [[nodiscard]] std::unique_ptr<Exchange> exchange(const ops::Problem& p) const override {
    return of_attention::exchange(own(p));
  }
  [[nodiscard]] SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                                     const ops::Policy& policy, const SavedWords& words) const override {
    return of_attention::saved_call(inputs, outputs, saved_call_options(words, policy.as<Policy>()));
  }
  [[nodiscard]] ops::Problem saved_problem(const Exchange& saved, Evidence&,
                                           const std::filesystem::path& folder) const override {
    return of_attention::saved_problem(saved, folder);
  }
  [[nodiscard]] const std::vector<SavedWord>& saved_words() const override { return of_attention::saved_words(); }
  [[nodiscard]] std::vector<OtherCall> other_calls(const SavedWords& words) const override {
    return of_attention::other_calls(words);
  }
  [[nodiscard]] std::string options_in_words(const Exchange& exchange) const override {
    return of_attention::options_in_words(exchange);
  }
  [[nodiscard]] std::vector<std::unique_ptr<Subgraph>> subgraphs(const graph::Connections& graph) const override {
    return of_attention::subgraphs(graph);
  }
  [[nodiscard]] std::vector<Unrecognised> unrecognised(const graph::Connections& graph) const override {
    return of_attention::unrecognised(graph);
  }
  [[nodiscard]] PythonReference python(const Exchange& exchange, const ops::Contract& contract) const override {
    return of_attention::python(exchange, contract.as<Contract>());
  }
  [[nodiscard]] std::vector<NamedGraph> graphs(const Exchange& exchange, const ops::Contract& contract) const override {
    return of_attention::graphs(exchange, contract.as<Contract>());
  }
  [[nodiscard]] std::vector<Quote> quotes_on(std::span<const Quote> documents, const ops::Problem& p,
                                             std::span<const std::string_view> promises) const override {
    return attest::quotes_on(documents, own(p), promises);
  }
  [[nodiscard]] Coverage coverage(const Domain& domain, std::uint64_t seed, std::uint64_t count) const override {
    return cover(attention_domain(domain), seed, count);
  }
  [[nodiscard]] std::optional<std::string> without_elements(const ops::Problem& problem) const override {
    const Problem& p = own(problem);
    if (p.b * p.hq * p.lq * p.dv > 0) return std::nullopt;
    return "give b, hq, lq and dv of the problem a size of 1 or more";
  }

  // ---- shrinking
  [[nodiscard]] const std::vector<ops::Dimension>& dimensions() const override {
    static const std::vector<ops::Dimension> all = [] {
      std::vector<ops::Dimension> list;
      for (const Dimension& dimension : of_attention::dimensions())
        list.push_back(erased<&ops::Supports::attention>(dimension));
      return list;
    }();
    return all;
  }
  [[nodiscard]] std::array<Index, 4> witness_extents(const ops::Problem& problem) const override {
    const Problem& p = own(problem);
    return {p.b, p.hq, p.lq, p.dv};
  }
  [[nodiscard]] ops::Problem capped(ops::Problem p, Index most, const std::optional<Witness>& witness,
                                    const ops::Supports& supports) const override {
    return of_attention::capped(std::move(p.as<Problem>()), most, witness, supports.attention);
  }
  [[nodiscard]] ops::Problem sliced(ops::Problem p, Index samples, const Witness& witness,
                                    const ops::Supports& supports) const override {
    return of_attention::sliced(std::move(p.as<Problem>()), samples, witness, supports.attention);
  }
  [[nodiscard]] ops::Problem with_plain_numbers(ops::Problem p) const override {
    p.as<Problem>().values = Values::normal;
    return p;
  }
  void fit(const ops::Problem& from, ops::Problem& to, const ops::Supports& supports) const override {
    of_attention::fit(own(from), to.as<Problem>(), supports.attention);
  }
  [[nodiscard]] std::span<const Neighbours> further_neighbours() const override { return neighbours; }
  // Two keys: the fewest that weights differ between.
  [[nodiscard]] std::optional<ops::Problem> least_telling(ops::Problem least) const override {
    least.as<Problem>().lk = 2;
    return least;
  }
  [[nodiscard]] std::vector<ops::Escape> escapes(const ops::Problem& shape,
                                                 const ops::Problem& original) const override {
    std::vector<ops::Escape> all;
    for (Escape& way : of_attention::escapes(own(shape), own(original)))
      all.push_back({{std::move(way.problem), std::move(way.change)}, way.drawn, way.likely});
    return all;
  }
  [[nodiscard]] ops::Problem sampled(ops::Problem p) const override {
    return of_attention::sampled(std::move(p.as<Problem>()));
  }

  // ---- probing
  [[nodiscard]] const Probes* probes() const noexcept override { return &of_attention::probes(); }

  // ---- telling
  [[nodiscard]] std::string preface(const SubjectInfo& info) const override { return tensor_cores(info); }
  [[nodiscard]] std::string undeclared_reach(const SubjectInfo& info) const override {
    return of_attention::undeclared_reach(info);
  }
  [[nodiscard]] std::string further_formats(const ops::Problem& problem) const override {
    const Problem& p = own(problem);
    if (p.bias == Bias::none || p.bias_format() == p.dtype) return {};
    return "+bias-" + std::string(attest::name(p.bias_format()));
  }
  [[nodiscard]] std::string shape_class(const ops::Problem& problem) const override {
    const Problem& p = own(problem);
    std::string shape;
    for (const Index n : {p.b, p.hkv, p.lq, p.lk}) shape += size_class(n);
    if (p.hq != p.hkv) shape += 'g';
    return shape;
  }
  [[nodiscard]] std::vector<Trait> traits() const override { return of_attention::traits(); }
  [[nodiscard]] std::unique_ptr<Reading> reading(const Call& call) const override {
    return of_attention::reading(call.as<attest_attention>());
  }
  [[nodiscard]] std::string_view isolated_stage(std::string_view law, const ops::Problem& problem,
                                                const ops::Contract& contract, const Verdict& verdict) const override {
    return of_attention::isolated_stage(law, own(problem), contract.as<Contract>(), verdict);
  }

  [[nodiscard]] const Grading* grading() const noexcept override { return &of_attention::grading(); }

 private:
  static const Problem& own(const ops::Problem& problem) { return problem.as<Problem>(); }
};

}  // namespace
}  // namespace of_attention

const Op& attention_op() {
  static const of_attention::Attention op;
  return op;
}

}  // namespace attest::ops
