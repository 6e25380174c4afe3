#pragma once
#include <functional>
#include <string>

#include "core/contract.hpp"
#include "core/subject.hpp"
#include "core/verdict.hpp"

namespace attest::test {

using Kernel = std::function<void(const attest_attention&)>;

// Attention in double precision, rounded once into the outputs: conforming under any policy. Empty rows give zero.
void attend(const attest_attention& call);

// Where a fake departs from it. Each is asked for every score, key order or element.
struct Steps {
  // The score after scale, softcap and bias; masked keys never get here.
  std::function<double(const attest_attention&, double z, Index b, Index h, Index i, Index j)> score;
  // Tells whether a key takes part, given what the call says.
  std::function<bool(const attest_attention&, bool open, Index b, Index h, Index i, Index j)> open;
  // The number that is written to out.
  std::function<double(const attest_attention&, double y, Index b, Index h, Index i, Index c)> output;
};
void attend(const attest_attention& call, const Steps& steps);

// Attention in float by an online softmax over tiles of `tile` keys, forwards or backwards, the scale folded into q:
// conforming under f32, f16 and bf16, with other bits than attend().
void attend_tiled(const attest_attention& call, Index tile, bool backwards);

// Returns the promises of all the fakes here: nothing narrow, rows without keys give zero, every claim made.
Contract promise(Format dtype);

// A subject made of a function.
class Fake : public Subject {
 public:
  explicit Fake(Kernel kernel, std::string name = "fake");
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override;
  SubjectInfo& edit() noexcept { return info_; }
  [[nodiscard]] Index calls() const noexcept { return calls_; }

 private:
  SubjectInfo info_;
  Kernel kernel_;
  Index calls_ = 0;
};

// The verdict of one law by name on one problem; a skip if it does not apply.
Verdict verdict_of(std::string_view law, const std::string& problem, Subject& subject, const Contract& contract,
                   Subject* peer = nullptr);
Verdict verdict_of(std::string_view law, const Problem& problem, Subject& subject, const Contract& contract,
                   Subject* peer = nullptr);

}  // namespace attest::test
