#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/format.hpp"
#include "properties/property.hpp"
#include "report/export.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

constexpr Index most_numbers = 65'536;

std::string in_comment(std::string_view text) {
  std::string line = ascii_line(text);
  std::ranges::replace(line, '\\', ' ');  // at its end it would make the next line a comment, too
  return line;
}

std::string_view cpp_type(DType type) {
  constexpr std::string_view types[] = {"half", "bfloat", "float", "double", "std::int32_t", "bool"};
  return types[static_cast<int>(type)];
}

// A double that reads back.
std::string cpp_real(double value) {
  if (std::isnan(value)) return "nan_";
  if (std::isinf(value)) return value < 0 ? "-inf_" : "inf_";
  return fmt::format("{:a}", value);
}

std::string element(double value, DType type) {
  switch (type) {
    case DType::boolean:
      return value != 0 ? "true" : "false";
    case DType::i32:
      return fmt::format("{}", static_cast<std::int64_t>(value));
    case DType::f32:
      return std::isfinite(value) ? fmt::format("{:a}f", value)
                                  : fmt::format("static_cast<float>({})", cpp_real(value));
    case DType::f64:
      return cpp_real(value);
    default:
      return fmt::format("{{{}}}", encoded(traits(format_of(type)), value));
  }
}

std::string values(const Tensor& tensor) {
  std::vector<std::string> all;
  for_each_index(tensor.shape(), [&](Index a, Index b, Index c, Index d) {
    all.push_back(element(tensor.at(a, b, c, d), tensor.dtype()));
  });
  return fmt::format("{}", fmt::join(all, ", "));
}

Index flat(const std::array<Index, 4>& index, std::span<const Index> shape) {
  Index at = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) at = at * shape[axis] + index[axis];
  return at;
}

constexpr std::string_view halves = R"(// A number of 16 bits, by its bits.
struct half { std::uint16_t bits; };
struct bfloat { std::uint16_t bits; };
[[maybe_unused]] double value(bfloat x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
[[maybe_unused]] double value(half x) {
  const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  const double size = exponent == 31 ? (fraction != 0 ? nan_ : inf_)
                      : exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (x.bits & 0x8000) != 0 ? -size : size;
}
[[maybe_unused]] double value(float x) { return x; }
[[maybe_unused]] double value(double x) { return x; }
)";

}  // namespace

std::string cpp_program(const engine::Entry& entry, ops::Exchange& call) {
  Index numbers = 0;
  for (const auto& tensors : {call.inputs(), call.outputs()})
    for (const ops::NamedTensor& named : tensors) numbers += named.tensor->size();
  if (numbers > most_numbers)
    throw usage_error(
        fmt::format("--to cpp: its tensors have {} numbers, more than a source file should hold: take --to npz",
                    grouped(static_cast<std::uint64_t>(numbers))));
  std::string code = fmt::format("// {} fails {}\n", in_comment(entry.subject), in_comment(entry.property));
  if (const auto* law = ops::find_law(entry.property, entry.problem.op()); law != nullptr && !law->base_call())
    code += "// this law judges further calls that it derives from the problem; what follows is the problem itself\n";
  if (entry.evidence) code += fmt::format("// seen: {}\n", in_comment(evidence_line(*entry.evidence)));
  code += fmt::format("// problem: {}\n// policy: {}\n", in_comment(to_text(entry.problem)),
                      in_comment(to_text(policy_of(entry.contract))));
  if (const std::string words = entry.problem.op().options_in_words(call); !words.empty())
    code += fmt::format("// what the call says: {}\n", in_comment(words));
  code += "// Tensors are packed here, row by row, whatever strides the problem has.\n";
  code +=
      "#include <bit>\n#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <limits>\n\nnamespace {\n\n";
  code +=
      "[[maybe_unused]] constexpr double inf_ = std::numeric_limits<double>::infinity(), nan_ = "
      "std::numeric_limits<double>::quiet_NaN();\n\n";
  code += halves;
  code += "\n";
  std::string parameters, arguments;
  const auto parameter = [&](std::string_view constness, const ops::NamedTensor& named) {
    parameters += fmt::format("{}{}{}* {}", parameters.empty() ? "" : ", ", constness, cpp_type(named.tensor->dtype()),
                              named.name);
    arguments += fmt::format("{}{}_data", arguments.empty() ? "" : ", ", named.name);
  };
  for (const ops::NamedTensor& named : call.inputs()) {
    code += fmt::format("// [{}]\nconst {} {}_data[] = {{{}}};\n", fmt::join(named.tensor->shape(), ", "),
                        cpp_type(named.tensor->dtype()), named.name,
                        named.tensor->size() == 0 ? "{}" : values(*named.tensor));
    parameter("const ", named);
  }
  for (const auto& [name, number] : call.numbers())
    code += fmt::format("[[maybe_unused]] constexpr double {} = {};\n", name, cpp_real(number));

  // The values that a kernel that keeps its contract may return.
  std::map<std::string, std::vector<std::string>, std::less<>> bounds;
  std::map<std::string, const Tensor*, std::less<>> tensors;
  for (const ops::NamedTensor& named : call.outputs()) {
    tensors.emplace(named.name, named.tensor);
    bounds[std::string(named.name)].assign(static_cast<std::size_t>(named.tensor->size()), "{0, 0, 4}");
  }
  call.walk(entry.contract, std::numeric_limits<Index>::max(), [&](const ops::Permitted& one) {
    const auto found = tensors.find(one.tensor);
    if (found == tensors.end()) return;
    const int also = (one.nonfinite ? 1 : 0) | (one.number ? 0 : 2) | (one.undetermined ? 4 : 0);
    bounds.find(one.tensor)->second[static_cast<std::size_t>(flat(one.index, found->second->shape()))] =
        fmt::format("{{{}, {}, {}}}", cpp_real(one.lo), cpp_real(one.hi), also);
  });
  code +=
      "\n// lo .. hi; also 1: or NaN or an infinity, 2: nothing finite, 4: anything\nstruct Bound { double lo, hi; int "
      "also; };\n";
  std::string checks;
  for (const ops::NamedTensor& named : call.outputs()) {
    const std::string count = fmt::format("{}", std::max<Index>(named.tensor->size(), 1));
    code +=
        fmt::format("const Bound {}_bounds[] = {{{}}};\n{} {}_data[{}];\n", named.name,
                    named.tensor->size() == 0 ? "{0, 0, 4}"
                                              : fmt::format("{}", fmt::join(bounds.at(std::string(named.name)), ", ")),
                    cpp_type(named.tensor->dtype()), named.name, count);
    parameter("", named);
    checks += fmt::format("  outside += held(\"{0}\", {0}_data, {0}_bounds);\n", named.name);
  }
  code += fmt::format(R"(
// Yours: call the kernel.
int run({});

template <class T, std::size_t n>
int held(const char* name, const T (&got)[n], const Bound (&bounds)[n]) {{
  int outside = 0;
  for (std::size_t i = 0; i < n; ++i) {{
    const double x = value(got[i]);
    const Bound& b = bounds[i];
    const bool inside = (b.also & 4) != 0 || (std::isfinite(x) ? (b.also & 2) == 0 && x >= b.lo && x <= b.hi : b.also != 0);
    if (inside) continue;
    if (++outside <= 5) std::printf("%s[%zu] = %.17g, permitted %.17g .. %.17g\n", name, i, x, b.lo, b.hi);
  }}
  return outside;
}}

}}  // namespace

int main() {{
  if (const int failed = run({}); failed != 0) return std::printf("the kernel gave %d\n", failed), 1;
  int outside = 0;
{}  return outside != 0;
}}

namespace {{
#ifdef ATTEST_RUN  // a file with the body of run(), as -DATTEST_RUN='"run.inc"'
#include ATTEST_RUN
#else
int run({}) {{
#error "call your kernel here"
}}
#endif
}}  // namespace
)",
                      parameters, arguments, checks, parameters);
  return code;
}

}  // namespace attest::report
