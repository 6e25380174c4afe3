#include "subjects/runtime_worker.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "core/error.hpp"
#include "subjects/resolve.hpp"

namespace attest {
namespace {

const std::string scripts = ATTEST_SOURCE_DIR "/tests/subjects/scripts/";

WorkerCommand command(const std::string& script) {
  ResolveOptions options;
  options.log_folder = "runtime_worker_test-logs";
  options.limits.call = std::chrono::milliseconds(2000);
  return runtime_command(script, Trust::command_line, options);
}

template <class T>
NamedArray array_of(const std::string& name, NamedArray::Type type, std::vector<Index> shape, std::vector<T> values) {
  NamedArray array{name, type, "", std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

class Runtimes : public ::testing::Test {
 protected:
  ModelAnswer ask(const std::string& model, std::vector<std::string> outputs, ModelBuild build = {"plain", 1}) {
    int number = 0;
    const CallResult loaded = worker.load(model, build, number);
    if (loaded.status != CallStatus::done) return {loaded, {}};
    return worker.ask(number, std::vector{x, flags}, outputs, 1024);
  }
  RuntimeWorker worker{command(scripts + "runtimes.py")};
  NamedArray x = array_of<std::int64_t>("x", NamedArray::Type::i64, {2, 1, 1, 1, 2}, {1, 2, 3, std::int64_t{1} << 60});
  NamedArray flags = array_of<char>("flags", NamedArray::Type::boolean, {3}, {1, 0, 1});
};

TEST_F(Runtimes, RunModelsOnTensorsOfAnyRank) {
  EXPECT_EQ(worker.info().name, "words");
  EXPECT_EQ(worker.info().version, "1.2");
  EXPECT_EQ(worker.info().builds, (std::vector<std::string>{"plain", "twice"}));
  const ModelAnswer answer = ask("id", {"flags", "x", "threads"}, {"plain", 3});
  ASSERT_EQ(answer.result.status, CallStatus::done) << answer.result.message;
  ASSERT_EQ(answer.outputs.size(), 3u);
  EXPECT_EQ(answer.outputs[0].type, NamedArray::Type::boolean);
  EXPECT_EQ(answer.outputs[0].bytes, flags.bytes);
  EXPECT_EQ(answer.outputs[1].shape, x.shape);
  EXPECT_EQ(answer.outputs[1].bytes, x.bytes);
  EXPECT_TRUE(answer.outputs[2].shape.empty());
  EXPECT_EQ(answer.outputs[2].at(0), 3);
}

TEST_F(Runtimes, KeepModelsByNumber) {
  int plain = 0, twice = 0;
  ASSERT_EQ(worker.load("id", {"plain", 1}, plain).status, CallStatus::done);
  ASSERT_EQ(worker.load("id", {"twice", 1}, twice).status, CallStatus::done);
  const std::vector<std::string> names{"x"};
  EXPECT_EQ(worker.ask(twice, std::vector{x, flags}, names, 64).outputs.at(0).at(1), 4);
  EXPECT_EQ(worker.ask(plain, std::vector{x, flags}, names, 64).outputs.at(0).at(1), 2);
  worker.unload(twice);
  EXPECT_EQ(worker.ask(twice, std::vector{x, flags}, names, 64).result.status, CallStatus::error);
  EXPECT_EQ(worker.ask(plain, std::vector{x, flags}, names, 64).outputs.at(0).at(1), 2);
}

TEST_F(Runtimes, SayWhatOfAModelIsToBeTold) {
  int number = 0;
  ASSERT_EQ(worker.load("noted", {"plain", 1}, number).status, CallStatus::done);
  EXPECT_EQ(worker.note(), "half of it is elsewhere");
  ASSERT_EQ(worker.load("id", {"plain", 1}, number).status, CallStatus::done);
  EXPECT_EQ(worker.note(), "");
}

TEST(RuntimesOfManyBuilds, HaveThoseThatAreAskedForAndAccepted) {
  WorkerCommand asked = command(scripts + "runtimes.py");
  asked.builds = {"twice", "plain+a=1", "other+a=1", "plain+b=\"2\""};
  EXPECT_EQ(RuntimeWorker{asked}.info().builds,
            (std::vector<std::string>{"plain", "twice", "plain+a=1", "plain+b=\"2\""}));
  asked.builds = {"gone"};
  try {
    const RuntimeWorker worker{asked};
    ADD_FAILURE() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::no_subject);
    EXPECT_STREQ(error.what(), "words: no such device");
  }
}

TEST_F(Runtimes, SayWhatWentWrong) {
  EXPECT_EQ(ask("refused", {"x"}).result.status, CallStatus::error);
  EXPECT_NE(ask("refused", {"x"}).result.message.find("does not like"), std::string::npos);
  EXPECT_EQ(ask("unsupported", {"x"}).result.status, CallStatus::unsupported);
  EXPECT_NE(ask("raises", {"x"}).result.message.find("ValueError: a bad value (at runtimes.py:"), std::string::npos);
  EXPECT_NE(ask("changes", {"x"}).result.message.find("input 'x' was changed"), std::string::npos);
  EXPECT_EQ(ask("few", {"x"}).result.status, CallStatus::error);
  EXPECT_TRUE(worker.usable());
}

TEST_F(Runtimes, TellShapesOfWhatDoesNotFit) {
  const ModelAnswer large = ask("large", {"x"});
  ASSERT_EQ(large.result.status, CallStatus::done);
  EXPECT_EQ(large.outputs.at(0).shape, (std::vector<Index>{1 << 22}));
  EXPECT_TRUE(large.outputs.at(0).bytes.empty());
  EXPECT_EQ(ask("objects", {"x"}).outputs.at(0).type, NamedArray::Type::other);
}

// Whatever way inputs lie in memory, they are the same numbers.
TEST_F(Runtimes, GetInputsInEachLayoutThatTheyTake) {
  EXPECT_EQ(worker.info().layouts, (std::vector<InputLayout>(other_layouts.begin(), other_layouts.end())));
  const auto told = [&](const std::string& model, InputLayout layout) {
    int number = 0;
    EXPECT_EQ(worker.load(model, {"plain", 1}, number).status, CallStatus::done);
    ModelAnswer answer =
        worker.ask(number, std::vector{x, flags}, std::vector<std::string>{"x", "flags"}, 1024, layout);
    EXPECT_EQ(answer.result.status, CallStatus::done) << answer.result.message;
    return answer;
  };
  const auto numbers = [](const NamedArray& array) {
    std::vector<double> found;
    for (Index i = 0; i < array.shape[0]; ++i)
      found.push_back(static_cast<double>(array.at(static_cast<std::size_t>(i))));
    return found;
  };
  using Numbers = std::vector<double>;
  const std::map<InputLayout, Numbers> strides{{InputLayout::packed, {2, 2, 2, 2, 1}},
                                               {InputLayout::odd_base, {2, 2, 2, 2, 1}},
                                               {InputLayout::padded_rows, {5, 5, 5, 5, 1}},
                                               {InputLayout::every_other, {4, 4, 4, 4, 2}},
                                               {InputLayout::column_major, {1, 2, 2, 2, 2}}};
  for (const auto& [layout, expected] : strides) {
    const ModelAnswer same = told("id", layout);
    EXPECT_EQ(same.outputs.at(0).bytes, x.bytes) << name(layout);
    EXPECT_EQ(same.outputs.at(1).bytes, flags.bytes) << name(layout);
    EXPECT_EQ(numbers(told("strides", layout).outputs.at(0)), expected) << name(layout);
    const Numbers base = numbers(told("address", layout).outputs.at(0));
    EXPECT_EQ(base, (Numbers{layout == InputLayout::odd_base ? 8.0 : 0.0})) << name(layout);
  }
  int number = 0;
  ASSERT_EQ(worker.load("gap", {"plain", 1}, number).status, CallStatus::done);
  const auto message = [&](InputLayout layout) {
    return worker.ask(number, std::vector{x, flags}, std::vector<std::string>{"x"}, 1024, layout).result.message;
  };
  EXPECT_NE(message(InputLayout::every_other).find("between the elements of its input 'x'"), std::string::npos);
  EXPECT_NE(message(InputLayout::packed).find("input 'x' was changed"), std::string::npos);
}

TEST(InputLayouts, PutEachElementAtItsStrides) {
  const NamedArray array =
      array_of<std::int32_t>("y", NamedArray::Type::i32, {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (const InputLayout layout : other_layouts) {
    const LaidOut laid = laid_out(array, layout, std::byte{0xFF});
    std::size_t elements = 0;
    for (Index i = 0; i < 12; ++i) {
      const Index index[] = {i / 6, i / 2 % 3, i % 2};
      std::size_t at = laid.offset;
      for (int axis = 0; axis < 3; ++axis)
        at += 4 * static_cast<std::size_t>(index[axis] * laid.strides[static_cast<std::size_t>(axis)]);
      std::int32_t got = -1;
      ASSERT_LE(at + 4, laid.bytes.size());
      std::memcpy(&got, laid.bytes.data() + at, 4);
      EXPECT_EQ(got, i) << name(layout);
    }
    for (std::size_t k = 0; k < laid.bytes.size(); ++k) {
      elements += laid.is_element(k);
      EXPECT_TRUE(laid.is_element(k) || laid.bytes[k] == std::byte{0xFF});
    }
    EXPECT_EQ(elements, 48u) << name(layout);
    EXPECT_EQ(other_layout_named(name(layout)), layout);
    // Nothing, and one number.
    EXPECT_LE(laid_out(array_of<float>("none", NamedArray::Type::f32, {0, 3}, {}), layout, std::byte{}).bytes.size(),
              4u);
    EXPECT_GE(laid_out(array_of<float>("one", NamedArray::Type::f32, {}, {1}), layout, std::byte{}).bytes.size(), 4u);
  }
  EXPECT_FALSE(other_layout_named("packed"));
  EXPECT_FALSE(other_layout_named("nope"));
}

TEST_F(Runtimes, DieAlone) {
  const ModelAnswer dead = ask("dies", {"x"});
  EXPECT_EQ(dead.result.status, CallStatus::crash);
  EXPECT_NE(dead.result.message.find("SIGABRT"), std::string::npos) << dead.result.message;
  EXPECT_FALSE(worker.usable());
}

TEST_F(Runtimes, AreEndedWhenTheyHang) {
  EXPECT_EQ(ask("hangs", {"x"}).result.status, CallStatus::timeout);
  EXPECT_FALSE(worker.usable());
}

std::string refusal(const std::string& text, Exit exit) {
  try {
    const RuntimeWorker worker(command(text));
    ADD_FAILURE() << text << " started";
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), exit) << error.what();
    return error.what();
  }
}

TEST(RuntimesThatDoNotStart, AreToldInOneSentence) {
  EXPECT_NE(refusal("nope", Exit::usage).find("no runtime of models 'nope'"), std::string::npos);
  EXPECT_NE(refusal("../adapters/onnxruntime", Exit::usage).find("no runtime"), std::string::npos);
  EXPECT_NE(refusal("missing.py", Exit::no_subject).find("no file missing.py"), std::string::npos);
  EXPECT_NE(refusal(scripts + "one_subject.py", Exit::no_subject).find("@attest.runtime"), std::string::npos);
  EXPECT_NE(refusal(scripts + "two_runtimes.py", Exit::no_subject).find("2 runtimes"), std::string::npos);
  EXPECT_NE(refusal(scripts + "raises_at_import.py", Exit::no_subject).find("cannot be imported"), std::string::npos);
  EXPECT_THROW(runtime_command(scripts + "runtimes.py", Trust::file, {}), Error);
}

}  // namespace
}  // namespace attest
