#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "cli/help.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "report/wrap.hpp"
#include "subjects/descendants.hpp"

namespace {

bool bisecting(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--bisect") return true;
  return false;
}

// `git bisect run` reads 125 as "skip this commit".
int status(attest::Exit exit, bool bisect) {
  using attest::Exit;
  if (bisect && (exit == Exit::internal || exit == Exit::no_subject || exit == Exit::incomplete))
    exit = Exit::cannot_test;
  return static_cast<int>(exit);
}

// A closed descriptor 0, 1 or 2 would be the next file that is opened, and take what is meant for another: hold it, so
// that writing there still fails.
void hold_closed_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) == -1) ::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
}

// Threads of a kernel that have nothing to do are to sleep, not to spin: other jobs, and other programs, have work for
// their processors. OpenMP reads that from the environment before main() begins, so that attest starts itself once
// more. Subjects in processes of their own inherit it. Where that cannot be done, or the environment says something of
// its own, nothing changes.
void wait_passively(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (::setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
  char self[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return;
  self[length] = '\0';
  ::execv(self, argv);
}

// Tensors of one problem are the memory of the next: freed memory stays with this process, up to a limit for each
// thread, in place of being given back and asked for, page by page, once more. An environment that says something of
// its own has its way.
void keep_memory() {
#ifdef __GLIBC__
  if (std::getenv("GLIBC_TUNABLES") != nullptr || std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) return;
  constexpr int kept = 1 << 26, mapped = 1 << 25;  // bytes; the second is the most that glibc takes
  (void)::mallopt(M_MMAP_THRESHOLD, mapped);
  (void)::mallopt(M_TRIM_THRESHOLD, kept);
#endif
}

// Tells whether stdout took all that was printed, or its reader had enough, as in `attest list subjects | head`.
bool printed() {
  std::cout.flush();
  std::fflush(stdout);
  if (std::cout && std::ferror(stdout) == 0) return true;
  pollfd out{STDOUT_FILENO, 0, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

// " Did you mean --seed?" for the first word that looks like an option and is none of the verb's.
std::string correction(const CLI::App& app, const std::vector<std::string>& words) {
  for (const CLI::App* verb : app.get_subcommands()) {
    const std::vector<std::string> names = attest::cli::option_names(*verb);
    for (const std::string& word : words)
      if (const std::string given = word.substr(0, word.find('='));
          given.starts_with("--") && given.size() > 2 && std::ranges::find(names, given) == names.end())
        return attest::cli::did_you_mean(given, names);
  }
  return {};
}

int run(int argc, char** argv) {
  CLI::App app{
      "attest: could a correct implementation of what this attention kernel promises have produced these numbers?",
      "attest"};
  app.set_version_flag("--version", "attest " ATTEST_VERSION);
  app.require_subcommand(1);
  attest::cli::lay_out_help(app);
  attest::cli::Run verb;
  attest::cli::add_fuzz(app, verb);
  attest::cli::add_check(app, verb);
  attest::cli::add_compare(app, verb);
  attest::cli::add_replay(app, verb);
  attest::cli::add_shrink(app, verb);
  attest::cli::add_triage(app, verb);
  attest::cli::add_report(app, verb);
  attest::cli::add_merge(app, verb);
  attest::cli::add_certify(app, verb);
  attest::cli::add_explain(app, verb);
  attest::cli::add_export(app, verb);
  attest::cli::add_judge(app, verb);
  attest::cli::add_bound(app, verb);
  attest::cli::add_probe(app, verb);
  attest::cli::add_bench(app, verb);
  attest::cli::add_grade(app, verb);
  attest::cli::add_stats(app, verb);
  attest::cli::add_list(app, verb);
  attest::cli::add_completion(app, verb);
  attest::cli::add_man(app, verb);
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc), verbs;
  for (const CLI::App* each : app.get_subcommands({})) verbs.push_back(each->get_name());
  // `attest help VERB` is `attest VERB --help`.
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.resize(std::min<std::size_t>(words.size(), 1));
    words.emplace_back("--help");
  }
  // CLI11 would only say that a verb is missing.
  if (!words.empty() && words.front()[0] != '-' && std::ranges::find(verbs, words.front()) == verbs.end())
    throw attest::usage_error("there is no verb '" + words.front() + "'." +
                              attest::cli::did_you_mean(words.front(), verbs) + " `attest --help` lists them");
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the end
  } catch (const CLI::Success& asked) {                                 // --help, --version
    return app.exit(asked, std::cout, std::cout);
  } catch (const CLI::ParseError& error) {
    throw attest::usage_error(error.what() + ("." + correction(app, words)) +
                              " `attest --help` lists verbs, `attest VERB --help` their options");
  }
  return verb();
}

}  // namespace

int main(int argc, char** argv) {
  wait_passively(argv);
  keep_memory();
  // A reader that went away, a worker that died and a file as long as files may be are told by the write itself.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  hold_closed_descriptors();
  attest::orphans::take_in();
  const bool bisect = bisecting(argc, argv);
  const attest::report::WrappedOutput out(std::cout, STDOUT_FILENO), err(std::cerr, STDERR_FILENO);
  try {
    const auto exit = static_cast<attest::Exit>(run(argc, argv));
    if (printed()) return status(exit, bisect);
    std::cerr << "attest: the result could not be printed whole: stdout is closed, or its disk is full\n";
    return status(exit == attest::Exit::held ? attest::Exit::usage : exit, bisect);
  } catch (const attest::Error& error) {
    std::cerr << "attest: " << error.what() << "\n";
    return status(error.exit(), bisect);
  } catch (const std::bad_alloc&) {
    std::cerr << "attest: out of memory; choose smaller dimensions, fewer --jobs, or smaller files\n";
  } catch (const std::exception& error) {
    std::cerr << "attest: internal error: " << error.what() << "\n";
  }
  return status(attest::Exit::internal, bisect);
}
