#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/npz.hpp"
#include "core/subject.hpp"
#include "subjects/connection.hpp"
#include "subjects/input_layout.hpp"
#include "subjects/worker.hpp"

// Runtimes of models in a process of their own: `load` and `ask` of docs/worker.md.
namespace attest {

struct RuntimeInfo {
  std::string name, version;
  std::vector<std::string> builds;     // ways to compile a model, at least one
  std::vector<InputLayout> layouts{};  // in which it takes inputs besides packed ones
};

// The way in which a model is to be compiled.
struct ModelBuild {
  std::string build;  // one of RuntimeInfo::builds
  int threads = 1;    // 0: as it likes
};

// The result of a request. A run that is done has its tensors in the order in which they were asked for.
struct ModelAnswer {
  CallResult result;
  std::vector<NamedArray> outputs;
};

// One process of one runtime, and the models that it has compiled, by numbers that it does not give again. After a
// crash, a timeout or nonsense it can be asked nothing more.
class RuntimeWorker {
 public:
  // Starts it and has it describe itself. Throws Error(no_subject), one sentence, if it does not start, has no runtime
  // or several.
  explicit RuntimeWorker(WorkerCommand command);

  [[nodiscard]] const RuntimeInfo& info() const noexcept { return info_; }
  [[nodiscard]] bool usable() const noexcept { return connection_->usable(); }

  // Compiles the ONNX file `bytes`, within the limit for starting or a call, whichever is longer; `model` is its number
  // from then on, whatever becomes of it.
  CallResult load(std::string_view bytes, const ModelBuild& build, int& model);
  // The runtime's remark on the model that it compiled last: one line, mostly empty.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }
  // Runs it on inputs that lie so, which is `packed` or one of `layouts`. `room`: bytes that the outputs will hold; an
  // output that does not fit has a type and a shape and no bytes. An input that was changed by the run is an error.
  ModelAnswer ask(int model, std::span<const NamedArray> inputs, std::span<const std::string> outputs, std::size_t room,
                  InputLayout layout = InputLayout::packed);
  void unload(int model);
  // Sets the end until which answers are waited for, if the limits of calls are later; and says whether that ended the
  // last request before its own limit did.
  void answer_by(std::optional<std::chrono::steady_clock::time_point> end) { end_ = end; }
  [[nodiscard]] bool cut_off() const noexcept { return cut_off_; }

 private:
  CallResult exchange(const std::string& request, std::chrono::milliseconds limit);

  std::vector<NamedArray> outputs_of(std::string_view line, std::span<const std::string> names) const;

  WorkerCommand command_;
  std::unique_ptr<WorkerConnection> connection_;
  RuntimeInfo info_;
  std::string note_;
  std::int64_t trip_ = 0;
  int models_ = 0;
  std::optional<std::chrono::steady_clock::time_point> end_;
  bool cut_off_ = false;
};

}  // namespace attest
