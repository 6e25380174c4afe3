#include <utility>

#include "core/error.hpp"
#include "generators/mha/domain.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
namespace {

class MhaDomain final : public Domain {
 public:
  MhaDomain(const Supports& supports, std::vector<Format> dtypes) : own_(supports, std::move(dtypes)) {}

  [[nodiscard]] Drawing draw(std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat) const override {
    attest::mha::Drawing drawing = draw_counted(own_, seed, case_number, repeat);
    return {std::move(drawing.problem), drawing.rejected};
  }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept override { return own_.dtypes(); }
  [[nodiscard]] bool narrows(std::string_view field) const noexcept override {
    return attest::mha::Domain::narrows(field);
  }
  void narrow(std::string_view field, Index lo, Index hi) override { own_.narrow(field, lo, hi); }
  void narrow_form(std::string_view form, const std::function<bool(std::string_view)>&) override {
    throw usage_error("mha has no form '" + std::string(form) + "'");
  }
  void assume(std::function<bool(const ops::Problem&)> predicate) override {
    own_.assume([predicate = std::move(predicate)](const Problem& problem) { return predicate(problem); });
  }
  [[nodiscard]] bool accepts(const ops::Problem& problem) const override { return own_.accepts(problem.as<Problem>()); }

 private:
  attest::mha::Domain own_;
};

}  // namespace

std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes) {
  return std::make_unique<MhaDomain>(supports, std::move(dtypes));
}

std::vector<ops::Problem> canaries(const Supports& supports, Format dtype) {
  struct Shape {
    Index tokens, heads, head_dim;
  };
  std::vector<ops::Problem> taken;
  for (const auto& [tokens, heads, head_dim] : {Shape{2, 1, 8}, {5, 2, 8}, {16, 4, 16}, {32, 4, 64}}) {
    Problem p;
    p.dtype = dtype;
    p.heads = p.kv_heads = heads;
    p.head_dim = head_dim;
    p.e = p.q_width();
    p.l = p.m = tokens;
    p.self = true;
    p.weights = attest::mha::Weights::dense;
    p.seed = 0x63616E617279;
    Problem fitted = p;  // memory and biases as the subject takes them
    fit(p, fitted, supports);
    if (!attest::mha::declined(fitted, supports, {&dtype, 1})) taken.emplace_back(fitted);
  }
  return taken;
}

}  // namespace attest::ops::of_mha
