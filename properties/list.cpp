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
Property lone_key();
Property policy_bound();
Property fused_equals_explicit();
Property batch_bounded();
Property layout();
Property scale_moved();
Property hull();
Property constant_value();
Property window_mask();
Property length_mask();
Property causal_truncated();
Property last_query();
Property heads_expanded();
Property duplicated_columns();
Property pad_width();
Property pad_keys();
Property key_permutation();
Property score_shift();
Property value_linearity();
Property log_sum_exp();
Property split_merge();
Property other_form();
Property other_queries();
Property other_keys();
Property other_values();
Property other_masks();
Property ensemble_error();
Property compare_bound();
Property compare_bits();

std::span<const Property> all_laws() noexcept {
  // The laws in the order in which a failing case is reported.
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
      lone_key(),        // exact, where the bound permits more: its evidence has an interval and a certificate
      fused_equals_explicit(),
      batch_bounded(),
      layout(),
      scale_moved(),
      hull(),
      constant_value(),
      window_mask(),
      length_mask(),
      causal_truncated(),
      last_query(),
      heads_expanded(),
      duplicated_columns(),
      pad_width(),
      pad_keys(),
      key_permutation(),
      score_shift(),
      value_linearity(),
      log_sum_exp(),
      split_merge(),
      other_form(),
      other_queries(),
      other_keys(),
      other_values(),
      other_masks(),     // over several problems
      ensemble_error(),  // as a rule
      compare_bound(),
      compare_bits(),  // a law of two subjects
  };
  return all;
}

std::span<const Property> properties() noexcept {
  constexpr std::size_t of_two_subjects = 2;  // the last ones above
  return all_laws().first(all_laws().size() - of_two_subjects);
}

const Property* find_property(std::string_view name) noexcept {
  const auto all = all_laws();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Property& law) { return law.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string_view name(Kind kind) noexcept {
  constexpr std::string_view names[] = {"guard", "exact", "bound", "statistical"};
  return names[static_cast<int>(kind)];
}

}  // namespace attest::properties
