#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/subject.hpp"
#include "subjects/describe.hpp"
#include "subjects/memory.hpp"
#include "subjects/origin.hpp"

namespace attest {

struct WorkerLimits {
  std::chrono::milliseconds call{10'000};       // past it a call is a timeout
  std::chrono::milliseconds start{10'000};      // for loading the subject and answering describe
  std::chrono::milliseconds once{60'000};       // for work that is done once: a first call, compiling a model
  std::uint64_t memory = machine_memory() / 2;  // bytes that one process may hold, with all that it has started
};

// Ways that are faster than to start a process anew for each life and ask it by lines in a pipe. Both are offered: the
// worker decides.
struct WorkerWays {
  bool mailbox = true;   // mailbox.hpp
  bool nursery = false;  // nursery.hpp; and once a life has ended, the next is kept ready
};

// The command that starts a worker, and the facts known about it.
struct WorkerCommand {
  std::vector<std::string> argv;
  std::string target;         // the file or the adapter, for messages
  std::filesystem::path log;  // its stderr is appended here; the folder exists
  WorkerLimits limits;
  std::string file{};  // the file that it serves; empty for an adapter
  WorkerWays ways{};
  std::vector<std::string> builds{};  // a runtime's: the builds that will be asked for, as far as they are known
};

class WorkerSource;

// Subjects that live in a process of their own, one process per instance (docs/worker.md).
class WorkerFactory : public FromFile {
 public:
  // Starts the worker and asks it what it offers. `wanted`: the subject's name, or empty for the only one.
  // `display_name`: the name on the command line. Throws Error(no_subject) if the worker does not start, does not
  // answer in time, answers nonsense or has no such subject; Error(usage) listing the subjects if there are several and
  // none is named.
  WorkerFactory(WorkerCommand command, const std::string& wanted, const std::string& display_name);
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override;

 private:
  WorkerCommand command_;
  std::string subject_;
  SubjectInfo info_;
  std::shared_ptr<WorkerSource> source_;
};

}  // namespace attest
