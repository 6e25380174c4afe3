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
namespace {

std::string_view descr(DType type) {
  constexpr std::string_view names[] = {"<f2", "<u2", "<f4", "<f8", "<i4", "|b1"};
  return names[static_cast<int>(type)];
}

std::string npy(const Tensor& tensor) {
  std::string data = npy_head(descr(tensor.dtype()), tensor.shape());
  const attest_tensor view = tensor.view();
  const std::size_t width = size_of(tensor.dtype());
  for_each_index(tensor.shape(), [&](Index a, Index b, Index c, Index d) {
    data.append(static_cast<const char*>(attest_at(&view, a, b, c, d)), width);
  });
  return data;
}

}  // namespace

void write_npz(const Exported& exported, const std::filesystem::path& file) {
  NpzWriter archive;
  nlohmann::ordered_json dtypes;
  const auto add = [&](const ops::NamedTensor& named) {
    archive.add(std::string(named.name) + ".npy", npy(*named.tensor));
    constexpr std::string_view names[] = {"f16", "bf16", "f32", "f64", "i32", "bool"};
    dtypes[std::string(named.name)] = names[static_cast<int>(named.tensor->dtype())];
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
