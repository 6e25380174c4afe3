#include "generators/mha/shape.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "core/error.hpp"
#include "core/supports.hpp"
#include "generators/edges.hpp"
#include "generators/models.hpp"
#include "generators/weighted.hpp"

namespace attest::mha {
namespace {

constexpr Index least_octave = 3;
constexpr int most_tries = 1000;
// The smallest budget of multiply-adds for a model's block, and the most that it has.
constexpr Index least_model_work = Index{1} << 21, most_model_work = Index{1} << 27;
// One shape in blocks_per_model is a model's. Two in seven of these are long, of heads no wider than most_long_head.
constexpr Index blocks_per_model = 20, most_long_head = 64;
constexpr auto block_lengths = std::to_array<Index>({128, 196, 197, 256, 257, 512, 577, 729});
constexpr auto long_block_lengths = std::to_array<Index>({1024, 1500, 2048});
constexpr auto longest_block_lengths = std::to_array<Index>({4096, 5184});
constexpr auto memory_lengths = std::to_array<Index>({16, 32, 64, 77});
// Elements that one tensor of a problem may have: 2^27 bytes of f64 with gaps.
constexpr Index most_elements = Index{1} << 23;

// The dimensions that share the work: the width of a token, that of a head, heads, tokens, samples.
enum : std::size_t { width, head, heads, tokens, samples, part_count };
constexpr std::array<Index, part_count> shares{4, 3, 2, 5, 1};
constexpr std::array<std::string_view, part_count> names{"e", "head_dim", "heads", "m", "b"};

class Shape {
 public:
  Shape(Problem& problem, const Domain& domain, Source& source) : p_(problem), domain_(domain), source_(source) {}

  void draw() {
    for (int tries = 0; tries < most_tries; ++tries) {
      p_.self = weighted(source_, find_field("self")->weights, domain_.range("self")) != 0;
      const Index octaves = draw_octaves();
      const bool small = domain_.sizes() == SizeRegime::small,
                 model = (!small && source_.chance(1, blocks_per_model)) || domain_.sizes() == SizeRegime::models;
      if (!model || !draw_model()) draw_parts(octaves);
      // Edges and groups of heads go beyond what was shared out.
      const Index most = model ? most_model_work : Index{16} << octaves;
      for (int halvings = 0; too_much(most) && halvings < 64; ++halvings) halve();
      if (fits()) return;
    }
    if (domain_.sizes() == SizeRegime::models) refuse_models();
    // Dice that never fit: the least of everything.
    least();
    if (!fits()) throw usage_error("what the subject supports of mha leaves no shape");
  }

 private:
  [[nodiscard]] Index draw_octaves() {
    const Index band = source_.below(1000);
    return source_.between(least_octave, band == 0 ? 25 : band < 100 ? 21 : 17);
  }
  [[nodiscard]] Range range(std::size_t part) const { return domain_.range(names[part]); }
  [[nodiscard]] Index of(std::size_t part, Index cap) {
    const Range allowed = range(part);
    cap = std::clamp<Index>(cap, 1, allowed.hi);
    return allowed.floor(edge_biased(source_, find_field(names[part])->edges, cap));
  }

  void draw_parts(Index octaves) {
    std::array<Index, part_count> weights{};
    Index total = 0;
    for (std::size_t n = 0; n < part_count; ++n) {
      weights[n] = shares[n] * source_.below(8);
      total += weights[n];
    }
    std::array<Index, part_count> caps{};
    for (std::size_t n = 0; n < part_count; ++n)
      caps[n] = Index{2} << (total > 0 ? octaves * weights[n] / total : octaves / 5);
    set_heads(of(head, caps[head]), of(heads, std::min<Index>(caps[heads], 64)));
    p_.e = domain_.supports().heads_fill_e || source_.chance(3, 5) ? p_.q_width() : of(width, caps[width]);
    p_.b = of(samples, caps[samples]);
    set_tokens(of(tokens, caps[tokens]), caps[tokens]);
  }

  // Draws heads of a model, as many as the work leaves, the width that they fill, and tokens; a long sequence mostly
  // has a short memory. False if the domain has no heads of the model drawn.
  bool draw_model() {
    const std::span<const ModelHeads> models = model_heads();
    const bool is_long = source_.chance(2, 7), longest = is_long && source_.chance(1, 8);
    const ModelHeads* model = nullptr;
    do model = &models[static_cast<std::size_t>(source_.below(std::ssize(models)))];
    while (is_long && model->d > most_long_head);
    const Index d = model->d, work = draw_model_work(source_, least_model_work, 5);
    if (d != model->dv || !range(head).contains(d)) return false;
    if (is_long && domain_.range("self").lo == 0) p_.self = false;
    const Index of_pairs = work / (2 * d), side = static_cast<Index>(std::sqrt(static_cast<double>(of_pairs)));
    p_.b = range(samples).floor(1);
    p_.m = draw_size(source_, memory_lengths, is_long ? memory_lengths.front() : memory_lengths.back());
    const Index length = longest   ? draw_size(source_, longest_block_lengths, longest_block_lengths.back())
                         : is_long ? draw_size(source_, long_block_lengths, long_block_lengths.back())
                                   : draw_size(source_, block_lengths, p_.self ? side : of_pairs / (d + p_.m));
    p_.l = domain_.range("l").floor(length);
    p_.m = range(tokens).floor(p_.self ? p_.l : p_.m);
    for (Index count = model->kv_heads;; count /= 2) {
      p_.head_dim = d;
      p_.kv_heads = domain_.range("kv_heads").floor(count);
      p_.heads = p_.kv_heads * (domain_.supports().gqa ? std::min<Index>(model->heads / model->kv_heads, 8) : 1);
      p_.e = range(width).floor(p_.q_width());
      if (p_.multiply_adds() <= work || count <= 1) break;
    }
    if (p_.multiply_adds() > work && domain_.range("heads").contains(p_.kv_heads)) {
      p_.heads = p_.kv_heads;
      p_.e = range(width).floor(p_.q_width());
    }
    return true;
  }

  // Sets so many query heads, or nearly, in groups that share a key/value head.
  void set_heads(Index d, Index count) {
    constexpr std::array<Index, 6> groups{2, 2, 3, 4, 4, 8};
    p_.head_dim = d;
    const Index group = domain_.supports().gqa && source_.chance(1, 4) ? source_.pick(groups) : 1;
    const Range of_groups = domain_.range("kv_heads");
    p_.kv_heads = of_groups.floor(std::max<Index>(count / group, 1));
    p_.heads = p_.kv_heads * group;
    if (!domain_.range("heads").contains(p_.heads)) p_.heads = p_.kv_heads;
  }

  void set_tokens(Index m, Index cap) {
    p_.m = m;
    const Range allowed = domain_.range("l");
    const Index dice = source_.below(5);
    p_.l = p_.self || dice == 0 ? m
           : dice == 1
               ? allowed.floor(1)
               : allowed.floor(edge_biased(source_, find_field("l")->edges, std::clamp<Index>(cap, 1, allowed.hi)));
  }

  [[nodiscard]] bool too_much(Index most) const {
    const Index largest = std::max({p_.b * std::max(p_.l, p_.m) * std::max(p_.e, p_.q_width()),
                                    (p_.q_width() + 2 * p_.kv_width()) * p_.e, p_.b * p_.heads * p_.l * p_.m});
    return p_.multiply_adds() > most || largest > most_elements;
  }
  // Whatever is largest beside the least that the subject takes.
  void halve() {
    std::array<std::pair<Index*, Range>, 4> parts{{{&p_.m, domain_.range("m")},
                                                   {&p_.b, domain_.range("b")},
                                                   {&p_.l, domain_.range("l")},
                                                   {&p_.head_dim, domain_.range("head_dim")}}};
    const bool filled = p_.e == p_.q_width();
    const auto most =
        std::ranges::max_element(parts, {}, [](const auto& part) { return *part.first - part.second.lo; });
    *most->first = most->second.floor(*most->first / 2);
    if (p_.self) p_.l = p_.m = std::min(p_.l, p_.m);
    if (filled && domain_.supports().heads_fill_e) p_.e = p_.q_width();
    if (!filled && p_.e > 64) p_.e = domain_.range("e").floor(p_.e / 2);
  }

  void least() {
    p_.self = domain_.range("self").hi != 0;
    p_.b = domain_.range("b").lo;
    p_.m = domain_.range("m").lo;
    p_.l = domain_.range("l").lo;
    if (p_.self) p_.l = p_.m = std::max(p_.l, p_.m);
    p_.kv_heads = domain_.range("kv_heads").lo;
    const Range of_heads = domain_.range("heads");
    p_.heads = (std::max(of_heads.lo, p_.kv_heads) + p_.kv_heads - 1) / p_.kv_heads * p_.kv_heads;
    const Index step = row_step(domain_.supports().alignment, p_.dtype);
    p_.head_dim = (domain_.range("head_dim").lo + step - 1) / step * step;
    p_.e = domain_.supports().heads_fill_e ? p_.q_width() : (domain_.range("e").lo + step - 1) / step * step;
  }

  [[nodiscard]] bool fits() const {
    for (const Field& field : fields())
      if (field.extent && !domain_.range(field).contains(field.get(p_))) return false;
    return p_.heads % p_.kv_heads == 0 && !(p_.self && p_.l != p_.m) && !declined_shape();
  }
  // Tells whether the subject declines the shape, with everything else at values that any subject takes.
  [[nodiscard]] bool declined_shape() const {
    const Supports& s = domain_.supports();
    const Index step = row_step(s.alignment, p_.dtype);
    return (s.heads_fill_e && p_.e != p_.q_width()) || (!s.gqa && p_.heads != p_.kv_heads) || p_.e % step != 0 ||
           p_.q_width() % step != 0;
  }

  Problem& p_;
  const Domain& domain_;
  Source& source_;
};

}  // namespace

void draw_shape(Problem& problem, const Domain& domain, Source& source) { Shape(problem, domain, source).draw(); }

}  // namespace attest::mha
