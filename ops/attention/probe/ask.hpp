#pragma once
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"
#include "ops/probe/shown.hpp"

// Makes the problems of attention's probes, which consist of a few literal elements, and computes their results.
namespace attest::ops::of_attention {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline double two_to(int exponent) { return std::ldexp(1.0, exponent); }

using attest::Contract;
using attest::Policy;
using attest::Problem;
using attest::Supports;

// The way in which a problem of attention is put to a subject: as it is, or as the heart of a larger operation's.
class Way {
 public:
  Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;
  virtual ~Way() = default;

  // nullopt where the subject takes none that stands for it.
  [[nodiscard]] virtual std::optional<ops::Problem> said(const Problem& problem) const = 0;
  // The place of an element of out [b,hq,lq,dv] in the result of that call.
  [[nodiscard]] virtual probing::Place place(const Problem& problem, const probing::Place& index) const = 0;
};
const Way& as_it_is();

// One call and its result, told in the problem of attention that it was made for.
class Shown : public probing::Shown {
 public:
  Shown(probing::Shown shown, Problem problem, const Way& way)
      : probing::Shown(std::move(shown)), own_(std::move(problem)), way_(&way) {}

  [[nodiscard]] const Problem& own() const noexcept { return own_; }
  [[nodiscard]] double out(Index column = 0, Index row = 0, Index head = 0, Index batch = 0) const {
    return at(way_->place(own_, {batch, head, row, column}));
  }
  [[nodiscard]] double lse(Index row = 0) const { return at({0, 0, row, 0}, "lse"); }

 private:
  Problem own_;
  const Way* way_;
};

// Problems that are 0 everywhere but for literal elements, in sizes that the subject takes.
class Maker {
 public:
  // The least numbers of rows, heads and samples, where the subject takes them. A question is asked of the first of
  // each.
  struct Size {
    Index rows = 1, heads = 1, samples = 1;
    std::vector<FormChoice> forms{};
  };
  Maker(const Supports& supports, Format dtype, Size size)
      : supports_(supports), dtype_(dtype), size_(std::move(size)) {}
  Maker(const Supports& supports, Format dtype) : Maker(supports, dtype, Size()) {}
  // Makes problems with the options and sizes of a drawn problem, whatever is asked for. It must outlive the maker.
  Maker(const Supports& supports, const Problem& drawn) : supports_(supports), dtype_(drawn.dtype), drawn_(&drawn) {}

  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }
  [[nodiscard]] Format dtype() const noexcept { return dtype_; }

  // Sizes at least these, or the nearest there are; q, k and v 0.
  [[nodiscard]] Problem blank(Index lq, Index lk, Index d, Index dv) const;
  // The same with an even number of keys and a scale that is a power of two: 1, or the default one where the subject
  // takes no other. Returns nullopt where it takes neither. From a drawn problem: any number of keys, and the default
  // scale, whatever it is, where the subject takes no other; nullopt if it has fewer keys or a smaller d.
  [[nodiscard]] std::optional<Problem> paired(Index lk, Index d) const;

 private:
  [[nodiscard]] Problem as_drawn() const;

  const Supports& supports_;
  Format dtype_;
  Size size_;
  const Problem* drawn_ = nullptr;
};

// ---- literal elements
void set_q(Problem& problem, Index row, Index column, double value);
// Sets the element of every key j of head 0 with j % 2 == parity. An even number of keys answers as two keys do.
void set_keys(Problem& problem, Index parity, Index column, double value);
void set_values(Problem& problem, Index parity, double value);
void set(Problem& problem, Edit::Tensor tensor, std::array<Index, 4> index, double value);

double logistic(double x) noexcept;
// ln(p / (1 - p)).
double logit(double p) noexcept;

}  // namespace attest::ops::of_attention
