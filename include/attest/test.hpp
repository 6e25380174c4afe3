// `attest check` in the body of a test, of GoogleTest, Catch2 or any other: C++17, this header alone, nothing to link.
//
//   TEST(MyAttention, KeepsItsPolicy) { EXPECT_ATTEST("./libmy_attention_subjects.so:mine", "f16"); }
//
// The subject runs in a process of its own (docs/cpp.md): a crash or a write out of bounds fails the test, and does not
// end it.
#ifndef ATTEST_TEST_HPP
#define ATTEST_TEST_HPP

#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

extern char** environ;

namespace attest {
inline namespace abi1 {

// The result of a check. It is true if every law held.
struct Checked {
  int status;  // attest's exit status, -1 where it did not start: 0 held, 1 failed, 5 judged nothing (docs/cli.md)
  std::string text;  // the report as the terminal has it, or why there is none
  explicit operator bool() const noexcept { return status == 0; }
};

// Asks a subject, as the command line names it ("./libmine.so:mine", "kernel.py:mine"), for its laws on 1,000 problems
// of seed 1. `policy`: its precision, "" for the one that it declares. `arguments`: further words for `attest check`,
// the last of which counts. The program is $ATTEST_PROGRAM, else `attest` on the PATH.
inline Checked check(const std::string& subject, const std::string& policy = "",
                     std::initializer_list<std::string> arguments = {}) {
  const char* named = std::getenv("ATTEST_PROGRAM");
  std::vector<std::string> words{named != nullptr ? named : "attest", "check", subject, "--seed", "1", "--jobs", "1"};
  if (!policy.empty()) words.insert(words.end(), {"--policy", policy});
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe(ends) != 0) return {-1, std::string("attest: no pipe: ") + std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  ::posix_spawn_file_actions_addclose(&actions, ends[0]);
  ::posix_spawn_file_actions_addclose(&actions, ends[1]);
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Checked checked{-1, {}};
  if (error != 0)
    checked.text = "attest: " + words[0] + " does not start: " + std::strerror(error) +
                   "; put it on the PATH, or its path into ATTEST_PROGRAM";
  char bytes[4096];
  for (ssize_t count; error == 0 && (count = ::read(ends[0], bytes, sizeof bytes)) != 0;)
    if (count > 0)
      checked.text.append(bytes, static_cast<std::size_t>(count));
    else if (errno != EINTR)
      break;
  ::close(ends[0]);
  int status = 0;
  if (error != 0) return checked;
  while (::waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  if (WIFEXITED(status)) checked.status = WEXITSTATUS(status);
  return checked;
}

}  // namespace abi1
}  // namespace attest

// EXPECT_ATTEST(SUBJECT, POLICY, {ARGUMENT, ...}): in a test of GoogleTest, whose header is included before; the
// arguments of check(). More may be said with <<. Elsewhere ask check() itself.
#define EXPECT_ATTEST(...)                                                                       \
  switch (0)                                                                                     \
  case 0:                                                                                        \
  default:                                                                                       \
    if (const ::attest::Checked attest_checked = ::attest::check(__VA_ARGS__); attest_checked) { \
    } else                                                                                       \
      ADD_FAILURE() << "attest check ended with status " << attest_checked.status << "\n" << attest_checked.text

#endif
