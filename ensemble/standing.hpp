#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/format.hpp"

namespace attest::ensemble {

// Elements of one result, and conforming kernels to hold it against.
struct Sample {
  std::vector<long double> exact;                   // the exact value of each element; not finite: it has none
  std::vector<double> got;                          // the results
  std::vector<std::array<std::int64_t, 4>> places;  // the index of each
  Format format = Format::f32;                      // the output's
  std::function<std::vector<double>()>
      native;  // a built-in kernel's results, asked before the members; it may give none
  std::function<std::vector<double>(int n)> member;  // results of member n
  std::function<std::string(int n)> scheme;          // its scheme in words
};

// The largest R of a conforming result (docs/bounds.md, "The ensemble").
inline constexpr double largest_r = 1.3;
// The place of a result among the members asked so far. Elements count that are finite in the exact result, in what was
// returned and in all members.
//   R = rms(got - y) / max(floor, max_k rms(out_k - y)), floor = rms(ulp(y) / sqrt 12) (1 + 2.5 / sqrt n)
class Standing {
 public:
  explicit Standing(Sample sample);

  // Asks members one by one, until R is at most `largest_r` or `most` members were asked in all. True if R is above it.
  bool among(int most);

  [[nodiscard]] std::size_t elements() const noexcept { return count_; }
  [[nodiscard]] int members() const noexcept { return asked_; }
  [[nodiscard]] double r() const;
  // The element whose error is farthest beyond those of the members: the largest |got - y| / (max_k |out_k - y| +
  // ulp(y)).
  struct Element {
    std::array<std::int64_t, 4> place{};
    double got = 0, exact = 0;
    double member = 0;  // the largest error of members there
  };
  [[nodiscard]] Element worst() const;
  // The scheme of the member whose results lie nearest to what was returned.
  [[nodiscard]] std::string nearest() const;

 private:
  struct Member {
    std::vector<double> errors;
    long double squares = 0;  // over elements that count
    long double apart = 0;    // squares of its distances to the results
  };
  void add(const std::vector<double>& results);
  void count();
  [[nodiscard]] double beyond(std::size_t i) const;

  Sample sample_;
  std::vector<char> counts_;
  std::vector<double> own_, ulp_, largest_;  // errors of what was returned, and of the members
  std::vector<Member> members_;              // the built-in kernel's first, if there is one
  bool native_ = false;                      // there is
  std::size_t count_ = 0;
  long double squares_ = 0, floor_ = 0;  // sums of squares; the floor's as if it were a member's
  int asked_ = 0;
};

}  // namespace attest::ensemble
