// Defines attest/generators.hpp. None of attest's own types and errors leaves this file: they are hidden behind those
// of the header.
#include "attest/generators.hpp"

#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "core/layer_norm/inputs.hpp"
#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "engine/assume.hpp"
#include "engine/shrink/candidates.hpp"
#include "engine/stream.hpp"
#include "subjects/describe.hpp"

namespace attest::generators {
inline namespace abi1 {

struct Domain::State {
  SubjectInfo info;
  const ops::Op* op = nullptr;
  std::optional<engine::Assumption> assumed;  // as the user says it of these forms
  std::unique_ptr<ops::Domain> drawn;
  engine::ShrinkLimits limits;
};

struct Problem::State {
  std::shared_ptr<const Domain::State> domain;
  ops::Problem problem;
  std::string text;
};

struct Call::State {
  // One of three.
  std::optional<Inputs> attention;
  std::optional<layer_norm::Inputs> layer_norm;
  std::optional<mha::Inputs> mha;
  Tensor out, second;  // lse, sum_out
  attest_attention attention_call{};
  attest_layer_norm layer_norm_call{};
  attest_mha mha_call{};
};

namespace {

// Errors of the house as those that the header names.
template <class Body>
auto told(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw std::invalid_argument(error.what());
  } catch (const std::bad_alloc&) {
    throw std::invalid_argument("the tensors of this problem do not fit into memory");
  }
}

std::shared_ptr<const Domain::State> state_of(const std::string& describe, const std::string& assume) {
  auto state = std::make_shared<Domain::State>();
  state->info = subject_info({"domain", "", describe, ""}, "the domain");
  state->op = &ops::first_op(state->info);
  std::optional<engine::Assumption> assumption;
  if (!assume.empty()) assumption.emplace(assume, *state->op);
  state->drawn = engine::domain_for(state->info, *state->op, std::nullopt, assumption);
  const ops::Supports supports = state->info;
  if (assumption) state->assumed = assumption->about(supports.forms());
  state->limits.supports = supports;
  state->limits.dtypes = state->drawn->dtypes();
  const Domain::State* const own = state.get();  // it holds the function
  state->limits.admissible = [own](const ops::Problem& problem) {
    return own->drawn->accepts(problem) && (!own->assumed || own->assumed->holds(problem));
  };
  return state;
}

Problem problem_of(std::shared_ptr<const Domain::State> domain, ops::Problem problem) {
  auto state = std::make_shared<Problem::State>();
  state->domain = std::move(domain);
  state->text = ops::to_text(problem);
  state->problem = std::move(problem);
  return Problem(std::move(state));
}

ops::Problem read(const Domain::State& domain, const std::string& text) {
  ops::Problem problem =
      text.find("op=") == std::string::npos ? domain.op->problem_from_text(text) : ops::problem_from_text(text);
  if (&problem.op() != domain.op)
    throw usage_error("the problem is of another operation than the domain: " + std::string(problem.op().name()));
  ops::validate(problem);
  return problem;
}

template <class Abi>
const Abi& asked(const Abi& call, bool there, const char* what) {
  if (!there) throw std::logic_error(std::string("the call is none of ") + what);
  return call;
}

}  // namespace

Domain::Domain(const std::string& describe, const std::string& assume)
    : state_(told([&] { return state_of(describe, assume); })) {}

Problem::Problem(const Domain& domain, const std::string& text)
    : state_(told([&] { return problem_of(domain.state(), read(*domain.state(), text)); }).state_) {}

const std::string& Problem::text() const { return state_->text; }

std::vector<Problem> Problem::simpler() const {
  return told([this] {
    std::vector<Problem> found;
    for (engine::Candidate& one : engine::neighbours(state_->problem, state_->domain->limits))
      found.push_back(problem_of(state_->domain, std::move(one.problem)));
    return found;
  });
}

Problem draw(const Domain& domain, std::uint64_t seed, std::uint64_t number) {
  return told([&] { return problem_of(domain.state(), domain.state()->drawn->draw(seed, number, 1).problem); });
}

Call::Call(const Problem& problem) : state_(std::make_unique<State>()) {
  told([&] {
    State& state = *state_;
    const ops::Problem& asked = problem.state().problem;
    if (asked.is<attest::Problem>()) {
      const auto& own = asked.as<attest::Problem>();
      state.attention = materialise(own);
      state.out = make_out(own);
      state.second = make_lse(own);
      state.attention_call = state.attention->call(state.out, state.second);
    } else if (asked.is<layer_norm::Problem>()) {
      const auto& own = asked.as<layer_norm::Problem>();
      state.layer_norm = layer_norm::materialise(own);
      state.out = layer_norm::make_out(own);
      state.second = layer_norm::make_sum_out(own);
      state.layer_norm_call = state.layer_norm->call(state.out, state.second);
    } else {
      const auto& own = asked.as<mha::Problem>();
      state.mha = mha::materialise(own);
      state.out = mha::make_out(own);
      state.mha_call = mha::as_plugin(state.mha->call(state.out), own.self);
    }
    return 0;
  });
}
Call::~Call() = default;
Call::Call(Call&& other) noexcept = default;
Call& Call::operator=(Call&& other) noexcept = default;

const attest_attention& Call::attention() const {
  return asked(state_->attention_call, state_->attention.has_value(), "attention");
}
const attest_layer_norm& Call::layer_norm() const {
  return asked(state_->layer_norm_call, state_->layer_norm.has_value(), "layer_norm");
}
const attest_mha& Call::mha() const { return asked(state_->mha_call, state_->mha.has_value(), "mha"); }

}  // namespace abi1
}  // namespace attest::generators
