#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "attest/plugin.h"
#include "core/problem.hpp"

namespace attest {

struct Supports;

// ---- what calls of one operation hold: a row each -------------------------------------------------------------------

// A tensor of a call.
struct TensorSlot {
  enum class Role : std::uint8_t {
    input,
    output,  // poisoned before the call
    stage,   // an output too, of a step on the way
  };
  std::string_view name;
  Role role;
  std::size_t at;  // offset of its attest_tensor in the operation's struct of attest/plugin.h
  // For attention: its extents, and whether a call of a problem has it; nullptr: every call has it.
  std::span<Index (*const)(const Problem&)> axes;
  bool (*used)(const Problem&) = nullptr;
  [[nodiscard]] constexpr bool written() const noexcept { return role != Role::input; }
};

// A number of a call.
struct ScalarSlot {
  enum class Kind : std::uint8_t {
    real,   // double
    flag,   // int32_t, of which 0 and the others are told apart
    small,  // int32_t
    whole,  // int64_t
    bit,    // a bit of the struct's `flags`
  };
  std::string_view name;  // in messages
  Kind kind;
  std::size_t at;      // in the struct; which bit, of a bit
  std::size_t packed;  // among the numbers of a packed call (docs/worker.md); which bit of its flags, of flag and bit
};

struct CallShape {
  std::string_view op;                  // its name
  std::uint32_t number;                 // and its number, in packed calls
  std::size_t bytes;                    // size of the struct, which begins with struct_size, reserved and flags
  std::size_t form;                     // offset of `const char* form` in it; 0 where the operation has no forms
  std::span<const TensorSlot> tensors;  // inputs first
  std::span<const ScalarSlot> scalars;
  std::size_t packed_bytes, packed_form;  // size of a packed call's numbers; offset of its form's length in them
  // Tells whether a plug-in has the operation's function, and a call of it.
  bool (*answers)(const attest_subject&);
  int (*ask)(const attest_subject&, const void* call, char* message, std::size_t message_size);
  // Returns why a subject is not to be asked it: declined() of core/supports.hpp.
  std::optional<std::string> (*declined)(const void* call, const Supports&, std::span<const Format> dtypes);
};

// The shapes of every operation's calls. Returns nullptr if there is none of that name or number.
std::span<const CallShape* const> call_shapes() noexcept;
const CallShape* find_call_shape(std::string_view op) noexcept;
const CallShape* find_call_shape(std::uint32_t number) noexcept;

// The logical extents of a tensor of a problem's call: 1 along the axes that it lacks.
std::array<Index, 4> extents_of(const TensorSlot& tensor, const Problem& problem) noexcept;

// The shape that belongs to the operation's struct. Each operation declares its own.
template <class Abi>
const CallShape& call_shape() noexcept;

// ---- one call -------------------------------------------------------------------------------------------------------

// One call of some operation: its struct of attest/plugin.h by value, and a description of its members. The memory that
// the struct points to must outlive it.
class Call {
 public:
  template <class Abi>
  requires std::is_trivially_copyable_v<Abi> Call(const Abi& call) : shape_(&call_shape<Abi>()) {
    static_assert(sizeof call <= most_bytes);
    std::memcpy(bytes_, &call, sizeof call);
  }
  // Makes a call with no tensor and every number 0.
  explicit Call(const CallShape& shape);

  [[nodiscard]] const CallShape& shape() const noexcept { return *shape_; }
  [[nodiscard]] const void* data() const noexcept { return bytes_; }
  // The operation's struct. Throws Error(internal) if it is that of another.
  template <class Abi>
  [[nodiscard]] const Abi& as() const {
    require(call_shape<Abi>());
    return *reinterpret_cast<const Abi*>(bytes_);
  }

  [[nodiscard]] const attest_tensor& tensor(const TensorSlot& slot) const noexcept {
    return part<attest_tensor>(slot.at);
  }
  [[nodiscard]] attest_tensor& tensor(const TensorSlot& slot) noexcept { return part<attest_tensor>(slot.at); }
  // The first input.
  [[nodiscard]] const attest_tensor& first() const noexcept { return tensor(shape_->tensors.front()); }

  [[nodiscard]] double real(const ScalarSlot& slot) const noexcept { return part<double>(slot.at); }
  void set_real(const ScalarSlot& slot, double value) noexcept { part<double>(slot.at) = value; }
  // The value of a slot of any kind but `real`; flags and bits are 0 or 1.
  [[nodiscard]] std::int64_t integer(const ScalarSlot& slot) const noexcept;
  void set_integer(const ScalarSlot& slot, std::int64_t value) noexcept;

  [[nodiscard]] const char* form() const noexcept {
    return shape_->form != 0 ? part<const char*>(shape_->form) : nullptr;
  }
  // Says nothing of an operation without forms.
  void set_form(const char* form) noexcept {
    if (shape_->form != 0) part<const char*>(shape_->form) = form;
  }

 private:
  static constexpr std::size_t most_bytes = 1024;
  struct Head {
    std::uint32_t struct_size, reserved;
    std::uint64_t flags;
  };
  template <class T>
  [[nodiscard]] const T& part(std::size_t at) const noexcept {
    return *reinterpret_cast<const T*>(bytes_ + at);
  }
  template <class T>
  [[nodiscard]] T& part(std::size_t at) noexcept {
    return *reinterpret_cast<T*>(bytes_ + at);
  }
  void require(const CallShape& shape) const;

  const CallShape* shape_;
  alignas(16) std::byte bytes_[most_bytes];
};

}  // namespace attest
