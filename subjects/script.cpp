#include "subjects/script.hpp"

#include <algorithm>

#include "subjects/connection.hpp"
#include "subjects/resolve.hpp"

namespace attest {

std::string subject_code(std::string_view subject, const Problem& problem, const Inputs& inputs,
                         const std::string& python) {
  const std::vector<ListedSubject> adapters = adapter_subjects();
  const auto named = [&](const ListedSubject& adapter) { return adapter.name == subject; };
  if (std::none_of(adapters.begin(), adapters.end(), named)) return {};
  ResolveOptions options;
  options.python = python;
  WorkerConnection worker(adapter_command(subject, options), adapter_name(subject));
  const Tensor out = make_out(problem), lse = make_lse(problem);
  return worker.script(adapter_name(subject), inputs.call(out, lse));
}

}  // namespace attest
