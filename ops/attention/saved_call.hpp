#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "core/npz.hpp"
#include "ops/exchange.hpp"

namespace attest::ops::of_attention {

// The facts about a call that its saved tensors do not tell.
struct SavedCallOptions {
  attest::Policy policy;
  // Array of each role; a role that is left out is the array of its own name. Roles: q, k, v, bias, keep, kv_lengths,
  // out, lse. q, k, v and, of a call that was answered, out must be there.
  std::map<std::string, std::string, std::less<>> names;
  std::vector<std::string> ignored;                 // arrays of the inputs that say nothing of this call
  std::set<std::string, std::less<>> heads_inside;  // those of q, k, v and out that lie as [B,L,H,D], not [B,H,L,D]
  std::optional<Index> heads, kv_heads;             // for arrays [B,L,H*D], which heads_inside permits
  bool interleaved = false;                         // head h reads key/value head h % kv_heads, not h / group
  std::optional<double> scale;                      // absent: 1/sqrt(D)
  double softcap = 0;
  bool causal = false;
  Align align = Align::top_left;
  Index window_left = -1, window_right = -1;
  Index rows = 0;        // as Problem::rows
  bool answered = true;  // as SavedWords::answered
};

// A call made elsewhere, as the oracle takes it.
struct SavedTensors {
  attest::Problem problem;  // dims, dtype and options; its values are those of `inputs`, not drawn
  Inputs inputs;
  Tensor out, lse;                 // lse absent if none was saved
  std::vector<std::string> notes;  // say what was read in another way than it was saved: one sentence each
};

// Finds the arrays by name, checks their shapes against each other and brings them to the policy's storage format: an
// array of another type must hold values of that format alone (a half saved as float32 is one), uint16 is bf16 under a
// bf16 policy. bias and keep may have fewer axes and axes of 1, as NumPy broadcasts. Throws Error(usage): one sentence
// for a name that is missing, an input that nothing asks for, a shape that does not fit or a value that the format does
// not have.
SavedTensors saved_tensors(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                           const SavedCallOptions& options);

// The same as a call to judge.
SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                     const SavedCallOptions& options);

// The same as Op::saved_problem(): the whole call.
attest::Problem saved_problem(const Exchange& saved, const std::filesystem::path& folder);

// The options as a command line says them: --q NAME, --layout, --scale, --causal, ... Throws Error(usage).
SavedCallOptions saved_call_options(const SavedWords& words, const attest::Policy& policy);
const std::vector<SavedWord>& saved_words();
std::vector<OtherCall> other_calls(const SavedWords& words);

}  // namespace attest::ops::of_attention
