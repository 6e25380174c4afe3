#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

// Chooses one of the subjects that `target` offers: the one named `wanted`, or the only one if that is empty. Throws
// Error(no_subject) with the nearest names if there is none of that name; Error(usage) listing them if several are
// there and none is named.
std::size_t choose(std::span<const std::string> names, std::string_view wanted, const std::string& target);

// The names nearest to `wanted`, which may be part of them or mistyped, the nearest first; empty if none is near.
std::vector<std::string> near_names(std::span<const std::string> names, std::string_view wanted);

// "did you mean a, b?" with the names nearest to `wanted`, or "there are ..." with all of them if none is near.
std::string nearest(std::span<const std::string> names, std::string_view wanted);

}  // namespace attest
