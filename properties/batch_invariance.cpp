// batch-bitwise, batch-bounded: a sample's result does not depend on the batch it comes in.
//
// One sample alone; and all samples in another order, one of them several times. Shapes per sample, strides, masks and
// key lengths stay. Exact where the contract claims `batch_invariant: bitwise`; otherwise each result lies in the
// enclosure of the very same mathematical problem, so that any two differ by no more than its width. Catches other
// paths, splits or indexing for batch > 1.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

constexpr Index most_work = Index{1} << 22;  // past this, one sample alone is all that is asked for

bool bitwise(const Contract& contract) { return contract.batch_invariant == BatchInvariance::bitwise; }

Reason no_other_batch(const Problem& p, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  const DimRange& range = info.supports.b;
  if (p.b == 1 && !(range.offers(2) || range.offers(3) || range.offers(4))) return "the subject takes one batch size";
  return std::nullopt;
}

Reason not_bitwise(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (!bitwise(contract)) return "the subject does not claim batch_invariant: bitwise";
  return no_other_batch(p, info);
}
Reason not_bounded(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (bitwise(contract)) return "batch-bitwise asks for more";
  return no_other_batch(p, info);
}

// A batch made of samples of the problem.
struct Variant {
  std::string_view note;
  std::vector<Index> samples;
};

// One sample alone; and all samples in another order, some of them more than once.
std::vector<Variant> variants_of(const Problem& p, const DimRange& range) {
  std::vector<Variant> variants;
  const auto some = static_cast<Index>(below(draw(p, 31), static_cast<std::uint64_t>(p.b)));
  if (p.b > 1 && range.offers(1)) variants.push_back({"the sample alone", {some}});
  if (p.multiply_adds() > most_work && !variants.empty()) return variants;

  std::vector<Index> sizes;
  for (Index n = p.b + 1; n <= p.b + 3; ++n)
    if (range.offers(n)) sizes.push_back(n);
  if (sizes.empty() && p.b == 1) return variants;
  Variant mixed{p.b == 1 ? "the sample several times" : "the samples in another order, some of them twice", {}};
  for (Index b = 0; b < p.b; ++b) mixed.samples.push_back((b + 1) % p.b);
  if (!sizes.empty())
    mixed.samples.resize(static_cast<std::size_t>(sizes[below(draw(p, 32), sizes.size())]), some);
  else
    mixed.note = "the samples in another order";
  variants.push_back(std::move(mixed));
  return variants;
}

struct Run {
  std::vector<Variant> variants;
  std::vector<Result> results;
};

Run run_variants(Trial& trial) {
  Run run{variants_of(trial.problem(), trial.subject().info().supports.b), {}};
  std::vector<Problem> problems(run.variants.size(), trial.problem());
  std::vector<Inputs> inputs;
  std::vector<Request> calls;
  inputs.reserve(run.variants.size());
  for (std::size_t n = 0; n < run.variants.size(); ++n) {
    const std::vector<Index>& samples = run.variants[n].samples;
    problems[n].b = static_cast<Index>(samples.size());
    calls.push_back({&inputs.emplace_back(gather_samples(trial.inputs(), samples)), &problems[n]});
  }
  if (!calls.empty()) run.results = trial.run_many(calls);
  return run;
}

Verdict check_bitwise(Trial& trial) {
  const Result& base = trial.base();
  const Run run = run_variants(trial);
  if (run.variants.empty()) return Verdict::skip("the subject takes one batch size");
  Counts counts;
  for (std::size_t n = 0; n < run.variants.size(); ++n) {
    const Variant& variant = run.variants[n];
    for (std::size_t t = 0; t < variant.samples.size(); ++t)
      if (auto evidence = difference({base, variant.samples[t]}, {run.results[n], static_cast<Index>(t)},
                                     Equality::numbers, variant.note, counts))
        return Verdict::fail(std::move(*evidence), counts);
  }
  return Verdict::pass(counts);
}

void copy_sample(const Tensor& from, Index sample, const Tensor& to, Index target) {
  if (!from.present()) return;
  const attest_tensor source = from.view(), sink = to.view();
  std::array<Index, 4> n{1, 1, 1, 1};
  std::copy(from.shape().begin(), from.shape().end(), n.begin());
  for (Index h = 0; h < n[1]; ++h)
    for (Index i = 0; i < n[2]; ++i)
      for (Index c = 0; c < n[3]; ++c)
        std::memcpy(attest_at(&sink, target, h, i, c), attest_at(&source, sample, h, i, c), source.dtype.bits / 8);
}

class Layer {
 public:
  explicit Layer(const Result& base)
      : out_(base.out.clone()), lse_(base.lse.clone()), taken_(static_cast<std::size_t>(base.out.shape()[0])) {}
  [[nodiscard]] bool takes(std::string_view note, Index sample) const {
    return note_.empty() || (note_ == note && !taken_[static_cast<std::size_t>(sample)]);
  }
  void put(const Variant& variant, std::size_t t, const Result& result) {
    const Index sample = variant.samples[t];
    note_ = variant.note;
    taken_[static_cast<std::size_t>(sample)] = true;
    copy_sample(result.out, static_cast<Index>(t), out_, sample);
    copy_sample(result.lse, static_cast<Index>(t), lse_, sample);
  }
  Verdict judge(Trial& trial) const { return within_enclosures(trial, out_, lse_, note_); }

 private:
  std::string_view note_;
  Tensor out_, lse_;
  std::vector<bool> taken_;
};

Verdict check_bounded(Trial& trial) {
  const Result& base = trial.base();
  const Run run = run_variants(trial);
  if (run.variants.empty()) return Verdict::skip("the subject takes one batch size");
  Verdict all = trial.judgement();
  if (all.kind == VerdictKind::fail) all = Verdict::pass(all.counts);
  // The base result with samples of the variants in place of its own. The variants of one kind go into one such copy,
  // unless a sample is there already.
  Layer layer(base);
  for (std::size_t n = 0; n < run.variants.size(); ++n) {
    const Variant& variant = run.variants[n];
    const Result& result = run.results[n];
    if (result.violation) return Verdict::fail(*result.violation);
    for (std::size_t t = 0; t < variant.samples.size(); ++t) {
      if (!layer.takes(variant.note, variant.samples[t])) {
        if (Verdict verdict = layer.judge(trial); verdict.kind == VerdictKind::fail) return verdict;
        layer = Layer(base);
      }
      layer.put(variant, t, result);
    }
  }
  if (Verdict verdict = layer.judge(trial); verdict.kind == VerdictKind::fail) return verdict;
  return all;
}

}  // namespace

Property batch_bitwise() {
  return {"batch-bitwise",
          "f(x[s])[t] = f(x)[s[t]] for a list of samples s",
          "a sample alone, permuted or repeated in the batch gives equal numbers, if that is claimed",
          Kind::exact,
          not_bitwise,
          check_bitwise};
}

Property batch_bounded() {
  return {"batch-bounded",
          "|f(x[s])[t] - f(x)[s[t]]| <= hi - lo for a list of samples s",
          "a sample alone, permuted or repeated in the batch stays within the sum of both radii",
          Kind::bound,
          not_bounded,
          check_bounded,
          Asks::anything,
          Claim::pair};
}

}  // namespace attest::properties
