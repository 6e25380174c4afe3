#include "engine/bucket.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace attest::engine {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "+") + part;
  return text.empty() ? "none" : text;
}

std::string formats_of(const Policy& policy, const Problem& problem) {
  return to_text(policy) + problem.op().further_formats(problem);
}

// The words that the fields of some groups have for their values, in the order of their places.
std::vector<std::string> words(const Problem& p, std::initializer_list<FieldGroup> groups) {
  std::vector<const Field*> rows;
  for (const Field& field : p.op().fields())
    if (field.word && field.used(p) && std::ranges::count(groups, field.group) != 0) rows.push_back(&field);
  std::ranges::sort(rows, {}, &Field::word_place);
  std::vector<std::string> parts;
  for (const Field* field : rows)
    if (std::string word = field->word(p); !word.empty()) parts.push_back(std::move(word));
  return parts;
}

std::vector<std::string> predicates(const Problem& p) {
  std::vector<std::string> parts;
  if (std::ranges::any_of(p.op().fields(),
                          [&](const Field& field) { return !field.origin.empty() && field.get(p) == 0; }))
    parts.emplace_back("empty");
  std::ranges::move(words(p, {FieldGroup::shape, FieldGroup::scaling, FieldGroup::outputs, FieldGroup::layouts}),
                    std::back_inserter(parts));
  for (const FormChoice& form : forms_of(p)) parts.push_back(form.name + "=" + form.value);
  return parts;
}

std::vector<std::string> masks(const Problem& p) { return words(p, {FieldGroup::masks}); }

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
  std::string shape = p.op().shape_class(p);
  for (const FormChoice& form : forms_of(p)) shape += "," + form.name + "=" + form.value;
  return to_text(key) + ":" + std::string(name(storage_of(p))) + ":" + shape + ":" + mask_class(p) + ":" +
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
