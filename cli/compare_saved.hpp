#pragma once
#include <string>
#include <vector>

#include "cli/settings.hpp"

namespace attest::cli {

// The options of `attest compare` where one of its sides is a folder of saved calls, beside those of a campaign.
std::vector<Option> saved_side_options();

// Throws Error(usage) for such an option where neither side is a folder.
void refuse_saved_options(const Settings& settings);

// Holds the saved calls of a folder against what a subject gives for their inputs. `saved_first`: the folder is A.
int compare_with_saved(const Settings& settings, const std::string& folder, const std::string& subject,
                       bool saved_first);

}  // namespace attest::cli
