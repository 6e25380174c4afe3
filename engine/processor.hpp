#pragma once
#include <string>
#include <string_view>

namespace attest::engine {

// The machine's architecture, and those of its instructions by which libraries choose other arithmetic, in a fixed
// order, by the names of /proc/cpuinfo: "x86_64 fma avx2 avx512f amx_bf16". The architecture alone where the system
// tells no more.
std::string processor();

// The words of `needed` that `here` does not have, in order, separated by spaces; empty where it has them all.
std::string lacking(std::string_view needed, std::string_view here);

// True for text that processor() could give: at most 64 words of [a-z0-9_].
bool is_processor(std::string_view text);

}  // namespace attest::engine
