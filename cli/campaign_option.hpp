#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "core/subject.hpp"
#include "engine/campaign.hpp"
#include "engine/known.hpp"

namespace attest::cli {

// --op; nullptr without it. Throws Error(usage) for an operation that there is not.
const ops::Op* asked_op(const Settings& settings);

// --sizes, and the regime that it says: `both` without it. Throws Error(usage).
Option sizes_option();
SizeRegime read_sizes(const Settings& settings);

// The options of every verb that draws problems; its laws and its subjects are its own.
std::vector<Option> campaign_options();

// A folder name from a subject: "fault:scale-twice" gives "fault-scale-twice".
std::string folder_name(std::string_view subject);

// --seed, --seed-fd, --cases, --time and --forever. `open_ended`: with a random seed unless told.
struct CampaignExtent {
  std::uint64_t seed = 0;
  bool seed_kept_back = false;
  std::optional<std::uint64_t> cases;
  std::optional<double> seconds;
  bool forever = false;
};
CampaignExtent read_extent(const Settings& settings, bool open_ended);
// -o, else a new folder below attest-out where it is open-ended, else none.
std::filesystem::path campaign_folder(const Settings& settings, bool open_ended, const std::string& folder_name,
                                      std::optional<std::uint64_t> seed);

// Calls `read` for the corpus of --known and for each table [[waive]], with what that says.
void read_corpora(const Settings& settings,
                  const std::function<void(const std::string& corpus, const std::optional<engine::Waiver>&)>& read);
// The failures of kernels that --known and the tables [[waive]] of attest.toml name. Throws Error(usage) on the first damaged file.
std::vector<engine::KnownEntry> read_known(const Settings& settings);

// Reads them for a campaign of `options.verb`, all but laws and subjects. `open_ended`: it draws for 30 s with a random
// seed unless told, goes on after failures, and has a folder, of `folder_name` below attest-out.
void read_campaign(const Settings& settings, bool open_ended, const std::string& folder_name,
                   engine::CampaignOptions& options);
// Reads --repeat and --jobs, or asks the subjects, which are open by now; `peer`: the second of two subjects.
void read_pace(const Settings& settings, const SubjectInfo& info, const SubjectInfo* peer,
               engine::CampaignOptions& options);
// The operation under test, if no option said it, and what is said in its words; the subject is open by now.
void read_operation(const Settings& settings, const SubjectInfo& info, engine::CampaignOptions& options);
// The same as read_campaign() for a single problem. Throws Error(usage) for an option of random problems.
void read_problem(const Settings& settings, engine::CampaignOptions& options);

// The files of --json, --events, --junit and --sarif, opened before the work starts.
struct Outputs {
  std::unique_ptr<OutputFile> json, events, junit, sarif;
  report::Look look;  // of the terminal

  explicit Outputs(const Settings& settings);
  [[nodiscard]] bool stdout_taken() const noexcept;
  [[nodiscard]] std::unique_ptr<engine::Observer> observer() const;
};

// Writes the record that `attest report` reads into a campaign's folder, if it has one: summary, coverage and run
// (provenance.hpp).
void keep_record(const engine::Summary& summary, const SubjectInfo& info, const engine::CampaignOptions& options);

// Writes the reports of a campaign that ended, and says its exit status.
int finish(const engine::Summary& summary, const SubjectInfo& info, const Outputs& outputs);

// --problem: engine::run_problem() of the text, and its report.
int run_problem(const std::string& text, const engine::CampaignOptions& options, const SubjectFactory& subject,
                const SubjectFactory& peer, const Outputs& outputs);

}  // namespace attest::cli
