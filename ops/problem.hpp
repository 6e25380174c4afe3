#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/contract.hpp"
#include "core/error.hpp"
#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/problem.hpp"
#include "core/mha/contract.hpp"
#include "core/mha/problem.hpp"
#include "core/problem.hpp"

// The values that rooms hold that speak of any operation: each is one operation's, and knows which.
namespace attest::ops {

class Op;
// One line each: an operation is its folders and its line there (list.cpp).
std::span<const Op* const> all_ops() noexcept;
// The operation that owns this type (Op::owns). Throws Error(internal) if there is none.
const Op& op_owning(const std::type_info& type);

// The role of an operation's own type. An operation that is added from outside states it beside the type's declaration.
enum class Role : std::uint8_t { none, problem, policy, contract };
template <class T, class... Those>
inline constexpr bool is_one_of = (std::is_same_v<T, Those> || ...);
template <class T>
inline constexpr Role role_of = is_one_of<T, attest::Problem, layer_norm::Problem, mha::Problem>      ? Role::problem
                                : is_one_of<T, attest::Policy, layer_norm::Policy, mha::Policy>       ? Role::policy
                                : is_one_of<T, attest::Contract, layer_norm::Contract, mha::Contract> ? Role::contract
                                                                                                      : Role::none;

// A value of some operation's own type of this role. Refers to nothing. `Default`: the first operation's.
template <Role role, class Default>
class AnyOf {
 public:
  AnyOf() : AnyOf(Default()) {}
  template <class T>
  requires(role_of<T> == role) AnyOf(T value) : type_(&typeid(T)), held_(std::make_unique<Own<T>>(std::move(value))) {}
  AnyOf(const AnyOf& other) : type_(other.type_), held_(other.held_ ? other.held_->copy() : nullptr) {}
  AnyOf(AnyOf&&) noexcept = default;
  AnyOf& operator=(const AnyOf& other) { return *this = AnyOf(other); }
  AnyOf& operator=(AnyOf&&) noexcept = default;
  ~AnyOf() = default;

  // The operation's own. Throws Error(internal) if it is another's.
  template <class T>
  [[nodiscard]] const T& as() const {
    if (is<T>()) return static_cast<const Own<T>&>(*held_).value;
    throw internal_error("what is one operation's was taken for another's");
  }
  template <class T>
  [[nodiscard]] T& as() {
    return const_cast<T&>(std::as_const(*this).template as<T>());
  }
  template <class T>
  [[nodiscard]] bool is() const noexcept {
    return held_ != nullptr && *type_ == typeid(T);
  }
  [[nodiscard]] const Op& op() const { return held_ ? held_->op() : *all_ops().front(); }

  friend bool operator==(const AnyOf& a, const AnyOf& b) {
    return *a.type_ == *b.type_ && (a.held_ == b.held_ || (a.held_ && b.held_ && a.held_->equals(*b.held_)));
  }

 private:
  struct Held {
    Held() = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    virtual ~Held() = default;
    [[nodiscard]] virtual std::unique_ptr<Held> copy() const = 0;
    [[nodiscard]] virtual bool equals(const Held& other) const = 0;  // `other` has the same type
    [[nodiscard]] virtual const Op& op() const = 0;
  };
  template <class T>
  struct Own final : Held {
    explicit Own(T own) : value(std::move(own)) {}
    [[nodiscard]] std::unique_ptr<Held> copy() const override { return std::make_unique<Own>(value); }
    [[nodiscard]] bool equals(const Held& other) const override {
      return value == static_cast<const Own&>(other).value;
    }
    [[nodiscard]] const Op& op() const override {
      static const Op& owner = op_owning(typeid(T));
      return owner;
    }
    T value;
  };

  const std::type_info* type_;
  std::unique_ptr<Held> held_;  // null of what was moved from
};

using Problem = AnyOf<Role::problem, attest::Problem>;
using Policy = AnyOf<Role::policy, attest::Policy>;
using Contract = AnyOf<Role::contract, attest::Contract>;

// One line of key=value, which begins with op=NAME unless the operation is the first. Reading it back throws
// Error(usage) naming the key, its value and what is allowed.
std::string to_text(const Problem& problem);
Problem problem_from_text(std::string_view line);
nlohmann::ordered_json to_json(const Problem& problem);
// JSON comes from files, which may be a stranger's: it may name files of `folder` alone.
Problem problem_from_json(const nlohmann::json& object, const std::string& folder = ".");
// Throws Error(usage) when fields contradict each other.
void validate(const Problem& problem);

Format storage_of(const Problem& problem);
std::uint64_t seed_of(const Problem& problem);
// A measure of the operation's work: multiply-adds, or the operation's own unit. Never negative, saturates.
std::int64_t work_of(const Problem& problem);
// The forms in which the call is made; empty for operations that have one form.
const std::vector<FormChoice>& forms_of(const Problem& problem);

std::string to_text(const Policy& policy);
Format storage_of(const Policy& policy);
// The format of the stage `output`, which every operation has.
Format output_of(const Policy& policy);
Policy policy_of(const Contract& contract);
// The contract as JSON, which is read back with the operation's name and the policy's text.
nlohmann::ordered_json to_json(const Contract& contract);

}  // namespace attest::ops
