#include "engine/probe/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

namespace attest::engine {
namespace {

const ops::Probes& probes_of(const Op& op, const SubjectInfo& info) {
  if (!op.offered(info)) throw usage_error(fmt::format("{} does not offer the operation {}", info.name, op.name()));
  const ops::Probes* probes = op.probes();
  if (probes == nullptr) throw usage_error(fmt::format("there are no probes of the operation {} yet", op.name()));
  return *probes;
}

std::vector<Format> dtypes_asked(const Op& op, const SubjectInfo& info, const std::optional<Policy>& policy) {
  const std::vector<Format>& offered = op.dtypes(info);
  if (!policy) return offered;
  const Format storage = storage_of(*policy);
  if (std::ranges::count(offered, storage) == 0)
    throw usage_error(fmt::format("--policy stores {}, which {} does not offer", name(storage), info.name));
  return {storage};
}

}  // namespace

bool ProbeReport::contradicts() const noexcept {
  return std::ranges::any_of(rows, [](const DtypeRow& of) { return of.row.standing == Standing::contradicts; });
}
Exit ProbeReport::exit() const noexcept { return contradicts() ? Exit::found : Exit::held; }

std::vector<DtypeRow> merged(const std::vector<std::pair<Format, std::vector<ProbeRow>>>& rows) {
  std::vector<DtypeRow> all;
  for (const auto& [dtype, own] : rows) {
    std::size_t after = 0;  // rows of one name stay together, in the order in which they were asked
    for (const ProbeRow& row : own) {
      std::size_t end = after;
      DtypeRow* same = nullptr;
      for (std::size_t n = 0; n < all.size(); ++n) {
        if (all[n].row.stage != row.stage) continue;
        end = n + 1;
        if (all[n].row.promised == row.promised && all[n].row.observed == row.observed &&
            all[n].row.standing == row.standing)
          same = &all[n];
      }
      if (same != nullptr)
        same->dtypes.push_back(dtype);
      else
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(end), {{dtype}, row});
      after = same != nullptr ? end : end + 1;
    }
  }
  return all;
}

std::vector<ProbeRow> effective_stages(const SubjectFactory& subject, const Op& op, Format dtype) {
  const ops::Probes& probes = probes_of(op, subject.info());
  const std::unique_ptr<Subject> instance = subject.open();
  const Contract contract = op.contract(subject.info(), dtype);
  return probes.stages({*instance, dtype, contract, op.policy_declared(subject.info())});
}

ProbeReport probe(const SubjectFactory& factory, const std::string& name, const ProbeOptions& options) {
  const SubjectInfo& info = factory.info();
  const Op& op = options.op != nullptr ? *options.op : ops::first_op(info);
  const ops::Probes& probes = probes_of(op, info);
  const std::vector<Format> dtypes = dtypes_asked(op, info, options.policy);
  ProbeReport report;
  report.op = &op;
  report.subject = name;
  report.version = info.version;
  report.policy_declared = options.policy || op.policy_declared(info);
  const std::unique_ptr<Subject> subject = factory.open();
  std::vector<std::pair<Format, std::vector<ProbeRow>>> by_dtype;
  for (const Format dtype : dtypes) {
    Contract contract = op.contract(info, dtype);
    if (options.policy) contract = op.with_policy(std::move(contract), *options.policy);
    const ops::ProbeTarget target{*subject, dtype, contract, report.policy_declared};
    std::vector<ProbeRow> rows = probes.stages(target);
    std::ranges::move(probes.semantics(target), std::back_inserter(rows));
    std::ranges::move(repetition(factory, *subject, op, dtype, contract), std::back_inserter(rows));
    report.seen.emplace_back(dtype, probes.seen(contract, rows));
    by_dtype.emplace_back(dtype, std::move(rows));
  }
  report.rows = merged(by_dtype);
  if (options.speed)
    for (const Format dtype : dtypes) std::ranges::move(speeds(*subject, op, dtype), std::back_inserter(report.speeds));
  return report;
}

std::vector<DtypeOrders> sum_orders(const SubjectFactory& factory, const ProbeOptions& options, Index terms,
                                    const std::optional<Problem>& call) {
  const SubjectInfo& info = factory.info();
  const Op& op = options.op != nullptr ? *options.op : call ? call->op() : ops::first_op(info);
  const ops::Probes& probes = probes_of(op, info);
  const std::unique_ptr<Subject> subject = factory.open();
  std::vector<DtypeOrders> all;
  for (const Format dtype : dtypes_asked(op, info, options.policy)) {
    if (call && storage_of(*call) != dtype) continue;
    const Contract contract = op.contract(info, dtype);
    all.push_back({dtype, probes.sum_orders({*subject, dtype, contract, true}, terms, call)});
    if (all.back().orders.empty())
      throw usage_error(fmt::format("no probe tells in which order {} adds: leave --tree out", op.name()));
  }
  if (all.empty())
    throw usage_error(fmt::format("{} does not offer the dtype of --problem, {}", info.name, name(storage_of(*call))));
  return all;
}

nlohmann::ordered_json contract_seen(const std::vector<std::pair<Format, Contract>>& contracts) {
  using nlohmann::ordered_json;
  std::vector<ordered_json> objects;
  for (const auto& [dtype, contract] : contracts) {
    ordered_json object = to_json(contract);
    const ordered_json plain = to_json(contract.op().contract_from_json(nlohmann::json::object(), policy_of(contract)));
    for (const auto& [key, value] : plain.items())
      if (key != "policy" && object.contains(key) && object[key] == value) object.erase(key);
    objects.push_back(std::move(object));
  }
  ordered_json seen = ordered_json::object();
  for (const ordered_json& object : objects)
    for (const auto& [key, value] : object.items()) {
      if (seen.contains(key)) continue;
      const auto same = [&, &key = key, &value = value](const ordered_json& other) {
        return other.contains(key) && other[key] == value;
      };
      if (objects.size() == 1 || (key != "policy" && std::ranges::all_of(objects, same))) {
        seen[key] = value;
      } else if (key == "policy" || value.is_number()) {
        for (std::size_t n = 0; n < objects.size(); ++n)
          if (objects[n].contains(key)) seen[key][std::string(name(contracts[n].first))] = objects[n][key];
      }  // a meaning that differs by dtype cannot be said
    }
  return seen;
}

}  // namespace attest::engine
