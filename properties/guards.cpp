// guards: a call writes every element of out and lse, nothing beside them, and none of its inputs.
//
// Guard bytes lie before and after each output and between its rows where strides leave gaps; every element holds a
// poison NaN before the call. Applies always. Every call of every law is watched in the same way: this law reports the
// base call.
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check_guards(Trial& trial) {
  const Result& base = trial.base();
  if (base.violation) return Verdict::fail(*base.violation);
  return Verdict::pass({.judged = base.out.size() + base.lse.size()});
}

}  // namespace

Property guards() {
  return {"guards",
          "writes(call) = elements of out and lse",
          "every output element is written, no byte around the outputs is, and no input is modified",
          Kind::guard,
          always,
          check_guards,
          Asks::base_call};
}

}  // namespace attest::properties
