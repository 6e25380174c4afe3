#include "engine/bucket.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "core/field.hpp"

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

// The words that the fields of some groups have for their values, in the order of their places.
std::vector<std::string> words(const Problem& p, std::initializer_list<FieldGroup> groups) {
  std::vector<const Field*> rows;
  for (const Field& field : fields())
    if (field.word && (!field.used || field.used(p)) && std::ranges::count(groups, field.group) != 0)
      rows.push_back(&field);
  std::ranges::sort(rows, {}, &Field::word_place);
  std::vector<std::string> parts;
  for (const Field* field : rows)
    if (std::string word = field->word(*field, p); !word.empty()) parts.push_back(std::move(word));
  return parts;
}

std::vector<std::string> predicates(const Problem& p) {
  std::vector<std::string> parts;
  if (std::ranges::any_of(fields(), [&](const Field& field) { return field.extent && field.get(p) == 0; }))
    parts.emplace_back("empty");
  std::ranges::move(words(p, {FieldGroup::shape, FieldGroup::scaling, FieldGroup::outputs, FieldGroup::layouts}),
                    std::back_inserter(parts));
  for (const FormChoice& form : p.forms) parts.push_back(form.name + "=" + form.value);
  return parts;
}

std::vector<std::string> masks(const Problem& p) { return words(p, {FieldGroup::masks}); }

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
  return to_text(key) + ":" + std::string(name(p.dtype)) + ":" + shape + ":" + mask_class(p) + ":" +
         join(words(p, {FieldGroup::scaling}));
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
