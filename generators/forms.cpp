#include "generators/forms.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace attest {
namespace {

// Brings along the values that chosen values need, as far as they may be drawn. Then values that this problem cannot be
// expressed in go back to the first, which takes others with them.
void settle_forms(Problem& problem, const Domain& domain) {
  const std::vector<FormOffer>& offers = domain.supports().forms;
  for (const FormOffer& offer : offers)
    for (const FormRule& rule : offer.rules) {
      if (rule.value != form_value(offer, problem.forms)) continue;
      for (const FormChoice& need : rule.needs) {
        const FormOffer& other = *std::ranges::find(offers, need.name, &FormOffer::name);
        const std::vector<std::string>& values = domain.values_of(other);
        if (std::ranges::find(values, need.value) != values.end()) set_form(problem.forms, other, need.value);
      }
    }
  const auto goes_back = [&](const FormOffer& offer) {
    const std::string& first = offer.values.front();
    return form_value(offer, problem.forms) != first && domain.values_of(offer).front() == first &&
           !domain.may_say(offer, problem);
  };
  for (auto offer = std::ranges::find_if(offers, goes_back); offer != offers.end();
       offer = std::ranges::find_if(offers, goes_back))
    set_form(problem.forms, *offer, offer->values.front());
}

}  // namespace

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
  settle_forms(problem, domain);
}

}  // namespace attest
