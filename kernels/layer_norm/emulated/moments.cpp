#include "kernels/layer_norm/emulated/moments.hpp"

#include <algorithm>
#include <utility>

namespace attest::emulator::layer_norm {
namespace {

using attest::layer_norm::Arithmetic;
using attest::layer_norm::Merge;
using attest::layer_norm::Variance;

using Numbers = std::vector<double>;

class Builder {
 public:
  Builder(const Seen& seen, const Arithmetic& how, const Scheme& scheme, const Machine& machine)
      : seen_(seen), how_(how), scheme_(scheme), s_(machine) {}

  Moments operator()() {
    statistics();
    return {mean_, variance_};
  }

 private:
  double joined(Numbers parts) const {
    if (scheme_.chain_of_lanes) {
      double sum = parts[0];
      for (std::size_t i = 1; i < parts.size(); ++i) sum = s_.add(sum, parts[i]);
      return sum;
    }
    while (parts.size() > 1) {
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i + half < parts.size(); ++i) parts[i] = s_.add(parts[i], parts[i + half]);
      parts.resize(half);
    }
    return parts[0];
  }

  template <class Add>
  double halves(std::size_t begin, std::size_t end, const Add& add) const {
    if (end - begin <= static_cast<std::size_t>(scheme_.block)) {
      double sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum = add(sum, i);
      return sum;
    }
    const std::size_t middle = begin + (end - begin + 1) / 2;
    return s_.add(halves(begin, middle, add), halves(middle, end, add));
  }

  // The lane of element i of n.
  std::size_t lane_of(std::size_t i, std::size_t n, std::size_t lanes) const {
    return scheme_.shape == Shape::dealt ? i % lanes : i / ((n + lanes - 1) / lanes);
  }
  std::size_t lane_count(std::size_t n) const {
    return std::clamp<std::size_t>(static_cast<std::size_t>(scheme_.lanes), 1, std::max<std::size_t>(n, 1));
  }

  // add(sum, i) joins term i to a sum.
  template <class Add>
  double total(std::size_t n, const Add& add) const {
    if (scheme_.shape == Shape::halves) return halves(0, n, add);
    if (scheme_.shape == Shape::chain) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum = add(sum, i);
      return sum;
    }
    Numbers lanes(lane_count(n), 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      double& lane = lanes[lane_of(i, n, lanes.size())];
      lane = add(lane, i);
    }
    return joined(std::move(lanes));
  }

  double sum(const Numbers& terms) const {
    return total(terms.size(), [&](double so_far, std::size_t i) { return s_.add(so_far, terms[i]); });
  }
  double sum_of_squares(const Numbers& terms) const {
    return total(terms.size(), [&](double so_far, std::size_t i) {
      return scheme_.fma ? s_.add_product(terms[i], terms[i], so_far) : s_.add(so_far, s_.times(terms[i], terms[i]));
    });
  }
  double divided(double sum, double count) const {
    const double n = s_.nearest(count);
    return scheme_.reciprocal_count ? s_.times(sum, s_.over(1, n)) : s_.over(sum, n);
  }
  double count() const { return seen_.count; }

  // ---- statistics
  Numbers differences(double from) const {
    Numbers d;
    for (const double x : seen_.x) d.push_back(s_.add(x, -from));
    return d;
  }

  void statistics() {
    if (seen_.rms) {
      variance_ = divided(sum_of_squares(seen_.x), count());
      return;
    }
    switch (how_.variance) {
      case Variance::two_pass:
      case Variance::two_pass_corrected:
        return two_passes();
      case Variance::welford:
        return welford();
      case Variance::shifted:
        return about(seen_.pivot);
      case Variance::one_pass:
        return about(0);
    }
  }

  void two_passes() {
    mean_ = divided(sum(seen_.x), count());
    const Numbers d = scheme_.defect == Defect::mean_kept ? seen_.x : differences(mean_);
    const bool less_one = scheme_.defect == Defect::count_less_one && seen_.count > 1;
    variance_ = divided(sum_of_squares(d), count() - (less_one ? 1 : 0));
    if (how_.variance != Variance::two_pass_corrected) return;
    const double left = divided(sum(d), count());
    variance_ = scheme_.fma ? s_.add_product(-left, left, variance_) : s_.add(variance_, -s_.times(left, left));
  }

  void about(double pivot) {
    const Numbers z = pivot == 0 ? seen_.x : differences(pivot);
    const double mean = divided(sum(z), count()), square = divided(sum_of_squares(z), count());
    variance_ = scheme_.fma ? s_.add_product(-mean, mean, square) : s_.add(square, -s_.times(mean, mean));
    if (how_.clamp) variance_ = variance_ > 0 ? variance_ : 0;
    mean_ = pivot == 0 ? mean : s_.add(pivot, mean);
  }

  struct Part {
    double count = 0, mean = 0, squares = 0;
  };
  void take(Part& part, double x) const {
    part.count += 1;
    if (part.count == 1) {
      part.mean = x;
      return;
    }
    const double k = s_.nearest(part.count), before = s_.add(x, -part.mean);
    const double mean = scheme_.reciprocal_count ? (scheme_.fma ? s_.add_product(before, s_.over(1, k), part.mean)
                                                                : s_.add(part.mean, s_.times(before, s_.over(1, k))))
                                                 : s_.add(part.mean, s_.over(before, k));
    const double after = s_.add(x, -mean);
    part.mean = mean;
    part.squares =
        scheme_.fma ? s_.add_product(before, after, part.squares) : s_.add(part.squares, s_.times(before, after));
  }

  Part merged(const Part& a, const Part& b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double count = a.count + b.count, n = s_.nearest(count), na = s_.nearest(a.count), nb = s_.nearest(b.count);
    const double delta = s_.add(b.mean, -a.mean), square = s_.times(delta, delta);
    double mean = 0;
    if (how_.merge == Merge::weighted && scheme_.merge_form % 2 == 0) {
      mean = s_.over(s_.add(s_.times(na, a.mean), s_.times(nb, b.mean)), n);
    } else if (how_.merge == Merge::weighted) {
      const double share = s_.over(1, n), of_a = s_.times(na, share), of_b = s_.times(nb, share);
      mean = scheme_.fma ? s_.add_product(of_b, b.mean, s_.times(of_a, a.mean))
                         : s_.add(s_.times(of_a, a.mean), s_.times(of_b, b.mean));
    } else {
      const double share = scheme_.reciprocal_count ? s_.times(nb, s_.over(1, n)) : s_.over(nb, n);
      mean = scheme_.fma ? s_.add_product(delta, share, a.mean) : s_.add(a.mean, s_.times(delta, share));
    }
    double between = 0;
    switch (scheme_.merge_form % 3) {
      case 0:
        between = s_.times(square, s_.over(s_.times(na, nb), n));
        break;
      case 1:
        between = s_.times(s_.times(square, na), s_.over(nb, n));
        break;
      default:
        between = s_.over(s_.times(s_.times(square, na), nb), n);
    }
    return {count, mean, s_.add(s_.add(a.squares, b.squares), between)};
  }

  void welford() {
    std::vector<Part> parts(scheme_.shape == Shape::chain ? 1 : lane_count(seen_.x.size()));
    for (std::size_t i = 0; i < seen_.x.size(); ++i)
      take(parts[parts.size() == 1 ? 0 : lane_of(i, seen_.x.size(), parts.size())], seen_.x[i]);
    while (parts.size() > 1) {
      if (scheme_.chain_of_lanes) {
        parts[0] = merged(parts[0], parts[1]);
        parts.erase(parts.begin() + 1);
        continue;
      }
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i + half < parts.size(); ++i) parts[i] = merged(parts[i], parts[i + half]);
      parts.resize(half);
    }
    mean_ = parts[0].mean;
    variance_ = divided(parts[0].squares, count());
  }

  const Seen& seen_;
  const Arithmetic& how_;
  const Scheme& scheme_;
  const Machine& s_;
  double mean_ = 0, variance_ = 0;
};

}  // namespace

Moments moments_of(const Seen& seen, const Arithmetic& how, const Scheme& scheme, const Machine& machine) {
  return Builder(seen, how, scheme, machine)();
}

}  // namespace attest::emulator::layer_norm
