#pragma once
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/contract.hpp"
#include "core/error.hpp"
#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/problem.hpp"
#include "core/mha/contract.hpp"
#include "core/mha/problem.hpp"
#include "core/problem.hpp"

// What rooms that speak of any operation hold: values that are one operation's, and know which.
namespace attest::ops {

class Op;
// In the order of the alternatives below. One line each: an operation is its folders and its line there (list.cpp).
std::span<const Op* const> all_ops() noexcept;

// One of the operations' own types. A value; refers to nothing.
template <class... Alternatives>
class AnyOf {
 public:
  AnyOf() = default;  // of the first operation
  template <class T>
  requires(std::same_as<T, Alternatives> || ...) AnyOf(T value) : value_(std::move(value)) {}

  // The operation's own. Throws Error(internal) if it is another's.
  template <class T>
  [[nodiscard]] const T& as() const {
    if (const T* own = std::get_if<T>(&value_)) return *own;
    throw internal_error("what is one operation's was taken for another's");
  }
  template <class T>
  [[nodiscard]] T& as() {
    return const_cast<T&>(std::as_const(*this).template as<T>());
  }
  template <class T>
  [[nodiscard]] bool is() const noexcept {
    return std::holds_alternative<T>(value_);
  }
  [[nodiscard]] const Op& op() const noexcept { return *all_ops()[value_.index()]; }
  // What `take` makes of the operation's own.
  template <class Take>
  decltype(auto) visit(Take&& take) const {
    return std::visit(std::forward<Take>(take), value_);
  }

  friend bool operator==(const AnyOf&, const AnyOf&) = default;

 private:
  std::variant<Alternatives...> value_;
};

// Each in the order of all_ops().
using Problem = AnyOf<attest::Problem, layer_norm::Problem, mha::Problem>;
using Policy = AnyOf<attest::Policy, layer_norm::Policy, mha::Policy>;
using Contract = AnyOf<attest::Contract, layer_norm::Contract, mha::Contract>;

// One line of key=value, which begins with op=NAME unless the operation is the first. Reading it back throws Error(usage) naming
// the key, its value and what is allowed.
std::string to_text(const Problem& problem);
Problem problem_from_text(std::string_view line);
nlohmann::ordered_json to_json(const Problem& problem);
// JSON comes from files, which may be a stranger's: it may name files of `folder` alone.
Problem problem_from_json(const nlohmann::json& object, const std::string& folder = ".");
// Throws Error(usage) when fields contradict each other.
void validate(const Problem& problem);

Format storage_of(const Problem& problem);
std::uint64_t seed_of(const Problem& problem);
// What grows with the work of the operation: multiply-adds, or what stands for them. Never negative, saturates.
std::int64_t work_of(const Problem& problem);
// How the call is said; empty for operations that have one way.
const std::vector<FormChoice>& forms_of(const Problem& problem);

std::string to_text(const Policy& policy);
Format storage_of(const Policy& policy);
// Of the stage `output`, which every operation has.
Format output_of(const Policy& policy);
Policy policy_of(const Contract& contract);
// What is read back with the operation's name and the policy's text.
nlohmann::ordered_json to_json(const Contract& contract);

}  // namespace attest::ops
