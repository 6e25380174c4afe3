#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/npz_writer.hpp"
#include "core/number_text.hpp"
#include "report/export.hpp"

namespace attest::report {
void write_npz(const Exported& exported, const std::filesystem::path& file) {
  NpzWriter archive;
  nlohmann::ordered_json dtypes;
  const auto add = [&](const ops::NamedTensor& named) {
    archive.add(std::string(named.name) + ".npy", npy(*named.tensor));
    dtypes[std::string(named.name)] = attest::name(named.tensor->dtype());
  };
  std::ranges::for_each(exported.call.inputs(), add);
  if (exported.answered) std::ranges::for_each(exported.call.outputs(), add);
  nlohmann::ordered_json manifest{
      {"format", 1}, {"subject", exported.entry.subject}, {"problem", to_json(exported.entry.problem)}};
  for (const auto& [name, value] : exported.call.numbers()) manifest[std::string(name)] = hex_float(value);
  manifest["contract"] = to_json(exported.entry.contract);
  manifest["dtypes"] = dtypes;
  archive.add("manifest.json", json_text(manifest, 2));
  std::ofstream out(file, std::ios::binary);
  out << archive.finish() << std::flush;
  if (!out)
    throw usage_error(
        fmt::format("--to npz: {} cannot be written; check its folder and the space there", file.string()));
}

}  // namespace attest::report
