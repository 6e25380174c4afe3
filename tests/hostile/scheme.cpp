#include "scheme.hpp"

#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace hostile {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& value) {
  throw std::runtime_error("ATTEST_HOSTILE: " + key + "=" + value + " is no word of a scheme");
}

template <class Enum>
Enum one_of(const std::string& key, const std::string& value, std::initializer_list<std::string_view> names) {
  int number = 0;
  for (const std::string_view name : names) {
    if (name == value) return static_cast<Enum>(number);
    ++number;
  }
  refuse(key, value);
}

double real(const std::string& key, const std::string& value) {
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(value, &used);
  } catch (const std::exception&) {
    refuse(key, value);
  }
  if (used != value.size()) refuse(key, value);
  return number;
}

bool flag(const std::string& key, const std::string& value) {
  if (value != "0" && value != "1") refuse(key, value);
  return value == "1";
}

std::int64_t integer(const std::string& key, const std::string& value) {
  const double number = real(key, value);
  if (number != std::floor(number) || std::fabs(number) > 0x1p53) refuse(key, value);
  return static_cast<std::int64_t>(number);
}

Format format_of(const std::string& key, const std::string& value) {
  for (const Format& format : formats)
    if (format.name == value) return format;
  refuse(key, value);
}

Side side_of(const std::string& key, const std::string& value) {
  return one_of<Side>(key, value, {"nearest", "up", "down", "alternate", "hashed", "mean", "goal"});
}

/// 8:24:23:apart:idle:5 -- products, fraction bits, those of the result, how they join, zeros between, the exponent of
/// zeros.
Blocks blocks_of(const std::string& key, const std::string& value) {
  std::istringstream pieces(value);
  std::string size, frac, fraction, joining, idle, below;
  for (std::string* piece : {&size, &frac, &fraction, &joining, &idle, &below}) std::getline(pieces, *piece, ':');
  Blocks blocks;
  blocks.size = integer(key, size);
  blocks.frac = static_cast<int>(integer(key, frac));
  blocks.fraction = static_cast<int>(integer(key, fraction));
  blocks.joining = one_of<Joining>(key, joining, {"chained", "apart", "some"});
  blocks.idle = idle == "idle";
  blocks.below = static_cast<int>(integer(key, below));
  return blocks;
}

/// forward, backward, pairs, lanes:8, lanes:8:pairs, rising, falling, by_value, greedy:8:signs; then +fma, +truncate
/// and +blocks:...
Summation summation_of(const std::string& key, const std::string& value) {
  Summation summation;
  std::istringstream parts(value);
  std::string part;
  std::getline(parts, part, '+');
  std::istringstream pieces(part);
  std::string name, lanes, pairs;
  std::getline(pieces, name, ':');
  summation.order =
      one_of<Order>(key, name, {"forward", "backward", "pairs", "lanes", "rising", "falling", "by_value", "greedy"});
  if (std::getline(pieces, lanes, ':')) summation.lanes = integer(key, lanes);
  summation.lanes_in_pairs = static_cast<bool>(std::getline(pieces, pairs, ':'));
  if (summation.lanes < 1 || summation.lanes > 64) refuse(key, value);
  while (std::getline(parts, part, '+')) {
    if (part == "fma")
      summation.fma = true;
    else if (part == "truncate")
      summation.truncate = true;
    else if (part.starts_with("blocks:"))
      summation.blocks = blocks_of(key, part.substr(7));
    else
      refuse(key, value);
  }
  return summation;
}

/// Sets the field that `key` names, if one of these does.
template <class T>
bool set_named(const std::map<std::string, T*>& fields, const std::string& key, const std::string& value,
               T (*parse)(const std::string&, const std::string&)) {
  const auto found = fields.find(key);
  if (found == fields.end()) return false;
  *found->second = parse(key, value);
  return true;
}

bool read_format(Scheme& s, const std::string& key, const std::string& value) {
  return set_named<Format>({{"storage", &s.storage},
                            {"operand", &s.operand},
                            {"scale", &s.scale},
                            {"qk", &s.qk},
                            {"score", &s.score},
                            {"softcap", &s.softcap},
                            {"softmax", &s.softmax},
                            {"weights", &s.weights},
                            {"pv", &s.pv},
                            {"partial", &s.partial},
                            {"output", &s.output},
                            {"gemm", &s.gemm}},
                           key, value, format_of);
}

bool read_flag(Scheme& s, const std::string& key, const std::string& value) {
  return set_named<bool>({{"tanh_absolute", &s.tanh_absolute},
                          {"softcap_before_bias", &s.softcap_before_bias},
                          {"round_log2e", &s.round_log2e},
                          {"fold_enters_operand", &s.fold_enters_operand},
                          {"round_operand_first", &s.round_operand_first},
                          {"root_of_rounded", &s.root_of_rounded},
                          {"store_unscaled", &s.store_unscaled},
                          {"reciprocal_cap", &s.reciprocal_cap},
                          {"contiguous_splits", &s.contiguous_splits},
                          {"add_to_running", &s.add_to_running},
                          {"merge_by_lse", &s.merge_by_lse},
                          {"merge_weights_lse", &s.merge_weights_lse},
                          {"sum_rounded", &s.sum_rounded},
                          {"sum_operand", &s.sum_operand},
                          {"two_passes", &s.two_passes},
                          {"narrow_division", &s.narrow_division},
                          {"touch_masked", &s.touch_masked},
                          {"mask_added", &s.mask_added},
                          {"off_subnormals", &s.off_subnormals},
                          {"keep_shift", &s.keep_shift},
                          {"vary", &s.vary},
                          {"reciprocal_sum", &s.reciprocal_sum},
                          {"heads_rounded", &s.heads_rounded},
                          {"heads_to_f32", &s.heads_to_f32},
                          {"drop_b_k", &s.drop_b_k},
                          {"gemm_first", &s.gemm_first},
                          {"bias_first", &s.bias_first}},
                         key, value, flag);
}

bool read_number(Scheme& s, const std::string& key, const std::string& value) {
  return set_named<double>({{"exp_ulp", &s.exp_ulp},
                            {"exp_rel", &s.exp_rel},
                            {"div_ulp", &s.div_ulp},
                            {"tanh_ulp", &s.tanh_ulp},
                            {"lazy", &s.lazy}},
                           key, value, real);
}

bool read_choice(Scheme& s, const std::string& key, const std::string& value) {
  if (key == "exp_side")
    s.exp_side = side_of(key, value);
  else if (key == "rescale_side")
    s.rescale_side = side_of(key, value);
  else if (key == "div_side")
    s.div_side = side_of(key, value);
  else if (key == "tanh_side")
    s.tanh_side = side_of(key, value);
  else if (key == "power")
    s.power = one_of<Power>(key, value, {"none", "argument", "both", "fused", "folded", "unscaled"});
  else if (key == "fold")
    s.fold = one_of<Fold>(key, value, {"score", "q", "k", "sqrt"});
  else if (key == "empty")
    s.empty = one_of<Empty>(key, value, {"zero", "nan", "mean_v", "mean_all"});
  else if (key == "dot")
    s.dot = summation_of(key, value);
  else if (key == "sum")
    s.sum = summation_of(key, value);
  else if (key == "product")
    s.product = summation_of(key, value);
  else if (key == "tiles")
    s.tiles = one_of<Tiles>(key, value, {"ascending", "descending", "shuffled", "strided"});
  else if (key == "merge")
    s.merge = one_of<Merge>(key, value, {"none", "flat", "chain"});
  else if (key == "normalise")
    s.normalise = one_of<Normalise>(key, value, {"after", "before", "lse"});
  else if (key == "tile")
    s.tile = integer(key, value);
  else if (key == "splits")
    s.splits = integer(key, value);
  else if (key == "flush")
    s.flush = static_cast<unsigned>(integer(key, value));
  else if (key == "gemm_sum")
    s.gemm_sum = summation_of(key, value);
  else if (key == "gemm_chain")
    s.gemm_chain = integer(key, value);
  else if (key == "gemm_lanes")
    s.gemm_lanes = integer(key, value);
  else if (key == "gemm_block")
    s.gemm_block = integer(key, value);
  else if (key == "projections")
    s.projections = one_of<Projections>(key, value, {"rounded", "unrounded", "separate"});
  else if (key == "goal")
    s.goal = integer(key, value) < 0 ? -1 : 1;
  else if (key == "seed")
    s.seed = static_cast<std::uint64_t>(integer(key, value));
  else
    return false;
  return true;
}

}  // namespace

Scheme read_scheme(const std::string& words) {
  Scheme scheme;
  for (Format* stage : {&scheme.storage, &scheme.operand, &scheme.scale, &scheme.qk, &scheme.score, &scheme.softcap,
                        &scheme.softmax, &scheme.weights, &scheme.pv, &scheme.partial, &scheme.output, &scheme.gemm})
    *stage = format_of("format", "f32");
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (!read_format(scheme, key, value) && !read_flag(scheme, key, value) && !read_number(scheme, key, value) &&
        !read_choice(scheme, key, value))
      refuse(key, value);
  }
  if (scheme.tile < 1 || scheme.splits < 1) refuse("tile or splits", "below 1");
  return scheme;
}

}  // namespace hostile
