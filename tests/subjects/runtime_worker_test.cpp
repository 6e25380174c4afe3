#include "subjects/runtime_worker.hpp"

#include <gtest/gtest.h>

#include <cstring>

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
