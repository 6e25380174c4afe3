#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "ops/op.hpp"

namespace attest::ops {

// The shortest way to an operation. Its problems are a table of fields, it stores and computes in one format, and each
// element of its one output has a bound of its own. The functions under `left to say` are the operation; those that
// rooms above call follow from them. An operation with stages, forms, layouts, statistics or options of a contract is
// an Op of its own.
class Plain : public Op {
 public:
  struct Input {
    std::string_view name;
    Tensor tensor;
  };
  // The bound of an element before it is rounded to storage: y, and the distance at which a kernel may be from it.
  struct Bound {
    double y = 0, radius = 0;
  };

  // ---- left to say, beside its table: that of its extents are of FieldGroup::shape, its seed of FieldKind::seed
  [[nodiscard]] virtual std::vector<Input> inputs(const Problem& problem) const = 0;
  // Its elements need not be set.
  [[nodiscard]] virtual Tensor output(const Problem& problem) const = 0;
  // Points into both.
  [[nodiscard]] virtual Call call(const Problem& problem, std::span<const Input> inputs, const Tensor& out) const = 0;
  [[nodiscard]] virtual Bound bound(const Problem& problem, std::span<const Input> inputs,
                                    const std::array<Index, 4>& at) const = 0;
  // The numbers that the call says besides, by name.
  [[nodiscard]] virtual std::vector<std::pair<std::string_view, double>> numbers(const Problem& problem) const = 0;
  // NumPy, in float64, of the inputs and numbers by name: leaves `expected`.
  [[nodiscard]] virtual std::string numpy() const = 0;

  // ---- what the templates below say
  [[nodiscard]] virtual Problem with_dtype(Problem problem, Format dtype) const = 0;
  [[nodiscard]] virtual Policy policy_in(Format format) const = 0;
  [[nodiscard]] virtual Contract contract_in(Format format) const = 0;
  [[nodiscard]] virtual Format format_of(const Contract& contract) const = 0;

  // ---- what follows
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const override { return fields_; }
  [[nodiscard]] const Problem& defaults() const override { return defaults_; }
  [[nodiscard]] std::string to_text(const Problem& problem) const override;
  [[nodiscard]] Problem problem_from_text(std::string_view line) const override;
  [[nodiscard]] nlohmann::ordered_json to_json(const Problem& problem) const override;
  [[nodiscard]] Problem problem_from_json(const nlohmann::json& object, const std::string& folder) const override;
  void validate(const Problem& problem) const override;
  [[nodiscard]] std::string to_text(const Policy& policy) const override;
  [[nodiscard]] Policy policy_from_text(std::string_view text) const override;
  [[nodiscard]] Policy policy(const Contract& contract) const override;
  [[nodiscard]] nlohmann::ordered_json to_json(const Contract& contract) const override;
  [[nodiscard]] Contract contract_from_json(const nlohmann::json& object, const Policy& policy) const override;
  [[nodiscard]] std::vector<NamedPolicy> named_policies() const override;
  [[nodiscard]] Format stage(const Policy& policy, std::size_t n) const override;
  void set_stage(Policy& policy, std::size_t n, Format format) const override;
  [[nodiscard]] std::uint64_t seed(const Problem& problem) const override;
  [[nodiscard]] Index work(const Problem& problem) const override;
  [[nodiscard]] std::string_view unit_of_work() const noexcept override { return "elements"; }
  [[nodiscard]] bool is_long(const Problem& problem) const override;
  [[nodiscard]] std::string_view long_in_words() const noexcept override { return "with 256 elements or more"; }
  void clear_edits(Problem&) const override {}
  [[nodiscard]] bool offered(const SubjectInfo& info) const override;
  [[nodiscard]] const std::vector<Format>& dtypes(const SubjectInfo& info) const override { return info.dtypes; }
  [[nodiscard]] bool policy_declared(const SubjectInfo& info) const override { return info.policy_declared; }
  [[nodiscard]] Contract contract(const SubjectInfo& info, const Problem& problem) const override;
  [[nodiscard]] Contract contract(const SubjectInfo& info, Format dtype) const override;
  [[nodiscard]] Contract with_policy(Contract contract, const Policy& policy) const override;
  [[nodiscard]] Contract contract_beside(const Problem& problem, const SubjectInfo& info,
                                         const Contract& given) const override;
  [[nodiscard]] std::optional<std::string> declined(const Problem& problem, const Supports& supports,
                                                    std::span<const Format> dtypes) const override;
  [[nodiscard]] std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes) const override;
  [[nodiscard]] std::vector<Problem> canaries(const Supports& supports, Format dtype) const override;
  [[nodiscard]] std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject,
                                             Subject* peer) const override;
  [[nodiscard]] std::vector<Law> laws() const override;
  [[nodiscard]] std::optional<std::string> not_applicable(const Law&, const Problem&, const Contract&,
                                                          const SubjectInfo&) const override {
    return std::nullopt;
  }
  [[nodiscard]] std::unique_ptr<Exchange> exchange(const Problem& problem) const override;
  [[nodiscard]] PythonReference python(const Exchange& exchange, const Contract& contract) const override;
  [[nodiscard]] const std::vector<Dimension>& dimensions() const override { return dimensions_; }
  [[nodiscard]] std::array<Index, 4> witness_extents(const Problem& problem) const override;
  [[nodiscard]] Problem capped(Problem problem, Index most, const std::optional<Witness>& witness,
                               const Supports& supports) const override;
  [[nodiscard]] Problem sliced(Problem problem, Index, const Witness&, const Supports&) const override {
    return problem;
  }
  [[nodiscard]] Problem with_plain_numbers(Problem problem) const override { return problem; }
  void fit(const Problem&, Problem&, const Supports&) const override {}
  [[nodiscard]] std::span<const Neighbours> further_neighbours() const override;
  [[nodiscard]] std::vector<Escape> escapes(const Problem& shape, const Problem& original) const override;
  [[nodiscard]] Problem sampled(Problem problem) const override { return problem; }
  [[nodiscard]] std::string shape_class(const Problem& problem) const override;
  [[nodiscard]] std::vector<Trait> traits() const override;

 protected:
  Plain(std::string_view name, std::vector<Field> fields, Problem defaults);

 private:
  std::string_view name_;
  std::vector<Field> fields_;
  Problem defaults_;
  std::vector<Dimension> dimensions_;
};

// The policy and the contract of one whose problems are P: a format.
template <class P>
struct PlainPolicy {
  Format format = Format::f32;
  friend bool operator==(const PlainPolicy&, const PlainPolicy&) = default;
};
template <class P>
struct PlainContract {
  Format format = Format::f32;
  friend bool operator==(const PlainContract&, const PlainContract&) = default;
};
template <class P>
inline constexpr Role role_of<PlainPolicy<P>> = Role::policy;
template <class P>
inline constexpr Role role_of<PlainContract<P>> = Role::contract;

// P has a member `dtype`, and role_of<P> is Role::problem.
template <class P>
class PlainOf : public Plain {
 public:
  [[nodiscard]] bool owns(const std::type_info& type) const noexcept override {
    return type == typeid(P) || type == typeid(PlainPolicy<P>) || type == typeid(PlainContract<P>);
  }
  [[nodiscard]] Format dtype(const Problem& problem) const override { return problem.as<P>().dtype; }
  [[nodiscard]] Problem with_dtype(Problem problem, Format dtype) const override {
    problem.as<P>().dtype = dtype;
    return problem;
  }
  [[nodiscard]] Format storage(const Policy& policy) const override { return policy.as<PlainPolicy<P>>().format; }
  [[nodiscard]] Policy policy_in(Format format) const override { return PlainPolicy<P>{format}; }
  [[nodiscard]] Contract contract_in(Format format) const override { return PlainContract<P>{format}; }
  [[nodiscard]] Format format_of(const Contract& contract) const override {
    return contract.as<PlainContract<P>>().format;
  }

 protected:
  template <class S>
  PlainOf(std::string_view name, std::span<const FieldRow<P, S>> rows) : Plain(name, erased(rows), P{}) {}
};

}  // namespace attest::ops
