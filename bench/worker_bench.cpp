// Measures the cost of a call through a worker: by the pipe and by the mailbox, beside the bare call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "subjects/resolve.hpp"
#include "subjects/shipped.hpp"

namespace {

using namespace attest;
using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

std::string python() {
  const char* variable = std::getenv("ATTEST_PYTHON");
  return variable != nullptr && *variable != '\0' ? variable : "python3";
}

double bare_python_call() {
  const std::string command = python() + " " BENCH_FOLDER "/worker_kernel.py 1 2 4 8 8";
  char line[64] = "nan";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr || std::fgets(line, sizeof line, pipe) == nullptr) std::puts("the bare call could not be timed");
  if (pipe != nullptr) ::pclose(pipe);
  return std::atof(line) / 1000;
}

struct Times {
  double trip, kernel;  // medians in us; the kernel's as the worker tells it
};

// `repeated`: the same problem again and again; else tensors that no call had lately, as most of a campaign's.
Times measure(const std::string& text, bool mailbox, bool repeated) {
  ResolveOptions options;
  options.ways.mailbox = mailbox;
  const auto subject = resolve(text, Trust::command_line, options)->open();
  std::vector<Inputs> inputs;
  std::vector<Tensor> outs, logs;
  std::vector<Call> calls;
  constexpr int shapes = 2048;
  for (int i = 0; i < (repeated ? 1 : shapes); ++i) {
    const Problem problem =
        problem_from_text(fmt::format("op=attention b=1 hq=2 hkv=2 lq={} lk={} d=8 dv={} dtype=f32 seed={}", 4 + i % 16,
                                      8 + i / 16 % 16, 8 + i / 256, i + 1));
    inputs.push_back(materialise(problem));
    outs.push_back(make_out(problem));
    logs.push_back(make_lse(problem));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) calls.push_back(inputs[i].call(outs[i], logs[i]));
  std::vector<double> trips, kernels;
  constexpr int trips_made = 8192;
  for (int i = 0; i < trips_made; ++i) {
    const Call& call = calls[static_cast<std::size_t>(i) % calls.size()];
    const auto start = Clock::now();
    const CallResult result = subject->run_one(call);
    trips.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    kernels.push_back(static_cast<double>(result.elapsed_ns) / 1000);
    if (result.status != CallStatus::done) throw internal_error(text + ": " + result.message);
  }
  return {median(trips), median(kernels)};
}

void print(const std::string& name, const std::string& text, double bare) {
  for (const bool repeated : {true, false}) {
    const Times pipe = measure(text, false, repeated), mailbox = measure(text, true, repeated);
    const double kernel = bare > 0 && repeated ? bare : mailbox.kernel;
    fmt::print("{:<8} {:<8} {:>8.1f} {:>8.1f} {:>8.1f} {:>10.1f} {:>10.1f} {:>7.1f}\n", name, repeated ? "one" : "2048",
               kernel, pipe.trip, mailbox.trip, pipe.trip - kernel, mailbox.trip - kernel,
               (pipe.trip - kernel) / (mailbox.trip - kernel));
  }
}

// Milliseconds from the wish for a fresh instance to its first answer: one after the other, and with pauses.
double restart(const std::string& text, bool nursery, std::chrono::milliseconds pause) {
  ResolveOptions options;
  options.ways.nursery = nursery;
  const auto subject = resolve(text, Trust::command_line, options)->open();
  Problem problem = problem_from_text("op=attention b=1 hq=2 hkv=2 lq=4 lk=8 d=8 dv=8 dtype=f32 seed=1");
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  std::vector<double> times;
  constexpr int restarts = 9;
  for (int i = 0; i <= restarts; ++i) {  // the first says that lives end, and is not counted
    std::this_thread::sleep_for(pause);
    const auto start = Clock::now();
    subject->renew();
    const CallResult result = subject->run_one(inputs.call(out, lse));
    if (i > 0) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    if (result.status != CallStatus::done) throw internal_error(text + ": " + result.message);
  }
  return median(times);
}

void print_restarts(const std::string& text) {
  const std::chrono::milliseconds none{0};
  const double before = restart(text, false, none), after = restart(text, true, none);
  const std::chrono::milliseconds pause(static_cast<std::int64_t>(before));
  fmt::print("{:<40} {:>9.1f} {:>9.1f} {:>14.1f}\n", text.substr(text.rfind('/') + 1), before, after,
             restart(text, true, pause));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fputs("usage: worker_bench PLUGIN [ADAPTER...]\n", stderr);
    return 2;
  }
  std::puts(
      "medians in us, (B,H,Lq,Lk,D) = (1,2,4,8,8); `over`: what the trip costs beyond the kernel\n"
      "subject  shapes     kernel     pipe  mailbox  over pipe  over mbox   ratio");
  print("plug-in", argv[1], 0);
  print("python", BENCH_FOLDER "/worker_kernel.py", bare_python_call());
  std::puts(
      "\nmedian ms from the end of an instance to the first answer of the next\n"
      "subject                                    process   nursery   after a pause");
  print_restarts(BENCH_FOLDER "/worker_kernel.py");
  for (int i = 2; i < argc; ++i) print_restarts(argv[i]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "worker_bench: %s\n", error.what());
  return 1;
}
