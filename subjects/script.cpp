#include "subjects/script.hpp"

#include <fmt/format.h>

#include <fstream>

#include "core/tensor.hpp"
#include "subjects/connection.hpp"
#include "subjects/names.hpp"

namespace attest {
namespace {

// `asked`, which the script of an adapter in C++ reads: the first input's type, the tensors that are there, the call's
// numbers and its forms, in the words of Python.
std::string options_of(const Call& call) {
  std::string tensors, numbers;
  for (const TensorSlot& slot : call.shape().tensors)
    tensors += fmt::format("\"{}\": {}, ", slot.name, attest_present(&call.tensor(slot)) ? "True" : "False");
  for (const ScalarSlot& slot : call.shape().scalars)
    numbers += slot.kind == ScalarSlot::Kind::real ? fmt::format("\"{}\": {}, ", slot.name, call.real(slot))
                                                   : fmt::format("\"{}\": {}, ", slot.name, call.integer(slot));
  const std::optional<DType> dtype = dtype_of(call.first().dtype);
  return fmt::format("asked = {{\"dtype\": \"{}\", {}\n         {}\"form\": {}}}\n",
                     dtype ? name(format_of(*dtype)) : "", tensors, numbers, call.form() ? call.form() : "{}");
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
