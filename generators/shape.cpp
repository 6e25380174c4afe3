#include "generators/shape.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "generators/edges.hpp"
#include "generators/models.hpp"

namespace attest {
namespace {

using Wide = __int128;

// A dimension: where it lives, what it may be, and where kernels tend to break.
struct Dimension {
  Index Problem::*member;
  Range range;
  std::span<const Index> edges;
  int weight;  // its share of the work beside the others
};

template <auto Member>
Dimension dimension(Range range) {
  const Field& field = field_of<Member>();
  return {Member, range, field.edges, field.share};
}

// The work that nine problems in ten stay below. Above it dimensions mostly share the work, since a large problem of
// width 1 is all exponentials and no products.
constexpr Index most_usual_work = Index{1} << 16;
// Octaves of the work of problems of production, and of those with one query and long rows, four heads 64 wide and up.
constexpr Index production_octaves[] = {13, 17}, long_production_octaves[] = {17, 20};
constexpr auto production_widths = std::to_array<Index>({64, 80, 96, 128, 256});
// The smallest budget of multiply-adds for a model's call: one head of 64 queries, 64 keys and a width of 64 has so
// many.
constexpr Index least_model_work = Index{1} << 19;
// The budget of one call in sixteen: a head of 512 queries and keys and a width of 128 has so many.
constexpr Index most_model_work = Index{1} << 26;
// The cost of an element of keys or values beside its products, to draw, copy and read it again, in multiply-adds.
constexpr Index work_of_a_key_element = 4;
// Queries of one chunk of a prefill, and of a step that checks several drafted tokens.
constexpr auto chunks = std::to_array<Index>({2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096});
// The largest count of a kernel that counts in 16 bits.
constexpr Index most_counted = 65535;
// Elements that one problem may hold, masks along every axis included: 2^27 bytes of f64 with gaps, and a GiB with all
// the copies that laws make.
constexpr Index most_elements = Index{1} << 23;
// Multiply-adds of the rows that are judged, and the fewest rows.
constexpr Index most_judged_work = Index{1} << 21, fewest_judged_rows = 16;
// Rows that are judged in problems of 65,535 rows and more: a defect there shows in many rows, or in the last.
constexpr Index many_rows = 65535, most_judged_of_many_rows = Index{1} << 13;
// The cost of a score beside its products (mask, exponential, error bound), in multiply-adds.
constexpr Index work_of_a_score = 24;

// The range without 0, unless 0 is all there is.
Range positive(Range range) {
  if (range.lo == 0 && range.hi > 0) range.lo = range.multiple;
  return range;
}

template <class Integer>
Integer work_of(const Problem& p) {
  return Integer{p.b} * p.hq * p.lq * p.lk * (p.d + p.dv);
}
// Returns an upper bound: every query head with keys and values of its own, and one mask element per score. Where no
// extent is 0, it is at most three for each multiply-add.
template <class Integer>
Integer elements_of(const Problem& p) {
  return Integer{p.b} * p.hq * (Integer{p.lq + p.lk} * (p.d + p.dv) + Integer{p.lq} * p.lk);
}
// Where a problem of that many multiply-adds and all its parts are counted in 64 bits.
constexpr Index most_narrow_work = Index{1} << 60;

// Draws the work from the smallest problem of the domain up to the end of a band, or 16 times the smallest if that is
// more.
Index draw_work(Source& source, Index smallest, int size) {
  const Index band = source.below(1000), end = band == 0 ? 28 : band < 100 ? 22 : 16;
  const Index octaves = std::max<Index>(end + 1 - bits_of(smallest), 4) * std::clamp(size, 0, 100) / 100;
  const Index first = smallest << source.below(std::max<Index>(octaves, 1));
  return first + source.below(first);
}

// Draws the dimensions of one problem in turn; those not drawn yet are at their smallest.
class Shape {
 public:
  Shape(Problem& problem, const Domain& domain, Source& source, int size)
      : problem_(problem),
        source_(source),
        widths_{positive(domain.widths(problem.dtype).d), positive(domain.widths(problem.dtype).dv)},
        one_width_only_(domain.supports().dv_equals_d) {
    const Range d = widths_.d, dv = widths_.dv, both = intersect(d, dv);
    one_width_ = one_width_only_ || (!both.empty() && source.chance(3, 4));
    dims_ = {{dimension<&Problem::lk>(positive(domain.range<&Problem::lk>())),
              dimension<&Problem::lq>(positive(domain.range<&Problem::lq>())),
              dimension<&Problem::b>(positive(domain.range<&Problem::b>())),
              dimension<&Problem::hq>(positive(domain.range<&Problem::hq>())),
              dimension<&Problem::d>(one_width_ ? both : d), dimension<&Problem::dv>(dv)}};
    for (const Dimension& dim : dims_) set(dim, dim.range.lo);
    work_ = draw_work(source, static_cast<Index>(std::max<Wide>(work_of<Wide>(problem), 1)), size);
  }

  // Returns the work of the problem that draw() makes, in multiply-adds.
  [[nodiscard]] Index most_work() const { return work_; }

  // Dimensions in random order, keys first in half of the problems. Decoding (one query) is a regime of its own.
  void draw() {
    std::array<std::size_t, 6> order{0, 1, 2, 3, 4, 5};
    const std::size_t count = one_width_ ? 5 : 6;
    const bool keys_first = source_.chance(1, 2), decode = lq().range.contains(1) && source_.chance(1, 8);
    for (std::size_t i = keys_first ? 1 : 0; i + 1 < count; ++i)
      std::swap(order[i], order[i + static_cast<std::size_t>(source_.below(static_cast<Index>(count - i)))]);

    const bool large = work_ > most_usual_work, fair = source_.chance(large ? 7 : 5, 8);
    // Keys that come first may take all of it: rows up to 2^20 keys.
    const bool long_rows = keys_first && (!large || source_.chance(1, 2));
    int remaining = 0;
    for (std::size_t i = 0; i < count; ++i) remaining += dims_[order[i]].weight;
    for (std::size_t i = 0; i < count; ++i) {
      const Dimension& dim = dims_[order[i]];
      set(dim, decode && dim.member == &Problem::lq ? 1 : draw_one(dim, remaining, fair && !(i == 0 && long_rows)));
      remaining -= dim.weight;
    }
    if (!decode && source_.chance(1, 8)) square();
  }

  // A width and a group of heads of production, one query and long rows in half of them. False if the domain has no
  // such problem.
  bool draw_production(bool gqa, Range key_heads) {
    const bool may_decode = lq().range.contains(1), long_rows = may_decode && source_.chance(1, 2),
               decode = may_decode && source_.chance(1, 4);
    const Index width = source_.pick(production_widths), group = source_.chance(1, 2) ? 4 : 8,
                groups = long_rows || source_.chance(1, 2) ? 1 : 2;
    const auto& octaves = long_rows ? long_production_octaves : production_octaves;
    const Index first = Index{1} << source_.between(octaves[0], octaves[1]);
    if (!width_of_keys().range.contains(width) || !(one_width_ || width_of_values().range.contains(width)))
      return false;
    work_ = first + source_.below(first);
    set(width_of_keys(), width);
    set(width_of_values(), width);
    if (heads().range.contains(group * groups)) {
      set(heads(), group * groups);
      if (gqa && key_heads.contains(groups)) group_ = group;
    }
    if (long_rows) {  // as long as the work allows
      set(lq(), 1);
      set(lk(), draw_one(lk(), lk().weight, false));
      return true;
    }
    std::array<const Dimension*, 3> order{&lk(), &lq(), &batch()};
    if (source_.chance(1, 2)) std::swap(order[0], order[2]);  // the last one mostly takes what is left
    int remaining = lk().weight + lq().weight + batch().weight;
    for (const Dimension* dim : order) {
      set(*dim, decode && dim == &lq() ? 1 : draw_one(*dim, remaining, dim != &lk()));
      remaining -= dim->weight;
    }
    return true;
  }

  // The heads of a model and the lengths of a call that serves it; of its heads, and of requests beside, as many as the
  // work leaves. False if the domain has no such shape.
  bool draw_model(bool gqa, Range key_heads) {
    const std::span<const ModelHeads> models = model_heads();
    const Index count = std::ssize(models), first = source_.below(count);
    for (Index n = 0; n < count; ++n) {
      const ModelHeads& model = models[static_cast<std::size_t>((first + n) % count)];
      if (takes_widths_of(model)) return draw_call_within(model, gqa, key_heads);
    }
    return false;
  }
  [[nodiscard]] bool takes_widths_of(const ModelHeads& model) const {
    return widths_.d.contains(model.d) && widths_.dv.contains(model.dv) && (!one_width_only_ || model.d == model.dv);
  }
  // Draws a call of the model. False, with nothing drawn, if the least that the subject takes is past what a call may hold.
  bool draw_call_within(const ModelHeads& model, bool gqa, Range key_heads) {
    const Problem before = problem_;
    const bool one_width_before = one_width_;
    one_width_ = model.d == model.dv;
    draw_call_of(model, gqa, key_heads);
    if (elements_of<Wide>(problem_) <= most_elements) return true;
    problem_ = before;
    one_width_ = one_width_before;
    group_.reset();
    return false;
  }

  // One of 65,535..65,537 in heads or batch. False if the domain has no such problem.
  bool draw_crowd() {
    const Dimension& crowded = source_.chance(2, 3) ? heads() : batch();
    return crowd(crowded, source_.between(most_counted, most_counted + 2));
  }
  bool draw_large_batch() { return crowd(batch(), source_.between(most_counted + 1, most_counted + 2)); }

  // Query heads per key head, where the shape says.
  [[nodiscard]] std::optional<Index> group() const { return group_; }

 private:
  [[nodiscard]] const Dimension& lk() const { return dims_[0]; }
  [[nodiscard]] const Dimension& lq() const { return dims_[1]; }
  [[nodiscard]] const Dimension& batch() const { return dims_[2]; }
  [[nodiscard]] const Dimension& heads() const { return dims_[3]; }
  [[nodiscard]] const Dimension& width_of_keys() const { return dims_[4]; }
  [[nodiscard]] const Dimension& width_of_values() const { return dims_[5]; }

  void draw_call_of(const ModelHeads& model, bool gqa, Range key_heads) {
    work_ = source_.chance(1, 16) ? most_model_work : draw_model_work(source_, least_model_work, 5);
    const Index off = source_.chance(1, 16) ? source_.between(-1, 1) : 0;
    const bool may_be_off = widths_.d.contains(model.d + off) && widths_.dv.contains(model.dv + off);
    set(width_of_keys(), may_be_off ? model.d + off : model.d);
    set(width_of_values(), may_be_off ? model.dv + off : model.dv);
    const Index crowd = source_.chance(1, 4) ? source_.pick(serving_batches) : 1;
    draw_lengths(model, crowd);
    // A subject may take no samples, keys or heads of the sizes that it is asked for.
    const Index of_the_keys = std::max<Index>(problem_.lk, 1) * row(),
                of_a_head = of_the_keys * std::max(problem_.lq, work_of_a_key_element),
                most_samples = std::clamp<Index>(work_ / of_a_head, 1, crowd);
    set(batch(), batch().range.floor(*std::prev(std::ranges::upper_bound(serving_batches, most_samples))));
    // Whole groups where there is room for one, fewer key/value heads where their elements are many.
    const Index of_keys = std::max<Index>(work_of_keys() / (std::max<Index>(problem_.b, 1) * of_the_keys), 1),
                room = std::max<Index>(cap<Index>(heads()), 1),
                members = gqa ? std::min(model.heads / model.kv_heads, room) : 1,
                most = std::min({model.heads / members, room / members, of_keys}),
                groups = std::max<Index>(most - (source_.chance(1, 16) ? 1 : 0), 1), count = members * groups;
    set(heads(), heads().range.floor(count));
    if (gqa && problem_.hq == count && key_heads.contains(groups)) group_ = members;
  }

  // Prefill, a step of decoding, or a chunk of queries against the keys of those before. A model that fixes its number
  // of queries decodes nothing.
  void draw_lengths(const ModelHeads& model, Index samples) {
    const Index kind = source_.below(10), room = work_ / (samples * row()),
                room_of_keys = work_of_keys() / (samples * row());
    const bool prefill = kind < 4 || model.queries > 0, decode = !prefill && kind < 9 && lq().range.contains(1),
               fixed = model.keys > 0 && model.keys <= room_of_keys && source_.chance(3, 4);
    const auto side = static_cast<Index>(std::sqrt(static_cast<double>(room)));
    const Index least = work_ == most_model_work ? side : 0;  // the longest that fits
    const Index keys = fixed     ? model.keys + (source_.chance(1, 8) ? source_.between(-1, 1) : 0)
                       : prefill ? draw_size(source_, prefill_lengths(), side, least)
                                 : draw_size(source_, samples > 1 ? paged_lengths() : cached_lengths(), room_of_keys);
    const Index most_queries = std::max<Index>(room / keys, 1);
    set(lk(), lk().range.floor(keys));
    const auto queries = [&] {
      if (decode) return Index{1};
      if (!prefill) return draw_size(source_, chunks, most_queries);
      if (!fixed) return source_.chance(1, 8) ? keys - 1 : keys;
      return model.queries > 0 ? std::min(model.queries, most_queries)
                               : draw_size(source_, prefill_lengths(), most_queries);
    };
    set(lq(), lq().range.floor(queries()));
  }
  [[nodiscard]] Index row() const { return problem_.d + problem_.dv; }
  // Elements of keys and values that the budget pays for; the largest budget pays for products alone.
  [[nodiscard]] Index work_of_keys() const { return std::min(work_, most_model_work / 4) / work_of_a_key_element; }

  // Everything else at its smallest, but for one dimension in half of the problems.
  bool crowd(const Dimension& crowded, Index size) {
    const bool small = std::all_of(dims_.begin(), dims_.end(), [](const Dimension& dim) { return dim.range.lo <= 2; });
    if (!small || !crowded.range.contains(size)) return false;
    for (const Dimension& dim : dims_) set(dim, dim.range.floor(1));
    const Dimension& other = dims_[static_cast<std::size_t>(source_.below(std::ssize(dims_)))];
    if (source_.chance(1, 2)) set(other, other.range.floor(2));
    set(crowded, size);
    return true;
  }

  void set(const Dimension& dim, Index value) {
    if (one_width_ && dim.member == &Problem::dv) return;  // it follows d
    problem_.*dim.member = value;
    if (one_width_ && dim.member == &Problem::d) problem_.dv = value;
  }

  // The largest value of a dimension that keeps an affine cost below `limit` while the others stay as they are.
  template <class Integer>
  Index cap(const Dimension& dim, Integer (*cost)(const Problem&), Integer limit) {
    set(dim, 0);
    const Integer none = cost(problem_);
    set(dim, 1);
    const Integer slope = cost(problem_) - none;
    if (slope <= 0) return dim.range.hi;
    return static_cast<Index>(std::clamp<Integer>((limit - none) / slope, dim.range.lo, dim.range.hi));
  }
  template <class Integer>
  Index cap(const Dimension& dim) {
    return std::min(cap<Integer>(dim, work_of<Integer>, work_), cap<Integer>(dim, elements_of<Integer>, most_elements));
  }

  // Edge-biased within what is left. Fair: within twice the share, in octaves, that falls to this dimension among those
  // not drawn yet, so that several are large together; otherwise one may take it all. The last one mostly does.
  Index draw_one(const Dimension& dim, int remaining, bool fair) {
    Index most = work_ < most_narrow_work ? cap<Index>(dim) : cap<Wide>(dim);
    const Index least = std::max<Index>(dim.range.lo, 1);
    if (most <= least) return dim.range.lo;
    const int octaves = static_cast<int>(bits_of(most / least)) - 1;
    const int share = (2 * dim.weight * octaves + remaining - 1) / remaining;
    if (fair) most = std::min(most, least << std::min(octaves, share));
    if (remaining == dim.weight && source_.chance(7, 8)) return dim.range.floor(most);
    Index size = edge_biased(source_, dim.edges, most);
    // A single key hides every score.
    if (&dim == &lk() && size <= 1 && source_.chance(3, 4)) size = edge_biased(source_, dim.edges, most);
    return dim.range.floor(std::min(most, size));
  }

  // Makes as many queries as keys, at no more work.
  void square() {
    const Range both = intersect(lq().range, lk().range);
    const auto side =
        static_cast<Index>(std::sqrt(static_cast<double>(problem_.lq) * static_cast<double>(problem_.lk)));
    if (both.empty() || side < both.lo) return;
    const bool round = source_.chance(1, 2);
    const Index length =
        both.floor(round ? static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(side))) : side);
    set(lq(), length);
    set(lk(), length);
  }

  Problem& problem_;
  Source& source_;
  Domain::Widths widths_;
  bool one_width_only_;
  Index work_ = 0;
  std::optional<Index> group_;
  std::array<Dimension, 6> dims_;
  bool one_width_;
};

// Draws as many key heads as query heads in half of the problems, one in a quarter, else any divisor.
Index draw_key_heads(Index heads, Range allowed, Source& source) {
  if (heads == 0) return 0;
  std::array<Index, 256> divisors;
  std::size_t count = 0;
  const bool few_bits = heads <= std::numeric_limits<std::uint32_t>::max();  // a remainder is then computed soon
  for (Index n = 1; n * n <= heads; ++n) {
    if (few_bits ? static_cast<std::uint32_t>(heads) % static_cast<std::uint32_t>(n) != 0 : heads % n != 0) continue;
    if (allowed.contains(n)) divisors[count++] = n;
    if (n * n != heads && allowed.contains(heads / n)) divisors[count++] = heads / n;
  }
  const Index kind = source.below(4);
  if (kind < 2 && allowed.contains(heads)) return heads;
  if (kind == 2 && allowed.contains(1)) return 1;
  return source.pick(std::span<const Index>(divisors).first(count));
}

// In 1 problem of 32, one dimension of those that may be 0 is.
void draw_empty(Problem& problem, const Domain& domain, bool one_width, Source& source) {
  std::array<Index Problem::*, 6> may{};
  Index count = 0;
  const auto offer = [&](bool allowed, Index Problem::*member) {
    if (allowed) may[static_cast<std::size_t>(count++)] = member;
  };
  offer(domain.range<&Problem::b>().lo == 0, &Problem::b);
  offer(domain.range<&Problem::hq>().lo == 0 && domain.range<&Problem::hkv>().lo == 0, &Problem::hq);
  offer(domain.range<&Problem::lq>().lo == 0, &Problem::lq);
  offer(domain.range<&Problem::lk>().lo == 0, &Problem::lk);
  offer(domain.range<&Problem::d>().lo == 0, &Problem::d);
  offer(domain.range<&Problem::dv>().lo == 0, &Problem::dv);
  if (count == 0 || !source.chance(1, 32)) return;
  Index Problem::*const chosen = may[static_cast<std::size_t>(source.below(count))];
  problem.*chosen = 0;
  if (chosen == &Problem::hq) problem.hkv = 0;
  if (one_width && (chosen == &Problem::d || chosen == &Problem::dv)) problem.d = problem.dv = 0;
}

}  // namespace

bool draw_shape(Problem& problem, const Domain& domain, Source& source, int size, bool large_batch) {
  const Range key_heads = domain.range<&Problem::hkv>();
  const bool gqa = domain.supports().gqa, only_models = domain.sizes() == SizeRegime::models;
  Shape shape(problem, domain, source, size);
  const bool crowd = source.chance(1, 1500) && size >= 100, production = source.chance(1, 40) && size >= 100,
             model = (source.chance(1, shapes_per_model) && size >= 100 && domain.sizes() == SizeRegime::both) ||
                     only_models;
  const bool crowded = !only_models && ((large_batch && shape.draw_large_batch()) || (crowd && shape.draw_crowd()));
  const bool of_model = !crowded && model && shape.draw_model(gqa, key_heads);
  if (only_models && !of_model) refuse_models();
  if (!crowded && !of_model && !(production && shape.draw_production(gqa, key_heads))) {
    if (!domain.may_accept_work(shape.most_work())) return false;
    shape.draw();
  }
  problem.hkv = !gqa            ? problem.hq
                : shape.group() ? problem.hq / *shape.group()
                                : draw_key_heads(problem.hq, key_heads, source);
  if (!large_batch && !of_model) draw_empty(problem, domain, domain.supports().dv_equals_d, source);
  return true;
}

void draw_rows(Problem& problem, Source& source) {
  const Index per_row = problem.lk * (problem.d + problem.dv + work_of_a_score),
              all = problem.b * problem.hq * problem.lq;
  if (per_row == 0) return;
  Index most = std::max(fewest_judged_rows, most_judged_work / per_row);
  if (all >= many_rows) most = std::min(most, most_judged_of_many_rows);
  if (most < all) problem.rows = source.between((most + 1) / 2, most);
}

}  // namespace attest
