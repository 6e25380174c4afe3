#include "subjects/exported_program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "subjects/descriptor.hpp"
#include "subjects/message.hpp"
#include "subjects/process.hpp"

namespace attest {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::minutes patience_with_export{5};  // torch takes its time to be imported

// Removed again, whatever becomes of it.
struct Removed {
  fs::path path;
  ~Removed() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

Error refusal(const fs::path& file, const std::string& why) {
  return Error(Exit::no_subject, one_line(file.string()) + " " + why);
}

}  // namespace

ExportedProgram exported_program(const fs::path& file, const ResolveOptions& options) {
  const WorkerCommand command = export_command(file, options);
  const Removed out{command.argv.back()};
  struct Nothing {  // in place of shared memory
    int file = out_of_the_way(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ~Nothing() { ::close(file); }
  } const nothing;
  Process process(command.argv, {nothing.file, nothing.file}, command.log, options.limits.memory);
  const auto deadline =
      Process::Clock::now() + std::max<Process::Clock::duration>(patience_with_export, options.limits.start);
  std::string line;
  if (process.receive(line, deadline) != Process::Received::line)
    throw refusal(file, "could not be exported as an ONNX graph: the Python that should " + process.end() +
                            " (more in " + command.log.string() + ")");
  const json answer = parse_json_or_discard(line, 8);
  if (!answer.is_object() || (answer.contains("error") && !answer["error"].is_string()))
    throw refusal(file, "could not be exported as an ONNX graph: its exporter answered something else");
  if (answer.contains("error")) throw Error(Exit::no_subject, one_line(answer["error"].get<std::string>()));
  ExportedProgram exported;
  std::ifstream written(out.path, std::ios::binary);
  exported.onnx.assign(std::istreambuf_iterator<char>(written), {});
  if (answer.contains("constrain") && answer["constrain"].is_object())
    for (const auto& [axis, lengths] : answer["constrain"].items())
      if (lengths.is_string()) exported.lengths.emplace_back(axis, lengths.get<std::string>());
  return exported;
}

}  // namespace attest
