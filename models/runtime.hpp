#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/subject.hpp"
#include "graph/program.hpp"
#include "subjects/runtime_worker.hpp"

namespace attest::models {

// A graph that is asked: as attest evaluates it, and as the file that a runtime gets.
struct Part {
  std::shared_ptr<const std::string> file;  // bytes, in which the program's constants lie
  std::uint64_t key = 0;                    // hash of these, in this process alone
  std::unique_ptr<const graph::Program> program;
};
// Read a part from the bytes of a file, and from a graph in memory. Throw Error(usage) as read_model, write_model and
// Program.
Part part_of_file(std::string bytes, std::string_view name);
Part part_of_model(const graph::Model& model);

// The way in which a graph is compiled.
struct Build {
  std::string level;   // one of the runtime's builds
  bool fixed = false;  // for the lengths of one problem, in place of open ones
  int threads = 1;
  InputLayout layout = InputLayout::packed;  // the layout of each run's inputs: no matter of compiling
};
// "all", "all, static", "all, 4 threads, column_major inputs".
std::string to_text(const Build& build);

// The state of the session in which a graph is run.
enum class Freshness : std::uint8_t {
  kept,         // a graph that was compiled before, and has answered others
  new_session,  // compiled anew, in the process that has compiled and answered others
  new_process,  // in a process that was asked nothing before
};

// The answer of a run. Arrays without elements stand for outputs that have not the size that they should have.
struct Answer {
  CallResult result;
  std::vector<graph::Array> outputs;
  Freshness on = Freshness::kept;  // the state it was run in, which may be fresher than was asked for
  bool cut_off = false;            // by answer_by(): nothing is known
};

// Runs graphs.
class Runtime {
 public:
  Runtime() = default;
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  [[nodiscard]] virtual const RuntimeInfo& info() const noexcept = 0;
  // The remark on the first graph that it compiled at a level: one line, as on nodes that another provider than the one
  // asked for computes. Mostly empty.
  [[nodiscard]] virtual std::string note(const std::string& level) const {
    (void)level;
    return {};
  }
  // Sets the end until which answers are waited for, if the limits of calls are later.
  virtual void answer_by(std::optional<std::chrono::steady_clock::time_point> end) { (void)end; }
  // `room`: bytes that the outputs will hold. Throws Error(no_subject) where it cannot be started any more.
  virtual Answer run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room,
                     Freshness on) = 0;
};

// A runtime by the worker protocol: a process for each level, started when it is first asked, and anew after it ended.
// It keeps what it compiled last. Throws Error(no_subject) if it does not start.
std::unique_ptr<Runtime> open_runtime(WorkerCommand command);

}  // namespace attest::models
