// subjects/script.hpp with the real adapter: the exported script prints the numbers that attest itself sees.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/policy.hpp"
#include "report/export.hpp"
#include "subjects/resolve.hpp"
#include "subjects/script.hpp"
#include "tests/report/python.hpp"

namespace attest {
namespace {

class NeedsOnnxruntime : public testing::Environment {
  void SetUp() override { need_python_with("onnxruntime"); }
};
[[maybe_unused]] const auto* const needs_onnxruntime = testing::AddGlobalTestEnvironment(new NeedsOnnxruntime);

engine::Entry entry_of(const std::string& subject, const std::string& problem) {
  engine::Entry entry;
  entry.subject = subject;
  const Problem own = problem_from_text(problem);
  entry.problem = own;
  entry.contract = contract_for(policy_for(own.dtype));
  entry.property = "policy-bound";
  return entry;
}

std::string printed_by_script(const engine::Entry& entry, const std::string& last_line = {}) {
  const auto call = entry.problem.op().exchange(entry.problem);
  const std::string code = subject_code(entry.subject, call->call(), {}, ".");
  EXPECT_NE(code, "");
  const TemporaryFolder folder;
  return run_python(report::python_script({entry, *call, false, code}) + last_line, folder.path());
}

TEST(SubjectCode, GivesTheBitsThatTheSubjectGives) {
  const std::string dims = "b=2 hq=2 hkv=2 lq=3 lk=5 d=3 dv=3 dtype=f32 values=normal:1 seed=9 ";
  const std::vector<std::pair<const char*, const char*>> cases{
      {"onnxruntime:Attention", "causal=1 align=bottom_right"},
      {"onnxruntime:Attention", "keep=half keep_axes=9 q_layout=transposed v_layout=broadcast_batch"},
      {"onnxruntime:Attention-3d", "lengths=ragged bias=normal"},
      {"onnxruntime:MultiHeadAttention", "lengths=ragged scale=0x1.8p-1 causal=1"},
      {"onnxruntime:contrib-Attention", "causal=1 align=bottom_right keep=half keep_axes=9"},
      {"onnxruntime:explicit", "lengths=ragged bias=normal form.mask=where form.layout=3d"},
      {"onnx:Attention", "causal=1 align=bottom_right"}};
  for (const auto& [subject, options] : cases) {
    SCOPED_TRACE(std::string(subject) + " " + options);
    const engine::Entry entry = entry_of(subject, dims + options);
    const Inputs inputs = materialise(entry.problem.as<Problem>());
    const Tensor out = make_out(entry.problem.as<Problem>()), lse = make_lse(entry.problem.as<Problem>());
    const attest_attention call = inputs.call(out, lse);
    const auto instance = resolve(subject, Trust::file, {})->open();
    ASSERT_EQ(instance->run_one(call).status, CallStatus::done);
    std::string hex;
    for (Index b = 0; b < 2; ++b)
      for (Index h = 0; h < 2; ++h)
        for (Index i = 0; i < 3; ++i)
          for (Index c = 0; c < 3; ++c) hex += hex_float(out.at(b, h, i, c)) + "\n";
    const std::string printed = printed_by_script(entry,
                                                  "print('bits'); print('\\n'.join(__import__('re').sub(r'\\.?0*p', "
                                                  "'p', float(x).hex()) for x in got.ravel()))");
    EXPECT_EQ(printed.substr(printed.find("bits\n") + 5), hex);
  }
}

TEST(SubjectCode, ShowsARefusal) {
  const engine::Entry entry =
      entry_of("onnxruntime:Attention", "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 scale=0 values=constant:1 seed=1");
  const std::string printed = printed_by_script(entry);
  EXPECT_NE(printed.find("expected\n [[[[1.]]]]\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("refused: "), std::string::npos) << printed;
  EXPECT_NE(printed.find("scale must be greater than 0 if specified"), std::string::npos) << printed;
  EXPECT_EQ(printed.find("Traceback"), std::string::npos) << printed;
}

TEST(SubjectCode, IsEmptyWhereNoScriptCanRunTheCall) {
  const engine::Entry entry = entry_of("onnxruntime:Attention",
                                       "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 scale=-1 values=constant:1 seed=1");
  const auto call = entry.problem.op().exchange(entry.problem);
  EXPECT_EQ(subject_code("onnxruntime:Attention", call->call(), {}, "."), "");  // unsupported
  for (const char* subject : {"builtin:fused", "fault:scale-twice", "./kernel.so", "onnxruntime:nope"})
    EXPECT_EQ(subject_code(subject, call->call(), {}, "."), "") << subject;
}

TEST(SubjectCode, APythonWithoutThePackagesIsNamed) {
  const engine::Entry entry =
      entry_of("onnxruntime:Attention", "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 values=constant:1 seed=1");
  const auto call = entry.problem.op().exchange(entry.problem);
  try {
    ResolveOptions options;
    options.python = "/nowhere/python3";
    subject_code(entry.subject, call->call(), options, ".");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::no_subject);
  }
}

}  // namespace
}  // namespace attest
