#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/subject.hpp"
#include "engine/ops.hpp"
#include "ops/probe.hpp"

namespace attest::engine {

using ops::ProbeRow;
using ops::Standing;

// A row, and the dtypes that it was found of: those in which promise and observation are the same share one.
struct DtypeRow {
  std::vector<Format> dtypes;
  ProbeRow row;
};

// The speed of calls of one problem.
struct Speed {
  Format dtype;
  Problem problem;
  double calls = 0;  // a second
  double work = 0;   // likewise, of what the operation counts its work in
};

struct ProbeReport {
  const Op* op = nullptr;
  std::string subject, version;
  bool policy_declared = true;
  std::vector<DtypeRow> rows;
  std::vector<Speed> speeds;
  std::vector<std::pair<Format, Contract>> seen;  // the observations, as a contract of each dtype

  [[nodiscard]] bool contradicts() const noexcept;
  // held, or found where something seen contradicts a promise.
  [[nodiscard]] Exit exit() const noexcept;
};

// The orders in which the calls of one dtype add their weighted values.
struct DtypeOrders {
  Format dtype;
  std::vector<ops::SumOrder> orders;
};

struct ProbeOptions {
  const Op* op = nullptr;        // nullptr: the first that the subject offers
  std::optional<Policy> policy;  // holds its own dtype alone to it; absent: the subject's own, for every dtype
  bool speed = true;
};

// Asks the subject. Throws Error(usage) for an operation without probes, or that the subject does not offer;
// Error(no_subject).
ProbeReport probe(const SubjectFactory& subject, const std::string& name, const ProbeOptions& options);

// Asks for the orders alone, over `terms` terms or of one call, whose dtype is then asked. Throws what probe() throws, and
// Error(usage) for an operation whose sums have no such probe, and for a call that the subject does not take.
std::vector<DtypeOrders> sum_orders(const SubjectFactory& subject, const ProbeOptions& options, Index terms,
                                    const std::optional<Problem>& call);

// Rows of stages alone, for one dtype: the formats that a subject computes in, beside those it was asked for.
std::vector<ProbeRow> effective_stages(const SubjectFactory& subject, const Op& op, Format dtype);

// Joins rows of several dtypes that say the same into one.
std::vector<DtypeRow> merged(const std::vector<std::pair<Format, std::vector<ProbeRow>>>& rows);

// The `contract` object of describe that says what was seen: defaults left out, numbers that differ by dtype as
// objects.
nlohmann::ordered_json contract_seen(const std::vector<std::pair<Format, Contract>>& contracts);

// repetition.cpp: reruns, fresh instances, threads and batches of one dtype.
std::vector<ProbeRow> repetition(const SubjectFactory& factory, Subject& subject, const Op& op, Format dtype,
                                 const Contract& contract);
std::vector<Speed> speeds(Subject& subject, const Op& op, Format dtype);

}  // namespace attest::engine
