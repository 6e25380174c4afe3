#include "subjects/script.hpp"

#include <fmt/format.h>

#include <fstream>

#include "subjects/connection.hpp"
#include "subjects/names.hpp"

namespace attest {
namespace {

std::string truth(bool value) { return value ? "True" : "False"; }

// `asked`, which the script of an adapter in C++ reads: the options of a call of attention, in the words of Python.
std::string options_of(const Call& asked) {
  const auto& call = asked.as<attest_attention>();
  const auto there = [](const attest_tensor& tensor) { return truth(attest_present(&tensor)); };
  return fmt::format(
      "asked = {{\"dtype\": \"{}\", \"causal\": {}, \"bottom_right\": {}, \"window_left\": {}, \"window_right\": {},\n"
      "         \"softcap\": {}, \"keep\": {}, \"bias\": {}, \"kv_lengths\": {}, \"threads\": {}, \"form\": {}}}\n",
      name(format_of(call.q.dtype)), truth(call.causal != 0), truth(call.align == ATTEST_BOTTOM_RIGHT), call.window_left,
      call.window_right, call.softcap, there(call.keep), there(call.bias), there(call.kv_lengths), call.threads,
      call.form != nullptr ? call.form : "{}");
}

// The lines of a file but for the comment it begins with, which speaks of the file.
std::string code_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string code, line;
  for (bool head = true; std::getline(file, line);) {
    head = head && line.starts_with('#');
    if (!head) code += line + '\n';
  }
  return code;
}

}  // namespace

std::string subject_code(std::string_view subject, const Call& call, const ResolveOptions& options,
                         const std::filesystem::path& beside) {
  if (const auto script = plugin_adapter_script(subject)) return options_of(call) + code_of(*script);
  const std::optional<PythonTarget> target = python_target(subject, options);
  if (!target) return {};
  WorkerConnection worker(target->command, target->name);
  worker.await_description();
  std::vector<std::string> names;
  for (const Offer& offer : worker.offers()) names.push_back(offer.name);
  const std::string& name = names[choose(names, target->name, target->command.target)];
  return worker.script(name, call, beside.string());
}

}  // namespace attest
