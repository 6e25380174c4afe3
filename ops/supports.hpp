#pragma once
#include <string>
#include <vector>

#include "core/forms.hpp"
#include "core/layer_norm/offer.hpp"
#include "core/mha/offer.hpp"
#include "core/subject.hpp"

namespace attest::ops {

// The calls that a subject takes, for every operation.
struct Supports {
  attest::Supports attention;
  layer_norm::Supports layer_norm;
  mha::Supports mha;

  Supports() = default;
  // Whatever stages there are to give, and all else as a subject that says nothing.
  static Supports giving_every_stage() {
    Supports all;
    all.attention.stages = {"scores", "weights"};
    all.mha.stage_q = all.mha.stage_k = all.mha.stage_v = all.mha.stage_heads = true;
    return all;
  }
  Supports(attest::Supports of_attention) : attention(std::move(of_attention)) {}
  Supports(const SubjectInfo& info) : attention(info.supports) {
    if (info.layer_norm) layer_norm = info.layer_norm->supports;
    if (info.mha) mha = info.mha->supports;
  }

  // The forms of its calls, in the order in which it declared them.
  [[nodiscard]] const std::vector<FormOffer>& forms() const noexcept { return attention.forms; }
  // The predicate of the problems that are drawn, of the operation that has forms; empty: all.
  [[nodiscard]] const std::string& drawn() const noexcept { return attention.drawn; }
};

}  // namespace attest::ops
