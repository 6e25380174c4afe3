#include "engine/history.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace attest::engine {
namespace {

using Calls = std::vector<Asked>;
using Offset = Calls::difference_type;

Calls suffix_of(const Calls& calls, std::size_t count) {
  return {calls.end() - static_cast<Offset>(count), calls.end()};
}

Calls all_but(const Calls& calls, std::size_t begin, std::size_t count) {
  Calls rest = calls;
  const auto from = rest.begin() + static_cast<Offset>(begin);
  rest.erase(from, from + static_cast<Offset>(std::min(count, calls.size() - begin)));
  return rest;
}

}  // namespace

// Delta debugging (Zeller and Hildebrandt, 2002) with complements alone, after the shortest suffix of 1, 2, 4, ...
// calls.
Calls fewest_calls(Calls calls, const ShowsAfter& shows, const std::function<bool()>& spent) {
  const auto go_on = [&] { return !spent || !spent(); };
  const auto take = [&](Calls fewer) {
    if (!shows(fewer)) return false;
    calls = std::move(fewer);
    return true;
  };
  Calls all_plain = calls;
  for (Asked& call : all_plain) call.laws.clear();
  take(std::move(all_plain));
  for (std::size_t count = 1; count < calls.size() && go_on(); count *= 2)
    if (take(suffix_of(calls, count))) break;
  for (std::size_t chunk = std::max<std::size_t>(calls.size() / 2, 1); go_on();) {
    bool fewer = false;
    for (std::size_t begin = 0; begin < calls.size() && calls.size() > 1 && go_on();) {
      Calls rest = all_but(calls, begin, chunk);
      if (!rest.empty() && take(std::move(rest)))
        fewer = true;
      else
        begin += chunk;
    }
    if (chunk == 1 && !fewer) break;
    if (!fewer) chunk /= 2;
  }
  for (std::size_t i = 0; i < calls.size() && go_on(); ++i) {
    Calls plain = calls;
    if (!std::exchange(plain[i].laws, {}).empty()) take(std::move(plain));
  }
  return calls;
}

Problem moved_along(const Problem& call, const Problem& from, const Problem& to) {
  Problem moved = call;
  for (const Field& field : call.op().fields()) {
    if (same_value(field, from, to) || !same_value(field, call, from)) continue;
    field.copy(to, moved);
  }
  try {
    validate(moved);
    return moved;
  } catch (const Error&) {
    return call;
  }
}

}  // namespace attest::engine
