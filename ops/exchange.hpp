#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/call.hpp"
#include "core/npz.hpp"
#include "core/subject.hpp"
#include "core/tensor.hpp"
#include "core/verdict.hpp"
#include "graph/program.hpp"
#include "ops/problem.hpp"
#include "oracle/oracle.hpp"
#include "oracle/outcome.hpp"

// One call of an operation with its tensors, and its results: this is exported, judged, bounded.
namespace attest::ops {

struct Law;

struct NamedTensor {
  std::string_view name;
  const Tensor* tensor;
};

// The values that a kernel that keeps its contract may return for one element of an output, and the value that is
// there.
struct Permitted {
  std::string_view tensor;
  std::array<Index, 4> index{};
  double y = 0;               // the float64 reference
  double lo = 0, hi = 0;      // range of finite values, rounded to the tensor's type; the others lie within
  bool number = true;         // false: nothing but NaN, or nothing finite, is right
  bool nonfinite = false;     // NaN and infinities are permitted
  bool undetermined = false;  // any finite value is
  bool wide = false;          // all that the operation can give lies between
  oracle::Outcome outcome = oracle::Outcome::undetermined;  // judges the value that is there
  std::optional<Evidence> evidence{};                       // where that is outside
};

// The values that an enclosure permits after rounding; no value is there yet. `besides`: single values that are
// permitted, too.
Permitted permitted_by(const oracle::Enclosure& enclosure, const oracle::Rounding& round, std::string_view tensor,
                       const std::array<Index, 4>& index, std::span<const double> besides = {});
// `got` stands there, with this outcome.
void put(Permitted& permitted, double got, oracle::Outcome outcome, const oracle::Enclosure& enclosure,
         const oracle::Rounding& round);

class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  // The problem of the call. For a call that was saved elsewhere it has the shape, dtype and options; the values are
  // those of inputs(), not drawn.
  [[nodiscard]] virtual const Problem& problem() const noexcept = 0;
  // The inputs that are there, in the order of the call. Outputs are poisoned until something is written there.
  [[nodiscard]] virtual std::vector<NamedTensor> inputs() const = 0;
  [[nodiscard]] virtual std::vector<NamedTensor> outputs() const = 0;
  // The numbers that the call says besides, by name.
  [[nodiscard]] virtual std::vector<std::pair<std::string_view, double>> numbers() const = 0;
  // The call; it points into this object.
  [[nodiscard]] virtual Call call() const = 0;
  // Makes the call ask for the other outputs that the law looks at, if the subject gives them: stages on the way, which
  // are outputs from then on. Returns false if there are none.
  virtual bool ask_for(const Law&, const Contract&, const SubjectInfo&) { return false; }

  // Tells whether a kernel that keeps the contract could have returned the outputs as they are: the law policy-bound.
  [[nodiscard]] virtual Verdict judge(const Contract& contract) = 0;
  // One element of an output. Throws Error(internal) for an output that is not there.
  [[nodiscard]] virtual Permitted element(const Contract& contract, std::string_view output,
                                          const std::array<Index, 4>& index) = 0;
  // The rows that are judged, and all that there are.
  struct Walked {
    Index rows = 0, all_rows = 0;
  };
  [[nodiscard]] virtual Walked judged() const = 0;
  // Goes over the elements of all outputs, row by row: the judged rows, or as many of them, spread evenly, as cost no
  // more than `work`, though 64 at least. Work is as Op::work has it.
  using Visit = std::function<void(const Permitted&)>;
  virtual Walked walk(const Contract& contract, Index work, const Visit& visit) = 0;
  // The same of each stage on the way that a kernel may give, in the order in which they are computed, whatever it gave
  // of the others. Nothing where the operation has none.
  virtual void walk_stages(const Contract&, Index /*work*/, const Visit&) {}

  // Asks the subject the same call, and holds what it gives against the outputs that are here, of a kernel that
  // promises `saved`, as the law compare-bound does and, where `bits`, behind it compare-bits; `its`: the subject's
  // promise. `saved_first`: A is what is here. Throws properties::CallFailed, what materialising throws, and
  // Error(usage) where the operation has none.
  virtual Verdict against(const Contract& saved, Subject& subject, const Contract& its, bool saved_first,
                          bool bits) = 0;
};

// The facts about a call that its saved tensors do not tell, as a command line states them.
struct SavedWords {
  std::function<std::optional<std::string>(std::string_view key)> text;
  std::function<bool(std::string_view key)> flag;
  std::function<std::string(std::string_view key)> origin;  // "--scale"
  // Throws Error(usage) for what is no integer between the two.
  std::function<std::optional<std::uint64_t>(std::string_view key, std::uint64_t lo, std::uint64_t hi)> integer;
  bool answered =
      true;  // false: inputs alone were saved, so that there are no outputs to find; those of the call hold nothing
};
struct SavedWord {
  std::string_view key, value, help;  // no value: a flag
};

// Another call that the same tensors may be of: the values of these words in place of the given ones; nullopt leaves a
// word out.
struct OtherCall {
  std::string words;  // "the call is causal"
  std::vector<std::pair<std::string, std::optional<std::string>>> said;
};

// A call made elsewhere, and what was read otherwise than it stands there: one sentence each.
struct SavedCall {
  std::unique_ptr<Exchange> exchange;
  std::vector<std::string> notes;
};

// Python that computes what the call should have given, in float64, from its inputs and numbers by name; NumPy is `np`.
struct PythonReference {
  std::string code;  // leaves the first output in `expected`
  // Outputs that it starts from, as the kernel gave them: NAME as given_NAME.
  std::vector<NamedTensor> given{};
  // Code for another output, by its name: it leaves the output in a variable of that name. Empty where there is none.
  std::function<std::string(std::string_view output)> further{};
};

// A call as a graph of ONNX operators with its inputs.
struct NamedGraph {
  std::string name;
  graph::Model model;
  graph::Feeds feeds;
};

}  // namespace attest::ops
