#include "engine/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "core/contract_numbers.hpp"
#include "core/error.hpp"
#include "core/field.hpp"

namespace attest::engine {
namespace {

DimRange common(const DimRange& a, const DimRange& b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max),
          std::lcm(std::max<Index>(a.multiple, 1), std::max<Index>(b.multiple, 1))};
}

// The subject as it is, but for what it says that it takes and under which policies.
class Narrowed final : public Subject {
 public:
  Narrowed(const SubjectInfo& info, std::unique_ptr<Subject> inner) : info_(info), inner_(std::move(inner)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override { return inner_->run(calls); }
  bool renew() override { return inner_->renew(); }

 private:
  const SubjectInfo& info_;  // of the factory, which outlives its instances
  std::unique_ptr<Subject> inner_;
};

class NarrowedFactory final : public SubjectFactory {
 public:
  NarrowedFactory(std::unique_ptr<SubjectFactory> inner, SubjectInfo info)
      : inner_(std::move(inner)), info_(std::move(info)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override {
    return std::make_unique<Narrowed>(info_, inner_->open());
  }

 private:
  std::unique_ptr<SubjectFactory> inner_;
  SubjectInfo info_;
};

template <class T>
std::vector<T> picked(const std::vector<T>& all, const std::vector<std::size_t>& places) {
  std::vector<T> some;
  for (const std::size_t place : places)
    if (place < all.size()) some.push_back(all[place]);
  return some;
}

SubjectInfo narrowed(SubjectInfo info, const attest::Supports& supports, const std::vector<Format>& dtypes,
                     const std::optional<attest::Policy>& policy) {
  std::vector<std::size_t> places;
  places.reserve(dtypes.size());
  for (const Format dtype : dtypes)
    places.push_back(static_cast<std::size_t>(std::ranges::find(info.dtypes, dtype) - info.dtypes.begin()));
  info.dtypes = dtypes;
  info.supports = supports;
  info.policies = picked(info.policies, places);
  info.arithmetic = picked(info.arithmetic, places);
  for (FormContract& own : info.form_contracts) own.contracts = picked(own.contracts, places);
  if (!policy) return info;
  const auto put = [&](attest::Policy& one) {
    if (one[Stage::storage] == (*policy)[Stage::storage]) one = *policy;
  };
  for (attest::Policy& one : info.policies) put(one);
  for (FormContract& own : info.form_contracts)
    for (attest::Contract& contract : own.contracts) put(contract.policy);
  return info;
}

void require_some(const SubjectInfo& a, const SubjectInfo& b, const attest::Supports& s) {
  const auto nothing = [&](std::string_view what) {
    return usage_error(fmt::format("{} and {} take no problem in common: {}", a.name, b.name, what));
  };
  for (const attest::Field& field : attest::fields()) {
    if (!field.extent) continue;
    const DimRange& dim = s.*field.extent;
    if ((dim.min + dim.multiple - 1) / dim.multiple * dim.multiple > dim.max)
      throw nothing(fmt::format("there is no {} that both take", field.name));
  }
}

}  // namespace

attest::Supports common(const attest::Supports& a, const attest::Supports& b) {
  attest::Supports s = a;
  for (const attest::Field& field : attest::fields()) {
    if (field.offered) s.*field.offered = a.*field.offered && b.*field.offered;
    if (field.extent) s.*field.extent = common(a.*field.extent, b.*field.extent);
  }
  for (bool attest::Supports::*flag :
       {&attest::Supports::top_left, &attest::Supports::bottom_right, &attest::Supports::gqa, &attest::Supports::far})
    s.*flag = a.*flag && b.*flag;
  for (std::size_t type = 0; type < bias_type_count; ++type)
    s.bias_types[type] = a.bias_types[type] && b.bias_types[type];
  s.bias = s.bias && std::ranges::count(s.bias_types, true) > 0;
  s.scale = std::max(a.scale, b.scale);  // in the order of what they take, the most first
  s.strides = std::max(a.strides, b.strides);
  s.alignment = std::lcm(std::max<Index>(a.alignment, 1), std::max<Index>(b.alignment, 1));
  s.dv_equals_d = a.dv_equals_d || b.dv_equals_d;
  std::erase_if(s.stages, [&](const std::string& stage) { return std::ranges::count(b.stages, stage) == 0; });
  std::erase_if(s.forms, [&](const FormOffer& offer) { return std::ranges::count(b.forms, offer) == 0; });
  return s;
}

Compared compared(std::unique_ptr<SubjectFactory> a, std::unique_ptr<SubjectFactory> b,
                  const std::optional<Policy>& any_policy) {
  const std::optional<attest::Policy> policy =
      any_policy ? std::optional(any_policy->as<attest::Policy>()) : std::nullopt;
  const SubjectInfo &of_a = a->info(), &of_b = b->info();
  std::vector<Format> dtypes;
  for (const Format dtype : of_a.dtypes)
    if (std::ranges::count(of_b.dtypes, dtype) > 0) dtypes.push_back(dtype);
  if (dtypes.empty())
    throw usage_error(fmt::format("{} and {} have no dtype in common: the one offers {}, the other {}", of_a.name,
                                  of_b.name, names_of(of_a.dtypes), names_of(of_b.dtypes)));
  const attest::Supports supports = common(of_a.supports, of_b.supports);
  require_some(of_a, of_b, supports);
  if (policy) {
    const Format storage = (*policy)[Stage::storage];
    if (std::ranges::count(dtypes, storage) == 0)
      throw usage_error(
          fmt::format("--policy stores {}, which {} and {} do not both offer", name(storage), of_a.name, of_b.name));
  }
  SubjectInfo info_a = narrowed(of_a, supports, dtypes, policy), info_b = narrowed(of_b, supports, dtypes, policy);
  if (policy)
    for (const SubjectInfo* info : {&info_a, &info_b}) check_numbers(info->contract((*policy)[Stage::storage]));
  info_a.policy_declared = info_a.policy_declared && info_b.policy_declared;  // said aloud of either
  return {std::make_unique<NarrowedFactory>(std::move(a), std::move(info_a)),
          std::make_unique<NarrowedFactory>(std::move(b), std::move(info_b))};
}

}  // namespace attest::engine
