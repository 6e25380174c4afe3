#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "ops/op.hpp"

namespace attest::ops {

// The domain of one operation, of type Own in generators/ with a draw_counted() beside it, as the engine asks it. `op`:
// its name.
template <class Own>
class DomainOf final : public Domain {
 public:
  template <class Supports>
  DomainOf(std::string_view op, const Supports& supports, std::vector<Format> dtypes)
      : op_(op), own_(supports, std::move(dtypes)) {}

  [[nodiscard]] Drawing draw(std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat) const override {
    auto drawing = draw_counted(own_, seed, case_number, repeat);
    return {std::move(drawing.problem), drawing.rejected};
  }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept override { return own_.dtypes(); }
  [[nodiscard]] bool narrows(std::string_view field) const noexcept override { return Own::narrows(field); }
  void narrow(std::string_view field, Index lo, Index hi) override { own_.narrow(field, lo, hi); }
  void narrow_form(std::string_view form, const std::function<bool(std::string_view)>& keeps) override {
    if constexpr (requires { own_.narrow_form(form, keeps); })
      own_.narrow_form(form, keeps);
    else
      throw usage_error(fmt::format("{} has no form '{}'", op_, form));
  }
  void draw_sizes(SizeRegime sizes) override { own_.draw_sizes(sizes); }
  [[nodiscard]] bool has_forms() const noexcept override {
    return requires(Own own) { own.say_form_where("", "", nullptr); };
  }
  void say_form_where(std::string_view form, std::string_view value,
                      std::function<bool(const Problem&)> says) override {
    if constexpr (requires { own_.say_form_where(form, value, nullptr); })
      own_.say_form_where(form, value, [says = std::move(says)](const OwnProblem& problem) { return says(problem); });
  }
  void assume(std::function<bool(const Problem&)> predicate) override {
    own_.assume([predicate = std::move(predicate)](const OwnProblem& problem) { return says(predicate, problem); });
  }
  void assume_of_shape(std::function<bool(const Problem&)> predicate) override {
    if constexpr (requires { own_.assume_of_shape(nullptr); })
      own_.assume_of_shape(
          [predicate = std::move(predicate)](const OwnProblem& problem) { return says(predicate, problem); });
  }
  void assume_work(double least, double most) override {
    if constexpr (requires { own_.assume_work(least, most); }) own_.assume_work(least, most);
  }
  [[nodiscard]] bool accepts(const Problem& problem) const override { return own_.accepts(problem.as<OwnProblem>()); }
  [[nodiscard]] const Own& own() const noexcept { return own_; }

 private:
  using OwnProblem = decltype(draw_counted(std::declval<const Own&>(), 0, 0, 1).problem);

  // Evaluates a predicate on a copy that is kept from draw to draw: one problem may cost hundreds of rejected draws.
  static bool says(const std::function<bool(const Problem&)>& predicate, const OwnProblem& problem) {
    thread_local Problem kept{OwnProblem{}};
    kept.as<OwnProblem>() = problem;
    return predicate(kept);
  }

  std::string_view op_;
  Own own_;
};

}  // namespace attest::ops
