#pragma once
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace attest::report {

// A campaign as one HTML file that needs no network and no script: defects, laws, what was drawn, what was given up.
// `record`: the object that --json writes (docs/cli.md), of a kernel or of a model, with `coverage` as `attest stats
// --json` has it, if it is there, and `unfinished`, a sentence, if the campaign has not ended. It may come from a
// stranger. Throws Error(usage) where it is no such object.
std::string html_page(const nlohmann::json& record);

// Pictures of it, as SVG: which elements of a tensor are wrong, and how far from what is permitted. Empty where nothing
// is known. `of_four`: the part of a tensor of four axes that each picture shows, "one [batch, head]".
std::string geometry_svg(const nlohmann::json& place, std::string_view of_four);
std::string errors_svg(const nlohmann::json& place);

}  // namespace attest::report
