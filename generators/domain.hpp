#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/subject.hpp"
#include "generators/models.hpp"

namespace attest {

// lo, lo + multiple, ... up to hi. Labels and flags are ranges of their index.
struct Range {
  Index lo = 0, hi = 0;
  Index multiple = 1;

  [[nodiscard]] constexpr bool contains(Index x) const noexcept { return lo <= x && x <= hi && x % multiple == 0; }
  // The largest member not above x, or lo.
  [[nodiscard]] constexpr Index floor(Index x) const noexcept {
    if (x <= lo) return lo;
    if (x > hi) x = hi;
    return x - x % multiple;
  }
  [[nodiscard]] constexpr bool empty() const noexcept { return lo > hi; }
};
// The numbers in both; maybe empty.
Range intersect(Range a, Range b) noexcept;

// The problems that may be drawn. Every problem drawn from a domain is valid and supported by construction; only a
// predicate given to assume() filters.
class Domain : public Sized {
 public:
  // The attention domain of a subject that supports `supports`, in storage formats `dtypes`, each
  // drawn equally often. Throws Error(usage) if that leaves no problem at all.
  Domain(const Supports& supports, std::vector<Format> dtypes);

  // Keeps lo..hi of a drawn integer, label or flag field (labels by index). Throws Error(usage) if
  // the field is none of these, or if nothing is left.
  void narrow(std::string_view field, Index lo, Index hi);

  // Keeps those values of a form for which `keeps` holds. Throws Error(usage) if there is no such form, or if none is
  // left.
  void narrow_form(std::string_view form, const std::function<bool(std::string_view)>& keeps);
  // The values of an offered form that may be drawn, in its order.
  [[nodiscard]] const std::vector<std::string>& values_of(const FormOffer& offer) const;

  // Draws that value of a form only where `says` holds of the problem: its FormRule::where. Throws Error(usage) if
  // there is no such form.
  void say_form_where(std::string_view form, std::string_view value, std::function<bool(const Problem&)> says);
  // Tells whether the problem may be drawn with its value of this form: the values that it needs are there, and its
  // `where` holds.
  [[nodiscard]] bool may_say(const FormOffer& offer, const Problem& problem) const;

  // Tells whether narrow() takes this field.
  [[nodiscard]] static bool narrows(std::string_view field) noexcept;

  // Draws again until `predicate` holds: for what narrow() cannot say. Several must all hold.
  void assume(std::function<bool(const Problem&)> predicate);
  [[nodiscard]] bool accepts(const Problem& problem) const;
  // Sets the part of accepts() that extents and dtype alone decide, so that a draw may end once these are known. It
  // must hold for every problem that all predicates accept.
  void assume_of_shape(std::function<bool(const Problem&)> predicate) { of_shape_ = std::move(predicate); }
  [[nodiscard]] bool may_accept_shape(const Problem& problem) const { return !of_shape_ || of_shape_(problem); }

  // Declares that the predicates turn away every problem of fewer than `least` multiply-adds, or of more than `most`. A
  // draw may then end before the predicates are asked, once its work or the largest work it can have is known.
  void assume_work(double least, double most) { least_work_ = least, most_work_ = most; }
  [[nodiscard]] bool may_accept_work(Index most) const noexcept { return static_cast<double>(most) >= least_work_; }
  [[nodiscard]] bool may_accept_work_of(const Problem& p) const noexcept {
    const double work = static_cast<double>(p.b) * static_cast<double>(p.hq) * static_cast<double>(p.lq) *
                        static_cast<double>(p.lk) * static_cast<double>(p.d + p.dv);
    return least_work_ <= work && work <= most_work_;
  }

  // Returns the range of a drawn field: range<&Problem::keep>(). Dimensions include 0 only where the subject's smallest
  // is 0.
  [[nodiscard]] const Range& range(const Field& field) const noexcept { return ranges_[position(field)]; }
  template <auto Member>
  [[nodiscard]] const Range& range() const noexcept {
    return range(field_of<Member>());
  }
  [[nodiscard]] const Supports& supports() const noexcept { return supports_; }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept { return dtypes_; }

  // Tells whether a tensor of this format may lie so, by the strides and the alignment that the subject
  // asks for. Broadcasts are for inputs only.
  [[nodiscard]] bool allows(Layout layout, Format dtype) const noexcept {
    return allowed_[static_cast<std::size_t>(dtype)] >> static_cast<unsigned>(layout) & 1;
  }
  // Tells whether the subject takes such a bias beside q, k and v of this format. A type that equals `same` there is
  // not offered.
  [[nodiscard]] bool offers(BiasType type, Format dtype) const;
  // The ranges of d and dv for one of dtypes(): rows of a contiguous tensor keep the alignment
  // that the subject asks for.
  struct Widths {
    Range d, dv;
  };
  [[nodiscard]] const Widths& widths(Format dtype) const noexcept { return widths_[static_cast<std::size_t>(dtype)]; }

 private:
  [[nodiscard]] Range width(Range range, Format dtype) const;
  [[nodiscard]] bool permits(Layout layout, Format dtype) const;
  Range& of(const Field& field) noexcept { return ranges_[position(field)]; }
  template <auto Member>
  Range& of() noexcept {
    return of(field_of<Member>());
  }
  void settle();
  void check() const;

  Supports supports_;
  std::vector<Format> dtypes_;
  std::vector<Range> ranges_;  // one at each field's position
  std::array<Widths, format_count> widths_;
  std::array<std::uint32_t, format_count> allowed_{};  // layouts, by bit
  std::vector<FormOffer> forms_;                       // the rest of those that the subject has
  struct Says {
    std::string form, value;
    std::function<bool(const Problem&)> says;
  };
  std::vector<Says> where_;
  std::vector<std::function<bool(const Problem&)>> predicates_;
  std::function<bool(const Problem&)> of_shape_;
  double least_work_ = 0, most_work_ = std::numeric_limits<double>::infinity();
};

}  // namespace attest
