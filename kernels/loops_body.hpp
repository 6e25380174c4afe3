#pragma once
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/arithmetic.hpp"
#include "kernels/exp_lanes.hpp"
#include "kernels/lanes.hpp"
#include "kernels/loops.hpp"
#include "kernels/loops_products.hpp"
#include "kernels/rounding.hpp"

// The loops of loops.hpp for one instruction set, for which the file that includes this is compiled. All functions
// carry its name or are inlined always: the linker must not give one set's code to another.
namespace attest::kernels {

template <Isa isa>
struct LoopsOf {
  static constexpr int width = width_of<isa>;

  // x[j] = change(x[j]).
  template <class Change>
  ATTEST_LANES static void transform(float* x, Index n, const Change& change) {
    const Index end = padded(n);
    Index j = 0;
    for (; j + width <= end; j += width) store_float<width>(x + j, change(load_float<width>(x + j)));
    if constexpr (width > padding) {
      if (j < end) store_float<padding>(x + j, change(load_float<padding>(x + j)));
    }
  }

  // Eight interleaved sums.
  struct Sums {
    static constexpr int N = width < padding ? width : static_cast<int>(padding);
    typename FloatsOf<N>::Type part[padding / N] = {};

    // Adds x, which holds the elements [j, j + N or width).
    template <int M>
    ATTEST_LANES void add(const typename FloatsOf<M>::Type& x, Index j) {
      if constexpr (M > N) {
        part[0] += low_half<M>(x);
        part[0] += high_half<M>(x);
      } else {
        part[padding == N ? 0 : j / N % (padding / N)] += x;
      }
    }
    ATTEST_LANES float folded() const {
      typename FloatsOf<4>::Type four;
      if constexpr (N == padding)
        four = low_half<8>(part[0]) + high_half<8>(part[0]);
      else
        four = part[0] + part[1];
      return (four[0] + four[2]) + (four[1] + four[3]);
    }
  };
  // Calls work.operator()<N>(j) for [0, padded(n)), at least eight elements after one another.
  template <class Work>
  ATTEST_LANES static void in_eights(Index n, const Work& work) {
    constexpr Index step = width > padding ? width : padding;
    const Index end = padded(n);
    Index j = 0;
    for (; j + step <= end; j += step)
      for (Index at = 0; at < step; at += width) work.template operator()<width>(j + at);
    if constexpr (width > padding) {
      if (j < end) work.template operator()<padding>(j);
    }
  }

  static float powers(const float* x, float shift, Index n, float* powers) { return powers_of(x, shift, n, powers); }
  template <bool positive = true>
  ATTEST_LANES static float powers_of(const float* x, float shift, Index n, float* powers) {
    Sums sums;
    in_eights(
        n, [&]<int N>(Index j) __attribute__((always_inline)) {
          const auto power = exp_in_lanes<N, positive>(load_float<N>(x + j) - shift);
          store_float<N>(powers + j, power);
          sums.template add<N>(power, j);
        });
    return sums.folded();
  }

  static float sum(const float* x, Index n) {
    Sums sums;
    in_eights(
        n, [&]<int N>(Index j) __attribute__((always_inline)) { sums.template add<N>(load_float<N>(x + j), j); });
    return sums.folded();
  }

  // The best of all by `better`, of vectors and of numbers, which gives the first of two unless the second is better.
  template <class Better>
  ATTEST_LANES static float folded(typename FloatsOf<width>::Type best, const Better& better) {
    if constexpr (width == 16) {
      const auto eight = better(low_half<16>(best), high_half<16>(best));
      const auto four = better(low_half<8>(eight), high_half<8>(eight));
      return better(better(four[0], four[1]), better(four[2], four[3]));
    } else if constexpr (width == 8) {
      const auto four = better(low_half<8>(best), high_half<8>(best));
      return better(better(four[0], four[1]), better(four[2], four[3]));
    } else {
      return better(better(best[0], best[1]), better(best[2], best[3]));
    }
  }
  static float largest(const float* x, Index n, bool* above_minus_infinity) {
    typename FloatsOf<width>::Type least = typename FloatsOf<width>::Type{} + std::numeric_limits<float>::infinity();
    const float most = largest_of(x, n, least);
    *above_minus_infinity = all_above(least);
    return most;
  }
  // Tells whether none of what largest_of() met is -inf.
  ATTEST_LANES static bool all_above(typename FloatsOf<width>::Type least) {
    using V = typename FloatsOf<width>::Type;
    return !any_set<width>(least == V{} - std::numeric_limits<float>::infinity());
  }
  // Lowers `least` to what is smaller in its lane.
  ATTEST_LANES static float largest_of(const float* x, Index n, typename FloatsOf<width>::Type& least) {
    using V = typename FloatsOf<width>::Type;
    const auto larger = [](auto a, auto b) __attribute__((always_inline)) { return b > a ? b : a; };
    V best = V{} - std::numeric_limits<float>::infinity();
    const Index end = padded(n);
    Index j = 0;
    for (; j + width <= end; j += width) {
      const V next = load_float<width>(x + j);
      best = larger(best, next);
      least = next < least ? next : least;
    }
    if constexpr (width > padding) {
      if (j < end) {  // eight twice
        const auto half = load_float<padding>(x + j);
        const V next = both(half, half, std::make_integer_sequence<int, width>{});
        best = larger(best, next);
        least = next < least ? next : least;
      }
    }
    return folded(best, larger);
  }

  static bool soften_rows(const float* s, Index step, Index first, Index last, Index n, float* largest, float* total,
                          float* factor, float* weights) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    using V = typename FloatsOf<width>::Type;
    V least = V{} + infinity;
    const Index begin = first / width * width, end = (last + width - 1) / width * width;
    for (Index r = begin; r < end; ++r) factor[r] = -infinity;
    for (Index r = first; r < last; ++r) factor[r] = largest_of(s + r * step, n, least);
    for (Index r = begin; r < end; r += width) {
      const V before = load_float<width>(largest + r), here = load_float<width>(factor + r), one = V{} + 1.0f;
      const V now = here > before ? here : before;
      V by = one;
      if (any_set<width>(before > V{} - infinity)) {  // else it is the first tile of all of them
        by = exp_in_lanes<width>(before - now);
        by = here > before ? by : one;
        by = before > V{} - infinity ? by : one;
      }
      store_float<width>(largest + r, now);
      store_float<width>(factor + r, by);
      store_float<width>(total + r, load_float<width>(total + r) * by);
    }
    for (Index r = first; r < last; ++r) {
      const float shift = largest[r] == -infinity ? 0 : largest[r];
      total[r] += powers_of<false>(s + r * step, shift, n, weights + r * step);
    }
    return all_above(least);
  }

  static bool soften_columns(float* s, Index step, Index keys, Index rows, bool divide, float* shift, float* sum) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    bool open = true;
    in_eights(
        rows, [&]<int N>(Index r) __attribute__((always_inline)) {
          using V = typename FloatsOf<N>::Type;
          V best = V{} - infinity, least = V{} + infinity;
          for (Index j = 0; j < keys; ++j) {
            const V x = load_float<N>(s + j * step + r);
            best = x > best ? x : best;
            least = x < least ? x : least;
          }
          open = open && !any_set<N>(least == V{} - infinity);
          best = best == V{} - infinity ? V{} : best;
          V part[padding] = {};
          for (Index j = 0; j < keys; ++j) {
            const V power = exp_in_lanes<N, false>(load_float<N>(s + j * step + r) - best);
            store_float<N>(s + j * step + r, power);
            part[j % padding] += power;
          }
          const V total = ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
          store_float<N>(shift + r, best);
          store_float<N>(sum + r, total);
          for (Index j = 0; j < keys && divide; ++j)
            store_float<N>(s + j * step + r, load_float<N>(s + j * step + r) / total);
        });
    return open;
  }

  static void scale(float factor, float* x, Index n) {
    transform(
        x, n, [factor](auto y) __attribute__((always_inline)) { return y * factor; });
  }
  static void divide(float divisor, float* x, Index n) {
    transform(
        x, n, [divisor](auto y) __attribute__((always_inline)) { return y / divisor; });
  }
  template <Format format>
  static void round(float* x, Index n) {
    transform(x, n, To<format>{});
  }

  static bool finite(const float* x, Index n) {
    Index j = 0;
    typename IntsOf<width>::Type failed = {};
    for (; j + width <= n; j += width) {
      const auto bits = std::bit_cast<typename IntsOf<width>::Type>(load_float<width>(x + j));
      failed |= (bits & 0x7fffffff) >= 0x7f800000;
    }
    if (any_set<width>(failed)) return false;
    for (; j < n; ++j)
      if ((std::bit_cast<std::int32_t>(x[j]) & 0x7fffffff) >= 0x7f800000) return false;
    return true;
  }
  // Calls work.operator()<N>(j) for [0, n) in vectors of at most `most`. The last vector may repeat elements of the one
  // before it. Calls rest(n) where there are fewer than four.
  template <int most, class Work, class Rest>
  ATTEST_LANES static void overlapping(Index n, const Work& work, const Rest& rest) {
    if (n >= most) {
      Index j = 0;
      for (; j + most <= n; j += most) work.template operator()<most>(j);
      if (j < n) work.template operator()<most>(n - most);
    } else if constexpr (most > 4) {
      overlapping<most / 2>(n, work, rest);
    } else {
      rest(n);
    }
  }
  template <class Decode>
  ATTEST_LANES static void widen(const std::uint16_t* from, Index n, float* to, const Decode& decode) {
    constexpr Index ahead = 2048;  // rows often lie behind each other
    overlapping<width>(
        n,
        [&]<int N>(Index j) __attribute__((always_inline)) {
          if (j % 32 == 0) __builtin_prefetch(from + j + ahead);
          store_float<N>(to + j, decode(load_halves<N>(from + j)));
        },
        [&](Index few) __attribute__((always_inline)) {
          typename UnsignedsOf<4>::Type some = {};
          for (Index j = 0; j < few; ++j) some[j] = from[j];
          const auto wide = decode(some);
          for (Index j = 0; j < few; ++j) to[j] = wide[j];
        });
  }
  template <Format format>
  static void widen_code(const std::uint16_t* from, Index n, float* to) {
    widen(
        from, n, to, [](auto bits) __attribute__((always_inline)) { return from_code<format>(bits); });
  }

  template <class Encode>
  ATTEST_LANES static void narrow(const float* from, Index n, std::uint16_t* to, const Encode& encode) {
    overlapping<width>(
        n,
        [&]<int N>(Index j) __attribute__((always_inline)) {
          store_halves<N>(to + j, encode(std::bit_cast<typename UnsignedsOf<N>::Type>(load_float<N>(from + j))));
        },
        [&](Index few) __attribute__((always_inline)) {
          typename UnsignedsOf<4>::Type some = {};
          for (Index j = 0; j < few; ++j) some[j] = std::bit_cast<std::uint32_t>(from[j]);
          const auto halves = encode(some);
          for (Index j = 0; j < few; ++j) to[j] = static_cast<std::uint16_t>(halves[j]);
        });
  }
  template <Format format>
  static void narrow_code(const float* from, Index n, std::uint16_t* to) {
    narrow(
        from, n, to, [](auto bits) __attribute__((always_inline)) { return to_code<format>(bits); });
  }
};

template <Isa isa>
constexpr Loops loops_for() {
  using P = ProductsOf<isa>;
  using L = LoopsOf<isa>;
  Loops loops{P::dots,           P::dot_row, P::weigh,  P::weigh_listed, L::powers, L::largest, L::sum, L::soften_rows,
              L::soften_columns, L::scale,   L::divide, L::finite,       {},        P::columns, {},     {}};
  const auto add = [&]<std::size_t... n>(std::index_sequence<n...>) {
    const auto add_one = [&]<Format format>() {
      constexpr auto at = static_cast<std::size_t>(format);
      if constexpr (narrower(format, Format::f32)) loops.round[at] = L::template round<format>;
      if constexpr (is_short(format)) {
        loops.widen[at] = L::template widen_code<format>;
        loops.narrow[at] = L::template narrow_code<format>;
      }
    };
    (add_one.template operator()<static_cast<Format>(n)>(), ...);
  };
  add(std::make_index_sequence<formats.size()>{});
  return loops;
}

}  // namespace attest::kernels
