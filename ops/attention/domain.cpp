#include "generators/domain.hpp"

#include <utility>

#include "core/error.hpp"
#include "generators/draw.hpp"
#include "ops/attention.hpp"
#include "ops/attention/parts.hpp"
#include "ops/domain.hpp"

namespace attest::ops {
namespace of_attention {

using AttentionDomain = DomainOf<attest::Domain>;

std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes) {
  return std::make_unique<AttentionDomain>("attention", supports, std::move(dtypes));
}

}  // namespace of_attention

const attest::Domain& attention_domain(const Domain& domain) {
  const auto* own = dynamic_cast<const of_attention::AttentionDomain*>(&domain);
  if (own == nullptr) throw internal_error("a domain of another operation was taken for attention's");
  return own->own();
}

}  // namespace attest::ops
