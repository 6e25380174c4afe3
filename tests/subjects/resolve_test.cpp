#include "subjects/resolve.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "core/error.hpp"
#include "subjects/shipped.hpp"
#include "tests/subjects/small_call.hpp"

namespace attest {
namespace {

using testing::SmallCall;

std::pair<Exit, std::string> refusal(const std::string& text, Trust trust = Trust::command_line) {
  try {
    resolve(text, trust, {});
  } catch (const Error& error) {
    return {error.exit(), error.what()};
  }
  return {Exit::held, "no error"};
}

TEST(Resolve, EveryBuiltinAndFaultIsWhatItIsListedAs) {
  std::set<std::string> names;
  for (const auto& list : {builtin_subjects(), fault_subjects()})
    for (const ListedSubject& listed : list) {
      const auto factory = resolve(listed.name, Trust::file, {});
      EXPECT_EQ(factory->info().name, listed.name);
      EXPECT_EQ(factory->info().doc, listed.doc);
      EXPECT_FALSE(listed.doc.empty()) << listed.name;
      EXPECT_TRUE(names.insert(listed.name).second) << listed.name;
    }
  EXPECT_TRUE(names.contains("builtin:fused") && names.contains("builtin:explicit") &&
              names.contains("fault:scale-twice"));
}

TEST(Resolve, BuiltinsComputeInThePolicyOfTheDtypeOrInTheOneGiven) {
  const auto drawn = resolve("builtin:fused", Trust::command_line, {});
  EXPECT_EQ(drawn->info().dtypes, (std::vector{Format::f32, Format::f16, Format::bf16}));
  EXPECT_EQ(drawn->info().contract(Format::bf16).policy, policy_for(Format::bf16));
  EXPECT_TRUE(drawn->info().concurrent);

  ResolveOptions options;
  options.policy = "f16-acc16";
  const auto fixed = resolve("builtin:fused", Trust::command_line, options);
  EXPECT_EQ(fixed->info().dtypes, std::vector{Format::f16});
  EXPECT_EQ(fixed->info().contract(Format::f16).policy, policy_from_text(options.policy));
}

TEST(Resolve, BuiltinsRunEveryDtype) {
  const auto subject = resolve("builtin:explicit", Trust::command_line, {})->open();
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const SmallCall small(8, type);  // both scores are equal, so out is the mean of v
    const CallResult result = subject->run_one(small.call());
    EXPECT_EQ(result.status, CallStatus::done) << result.message;
    for (Index d = 0; d < 8; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 0.5);
  }
}

TEST(Resolve, ABuiltinThatIsAskedForAnotherStorageIsAnErrorOfTheCall) {
  ResolveOptions options;
  options.policy = "f16";
  const SmallCall small(8, DType::f32);
  const CallResult result = resolve("builtin:fused", Trust::command_line, options)->open()->run_one(small.call());
  EXPECT_EQ(result.status, CallStatus::error);
  EXPECT_FALSE(result.message.empty());
}

TEST(Resolve, OnlyAPluginRunsInProcess) {
  ResolveOptions options;
  options.in_process = true;
  for (const char* text : {"onnxruntime:Attention", ATTEST_SOURCE_DIR "/examples/attention_subject.py", "/bin/true"})
    try {
      resolve(text, Trust::command_line, options);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_NE(std::string(error.what()).find("leave out --in-process"), std::string::npos) << error.what();
    }
  EXPECT_NO_THROW(resolve("builtin:fused", Trust::command_line, options));
}

TEST(Resolve, AdaptersAreListedWithoutTheirPackages) {
  std::set<std::string> names;
  for (const ListedSubject& adapter : adapter_subjects()) {
    EXPECT_FALSE(adapter.doc.empty()) << adapter.name;
    EXPECT_TRUE(names.insert(adapter.name).second) << adapter.name;
  }
  EXPECT_TRUE(names.contains("onnxruntime:MultiHeadAttention") && names.contains("onnxruntime:Attention"));
  EXPECT_TRUE(names.contains("ggml:flash_attn_ext"));
}

TEST(Resolve, AnAdapterInCppIsThePluginOfItsPrefix) {
  ASSERT_EQ(::setenv("ATTEST_ADAPTERS", "/nowhere", 1), 0);
  EXPECT_EQ(adapter_plugin("ggml"), "/nowhere/ggml.so");
  const auto [exit, sentence] = refusal("ggml:flash_attn_ext", Trust::file);
  EXPECT_EQ(exit, Exit::no_subject);
  EXPECT_NE(sentence.find("/nowhere/ggml.so is not there: ./run builds it"), std::string::npos) << sentence;
  ASSERT_EQ(::unsetenv("ATTEST_ADAPTERS"), 0);
  EXPECT_EQ(adapter_plugin("ggml"), ATTEST_SOURCE_DIR "/build/adapters/ggml.so");
  EXPECT_TRUE(std::filesystem::is_regular_file(plugin_adapter_script("ggml:flash_attn_ext").value()));
  EXPECT_FALSE(plugin_adapter_script("ggml:none"));
}

struct Refused {
  const char* text;
  Exit exit;
  const char* sentence;
  Trust trust = Trust::command_line;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.text; }

class ResolveRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(ResolveRefuses, WithOneSentence) {
  const auto [exit, sentence] = refusal(GetParam().text, GetParam().trust);
  EXPECT_EQ(exit, GetParam().exit) << sentence;
  EXPECT_TRUE(std::regex_search(sentence, std::regex(GetParam().sentence))) << sentence;
  EXPECT_LT(sentence.size(), 800u);
  EXPECT_EQ(sentence.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ResolveRefuses,
    ::testing::Values(Refused{"builtin:fusde", Exit::usage, "no subject 'builtin:fusde': did you mean builtin:fused"},
                      Refused{"builtin:", Exit::usage, "builtin:fused"},
                      Refused{"fault:scale-twise", Exit::usage, "did you mean fault:scale-twice"},
                      Refused{"fault:zzzzzzzzzzzz", Exit::usage, "there are fault:"},
                      Refused{"fused", Exit::usage, "did you mean builtin:fused"},
                      Refused{"onnxruntime:Atention", Exit::usage, "did you mean onnxruntime:Attention"},
                      Refused{"torhc:flash", Exit::usage, "it is builtin:NAME, fault:NAME"},
                      Refused{"", Exit::usage, "no subject ''"}, Refused{":", Exit::usage, "no subject ':'"},
                      Refused{"model.onnx", Exit::usage, "no subject 'model.onnx'"},
                      Refused{"a\nb\x1b", Exit::usage, "no subject 'a b'"},
                      Refused{"./absent.so", Exit::no_subject, "there is no file ./absent.so"},
                      Refused{"./absent.so:name", Exit::no_subject, "there is no file ./absent.so"},
                      Refused{"absent.py", Exit::no_subject, "there is no file absent.py"},
                      Refused{".", Exit::usage, "no subject '.'"},
                      Refused{"./absent.so", Exit::usage, "comes from the command line alone", Trust::file},
                      Refused{"evil.py:name", Exit::usage, "comes from the command line alone", Trust::file},
                      Refused{"/bin/true", Exit::usage, "comes from the command line alone", Trust::file},
                      Refused{"/bin/true", Exit::no_subject, "ended with status 0 before it described itself"}));

}  // namespace
}  // namespace attest
