// SPDX-License-Identifier: BSD-3-Clause
// Ops of one's own: an elementwise one, and one with a kernel and a gradient, trained together.
#include <cmath>
#include <cstdio>
#include <nntile/graph/graph.hh>
#include <nntile/nn/linear.hh>
#include <nntile/nn/optim.hh>
#include <nntile/nntile.hh>
#include <nntile/testing/bench.hh>

using namespace nntile;

struct NoAttrs {};
struct BetaAttrs {
  double beta = 0;
};

/// dx = beta dx + dy (s + x s (1 - s)), s = 1 / (1 + exp(-x)).
struct SwishBackward : Elementwise<SwishBackward, BetaAttrs> {
  static constexpr char const* name = "swish_backward";
  enum class Operand : std::uint8_t { x, dy, dx };
  static constexpr Operands operands{{"x", "i..."}, {"dy", "i..."}, {"dx", "i...", Access::update}};
  static constexpr Fields fields{field<&BetaAttrs::beta>("beta")};
  static constexpr char const* no_gradient = no_second_derivative;

  template <class V> static constexpr V apply(BetaAttrs const&, V x, V dy) {
    using math::exp;
    V const s = V(1) / (V(1) + exp(-x));
    return dy * (s + x * s * (V(1) - s));
  }
};

/// y = x / (1 + exp(-x)). Source: Ramachandran, Zoph and Le 2017.
struct Swish : Elementwise<Swish, NoAttrs> {
  static constexpr char const* name = "swish";
  enum class Operand : std::uint8_t { x, y };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i...", Access::write}};
  static constexpr Fields fields{};

  template <class V> static constexpr V apply(NoAttrs const&, V x) {
    using math::exp;
    return x / (V(1) + exp(-x));
  }
  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::x)) return;
    auto const dx = b.target(Operand::x);
    b.template op<SwishBackward>({.beta = dx.beta}, b.operand(Operand::x), b.grad(Operand::y),
                                 dx.node);
  }
};
inline constexpr Call<Swish> swish{};

/// dx = beta dx + (dy - y mean_e(dy y)) / rms.
struct RmsNormBackward {
  static constexpr char const* name = "rms_norm_backward";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { rms, y, dy, dx };
  static constexpr Operands operands{{"rms", "i...", Access::read, Kind::accumulator},
                                     {"y", "e! i..."},
                                     {"dy", "e! i..."},
                                     {"dx", "e! i...", Access::update}};
  using Attrs = BetaAttrs;
  struct Args {
    Index e, n;
    double beta;
  };
  static constexpr Fields fields{field<&Attrs::beta>("beta")};
  static constexpr Hooks<Attrs> hooks{};
  static constexpr char const* no_gradient = no_second_derivative;

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('e'), range.extent('i'), attrs.beta};
  }
  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<RmsNormBackward> buffers) {
    using V = compute_t<T>;
    for (Index i = 0; i < args.n; ++i) {
      T const* const y = buffers.at<T>(Operand::y) + i * args.e;    // [e]
      T const* const dy = buffers.at<T>(Operand::dy) + i * args.e;  // [e]
      T* const dx = buffers.at<T>(Operand::dx) + i * args.e;        // [e]
      V dot = 0;
      for (Index e = 0; e < args.e; ++e) dot = std::fma(V(dy[e]), V(y[e]), dot);
      V const r = V(1) / buffers.at<V>(Operand::rms)[i];
      for (Index e = 0; e < args.e; ++e)
        dx[e] = T(updated(args.beta, dx[e], r * (V(dy[e]) - V(y[e]) * dot / V(args.e))));
    }
  }
};

/// y[e,i] = x[e,i] / rms[i], rms = sqrt(mean_e x^2 + 1e-6); e is never cut. Source: Zhang and
/// Sennrich 2019.
struct RmsNorm {
  static constexpr char const* name = "rms_norm";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { x, y, rms };
  static constexpr Operands operands{{"x", "e! i..."},
                                     {"y", "e! i...", Access::write},
                                     {"rms", "i...", Access::write, Kind::accumulator}};
  using Attrs = NoAttrs;
  struct Args {
    Index e, n;
  };
  static constexpr Fields fields{};
  static Codelet const* kernel(ElementTypes types);
  static constexpr Hooks<Attrs> hooks{.kernel = &kernel};

  static Args args(Attrs const&, TileRange const& range) {
    return {range.extent('e'), range.extent('i')};
  }
  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<RmsNorm> buffers) {
    using V = compute_t<T>;
    for (Index i = 0; i < args.n; ++i) {
      T const* const x = buffers.at<T>(Operand::x) + i * args.e;  // [e]
      V sum = 0;
      for (Index e = 0; e < args.e; ++e) sum = std::fma(V(x[e]), V(x[e]), sum);
      V const rms = std::sqrt(sum / V(args.e) + V(1e-6));
      buffers.at<V>(Operand::rms)[i] = rms;
      for (Index e = 0; e < args.e; ++e)
        buffers.at<T>(Operand::y)[i * args.e + e] = T(V(x[e]) / rms);
    }
  }
  template <class Builder> static void gradient(Builder& b) {
    if (!b.wants(Operand::x)) return;
    auto const dx = b.target(Operand::x);
    b.template op<RmsNormBackward>({.beta = dx.beta}, b.operand(Operand::rms),
                                   b.operand(Operand::y), b.grad(Operand::y), dx.node);
  }
};
inline constexpr Call<RmsNorm> rms_norm{};

/// A kernel of one's own for fp32: four chains, so that additions overlap. Other dtypes run the
/// reference.
Status rms_norm_fp32(KernelCall const& call) noexcept {
  auto const args = arguments<RmsNorm>(call);
  Buffers<RmsNorm> const buffers(call);
  for (Index i = 0; i < args.n; ++i) {
    float const* const x = buffers.at<float>(RmsNorm::Operand::x) + i * args.e;
    float* const y = buffers.at<float>(RmsNorm::Operand::y) + i * args.e;
    float sums[4] = {};
    for (Index e = 0; e < args.e; ++e) sums[e % 4] += x[e] * x[e];
    float const sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float const rms = std::sqrt(sum / static_cast<float>(args.e) + 1e-6f);
    buffers.at<float>(RmsNorm::Operand::rms)[i] = rms;
    for (Index e = 0; e < args.e; ++e) y[e] = x[e] / rms;
  }
  return {};
}
Codelet const* RmsNorm::kernel(ElementTypes types) {
  static constexpr Codelet fp32{name, &rms_norm_fp32, nullptr, nullptr};
  return types.element == DType::fp32 ? &fp32 : nullptr;
}

int main() {
  constexpr Index batch = 128, hidden = 32;
  LogicalGraph graph("fit");  // y = sin(3x) on [-1, 1]
  nn::ParameterList parameters(graph);
  nn::Linear const first(parameters, "first", {{hidden}, "hidden"}, {{2}, "point"}, {.stddev = 1});
  nn::Linear const second(parameters, "second", {{1}, "value"}, {{hidden}, "hidden"},
                          {.stddev = 0.3});
  Node const points = graph.input({.shape = {2, batch}, .axes = "point batch"}, "points");
  Node const wanted = graph.input({.shape = {1, batch}, .axes = "value batch"}, "wanted");
  Node const fit = second(rms_norm(swish(first(points))));
  Node const loss =
      sum_slice({.axis = 0, .mean = true}, sum_squares(add({.beta = -1}, fit, wanted)))
          .mark_output();
  nn::AdamW const optimizer(parameters, add_gradients(graph, loss), {.weight_decay = 0});

  LogicalGraph init("init");
  nn::initialize(init, parameters, 1);
  nn::initialize_states(init, optimizer);
  Ring runtime;
  TensorStore<Ring> store(runtime);
  Graph<Ring>{init, store}();
  Graph<Ring> step(graph, store, {.tile = 64});

  std::vector<float> x(2 * batch), y(batch);
  for (std::size_t i = 0; i < y.size(); ++i) {
    x[2 * i] = 2 * static_cast<float>(i) / (batch - 1) - 1;
    x[2 * i + 1] = 1;
    y[i] = std::sin(3 * x[2 * i]);
  }
  step[points] = x;
  step[wanted] = y;
  step[optimizer.lr()] = 0.02;
  double last = 0;
  for (int number = 1; number <= 300; ++number) {
    step[optimizer.step()] = number;
    step();
    last = step[loss].item<double>();
    if (number == 1 || number % 100 == 0) std::printf("step %3d  mean square %.5f\n", number, last);
  }

  // The kernel beside the definition, each compared with it in fp64 first.
  std::vector<Shape> const shapes{{768, 256}};
  auto kernel = testing::bench_kernel<RmsNorm>({}, shapes, {.name = "four chains", .runs = 5});
  auto const definition = testing::bench_kernel<RmsNorm>(
      {}, shapes,
      {.name = "definition", .kernel = op_info<RmsNorm>.reference({DType::fp32}), .runs = 5});
  kernel.insert(kernel.end(), definition.begin(), definition.end());
  std::printf("%s", testing::to_string(kernel).c_str());
  return last < 0.01 ? 0 : 1;
}
