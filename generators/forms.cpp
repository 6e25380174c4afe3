#include "generators/forms.hpp"

#include <span>
#include <string>
#include <vector>

namespace attest {

void draw_forms(Problem& problem, const Domain& domain, Source& source) {
  const std::vector<FormOffer>& offers = domain.supports().forms;
  const bool plain = !offers.empty() && source.chance(1, 4);
  for (const FormOffer& offer : offers) {
    const std::vector<std::string>& others = domain.values_of(offer);
    const bool first = others.front() == offer.values.front();
    if (first && (plain || others.size() == 1 || source.chance(1, 2))) continue;
    const std::span<const std::string> rest = std::span<const std::string>(others).subspan(first ? 1 : 0);
    set_form(problem.forms, offer, source.pick(rest));
  }
}

}  // namespace attest
