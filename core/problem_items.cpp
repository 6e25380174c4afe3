#include "core/problem_items.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace attest {

void read_problem_items(const nlohmann::json& object, std::string_view example,
                        const std::function<void(std::string_view key, const std::string& value)>& item,
                        const std::function<void(const std::string& text)>& edit) {
  if (!object.is_object()) throw usage_error("problem: it must be a JSON object");
  for (const auto& [key, value] : object.items()) {
    if (key == "edits" && value.is_array()) {
      for (const auto& text : value) {
        if (!text.is_string())
          throw usage_error(fmt::format("problem: an edit must be a text such as \"{}\"", example));
        edit(text.get_ref<const std::string&>());
      }
    } else if (value.is_string()) {
      item(key, value.get_ref<const std::string&>());
    } else if (value.is_boolean()) {
      item(key, value.get<bool>() ? "1" : "0");
    } else if (value.is_number()) {
      item(key, value.dump());
    } else {
      throw usage_error(fmt::format("problem: {} must be a text, a number or a flag", key));
    }
  }
}

}  // namespace attest
