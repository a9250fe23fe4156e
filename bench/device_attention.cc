// SPDX-License-Identifier: BSD-3-Clause
// Attention and its derivative on a CUDA device, fast numerics beside exact ones: flop/s by events.
#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "bench/harness.hh"
#include "nntile/core/random.hh"
#include "nntile/ops/attention.hh"
#include "nntile/runtime/cuda.hh"

using namespace nntile;

namespace {

struct Problem {
  char const* name;
  Index d, h, seq, b;
};
/// A step of GPT-2 124M, and long sequences of heads of 128; causal.
constexpr Problem problems[] = {{"gpt2_16x1024", 64, 12, 1024, 16},
                                {"long_4x8192", 128, 16, 8192, 4}};

void check(cudaError_t error) {
  if (error != cudaSuccess) throw DeviceError(cudaGetErrorString(error));
}

/// Memory of the device.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) { check(cudaMalloc(&at_, bytes)); }
  Buffer(Buffer const&) = delete;
  Buffer& operator=(Buffer const&) = delete;
  ~Buffer() { (void)cudaFree(at_); }
  void* at() const { return at_; }

 private:
  void* at_ = nullptr;
};

/// Operands of both ops, of one element type.
template <DType dtype> class Operands {
  using T = stored_t<dtype>;

 public:
  explicit Operands(Problem const& of)
      : of_(of), count_(static_cast<std::size_t>(of.d * of.h * of.seq * of.b)) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      buffers_[i] =
          std::make_unique<Buffer>(is_statistic(i) ? rows() * sizeof(float) : count_ * sizeof(T));
    for (std::size_t const i : {0u, 1u, 2u, 6u}) draw(i);
  }

  /// Seconds of each run after the first.
  std::vector<double> run(char const* op, Mode mode, int runs) {
    Codelet const* const codelet = kernels::find(op, dtype, dtype, mode, Isa::best);
    bool const forward = std::string_view(op) == ops::Attention::name;
    std::vector<void*> list;
    for (std::size_t i = 0; i < (forward ? 6u : 10u); ++i) list.push_back(buffers_[i]->at());
    ops::AttentionArgs args{};
    args.d = of_.d, args.h = static_cast<std::uint32_t>(of_.h);
    args.i = args.j = of_.seq, args.b = static_cast<std::uint32_t>(of_.b);
    args.scale = 1 / std::sqrt(static_cast<double>(of_.d));
    Buffer const workspace(std::max<std::size_t>(codelet->device_workspace, 1));
    char text[status_text_bytes] = {};
    std::vector<double> times;
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    for (int i = -1; i < runs; ++i) {
      check(cudaEventRecord(begin));
      Status const status =
          forward ? call<ops::Attention>(*codelet, list, args, workspace, text)
                  : call<ops::AttentionBackward>(*codelet, list, args, workspace, text);
      if (!status.ok()) throw DeviceError(status.error);
      check(cudaEventRecord(end));
      check(cudaEventSynchronize(end));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin, end));
      if (i >= 0) times.push_back(1e-3 * static_cast<double>(ms));
    }
    check(cudaEventDestroy(begin));
    check(cudaEventDestroy(end));
    return times;
  }

  std::vector<float> values(std::size_t operand) const {
    std::vector<float> result(is_statistic(operand) ? rows() : count_);
    if (is_statistic(operand)) {
      check(cudaMemcpy(result.data(), buffers_[operand]->at(), result.size() * sizeof(float),
                       cudaMemcpyDefault));
    } else {
      std::vector<T> stored(count_);
      check(cudaMemcpy(stored.data(), buffers_[operand]->at(), count_ * sizeof(T),
                       cudaMemcpyDefault));
      for (std::size_t i = 0; i < count_; ++i) result[i] = static_cast<float>(stored[i]);
    }
    return result;
  }

 private:
  template <class Op>
  Status call(Codelet const& codelet, std::vector<void*> const& list,
              ops::AttentionArgs const& args, Buffer const& workspace, char* text) const {
    Arguments<Op> given{args, {}};
    for (std::size_t i = 0; i < list.size(); ++i) given.operands.add(OperandIndex(i));
    given.args.diagonal = 0;
    return codelet.cuda({list.data(), &given, text, workspace.at()}, nullptr);
  }
  static bool is_statistic(std::size_t i) { return i == 4 || i == 5; }
  std::size_t rows() const { return static_cast<std::size_t>(of_.seq * of_.h * of_.b); }
  void draw(std::size_t operand) {
    constexpr std::size_t part = 1 << 20;
    std::vector<T> values(std::min(part, count_));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = T(static_cast<float>(mix_bits(i + part * operand) >> 40) * 0x1p-23f - 1);
    auto* const to = static_cast<T*>(buffers_[operand]->at());
    for (std::size_t i = 0; i < count_; i += values.size())
      check(cudaMemcpy(to + i, values.data(), std::min(values.size(), count_ - i) * sizeof(T),
                       cudaMemcpyDefault));
  }

  Problem of_;
  std::size_t count_;
  std::array<std::unique_ptr<Buffer>, 11> buffers_;  // q k v out max sum dout dq dk dv
};

/// The largest difference, in parts of the largest value.
double difference(std::vector<float> const& a, std::vector<float> const& b) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const apart = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(apart <= most)) most = apart;
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return most / largest;
}

/// False where fast results are too far from exact ones.
template <DType dtype> bool measure(bench::Records& records, Problem const& of) {
  int const runs = records.options().quick ? 3 : 12;
  Operands<dtype> operands(of);
  double const pairs =
      1e-12 * static_cast<double>(of.d * of.h * of.b * of.seq) * static_cast<double>(of.seq);
  bool right = true;
  struct Pass {
    char const *op, *name;
    double flops;
    std::vector<std::size_t> results;
  };
  // Exact first: the derivative of both reads what the exact kernel has stored.
  for (Pass const& pass : {Pass{ops::AttentionBackward::name, "backward", 5 * pairs, {7, 8, 9}},
                           Pass{ops::Attention::name, "forward", 2 * pairs, {3, 4, 5}}}) {
    if (pass.results.front() == 7) operands.run(ops::Attention::name, Mode::exact, 0);
    std::string const name = concat(of.name, "_", name_of(dtype), "_", pass.name);
    std::vector<std::vector<float>> exact;
    std::vector<double> rates;
    for (double const time : operands.run(pass.op, Mode::exact, 1))
      rates.push_back(pass.flops / time);
    records.add(name, "exact", "rate", "Tflop/s", rates);
    for (std::size_t const result : pass.results) exact.push_back(operands.values(result));
    rates.clear();
    for (double const time : operands.run(pass.op, Mode::fast, runs))
      rates.push_back(pass.flops / time);
    records.add(name, "fast", "rate", "Tflop/s", rates);
    double const bound = dtype == DType::bf16 ? 0x1p-5 : 0x1p-8;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      double const apart = difference(operands.values(pass.results[i]), exact[i]);
      if (apart <= bound) continue;
      std::fprintf(stderr, "wrong: %s, operand %zu is %g of the largest from the exact kernel's\n",
                   name.c_str(), pass.results[i], apart);
      right = false;
    }
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) try {
  bench::Records records("device_attention",
                         bench::parse(argc, argv,
                                      "Causal attention and its derivative on a device: flop/s of "
                                      "fast and of exact numerics by events."));
  use_cuda_kernels();
  bool right = true;
  for (Problem const& problem : problems) {
    right &= measure<DType::bf16>(records, problem);
    right &= measure<DType::fp16>(records, problem);
    right &= measure<DType::fp32_fast_tf32>(records, problem);
  }
  return right ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_device_attention: %s\n", error.what());
  return 1;
}
