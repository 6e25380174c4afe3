// Tells whether one mean explains a row: docs/layer-norm.md, section 8, `shared-mean`.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "oracle/layer_norm/oracle.hpp"

namespace attest::oracle::layer_norm {
namespace {

constexpr std::size_t most_asked = 24;  // elements of a row that are asked
constexpr int most_ranges = 256;        // ranges of delta, before a row is left alone
constexpr int most_halvings = 48;

// The interval of the mean's error.
struct Deltas {
  Wide lo, hi;
};

// Returns the statistics of a row whose mean is off by one of `deltas`: a variance of two passes is then off by the
// square of that, and by cv and av.
RowBounds with_mean(const Numbers& m, const Statistics& row, const Deltas& deltas) {
  const Wide centre = (deltas.lo + deltas.hi) / 2;
  const Wide far = std::max(deltas.lo * deltas.lo, deltas.hi * deltas.hi);
  const Wide near = deltas.lo <= 0 && deltas.hi >= 0 ? 0 : std::min(deltas.lo * deltas.lo, deltas.hi * deltas.hi);
  RowBounds bounds = row;
  bounds.mean = row.mean + centre;
  bounds.dm = ((deltas.hi - deltas.lo) / 2 + std::fabs(centre) * 0x1p-60L) * (1 + 0x1p-60L);
  bounds.joint = false;
  bounds.lo = (row.variance + near) * (1 - row.cv) * (1 - 0x1p-60L) - row.av;
  bounds.hi = (row.variance + far) * (1 + row.cv) * (1 + 0x1p-60L) + row.av;
  bounds.variance = std::max<Wide>(0, (bounds.lo + bounds.hi) / 2);
  bounds.bound_root(m);
  return bounds;
}

}  // namespace

std::optional<Evidence> LayerNormOracle::no_shared_mean(Index row, const Tensor& out) {
  enter(row);
  if (!source_.finite || !source_.error.empty() || !params_.finite()) return std::nullopt;
  const Statistics& whole = statistics();
  if (!whole.joint || whole.undetermined || whole.lost_mean || whole.lost_variance || !(whole.cv < 1) ||
      !(whole.dm > 0))
    return std::nullopt;
  std::vector<double> got(static_cast<std::size_t>(padded(problem_.hidden)));
  read(out, row, got);
  // The farthest from the mean on either side, which tell its root, and the nearest, which tell the mean.
  std::vector<Index> columns(static_cast<std::size_t>(problem_.hidden));
  std::iota(columns.begin(), columns.end(), Index{0});
  std::erase_if(columns, [&](Index i) {
    const auto at = static_cast<std::size_t>(i);
    return !std::isfinite(got[at]) || (!params_.gamma.empty() && params_.gamma[at] + numbers_.gamma_offset == 0);
  });
  if (columns.size() < 3) return std::nullopt;
  const auto d_of = [&](Index i) { return whole.d[static_cast<std::size_t>(i)]; };
  std::ranges::sort(columns, {}, d_of);
  const std::size_t each = most_asked / 3;
  if (columns.size() > most_asked) {
    const auto middle = std::ranges::lower_bound(columns, Wide{0}, {}, d_of) - columns.begin();
    const auto from =
        std::clamp<std::ptrdiff_t>(middle - static_cast<std::ptrdiff_t>(each / 2), static_cast<std::ptrdiff_t>(each),
                                   std::ssize(columns) - 2 * static_cast<std::ptrdiff_t>(each));
    std::rotate(columns.begin() + static_cast<std::ptrdiff_t>(each), columns.begin() + from,
                columns.begin() + from + static_cast<std::ptrdiff_t>(each));
    std::copy(columns.end() - static_cast<std::ptrdiff_t>(each), columns.end(),
              columns.begin() + 2 * static_cast<std::ptrdiff_t>(each));
    columns.resize(3 * each);
  }
  const auto enclosed = [&](Index column, const Deltas& deltas) {
    const Wide centre = (deltas.lo + deltas.hi) / 2;
    return interval_of(numbers_, with_mean(numbers_, whole, deltas), element(column, d_of(column) - centre));
  };
  const auto excludes = [&](Index column, const Deltas& deltas) {
    return outcome(enclosed(column, deltas), got[static_cast<std::size_t>(column)]) == Outcome::outside;
  };
  // Ranges that no element excludes are halved, until none is left, or one mean explains all.
  const auto who_excludes = [&](const Deltas& deltas) {
    return std::ranges::find_if(columns, [&](Index column) { return excludes(column, deltas); });
  };
  std::vector<Deltas> left{{-whole.dm, whole.dm}}, next;
  Index last = columns.front();
  Deltas last_deltas = left.front();
  for (int halvings = 0; halvings < most_halvings; ++halvings) {
    next.clear();
    for (const Deltas& deltas : left) {
      if (const auto found = who_excludes(deltas); found != columns.end()) {
        last = *found;
        last_deltas = deltas;
        continue;
      }
      const Wide middle = (deltas.lo + deltas.hi) / 2;
      if (who_excludes({middle, middle}) == columns.end()) return std::nullopt;
      next.push_back({deltas.lo, middle});
      next.push_back({middle, deltas.hi});
    }
    if (next.empty()) {
      const auto at = static_cast<std::size_t>(last);
      Evidence evidence = evidence_of(enclosed(last, last_deltas).enclosure, round_, got[at]);
      evidence.tensor = "out";
      evidence.index = {row, last, 0, 0};
      evidence.note = "no one mean explains its row: permitted is what that of the others leaves it";
      return evidence;
    }
    if (std::ssize(next) > most_ranges) return std::nullopt;
    left.swap(next);
  }
  return std::nullopt;
}

}  // namespace attest::oracle::layer_norm
