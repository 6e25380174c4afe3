#include "engine/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "engine/restated.hpp"

namespace attest::engine {
Compared compared(const Op& op, std::unique_ptr<SubjectFactory> a, std::unique_ptr<SubjectFactory> b,
                  const std::optional<Policy>& policy) {
  const SubjectInfo &of_a = a->info(), &of_b = b->info();
  for (const SubjectInfo* info : {&of_a, &of_b})
    if (!op.offered(*info)) throw usage_error(fmt::format("{} does not offer the operation {}", info->name, op.name()));
  std::vector<Format> dtypes;
  for (const Format dtype : op.dtypes(of_a))
    if (std::ranges::count(op.dtypes(of_b), dtype) > 0) dtypes.push_back(dtype);
  if (dtypes.empty())
    throw usage_error(fmt::format("{} and {} have no dtype in common: the one offers {}, the other {}", of_a.name,
                                  of_b.name, names_of(op.dtypes(of_a)), names_of(op.dtypes(of_b))));
  if (policy && std::ranges::count(dtypes, storage_of(*policy)) == 0)
    throw usage_error(fmt::format("--policy stores {}, which {} and {} do not both offer", name(storage_of(*policy)),
                                  of_a.name, of_b.name));
  auto [info_a, info_b] = op.narrowed_to_both(of_a, of_b, dtypes, policy);
  return {restated(std::move(a), std::move(info_a)), restated(std::move(b), std::move(info_b))};
}

}  // namespace attest::engine
