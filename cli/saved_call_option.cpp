#include "cli/saved_call_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/error.hpp"

namespace attest::cli {
namespace {

constexpr std::string_view roles[] = {"q", "k", "v", "bias", "keep", "kv_lengths", "out", "lse"};

std::optional<double> real(const Settings& settings, std::string_view key) {
  const auto text = settings.text(key);
  if (!text) return std::nullopt;
  const auto value = parse_double(*text);
  if (!value) throw usage_error(fmt::format("{} {}: it must be a number", settings.origin(key), *text));
  return value;
}

// --layout bshd, or per tensor --layout q=bshd,out=bshd: the tensors that lie as [B,L,H,D].
std::set<std::string, std::less<>> heads_inside(const Settings& settings) {
  constexpr std::string_view tensors[] = {"q", "k", "v", "out"};
  std::set<std::string, std::less<>> inside;
  const std::string text = settings.text("layout").value_or("bhsd") + ",";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find(',', begin);
    const std::string_view item = std::string_view(text).substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    const std::string_view tensor = item.substr(0, equals == item.npos ? 0 : equals), axes = item.substr(equals + 1);
    const bool whole = equals == item.npos && end + 1 == text.size() && begin == 0;
    const bool known = std::ranges::find(tensors, tensor) != std::end(tensors);
    if ((!whole && !known) || (axes != "bhsd" && axes != "bshd") || inside.contains(tensor))
      throw usage_error(
          fmt::format("{} {}: it must be bhsd or bshd, or one of them for each tensor whose axes are not "
                      "bhsd, as in q=bshd,out=bshd (q, k, v, out)",
                      settings.origin("layout"), settings.text("layout").value_or("")));
    for (const std::string_view one : tensors)
      if (axes == "bshd" && (whole || one == tensor)) inside.emplace(one);
    begin = end + 1;
  }
  return inside;
}

// Whether `key` has the second of two words; the first if it is left out.
bool second_word(const Settings& settings, std::string_view key, std::string_view first, std::string_view second) {
  const auto text = settings.text(key);
  if (text && *text != first && *text != second)
    throw usage_error(fmt::format("{} {}: it must be {} or {}", settings.origin(key), *text, first, second));
  return text == second;
}

}  // namespace

std::vector<Option> saved_call_options() {
  return {
      {"layout", "bhsd|bshd|TENSOR=...,...", "axes of q, k, v and out: [B,H,L,D] (the default) or [B,L,H,D]"},
      {"heads", "N", "of arrays [B,L,H*D], under --layout bshd"},
      {"kv-heads", "N", "the same of k and v (as --heads)"},
      {"scale", "X", "factor on q.k (1/sqrt(D))"},
      {"softcap", "C", "c tanh(s/c)"},
      {"causal", "", "each query sees the keys up to its diagonal"},
      {"align", "top_left|bottom_right", "where the diagonal begins (top_left)"},
      {"window-left", "N", "keys before the diagonal that take part (all)"},
      {"window-right", "N", "keys after the diagonal that take part (all)"},
      {"q", "NAME", "array of the queries (q)"},
      {"k", "NAME", "array of the keys (k)"},
      {"v", "NAME", "array of the values (v)"},
      {"bias", "NAME", "array added to the scores (bias, if there)"},
      {"keep", "NAME", "bool array, true = attend (keep, if there)"},
      {"kv_lengths", "NAME", "array of the keys per sample (kv_lengths, if there)"},
      {"out", "NAME", "array of the output (out)"},
      {"lse", "NAME", "array of the log-sum-exp (lse, if there)"},
      {"ignore", "NAME,...", "arrays of the inputs that this call does not use"},
      {"rows", "N", "judge so many rows of out, spread evenly (all)"},
  };
}

std::optional<Index> count_of(const Settings& settings, std::string_view key, std::uint64_t lo) {
  const auto n = settings.integer(key, lo, std::uint64_t{1} << 30);
  return n ? std::optional(static_cast<Index>(*n)) : std::nullopt;
}

engine::SavedCallOptions read_saved_call(const Settings& settings, const Policy& policy) {
  if (const auto op = settings.text("op"); op && *op != "attention")
    throw usage_error(
        fmt::format("{} {}: saved calls are judged of attention alone in this version", settings.origin("op"), *op));
  engine::SavedCallOptions call;
  call.policy = policy;
  for (const std::string_view role : roles)
    if (const auto name = settings.text(role)) call.names[std::string(role)] = *name;
  const std::string ignored = settings.text("ignore").value_or("");
  for (std::size_t begin = 0; begin < ignored.size();) {
    const std::size_t end = std::min(ignored.find(',', begin), ignored.size());
    call.ignored.push_back(ignored.substr(begin, end - begin));
    begin = end + 1;
  }
  call.heads_inside = heads_inside(settings);
  call.heads = count_of(settings, "heads", 1);
  call.kv_heads = count_of(settings, "kv-heads", 1);
  call.scale = real(settings, "scale");
  call.softcap = real(settings, "softcap").value_or(0);
  call.causal = settings.flag("causal");
  call.align = second_word(settings, "align", "top_left", "bottom_right") ? Align::bottom_right : Align::top_left;
  call.window_left = count_of(settings, "window-left", 0).value_or(-1);
  call.window_right = count_of(settings, "window-right", 0).value_or(-1);
  call.rows = count_of(settings, "rows", 1).value_or(0);
  return call;
}

}  // namespace attest::cli
