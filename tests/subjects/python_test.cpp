// Scripts with @attest.subject, through the worker of subjects/python. Needs a Python with numpy ($ATTEST_PYTHON).
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "core/error.hpp"
#include "subjects/resolve.hpp"
#include "tests/subjects/python_scripts.hpp"

namespace attest {
namespace {

using testing::options;
using testing::Python;
using testing::python_can_import;
using testing::run;
using testing::script;
using testing::SmallCall;

TEST_F(Python, ReadsInputsAndReturnsOutput) {
  for (const DType type : {DType::f32, DType::f16}) {
    const SmallCall small(5, type);
    const CallResult result = run_once("echo", small);
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    EXPECT_GT(result.elapsed_ns, 0);
    for (Index d = 0; d < 5; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 1);
  }
  const SmallCall written;
  EXPECT_EQ(run_once("writes_out", written).status, CallStatus::done);
  EXPECT_EQ(written.out.at(0, 0, 0, 7), 2);
}

TEST_F(Python, KeepsStridesAndLeavesGapsAlone) {
  SmallCall small(8);
  small.out = Tensor(DType::f32, std::array<Index, 4>{1, 1, 1, 8}, std::array<Index, 4>{99, 77, 33, 3}, 1);
  small.v = Tensor(DType::f32, std::array<Index, 4>{1, 1, 2, 8}, std::array<Index, 4>{0, 0, 0, 2}, 3);
  for (Index d = 0; d < 8; ++d) small.v.set(0, 0, 0, d, static_cast<double>(d));
  EXPECT_EQ(run_once("echo", small).status, CallStatus::done);
  for (Index d = 0; d < 8; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 1);
  EXPECT_EQ(small.out.damage(), Tensor::Damage::none);
}

TEST_F(Python, SeesEveryOption) {
  SmallCall small(12);
  small.lse = Tensor(DType::f32, std::array<Index, 3>{1, 1, 1});
  attest_attention call = small.call();
  call.scale = 0.25;
  call.softcap = 30;
  call.causal = 1;
  call.align = ATTEST_BOTTOM_RIGHT;
  call.window_left = 3;
  call.window_right = -1;
  call.threads = 2;
  const CallResult result = run(*script("kernels.py:facts")->open(), call);
  EXPECT_EQ(result.status, CallStatus::done) << result.message;
  const double phase = static_cast<double>(reinterpret_cast<std::uintptr_t>(call.q.data) % 256);
  const std::array<double, 12> wanted{0.25, 1, 1, 30, 3, -9, 2, phase, 1, 1, 1, 1};
  for (Index d = 0; d < 12; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), wanted[static_cast<std::size_t>(d)]) << d;
  EXPECT_EQ(small.lse.at(0, 0, 0), 0.25);
}

TEST_F(Python, IsToldInWhichForm) {
  const SmallCall small;
  const auto factory = script("kernels.py:forms");
  EXPECT_EQ(factory->info().supports.forms,
            (std::vector<FormOffer>{{"hint", {"none", "f16"}}, {"mask", {"full", "1d"}}}));
  EXPECT_EQ(factory->info().form_contracts.size(), 1u);
  const auto subject = factory->open();
  attest_attention call = small.call();
  for (const auto& [form, said] : {std::pair<const char*, double>{nullptr, 1 + 4},
                                   {R"({"mask":"1d"})", 2 + 4},
                                   {R"({"hint":"f16","mask":"1d"})", 2 + 8}}) {
    call.form = form;
    const CallResult result = run(*subject, call);
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    EXPECT_EQ(small.out.at(0, 0, 0, 0), said);
  }
}

TEST_F(Python, AnswersTheSameByPipeAndByMailbox) {
  ResolveOptions by_pipe = options();
  by_pipe.ways.mailbox = false;
  for (const char* name : {"facts", "raises", "refuses", "quits", "wrong_dtype"}) {
    SmallCall one(12), other(12);
    one.lse = Tensor(DType::f32, std::array<Index, 3>{1, 1, 1});
    other.lse = Tensor(DType::f32, std::array<Index, 3>{1, 1, 1});
    const std::array<Call, 2> calls{one.call(), one.call()}, same{other.call(), other.call()};
    const auto left = script(std::string("kernels.py:") + name, by_pipe)->open()->run(calls);
    const auto right = script(std::string("kernels.py:") + name)->open()->run(same);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(left[i].status, right[i].status) << name;
      EXPECT_EQ(left[i].message, right[i].message) << name;
    }
    for (const Index d : {0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11}) {  // 7 says where q lies
      const double by = one.out.at(0, 0, 0, d), in = other.out.at(0, 0, 0, d);
      EXPECT_TRUE(by == in || (std::isnan(by) && std::isnan(in))) << name << d;
    }
  }
}

TEST_F(Python, AKernelMayChangeTheArraysThatItIsGiven) {
  const auto subject = script("kernels.py:reshapes_what_it_gets")->open();
  for (int i = 0; i < 3; ++i) {
    const SmallCall small;
    const CallResult result = run(*subject, small.call());
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    EXPECT_EQ(small.out.at(0, 0, 0, 0), 4);
  }
}

TEST_F(Python, SleepsWhileNobodyAsks) {
  const auto subject = script("kernels.py:processor_seconds")->open();
  const SmallCall before, after;
  for (int i = 0; i < 100; ++i) run(*subject, before.call());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  run(*subject, after.call());
  EXPECT_LT(after.out.at(0, 0, 0, 0) - before.out.at(0, 0, 0, 0), 0.1);
}

TEST_F(Python, SeesMasks) {
  const SmallCall small;
  const std::array<Index, 4> shape{1, 1, 1, 2};
  Tensor bias(DType::f32, shape), keep(DType::boolean, shape), lengths(DType::i32, std::array<Index, 1>{1});
  bias.set(0, 0, 0, 0, 1.5), bias.set(0, 0, 0, 1, 2), keep.set(0, 0, 0, 0, 1), keep.set(0, 0, 0, 1, 0);
  lengths.set(0, 0, 0, 0, 2);
  attest_attention call = small.call();
  call.bias = bias.view(), call.keep = keep.view(), call.kv_lengths = lengths.view();
  const CallResult result = run(*script("kernels.py:masked")->open(), call);
  EXPECT_EQ(result.status, CallStatus::done) << result.message;
  const std::array<double, 4> wanted{3.5, 1, 2, 1};
  for (Index d = 0; d < 4; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), wanted[static_cast<std::size_t>(d)]) << d;
}

TEST_F(Python, RunsBfloat16WhereThereIsATypeForIt) {
  const SmallCall small(4, DType::bf16);
  const CallResult result = run_once("bf16", small);
  if (python_can_import("ml_dtypes")) {
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    EXPECT_EQ(small.out.at(0, 0, 0, 3), 4);
  } else {
    EXPECT_EQ(result.status, CallStatus::unsupported);
    EXPECT_NE(result.message.find("install ml_dtypes"), std::string::npos) << result.message;
  }
}

TEST_F(Python, TorchTensorsAreViews) {
  if (!python_can_import("torch")) GTEST_SKIP() << "no torch in this Python";
  const auto echo = script("torch_kernels.py:echo")->open();
  const auto facts = script("torch_kernels.py:facts")->open();
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    SmallCall small(8, type);
    small.out = Tensor(type, std::array<Index, 4>{1, 1, 1, 8}, std::array<Index, 4>{99, 77, 33, 3}, 1);
    small.v = Tensor(type, std::array<Index, 4>{1, 1, 2, 8}, std::array<Index, 4>{0, 0, 0, 2}, 3);
    for (Index d = 0; d < 8; ++d) small.v.set(0, 0, 0, d, static_cast<double>(d));
    EXPECT_EQ(run(*echo, small.call()).status, CallStatus::done);
    for (Index d = 0; d < 8; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 1);
    EXPECT_EQ(small.out.damage(), Tensor::Damage::none);

    const std::array<Index, 4> shape{1, 1, 1, 2};
    Tensor bias(type, shape), keep(DType::boolean, shape), lengths(DType::i32, std::array<Index, 1>{1});
    bias.set(0, 0, 0, 0, 1.5), bias.set(0, 0, 0, 1, 2), keep.set(0, 0, 0, 0, 1), keep.set(0, 0, 0, 1, 0);
    lengths.set(0, 0, 0, 0, 2);
    attest_attention call = small.call();
    call.bias = bias.view(), call.keep = keep.view(), call.kv_lengths = lengths.view();
    const CallResult result = run(*facts, call);
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    const double phase = static_cast<double>(reinterpret_cast<std::uintptr_t>(call.q.data) % 256);
    const std::array<double, 7> wanted{phase, 0, 2, 3.5, 1, 1, 2};
    for (Index d = 0; d < 7; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), wanted[static_cast<std::size_t>(d)]) << d;
  }
  const CallResult wrong = run(*script("torch_kernels.py:wrong_type")->open(), SmallCall(8, DType::bf16).call());
  EXPECT_EQ(wrong.status, CallStatus::error);
  EXPECT_NE(wrong.message.find("returned out as torch.int32 instead of bf16"), std::string::npos) << wrong.message;
}

TEST_F(Python, DerivesWhatItSupportsFromTheSignature) {
  const SubjectInfo echo = script("kernels.py:echo")->info();
  EXPECT_EQ(echo.version, "3.1");
  EXPECT_EQ(echo.dtypes, (std::vector{Format::f32, Format::f16}));
  EXPECT_EQ(echo.policies.at(0), policy_for(Format::f32));
  EXPECT_EQ(echo.policies.at(1), policy_from_text("f16-all"));  // "f32" says nothing of f16
  const Supports& none = echo.supports;
  EXPECT_FALSE(none.causal || none.bias || none.keep || none.kv_lengths || none.window || none.softcap || none.lse ||
               none.gqa);
  EXPECT_EQ(none.scale, Supports::Scale::any);
  const Supports facts = script("kernels.py:facts")->info().supports;
  EXPECT_TRUE(facts.causal && facts.bias && facts.keep && facts.kv_lengths && facts.window && facts.softcap &&
              facts.lse);
  const Supports declared = script("kernels.py:declares")->info().supports;
  EXPECT_TRUE(declared.gqa && declared.causal && declared.top_left && declared.dv_equals_d);
  EXPECT_FALSE(declared.bottom_right);
  EXPECT_EQ(declared.scale, Supports::Scale::only_default);
  EXPECT_EQ(declared.d.max, 64);
  EXPECT_EQ(declared.d.multiple, 8);
}

TEST_F(Python, AsksNoCornerThatTheKernelDoesNotSay) {
  const SmallCall small;  // one query, two keys
  attest_attention call = small.call();
  const auto subject = script("kernels.py:corner-unsaid")->open();
  EXPECT_EQ(run(*subject, call).status, CallStatus::done);
  call.causal = 1;
  const CallResult result = run(*subject, call);
  EXPECT_EQ(result.status, CallStatus::unsupported);
  EXPECT_NE(result.message.find("corner"), std::string::npos) << result.message;
}

TEST_F(Python, MayPrintAndReadStdin) {
  const SmallCall printed, read;
  EXPECT_EQ(run_once("prints", printed).status, CallStatus::done);
  EXPECT_EQ(printed.out.at(0, 0, 0, 0), 3);
  EXPECT_EQ(run_once("reads_stdin", read).status, CallStatus::done);
  EXPECT_EQ(read.out.at(0, 0, 0, 0), 4);
}

TEST_F(Python, TheOnlySubjectNeedsNoName) {
  EXPECT_EQ(run(*script("one_subject.py")->open(), SmallCall().call()).status, CallStatus::done);
  EXPECT_EQ(run(*script("neighbour.py:only")->open(), SmallCall().call()).status, CallStatus::done);
}

TEST_F(Python, TheListedAdaptersAreThoseThatThereAre) {
  int tried = 0;
  for (const std::string prefix :
       {"onnxruntime", "onnx", "torch", "torch-cuda", "openvino", "jax", "jax-cuda", "keras", "paddle", "mlx"}) {
    if (!python_can_import(prefix.substr(0, prefix.find('-')))) continue;
    ++tried;
    std::string listed;
    WorkerCommand command;
    std::size_t count = 0;
    for (const ListedSubject& adapter : adapter_subjects())
      if (adapter.name.starts_with(prefix + ":")) {
        if (++count <= 12) listed += (listed.empty() ? "" : ", ") + adapter.name.substr(prefix.size() + 1);
        command = python_target(adapter.name, options()).value().command;
      }
    if (count > 12) listed += " and " + std::to_string(count - 12) + " more (attest list subjects)";
    const std::string target = prefix + ":none";
    command.argv.back() = command.target = target;
    try {
      WorkerFactory(command, "none", target);
      FAIL() << "started " << target;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "the adapter " + prefix + " has no 'none'; it has " + listed);
    }
  }
  if (tried == 0) GTEST_SKIP() << "no library of an adapter in this Python";
}

TEST_F(Python, AnAdapterAnswersACall) {
  int tried = 0;
  for (const std::string subject :
       {"onnxruntime:Attention", "onnxruntime:GroupQueryAttention", "onnxruntime:contrib-Attention",
        "onnxruntime:DecoderMaskedMultiHeadAttention", "onnxruntime:explicit", "onnx:Attention", "torch:sdpa",
        "torch:mha", "openvino:sdpa", "jax:sdpa", "keras:numpy", "paddle:sdpa", "mlx:sdpa"}) {
    if (!python_can_import(subject.substr(0, subject.find(':')))) continue;
    ++tried;
    const SmallCall small(8);
    attest_attention call = small.call();
    call.scale = 1 / std::sqrt(8.0);
    call.flags = ATTEST_SCALE_IS_DEFAULT;
    const CallResult result = run(*resolve(subject, Trust::file, options())->open(), call);
    EXPECT_EQ(result.status, CallStatus::done) << subject << ": " << result.message;
    for (Index d = 0; d < 8; ++d) EXPECT_NEAR(small.out.at(0, 0, 0, d), static_cast<double>(d) + 0.5, 1e-5) << subject;
  }
  if (tried == 0) GTEST_SKIP() << "no library of an adapter in this Python";
}

TEST_F(Python, TheExampleIsRight) {
  const auto factory =
      resolve(ATTEST_SOURCE_DIR "/examples/attention_subject.py:plain", Trust::command_line, options());
  const SmallCall small(4);  // q.k = 2, scale 0.5: both scores 1, so out is the mean of v
  EXPECT_EQ(run(*factory->open(), small.call()).status, CallStatus::done);
  for (Index d = 0; d < 4; ++d) EXPECT_NEAR(small.out.at(0, 0, 0, d), static_cast<double>(d) + 0.5, 1e-6);
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!attest::testing::python_can_import("numpy")) {
    std::puts("skipped: no numpy here; name a Python that has it with ATTEST_PYTHON");
    return 125;
  }
  return RUN_ALL_TESTS();
}
