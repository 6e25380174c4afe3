#include <algorithm>
#include <iterator>

#include "properties/property.hpp"

namespace attest::properties {

Property guards();
Property result_class();
Property repeat();
Property threads();
Property kept_state();
Property batch_values();
Property batch_bitwise();
Property masked_contents();
Property nonfinite_masked();
Property nonfinite_attended();
Property causal_prefix();
Property value_sign();
Property value_power();
Property qk_sign();
Property qk_flip();
Property scale_power();
Property single_key();
Property mean();
Property hard_selection();
Property policy_bound();
Property fused_equals_explicit();
Property batch_bounded();
Property layout();
Property scale_moved();

std::span<const Property> properties() noexcept {
  // In the order in which a failing case is reported.
  static const Property all[] = {
      guards(),
      result_class(),  // memory and class
      repeat(),
      threads(),
      kept_state(),
      batch_values(),
      batch_bitwise(),  // exact, no reference
      masked_contents(),
      nonfinite_masked(),
      nonfinite_attended(),
      causal_prefix(),
      value_sign(),
      value_power(),
      qk_sign(),
      qk_flip(),
      scale_power(),
      single_key(),
      mean(),
      hard_selection(),  // exact
      policy_bound(),    // against the oracle
      fused_equals_explicit(),
      batch_bounded(),
      layout(),
      scale_moved(),  // over several problems
  };
  return all;
}

const Property* find_property(std::string_view name) noexcept {
  const auto all = properties();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Property& law) { return law.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string_view name(Kind kind) noexcept {
  constexpr std::string_view names[] = {"guard", "exact", "bound"};
  return names[static_cast<int>(kind)];
}

}  // namespace attest::properties
