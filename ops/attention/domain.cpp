#include "generators/domain.hpp"

#include <utility>

#include "core/error.hpp"
#include "generators/draw.hpp"
#include "ops/attention.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops {
namespace of_attention {
namespace {

class AttentionDomain final : public Domain {
 public:
  AttentionDomain(const Supports& supports, std::vector<Format> dtypes) : own_(supports, std::move(dtypes)) {}

  [[nodiscard]] Drawing draw(std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat) const override {
    attest::Drawing drawing = draw_counted(own_, seed, case_number, repeat);
    return {std::move(drawing.problem), drawing.rejected};
  }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept override { return own_.dtypes(); }
  [[nodiscard]] bool narrows(std::string_view field) const noexcept override { return attest::Domain::narrows(field); }
  void narrow(std::string_view field, Index lo, Index hi) override { own_.narrow(field, lo, hi); }
  void narrow_form(std::string_view form, const std::function<bool(std::string_view)>& keeps) override {
    own_.narrow_form(form, keeps);
  }
  void assume(std::function<bool(const ops::Problem&)> predicate) override {
    own_.assume([predicate = std::move(predicate)](const Problem& problem) { return predicate(problem); });
  }
  [[nodiscard]] bool accepts(const ops::Problem& problem) const override { return own_.accepts(problem.as<Problem>()); }
  [[nodiscard]] const attest::Domain& own() const noexcept { return own_; }

 private:
  attest::Domain own_;
};

}  // namespace

std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes) {
  return std::make_unique<AttentionDomain>(supports, std::move(dtypes));
}

}  // namespace of_attention

const attest::Domain& attention_domain(const Domain& domain) {
  const auto* own = dynamic_cast<const of_attention::AttentionDomain*>(&domain);
  if (own == nullptr) throw internal_error("a domain of another operation was taken for attention's");
  return own->own();
}

}  // namespace attest::ops
