#pragma once
#include <functional>

namespace CLI {
class App;
}

namespace attest::cli {

// Each adds its verb to the command line. The callback it stores runs the verb and returns the exit status; it may
// throw attest::Error.
using Run = std::function<int()>;
void add_fuzz(CLI::App& app, Run& run);
void add_check(CLI::App& app, Run& run);
void add_compare(CLI::App& app, Run& run);
void add_replay(CLI::App& app, Run& run);
void add_shrink(CLI::App& app, Run& run);
void add_certify(CLI::App& app, Run& run);
void add_explain(CLI::App& app, Run& run);
void add_export(CLI::App& app, Run& run);
void add_judge(CLI::App& app, Run& run);
void add_bound(CLI::App& app, Run& run);
void add_probe(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_grade(CLI::App& app, Run& run);
void add_stats(CLI::App& app, Run& run);
void add_list(CLI::App& app, Run& run);
void add_merge(CLI::App& app, Run& run);
void add_report(CLI::App& app, Run& run);
void add_triage(CLI::App& app, Run& run);
// Both read the verbs of `app`, which must outlive the run.
void add_completion(CLI::App& app, Run& run);
void add_man(CLI::App& app, Run& run);

}  // namespace attest::cli
