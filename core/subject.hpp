#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/call.hpp"
#include "core/contract.hpp"
#include "core/documents.hpp"
#include "core/layer_norm/offer.hpp"
#include "core/mha/offer.hpp"
#include "core/problem.hpp"
#include "core/ranges.hpp"

namespace attest {

// The abilities of a subject, from describe's `supports`. Where it says nothing, attest asks and the subject may answer
// "unsupported".
struct Supports {
  using Strides = attest::Strides;
  enum class Scale : std::uint8_t { any, positive, only_default };
  bool causal = true, top_left = true, bottom_right = true, gqa = true;
  bool bias = true;
  std::array<bool, bias_type_count> bias_types{true, true};  // by BiasType: as q, and f32
  bool keep = true, kv_lengths = true, window = true, softcap = true, lse = true;
  bool null_key = false;  // problems whose first key and value are 0 are drawn: some form says them in another way
  Scale scale = Scale::any;
  Strides strides = Strides::any;
  bool far = false;     // offsets may take more than 32 bits, and the memory between parts of a tensor is not there
  Index alignment = 1;  // bytes to which bases and rows must be aligned
  DimRange b, hq, hkv, lq, lk, d, dv;
  bool dv_equals_d = false;
  std::vector<std::string> stages;  // names among `scores`, `weights`
  std::vector<FormOffer> forms;     // in the order in which they were declared
  std::string drawn;                // a predicate of the problems that are drawn at random; empty: all
  bool shapes_share_plans = false;  // its compiled plans serve calls of other shapes too

  // Every type of bias, every dimension from 0, and parts that lie far apart.
  static Supports everything();
};

// The promises of a subject where a problem chooses all of these forms, in place of its contract. It has one entry a
// dtype, in SubjectInfo's order.
struct FormContract {
  std::vector<FormChoice> forms;  // sorted by name
  std::vector<Contract> contracts;
};

struct SubjectInfo {
  std::string name;  // the name on the command line
  std::string version;
  std::string libraries{};  // versions of what its process has loaded: "python 3.11.2, numpy 2.3.4"; empty: not known
  std::int64_t line = 0;    // where its function begins in its file; 0: not known
  std::string doc;
  std::vector<std::string> ops{"attention"};
  std::vector<Format> dtypes{Format::f32};
  bool concurrent = false;  // calls may run at once on one instance
  std::string device;       // the device that computes calls, if it is one for all instances: "cuda:0"
  // Time for a plan, in ms: it passes before the answer to the first call of a shape, of options or of forms.
  double plan_ms = 0;
  std::optional<double> warm_up_ms;  // extra time of the first call of a process, in ms; absent: unknown
  Supports supports;
  Contract semantics;                  // everything but the policy
  std::vector<Arithmetic> arithmetic;  // one per entry of dtypes; empty: that of `semantics` for all
  std::vector<Policy> policies;        // one per entry of dtypes
  bool policy_declared = true;         // false: the most generous reading of each dtype, said aloud
  std::vector<FormContract> form_contracts;
  std::vector<Quote> documents;
  std::optional<layer_norm::Offer> layer_norm;  // its declaration of that operation, if it offers it
  std::optional<mha::Offer> mha;                // likewise
  // The subject's own words where the policies are those that its probes showed (engine/probe/first.hpp): they promise
  // none.
  std::shared_ptr<const SubjectInfo> declared{};

  // Returns the contract for a dtype, where `forms` are chosen: that of the form_contracts that names most of them, all
  // of its own among them. Throws Error(usage) if the subject does not offer the dtype.
  [[nodiscard]] Contract contract(Format dtype, std::span<const FormChoice> forms = {}) const;
};

enum class CallStatus : std::uint8_t { done, unsupported, error, crash, timeout };
struct CallResult {
  CallStatus status = CallStatus::done;
  std::string message;  // one clause; empty when done
  std::int64_t elapsed_ns = 0;
  bool lost = false;  // an error after which this instance can answer no further call
};

// One instance of a kernel under test: what is compiled, cached or broken stays with it from call to call.
class Subject {
 public:
  virtual ~Subject() = default;
  [[nodiscard]] virtual const SubjectInfo& info() const noexcept = 0;
  // Runs the calls in order, in one trip where the subject lives in another process. Never throws for a fault of the
  // subject: a death is CallStatus::crash, and the next run() starts it again. Tensors keep their strides and their
  // address modulo 256 on the other side. Every tensor of a call is the view of a Tensor: its guards go over and come
  // back too. Throws Error(internal) if attest itself fails.
  virtual std::vector<CallResult> run(std::span<const Call> calls) = 0;
  // A trip of one call.
  CallResult run_one(const Call& call) { return run({&call, 1}).front(); }
  // Ends this instance and puts a fresh one in its place, which holds nothing of any call. Its time is no part of the
  // next call's time limit. Returns false where it cannot be done.
  virtual bool renew() { return false; }
  // Lets each later call take `times` (>= 1) as long as its limit allows, where it has one; 1 is the initial state. A
  // time of more than `most` seconds is cut to those, but never below twice the limit.
  virtual void wait_longer(int /*times*/, double /*most*/ = std::numeric_limits<double>::infinity()) noexcept {}
};

// Makes instances: one per campaign thread.
class SubjectFactory {
 public:
  virtual ~SubjectFactory() = default;
  [[nodiscard]] virtual const SubjectInfo& info() const noexcept = 0;
  // Throws Error(no_subject) if it cannot be started.
  [[nodiscard]] virtual std::unique_ptr<Subject> open() const = 0;
};

}  // namespace attest
