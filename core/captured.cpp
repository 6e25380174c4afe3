#include "core/captured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "core/error.hpp"

namespace attest {
namespace {

[[noreturn]] void reject_file(const std::string& path, const std::string& reason) {
  throw usage_error(fmt::format("values=file:{}: {}", path, reason));
}

NamedArray take(std::vector<NamedArray>& arrays, const std::string& path, std::string_view name) {
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found == arrays.end())
    reject_file(
        path, fmt::format("it has no array {}: it must hold q [B,Hq,Lq,D], k [B,Hkv,Lk,D] and v [B,Hkv,Lk,Dv]", name));
  if (!is_floating(found->type) || found->shape.size() != 4)
    reject_file(path,
                fmt::format("{} is {}: it must be {} with four axes (uint16 is bf16 only where manifest.json says so)",
                            name, found->described(), stored_format_names()));
  return std::move(*found);
}

void check_finite(const NamedArray& array, const std::string& path) {
  std::vector<double> block(4096);
  for (Index first = 0; first < array.size(); first += static_cast<Index>(block.size())) {
    const auto count =
        static_cast<std::size_t>(std::min<Index>(static_cast<Index>(block.size()), array.size() - first));
    const std::span<double> values = std::span(block).first(count);
    array.read(first, values);
    const auto found = std::ranges::find_if_not(values, [](double x) { return std::isfinite(x); });
    if (found != values.end())
      reject_file(path,
                  fmt::format("element {} of {} is {}: captured values must be finite (`attest judge` takes others)",
                              first + (found - values.begin()), array.name, *found));
  }
}

Captured read(const std::string& path) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  if (path.empty()) reject_file(path, "it names no file");
  if (std::filesystem::path(path).filename().string().find_first_of(blanks) != std::string::npos)
    reject_file(path, "its name holds a blank, which the text of a problem cannot: rename or link it");
  std::vector<NamedArray> arrays = load_npz(path);
  Captured captured{take(arrays, path, "q"), take(arrays, path, "k"), take(arrays, path, "v")};
  const auto &q = captured.q, &k = captured.k, &v = captured.v;
  if (q.type != k.type || q.type != v.type)
    reject_file(path, fmt::format("q, k and v are {}, {} and {}: they must be of one dtype", name(q.type), name(k.type),
                                  name(v.type)));
  if (q.shape[0] != k.shape[0] || q.shape[3] != k.shape[3] ||
      !std::equal(k.shape.begin(), k.shape.end() - 1, v.shape.begin()))
    reject_file(path,
                fmt::format("q {}, k {} and v {} do not fit each other: they must be [B,Hq,Lq,D], [B,Hkv,Lk,D] and "
                            "[B,Hkv,Lk,Dv]",
                            q.described(), k.described(), v.described()));
  for (const NamedArray* array : {&q, &k, &v}) check_finite(*array, path);
  return captured;
}

}  // namespace

void Captured::read(Edit::Tensor which, Index batch, Index head, Index position, Index first_column, Index width,
                    std::span<double> rows) const noexcept {
  const NamedArray& array = which == Edit::Tensor::q ? q : which == Edit::Tensor::k ? k : v;
  Index row = (batch * array.shape[1] + head) * array.shape[2] + position;
  for (; !rows.empty(); rows = rows.subspan(static_cast<std::size_t>(width)), ++row)
    array.read(row * array.shape[3] + first_column, rows.first(static_cast<std::size_t>(width)));
}

const Captured& load_captured(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const Captured>> files;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Captured>& file = files[path];
  if (!file) file = std::make_unique<const Captured>(read(path));
  return *file;
}

Problem problem_of(const Captured& captured) {
  Problem problem;
  problem.b = captured.q.shape[0];
  problem.hq = captured.q.shape[1];
  problem.lq = captured.q.shape[2];
  problem.d = captured.q.shape[3];
  problem.hkv = captured.k.shape[1];
  problem.lk = captured.k.shape[2];
  problem.dv = captured.v.shape[3];
  problem.dtype = format_of(captured.q.type);
  return problem;
}

}  // namespace attest
