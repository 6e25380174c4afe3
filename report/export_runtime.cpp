#include "report/export_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace attest::report {
namespace {

std::string_view ort_level(std::string_view level) {
  return level == "disabled"   ? "ORT_DISABLE_ALL"
         : level == "basic"    ? "ORT_ENABLE_BASIC"
         : level == "extended" ? "ORT_ENABLE_EXTENDED"
                               : "ORT_ENABLE_ALL";
}

// Unquotes a word as attest.split_build does: %2B is a plus.
std::string unquoted(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// "all+PROVIDER+key=value": a level, the provider or nothing, and what is handed over to it, as a dict of Python.
struct ProviderBuild {
  explicit ProviderBuild(std::string_view build) {
    for (bool first = true; !build.empty() || first; first = false) {
      const std::string_view word = build.substr(0, build.find('+'));
      build.remove_prefix(std::min(build.size(), word.size() + 1));
      const std::size_t equals = word.find('=');
      if (first)
        level = word;
      else if (equals == std::string_view::npos)
        provider = word;
      else
        settings += fmt::format("{}{}: {}", settings.empty() ? "" : ", ", in_quotes(unquoted(word.substr(0, equals))),
                                in_quotes(unquoted(word.substr(equals + 1))));
    }
  }
  std::string level, provider, settings;
};

// Leaves a `session` on a provider, one of this onnxruntime or of a package that offers it, and never on another in its
// place.
std::string session_code(const ProviderBuild& build) {
  if (build.provider.empty())
    return "    session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])\n";
  return fmt::format(
      "    provider, settings = {}, {{{}}}\n"
      "    if provider in onnxruntime.get_available_providers():\n"
      "        session = onnxruntime.InferenceSession(model, options, providers=[(provider, settings), "
      "'CPUExecutionProvider'], enable_fallback=0)\n"
      "    else:\n"
      "        for found in pkgutil.iter_modules():\n"
      "            if found.name.startswith('onnxruntime_ep_'):\n"
      "                package = importlib.import_module(found.name)\n"
      "                if provider.startswith(package.get_ep_name()):\n"
      "                    onnxruntime.register_execution_provider_library(package.get_ep_name(), "
      "package.get_library_path())\n"
      "        kind = settings.pop('device_type', '').upper()\n"
      "        devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == provider and "
      "str(one.device.type).endswith(kind)]\n"
      "        options.add_provider_for_devices(devices[:1], settings)\n"
      "        session = onnxruntime.InferenceSession(model, options, enable_fallback=0)\n"
      "    assert provider in session.get_providers(), 'the provider is not here'\n"
      "    for part in session.get_provider_graph_assignment_info():\n"
      "        print(part.ep_name, 'computes', ', '.join(f'{{one.op_type}} {{one.name}}' for one in "
      "part.get_nodes()))\n",
      in_quotes(build.provider), build.settings);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string literal = "'";
  for (const char c : text)
    if (c == '\\' || c == '\'')
      literal += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
      literal += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      literal += c;
  return literal + "'";
}

std::string run_code(const models::Entry& entry, bool after_others) {
  if (entry.runtime == "onnxruntime") {
    const ProviderBuild build(entry.build.level);
    const bool other = !build.provider.empty();
    return fmt::format(
        "{}import onnxruntime\n"
        "options = onnxruntime.SessionOptions()\n"
        "options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{}\n"
        "options.intra_op_num_threads, options.log_severity_level = {}, 4  # errors are raised\n"
        "{}try:\n{}{}"
        "    got = session.run(list(expected), feeds)\n"
        "except Exception as error:\n"
        "    raise SystemExit(f'refused: {{str(error).strip()}}')\n",
        other ? "import importlib\nimport pkgutil\n" : "", ort_level(build.level), entry.build.threads,
        other ? "options.add_session_config_entry('session.record_ep_graph_assignment_info', '1')\n" : "",
        session_code(build),
        after_others ? "    for earlier in before:\n        session.run(list(expected), earlier)\n" : "");
  }
  if (entry.runtime == "openvino")
    return fmt::format(
        "import openvino\n"
        "from openvino.properties import hint, inference_num_threads\n"
        "core = openvino.Core()\n"
        "try:\n"
        "    compiled = core.compile_model(core.read_model(model=model, weights=b''), 'CPU', {{\n"
        "        hint.execution_mode: hint.ExecutionMode.{}, inference_num_threads: {}}})\n"
        "    request = compiled.create_infer_request()\n{}"
        "    results = request.infer(feeds)\n"
        "except Exception as error:\n"
        "    raise SystemExit(f'refused: {{str(error).strip()}}')\n"
        "places = {{name: port for port in compiled.outputs for name in port.get_names()}}\n"
        "got = [results[places[name]] for name in expected]\n",
        entry.build.level == "accuracy" ? "ACCURACY" : "PERFORMANCE", std::max(entry.build.threads, 1),
        after_others ? "    for earlier in before:\n        request.infer(earlier)\n" : "");
  return {};
}

}  // namespace attest::report
