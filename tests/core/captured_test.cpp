// values=file: captured activations as the values of a problem.
#include "core/captured.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "core/json_text.hpp"
#include "tests/core/npz_file.hpp"

namespace attest {
namespace {

using test::write_npz;

// Names are unique over tests: a file is read once a process.
class CapturedFile : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("attest-captured-" + std::to_string(::getpid()) +
                                                       testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    path = (folder / "act.npz").string();
    write_npz(path, {{"q", {2, 4, 3, 5}, 0}, {"k", {2, 2, 7, 5}, 1000}, {"v", {2, 2, 7, 6}, 2000}});
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
  std::string path;
};

std::string refusal(const std::string& text) {
  try {
    problem_from_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "(read)";
}

TEST_F(CapturedFile, FillsTheProblemThatNamesItAlone) {
  const Problem problem = problem_from_text("values=file:" + path);
  EXPECT_EQ(to_text(problem),
            "op=attention b=2 hq=4 hkv=2 lq=3 lk=7 d=5 dv=6 dtype=f32 values=file:" + path + " seed=0");
  EXPECT_EQ(problem_from_text(to_text(problem)), problem);
  const Inputs inputs = materialise(problem);
  EXPECT_EQ(inputs.q.at(1, 3, 2, 4), 2 * 4 * 3 * 5 - 1);
  EXPECT_EQ(inputs.k.at(0, 1, 2, 3), 1000 + (1 * 7 + 2) * 5 + 3);
  EXPECT_EQ(inputs.v.at(1, 0, 6, 5), 2000 + (2 * 7 + 6) * 6 + 5);
}

TEST_F(CapturedFile, SlicesByOriginsInAnyLayoutAndRounds) {
  const Problem slice = problem_from_text(
      "b=1 hq=2 hkv=1 lq=1 lk=2 d=2 dv=1 dtype=f16 b0=1 hq0=2 hkv0=1 lq0=2 lk0=5 d0=3 "
      "dv0=4 k_layout=transposed values=file:" +
      path);
  const Inputs inputs = materialise(slice);
  EXPECT_EQ(inputs.q.at(0, 1, 0, 1), ((1 * 4 + 3) * 3 + 2) * 5 + 4);
  EXPECT_EQ(inputs.k.at(0, 0, 1, 0), round_to(Format::f16, 1000.0 + ((1 * 2 + 1) * 7 + 6) * 5 + 3));
  EXPECT_EQ(inputs.v.at(0, 0, 1, 0), round_to(Format::f16, 2000.0 + ((1 * 2 + 1) * 7 + 6) * 6 + 4));
  // Forms and edits apply as to any other source.
  Problem edited = slice;
  edited.v_form = Form::one;
  edited.edits.push_back({Edit::Tensor::q, {0, 0, 0, 0}, 0.5});
  const Inputs changed = materialise(edited);
  EXPECT_EQ(changed.v.at(0, 0, 0, 0), 1);
  EXPECT_EQ(changed.q.at(0, 0, 0, 0), 0.5);
}

TEST_F(CapturedFile, IsTheSameForAllThreads) {
  const Problem problem = problem_from_text("values=file:" + path);
  std::vector<const Captured*> seen(8);
  std::vector<std::thread> threads;
  for (auto& captured : seen) threads.emplace_back([&] { captured = &load_captured(problem.values_file); });
  for (std::thread& thread : threads) thread.join();
  for (const Captured* captured : seen) EXPECT_EQ(captured, seen.front());
}

TEST_F(CapturedFile, RefusesWhatItDoesNotCover) {
  const std::string from = "values=file:" + path;
  EXPECT_NE(refusal(from + " lk=8").find("lk=8"), std::string::npos);
  EXPECT_NE(refusal(from + " lk=6 lk0=2").find("lk=6 from lk0=2 passes the 7"), std::string::npos);
  EXPECT_EQ(refusal(from + " lk=5 lk0=2"), "(read)");
  EXPECT_NE(refusal("values=file:").find("names no file"), std::string::npos);
  EXPECT_NE(refusal("values=file").find("names no file"), std::string::npos);
  EXPECT_NE(refusal(from + ".missing").find("does not exist"), std::string::npos);
  write_npz((folder / "lacks.npz").string(), {{"q", {1, 1, 1, 1}, 0}, {"k", {1, 1, 1, 1}, 0}});
  EXPECT_NE(refusal("values=file:" + (folder / "lacks.npz").string()).find("no array v"), std::string::npos);
  write_npz((folder / "unfit.npz").string(), {{"q", {1, 1, 1, 2}, 0}, {"k", {1, 1, 1, 1}, 0}, {"v", {1, 1, 1, 1}, 0}});
  EXPECT_NE(refusal("values=file:" + (folder / "unfit.npz").string()).find("do not fit"), std::string::npos);
  write_npz((folder / "nan.npz").string(), {{"q", {1, 1, 1, 1}, 0}, {"k", {1, 1, 1, 1}, NAN}, {"v", {1, 1, 1, 1}, 0}});
  EXPECT_NE(refusal("values=file:" + (folder / "nan.npz").string()).find("finite"), std::string::npos);
  EXPECT_NE(refusal("values=file:" + path + " lk0=1000").find("lk0=1000 leaves nothing of the"), std::string::npos);
}

TEST_F(CapturedFile, IsTakenFromTheFolderOfTheJsonAlone) {
  const auto json = parse_json(json_text(to_json(problem_from_text("values=file:" + path))));
  const auto with = [&](const std::string& file) {
    auto changed = json;
    changed["values_file"] = file;
    return changed;
  };
  EXPECT_EQ(problem_from_json(with("act.npz"), folder.string()).values_file, path);
  for (const std::string& file :
       {path, std::string("../act.npz"), std::string("x/act.npz"), std::string(".."), std::string()})
    EXPECT_THROW(problem_from_json(with(file), folder.string()), Error) << file;
  std::filesystem::create_symlink(path, folder / "link.npz");
  EXPECT_THROW(problem_from_json(with("link.npz"), folder.string()), Error);
  EXPECT_EQ(refusal("values=file:" + (folder / "link.npz").string()), "(read)") << "the command line may name a link";
}

}  // namespace
}  // namespace attest
