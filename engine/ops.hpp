#pragma once
#include "ops/op.hpp"

// Problems, policies and contracts here are those of any operation.
namespace attest::engine {

using ops::all_laws;
using ops::all_ops;
using ops::Candidate;
using ops::Contract;
using ops::Dimension;
using ops::Domain;
using ops::Drawing;
using ops::Escape;
using ops::Field;
using ops::find_law;
using ops::forms_of;
using ops::Law;
using ops::law_named;
using ops::Looked;
using ops::NumbersOfValues;
using ops::Op;
using ops::output_of;
using ops::Policy;
using ops::policy_of;
using ops::Problem;
using ops::problem_from_json;
using ops::problem_from_text;
using ops::reset;
using ops::reset_groups;
using ops::Rungs;
using ops::seed_of;
using ops::storage_of;
using ops::Subgraph;
using ops::SubgraphVerdict;
using ops::Supports;
using ops::to_json;
using ops::to_text;
using ops::Trait;
using ops::validate;
using ops::Witness;
using ops::work_of;

}  // namespace attest::engine
