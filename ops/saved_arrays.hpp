#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/npz.hpp"
#include "core/tensor.hpp"
#include "ops/exchange.hpp"

// Arrays of a run made elsewhere, as the tensors of a call.
namespace attest::ops {

// The arrays of one file, found by role.
class SavedArrays {
 public:
  // `names`: the array of each role; a role that is left out is the array of its own name. `what`: "inputs" or
  // "outputs".
  SavedArrays(const std::vector<NamedArray>& arrays, const std::map<std::string, std::string, std::less<>>& names,
              std::string_view what)
      : arrays_(arrays), names_(names), what_(what) {}

  // nullptr if the role is optional, nobody named its array and none has its name. Throws Error(usage) for one that is
  // missing.
  const NamedArray* find(const std::string& role, bool needed);
  // The arrays that no role has, but for `ignored`.
  [[nodiscard]] std::vector<std::string> unused(const std::vector<std::string>& ignored) const;

 private:
  [[nodiscard]] std::string all_names() const;
  const std::vector<NamedArray>& arrays_;
  const std::map<std::string, std::string, std::less<>>& names_;
  std::string_view what_;
  std::set<std::string> used_;
};

// Reads the bits of an array as a policy that has `format` there means them: uint16 is bf16 where bf16 is meant. Throws
// Error(usage) for an array that is of no floating-point type.
NamedArray meant_array(const NamedArray& array, Format format);

// Throws Error(usage) unless the array is of `wanted`, as `of` is.
void require_shape(const NamedArray& array, const std::vector<Index>& wanted, std::string_view of);

// Tells whether every value, NaN aside, is a number of `format`.
bool holds_only(Format format, const NamedArray& array);

// Throws Error(usage) unless the element at `index` ("0,0,3,1") is a number of `format`, which `stage` of the policy
// asks for.
void require_number_of(Format format, std::string_view stage, double x, const NamedArray& array,
                       std::span<const Index> index);

// "x is saved as f32; every value of it is f16, so it is taken as that", of each input that is.
void note_widened(const std::vector<const NamedArray*>& inputs, Format storage, std::vector<std::string>& notes);
// Note that an output is saved in less than the policy's output stage; that arrays of the outputs are judged by nobody.
void note_narrowed(const NamedArray& out, Format stage, std::vector<std::string>& notes);
void note_unjudged(const std::vector<std::string>& unused, const std::vector<NamedArray>& inputs,
                   std::vector<std::string>& notes);

// Throws Error(usage) for an array of the inputs that nothing asks for and that is no result. `roles`: "--bias,
// --keep".
void refuse_unused(const std::vector<std::string>& unused, const std::vector<const NamedArray*>& results,
                   std::string_view roles);

// ---- masks ----------------------------------------------------------------------------------------------------------

// The numbers that are added to scores [B,H,L,S], broadcast to them as NumPy does it: axes from the right, 1 or whole.
// The tensor has the array's own type.
Tensor bias_tensor(const NamedArray& array, Format storage, const std::array<Index, 4>& scores);
// The keys to attend, bool or 0 and 1, broadcast likewise.
Tensor keep_tensor(const NamedArray& array, const std::array<Index, 4>& scores);
// kv_lengths, one in 0..keys a sample.
Tensor lengths_tensor(const NamedArray& array, Index batch, Index keys);

// ---- a saved call as a problem --------------------------------------------------------------------------------------

// Numbers that a reproducer sets by hand. Throws Error(usage) for a call with more.
inline constexpr Index most_saved_numbers = Index{1} << 16;
void require_few_numbers(const std::vector<NamedTensor>& inputs);

// ---- words of the command line --------------------------------------------------------------------------------------

std::map<std::string, std::string, std::less<>> saved_names(const SavedWords& words,
                                                            std::span<const std::string_view> roles);
std::vector<std::string> saved_ignored(const SavedWords& words);
// Calls that differ in whether they are causal, and in the corner where the diagonal begins.
std::vector<OtherCall> calls_by_causality();
// Calls in which an array that is ignored has one of these roles, "keep", each in words: "the mask of open keys".
std::vector<OtherCall> calls_with_ignored(const SavedWords& words,
                                          std::initializer_list<std::pair<std::string_view, std::string_view>> roles);
std::optional<double> saved_real(const SavedWords& words, std::string_view key);
// Tells whether `key` has the second of two words; the first if it is left out.
bool saved_choice(const SavedWords& words, std::string_view key, std::string_view first, std::string_view second);
// A number of at least `lo`.
std::optional<Index> saved_count(const SavedWords& words, std::string_view key, std::uint64_t lo);

}  // namespace attest::ops
