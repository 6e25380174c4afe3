#include "subjects/script.hpp"

#include "subjects/connection.hpp"
#include "subjects/names.hpp"

namespace attest {

std::string subject_code(std::string_view subject, const Call& call, const ResolveOptions& options,
                         const std::filesystem::path& beside) {
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
