#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/layer_norm/inputs.hpp"
#include "core/verdict.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::properties::layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::Inputs;
using attest::layer_norm::Problem;
using attest::layer_norm::Stage;

// Asks the subject once: `out` is what it gives for these inputs, whose shape is the problem's or a part of it.
using Ask = std::function<Tensor(const Problem&, const Inputs&)>;

// A problem, what was promised of it, and its result.
struct Trial {
  const Contract& contract;
  const Problem& problem;
  const Inputs& inputs;
  const Tensor& out;
  const Ask& ask;

  // Another call's result, under a problem that says its shape.
  [[nodiscard]] Tensor asked(const Inputs& other) const { return ask(problem, other); }
  [[nodiscard]] Format operator[](Stage stage) const { return contract.policy[stage]; }
};

enum class Kind : std::uint8_t { exact, bound };

struct Law {
  std::string_view name;
  std::string_view statement;  // the mathematics, one line
  std::string_view doc;
  Kind kind;
  // Why the law does not apply, as far as contract and problem tell.
  std::optional<std::string> (*not_applicable)(const Problem&, const Contract&);
  // May still give skip(reason): what only the inputs show.
  Verdict (*check)(const Trial&);
  bool asks_again = true;  // else it speaks of the call that was made
};

std::span<const Law> laws() noexcept;
const Law* find_law(std::string_view name) noexcept;

// ---- what laws are made of ------------------------------------------------------------------------------------------

// Tells whether a kernel may give NaN, an infinity or anything for this element of `inputs`: then no law speaks of it.
class Open {
 public:
  Open(const Trial& trial, const Inputs& inputs)
      : affine_(trial[Stage::affine]), oracle_(trial.contract, trial.problem, inputs) {}
  [[nodiscard]] bool operator()(Index row, Index column);
  // Tells whether r gamma, where the contract's form makes that first, may be a subnormal number, whose bits a power of
  // two does not keep. `products` asks for its products with x and the mean too.
  [[nodiscard]] bool scale_may_be_subnormal(Index row, Index column, bool products);

 private:
  Format affine_;
  oracle::layer_norm::LayerNormOracle oracle_;
};

// Compares the elements of `out`: expected(row, column) is the required number; nullopt leaves one out.
using Expected = std::function<std::optional<double>(Index row, Index column)>;
Verdict compare_exactly(const Tensor& out, Index rows, Index hidden, const Expected& expected, std::string note);

// A tensor of x or of the weights whose every element is f(row, column, value).
void change(Tensor& matrix, const std::function<double(Index, Index, double)>& f);
void change_weights(Tensor& row, const std::function<double(Index, double)>& f);

// Stride 0 would let one element be several.
bool broadcasts(const Problem& problem) noexcept;

}  // namespace attest::properties::layer_norm
