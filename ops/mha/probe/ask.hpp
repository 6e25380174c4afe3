#pragma once
#include <optional>

#include "core/mha/offer.hpp"
#include "core/mha/problem.hpp"
#include "ops/attention/probe/ask.hpp"
#include "ops/probe/shown.hpp"

// Makes the problems of the blocks' probes.
namespace attest::ops::of_mha {

using attest::mha::Contract;
using attest::mha::Edit;
using attest::mha::Policy;
using attest::mha::Problem;
using attest::mha::Supports;

// Blocks of zeros, in sizes that the subject takes.
class BlockMaker {
 public:
  BlockMaker(const Supports& supports, Format dtype) : supports_(supports), dtype_(dtype) {}

  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }
  [[nodiscard]] Format dtype() const noexcept { return dtype_; }
  // Tells whether memory is another tensor than x, where it may be.
  [[nodiscard]] bool crosses() const noexcept { return supports_.cross; }

  struct Shape {
    Index b = 1, l = 1, m = 1;
    Index heads = 1, kv_heads = 1, head_dim = 1;
    Index e = 1;  // at least
  };
  // A problem with at least these numbers of samples, tokens and elements of a head. Where e takes them, heads of the
  // same groups stand behind those asked for. x has as many tokens as memory where one is the other. Returns nullopt
  // where the subject takes no such problem.
  [[nodiscard]] std::optional<Problem> blank(Shape shape) const;
  // The least of both dimensions that there are.
  [[nodiscard]] Index even_tokens(Index least) const;

 private:
  const Supports& supports_;
  Format dtype_;
};

void set(Problem& problem, Edit::Tensor tensor, std::array<Index, 4> index, double value);
// Sets an element of memory, which may be x.
void set_memory(Problem& problem, Index token, Index column, double value);

// The options of attention that a subject of blocks takes in the middle.
attest::Supports attention_within(const Supports& supports);

// A problem of attention as a block: q, k and v are columns of tokens, which one-hot rows of the weights pick; each
// column of a head goes to its own of out. No product has more than one term, so that the block gives what its
// attention does.
class Heart final : public of_attention::Way {
 public:
  explicit Heart(const BlockMaker& maker) : maker_(maker) {}
  [[nodiscard]] std::optional<ops::Problem> said(const attest::Problem& problem) const override;
  [[nodiscard]] probing::Place place(const attest::Problem& problem, const probing::Place& index) const override;

 private:
  const BlockMaker& maker_;
};

}  // namespace attest::ops::of_mha
