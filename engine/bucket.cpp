#include "engine/bucket.hpp"

#include <vector>

namespace attest::engine {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "+") + part;
  return text.empty() ? "none" : text;
}

std::string formats_of(const Policy& policy, const Problem& problem) {
  std::string text = to_text(policy);
  if (problem.bias != Bias::none && problem.bias_format() != problem.dtype)
    text += "+bias-" + std::string(name(problem.bias_format()));
  return text;
}

// Gaps and order of memory matter as one thing, a broadcast as another, a base off its boundary as a third.
std::string_view layout_class(Layout layout) {
  if (layout == Layout::bhsd) return {};
  if (layout == Layout::odd_base) return "unaligned-";
  return broadcasts(layout) ? "broadcast-" : "strided-";
}

void add_layout(std::vector<std::string>& parts, Layout layout, std::string_view tensor) {
  if (const std::string_view kind = layout_class(layout); !kind.empty())
    parts.push_back(std::string(kind) + std::string(tensor));
}

// What becomes of a product before masks come, where kernels take a way of their own.
void add_score(std::vector<std::string>& parts, const Problem& p) {
  const double scale = p.effective_scale();
  if (scale == 0) parts.emplace_back("scale=0");
  if (scale < 0) parts.emplace_back("scale<0");
  if (p.softcap != 0) parts.emplace_back("softcap");
}

std::vector<std::string> predicates(const Problem& p) {
  std::vector<std::string> parts;
  const auto add = [&](bool holds, const char* text) {
    if (holds) parts.emplace_back(text);
  };
  add(p.b == 0 || p.hq == 0 || p.lq == 0 || p.lk == 0 || p.d == 0 || p.dv == 0, "empty");
  add(p.b > 1, "batch");
  add(p.hkv > 0 && p.hq > p.hkv, "grouped");
  add(p.hkv > 1, "heads");
  add(p.lq > 1 && p.lk > 1 && p.lq != p.lk, p.lq < p.lk ? "lq<lk" : "lq>lk");
  add(p.lk > 8, "long");  // keys beyond what a value-dependent failure needs
  add_score(parts, p);
  add(p.lse != LseOutput::none, "lse");
  add(p.threads > 1, "threads");
  add_layout(parts, p.q_layout, "q");
  add_layout(parts, p.k_layout, "k");
  add_layout(parts, p.v_layout, "v");
  add_layout(parts, p.out_layout, "out");
  if (p.keep != Keep::none || p.bias != Bias::none) add_layout(parts, p.mask_layout, "mask");
  for (const FormChoice& form : p.forms) parts.push_back(form.name + "=" + form.value);
  return parts;
}

std::vector<std::string> masks(const Problem& p) {
  std::vector<std::string> parts;
  if (p.causal) parts.emplace_back(p.align == Align::top_left ? "causal" : "causal-br");
  if (p.window_left >= 0 || p.window_right >= 0) parts.emplace_back("window");
  if (p.keep != Keep::none) parts.emplace_back("keep");
  switch (p.bias) {
    case Bias::none:
      break;
    case Bias::minus_inf:
    case Bias::padding:
    case Bias::empty_inf:
      parts.emplace_back("bias-inf");
      break;
    case Bias::lowest:
    case Bias::empty_lowest:
    case Bias::minus_1e4:
      parts.emplace_back("bias-low");
      break;
    default:
      parts.emplace_back("bias");
      break;
  }
  if (p.lengths != Lengths::none) parts.emplace_back("lengths");
  return parts;
}

// One of 0, 1, small, tile, long: enough to tell decode from prefill.
char size_class(Index n) {
  if (n <= 1) return n == 0 ? '0' : '1';
  return n <= 16 ? 's' : n <= 256 ? 'm' : 'l';
}

}  // namespace

std::string mask_class(const Problem& p) { return join(masks(p)); }

std::vector<std::string> settings_of(const Problem& p) {
  std::vector<std::string> settings = masks(p);
  std::ranges::move(predicates(p), std::back_inserter(settings));
  return settings;
}

std::string bucket_of(const FailureKey& key, std::string_view subject, const Policy& policy, const Problem& minimal) {
  return to_text(key) + ":" + portable_subject(subject) + ":" + formats_of(policy, minimal) + ":" +
         mask_class(minimal) + ":" + join(predicates(minimal));
}

std::string signature_of(const FailureKey& key, const Problem& p) {
  std::string shape;
  for (const Index n : {p.b, p.hkv, p.lq, p.lk}) shape += size_class(n);
  if (p.hq != p.hkv) shape += 'g';
  for (const FormChoice& form : p.forms) shape += "," + form.name + "=" + form.value;
  std::vector<std::string> score;
  add_score(score, p);
  return to_text(key) + ":" + std::string(name(p.dtype)) + ":" + shape + ":" + mask_class(p) + ":" + join(score);
}

std::string portable_subject(std::string_view subject) {
  const auto is_prefix = [](std::string_view text) {
    return !text.empty() &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               std::string_view::npos;
  };
  const std::size_t slash = subject.rfind('/');
  const std::size_t colon = subject.find(':', slash == std::string_view::npos ? 0 : slash);
  if (slash == std::string_view::npos && colon != std::string_view::npos && is_prefix(subject.substr(0, colon)))
    return std::string(subject);
  if (colon != std::string_view::npos) return "external:" + std::string(subject.substr(colon + 1));
  std::string_view stem = slash == std::string_view::npos ? subject : subject.substr(slash + 1);
  stem = stem.substr(0, stem.rfind('.'));
  return "external:" + std::string(stem);
}

}  // namespace attest::engine
