// Who holds a GPU open is told by number and name.
#include "engine/holders.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;

void process(const fs::path& proc, const std::string& pid, const std::string& name, const std::string& open) {
  fs::create_directories(proc / pid / "fd");
  std::ofstream(proc / pid / "comm") << name << "\n";
  fs::create_symlink("/dev/null", proc / pid / "fd" / "0");
  fs::create_symlink(open, proc / pid / "fd" / "7");
}

TEST(HoldersOfGpus, AreToldByNumberAndName) {
  const test::TemporaryFolder proc;
  process(proc.path(), "912", "python3", "/dev/nvidia0");
  process(proc.path(), "87", "a.out", "/dev/kfd");
  process(proc.path(), "88", "reader", "/home/dev/nvidia0");
  process(proc.path(), "self", "attest", "/dev/nvidia0");
  fs::create_directories(proc.path() / "89");
  EXPECT_EQ(holders_of_gpus(proc.path()), "87 (a.out), 912 (python3)");
}

TEST(HoldersOfGpus, AreNoneWhereNobodyHoldsOne) {
  const test::TemporaryFolder proc;
  process(proc.path(), "88", "reader", "/dev/zero");
  EXPECT_EQ(holders_of_gpus(proc.path()), "");
  EXPECT_EQ(holders_of_gpus(proc.path() / "nowhere"), "");
}

}  // namespace
}  // namespace attest::engine
