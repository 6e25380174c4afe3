// Measures the cost of a verdict on an attention block beside the plainest float64 block (projections, attention and
// projection by Eigen), both on one thread. `ratio` is the verdict's processor time over that of the plain one; the
// figure to hold is 4.
#include <benchmark/benchmark.h>

#include <Eigen/Core>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

#include "core/mha/inputs.hpp"
#include "kernels/mha/registry.hpp"
#include "oracle/mha/mha.hpp"

namespace {

using namespace attest;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The plainest float64 block, on float32 inputs of the problem's shape.
class PlainBlock {
 public:
  explicit PlainBlock(const mha::Problem& p) : p_(p) {
    const auto some = [](Index rows, Index columns) {
      Floats values(rows, columns);
      for (Index n = 0; n < values.size(); ++n) values.data()[n] = static_cast<float>(n * 37 % 101) / 50 - 1;
      return values;
    };
    x_ = some(p.b * p.l, p.e);
    memory_ = some(p.b * p.m, p.e);
    w_q_ = some(p.q_width(), p.e);
    w_k_ = some(p.kv_width(), p.e);
    w_v_ = some(p.kv_width(), p.e);
    w_out_ = some(p.e, p.q_width());
  }
  double operator()() {
    const Rows memory = memory_.cast<double>();
    const Rows q = x_.cast<double>() * w_q_.cast<double>().transpose();
    const Rows k = memory * w_k_.cast<double>().transpose(), v = memory * w_v_.cast<double>().transpose();
    Rows heads(p_.b * p_.l, p_.q_width());
    const Index d = p_.head_dim;
    for (Index b = 0; b < p_.b; ++b)
      for (Index h = 0; h < p_.heads; ++h) {
        const Index kv = h / p_.group();
        s_.noalias() = q.block(b * p_.l, h * d, p_.l, d) * k.block(b * p_.m, kv * d, p_.m, d).transpose();
        s_ *= p_.effective_scale();
        for (Index i = 0; i < p_.l; ++i) {
          const double top = s_.row(i).maxCoeff();
          s_.row(i) = s_.row(i).unaryExpr([top](double x) { return std::exp(x - top); });
          s_.row(i) /= s_.row(i).sum();
        }
        heads.block(b * p_.l, h * d, p_.l, d).noalias() = s_ * v.block(b * p_.m, kv * d, p_.m, d);
      }
    const Rows out = heads * w_out_.cast<double>().transpose();
    return out(0, 0);
  }

 private:
  const mha::Problem& p_;
  Floats x_, memory_, w_q_, w_k_, w_v_, w_out_;
  Rows s_;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The least of several rounds.
template <class Work>
double seconds(const Work& work) {
  double best = 1e300;
  for (int round = 0; round < 8; ++round) {
    int count = 0;
    const double start = processor_seconds();
    do {
      work();
      ++count;
    } while (processor_seconds() - start < 1e-2);
    best = std::min(best, (processor_seconds() - start) / count);
  }
  return best;
}

// `numbers` of the contract beside its policy, if any.
void judge(benchmark::State& state, const std::string& text, const mha::Policy& policy, const std::string& numbers) {
  const mha::Problem problem = mha::problem_from_text(text);
  const mha::Inputs inputs = mha::materialise(problem);
  const Tensor out = mha::make_out(problem);
  const mha::Call call = inputs.call(out);
  const kernels::BlockEntry& block = kernels::builtin_blocks().front();
  block.run(call, block.contract(policy));
  const mha::Contract contract =
      numbers.empty() ? block.contract(policy) : mha::contract_from_json(nlohmann::json::parse(numbers), policy);
  PlainBlock plain(problem);
  const auto verdict = [&] { benchmark::DoNotOptimize(oracle::MhaOracle(contract, call).judge(out)); };
  for (auto _ : state) verdict();
  const double of_plain = seconds([&] { benchmark::DoNotOptimize(plain()); }), of_verdict = seconds(verdict);
  oracle::Way::Block shared(contract, call);
  oracle::QuickBlock quick(shared, mha::Projected::rounded, true);
  if (quick.usable()) quick.judge(out);
  Index accepted = 0;
  for (Index row = 0; row < problem.b * problem.l; ++row)
    for (Index e = 0; e < problem.e; ++e) accepted += quick.accepts(row, e) ? 1 : 0;
  state.counters["left_open_%"] =
      100 - 100.0 * static_cast<double>(accepted) / static_cast<double>(problem.b * problem.l * problem.e);
  state.counters["plain_us"] = of_plain * 1e6;
  state.counters["verdict_us"] = of_verdict * 1e6;
  state.counters["ratio"] = of_verdict / of_plain;
}

}  // namespace

int main(int argc, char** argv) {
  struct Held {
    const char *policy, *numbers;
  };
  for (const Held held : {Held{"f32", ""},
                          {"f16", ""},
                          {"bf16", ""},
                          {"f16", R"({"mma":"hopper"})"},
                          {"f16", R"({"flush_to_zero":true})"}})
    for (const char* weights : {"dense", "one_hot", "cancelling"})
      for (const char* shape :
           {"b=2 l=8 m=8 e=32 heads=4 kv_heads=4 head_dim=8", "b=2 l=32 m=32 e=64 heads=4 kv_heads=4 head_dim=16",
            "b=1 l=64 m=64 e=256 heads=4 kv_heads=4 head_dim=64"}) {
        const std::string text = std::string(shape) + " dtype=" + held.policy + " weights=" + weights;
        const mha::Policy parsed = mha::policy_from_text(held.policy);
        benchmark::RegisterBenchmark(
            ("verdict/" + text + " " + held.numbers).c_str(),
            [text, parsed, held](benchmark::State& state) { judge(state, text, parsed, held.numbers); });
      }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
