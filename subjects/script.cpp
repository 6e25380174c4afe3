#include "subjects/script.hpp"

#include <fmt/format.h>

#include <fstream>

#include "subjects/connection.hpp"
#include "subjects/names.hpp"

namespace attest {
namespace {

std::string truth(bool value) { return value ? "True" : "False"; }

// `asked`, which the script of an adapter in C++ reads: the options of a call, in the words of Python.
std::string options_of(const Problem& p, const Inputs& inputs) {
  std::string forms;
  for (const FormChoice& form : p.forms)
    forms += fmt::format("{}\"{}\": \"{}\"", forms.empty() ? "" : ", ", form.name, form.value);
  return fmt::format(
      "asked = {{\"dtype\": \"{}\", \"causal\": {}, \"bottom_right\": {}, \"window_left\": {}, \"window_right\": {},\n"
      "         \"softcap\": {}, \"keep\": {}, \"bias\": {}, \"kv_lengths\": {}, \"threads\": {}, \"form\": {{{}}}}}\n",
      name(p.dtype), truth(p.causal), truth(p.align == Align::bottom_right), p.window_left, p.window_right, p.softcap,
      truth(inputs.keep.present()), truth(inputs.bias.present()), truth(inputs.kv_lengths.present()), p.threads, forms);
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

std::string subject_code(std::string_view subject, const Problem& problem, const Inputs& inputs,
                         const ResolveOptions& options, const std::filesystem::path& beside) {
  if (const auto script = plugin_adapter_script(subject)) return options_of(problem, inputs) + code_of(*script);
  const std::optional<PythonTarget> target = python_target(subject, options);
  if (!target) return {};
  WorkerConnection worker(target->command, target->name);
  worker.await_description();
  std::vector<std::string> names;
  for (const Offer& offer : worker.offers()) names.push_back(offer.name);
  const std::string& name = names[choose(names, target->name, target->command.target)];
  const Tensor out = make_out(problem), lse = make_lse(problem);
  return worker.script(name, inputs.call(out, lse), beside.string());
}

}  // namespace attest
