// SPDX-License-Identifier: BSD-3-Clause
// Operations that memory bounds on a CUDA device, beside a copy of the same run.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/harness.hh"
#include "nntile/core/random.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/runtime/ring/cuda.hh"

double nntile_device_copy_rate(std::size_t bytes);  // fma_loop.cu

using namespace nntile;

namespace {

constexpr Index width = 768, tokens = 16 * 1024, classes = 50257;

/// A graph of an op on a device, several times, each on operands of its own: inputs of numbers in
/// [-1, 1), or of classes, and states where the op updates them. The later half is launched while
/// the first runs, so that events around it see nothing of the host, nor do caches hold operands.
class OneOp {
 public:
  explicit OneOp(char const* name) : graph_(name) {}

  template <OpStruct Op>
  OneOp& add(typename Op::Attrs const& attrs, std::vector<Shape> const& shapes, DType element) {
    ElementTypes const types = usual_types(op_info<Op>, element);
    Operands const operands = op_info<Op>.operands(&attrs);
    std::vector<Node> nodes;
    for (std::size_t o = 0; o < shapes.size(); ++o) {
      TensorSpec const spec{.shape = shapes[o], .dtype = dtype_of_kind(operands[o].kind, types)};
      bool const kept = operands[o].access != Access::read;
      nodes.push_back(kept ? graph_.state(spec, graph_.unique(operands[o].name))
                           : graph_.input(spec, graph_.unique(operands[o].name)));
    }
    for (std::uint32_t const id : graph_.add_op(op_info<Op>, &attrs, nullptr, nodes))
      if (std::none_of(nodes.begin(), nodes.end(), [&](Node const& n) { return n.id() == id; }))
        graph_.at(graph_.tensor_at(id).name).mark_output();
    return *this;
  }

  /// Bytes a second of each run of the kernel, by the op's own count of bytes.
  std::vector<double> rates(CudaRing& runtime, DeviceLog& log, int runs) {
    TensorStore<CudaRing> store(runtime);
    auto step = compile(graph_, store, {.tile = 0, .place = {{.place = device(0)}}});
    for (auto const& stored : store.tensors()) fill(store, *stored);
    double bytes = 0;
    for (PlannedTask const& task : step.plan().tasks())
      bytes += static_cast<double>(task.cost.bytes) / 2;
    std::vector<double> rates;
    for (int run = -1; run < runs; ++run) {
      log.clear();
      step.execute();
      std::vector<std::int64_t> took;
      for (LoggedJob const& job : log.jobs())
        if (!job.copied) took.push_back(job.end - job.begin);
      std::int64_t nanoseconds = 0;
      for (std::size_t job = took.size() / 2; job < took.size(); ++job) nanoseconds += took[job];
      if (run >= 0) rates.push_back(bytes / static_cast<double>(nanoseconds));
    }
    return rates;
  }

 private:
  template <class Stored> static void fill(TensorStore<CudaRing>& store, Stored& stored) {
    auto const count = static_cast<std::size_t>(element_count(stored.spec.tiling.shape()));
    std::vector<std::byte> bytes(count * size_of(stored.spec.dtype));
    std::size_t const drawn = std::min<std::size_t>(count, 1 << 20);  // and repeated
    for (std::size_t i = 0; i < drawn; ++i) {
      std::uint64_t const bits = mix_bits(i);
      auto const set = [&](auto value) {
        std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
      };
      switch (stored.spec.dtype) {
        case DType::int64:
          set(static_cast<std::int64_t>(bits % classes));
          break;
        case DType::bf16:
          set(bf16_t(static_cast<float>(bits >> 40) * 0x1p-23f - 1));
          break;
        default:
          set(static_cast<float>(bits >> 40) * 0x1p-23f - 1);
      }
    }
    std::size_t const known = drawn * size_of(stored.spec.dtype);
    for (std::size_t at = known; at < bytes.size(); at += known)
      std::memcpy(bytes.data() + at, bytes.data(), std::min(known, bytes.size() - at));
    store.write_bytes(stored, bytes.data());
  }

  LogicalGraph graph_;
};

struct Case {
  char const* name;
  void (*add)(OneOp&, DType);
  int times = 2;
};
constexpr int often = 8;  // what takes less time than a launch
constexpr Case cases[] = {
    {"layer_norm",
     [](OneOp& of, DType t) { of.add<ops::LayerNorm>({}, {{width, tokens}, {width}, {width}}, t); },
     often},
    {"layer_norm_backward",
     [](OneOp& of, DType t) {
       of.add<ops::LayerNormBackward>(
           {}, {{width, tokens}, {width, tokens}, {width}, {tokens}, {tokens}}, t);
     },
     often},
    {"layer_norm_weight_backward",
     [](OneOp& of, DType t) {
       of.add<ops::LayerNormWeightBackward>(
           {}, {{width, tokens}, {width, tokens}, {tokens}, {tokens}}, t);
     },
     often},
    {"gelutanh", [](OneOp& of, DType t) { of.add<ops::Gelutanh>({}, {{4 * width, tokens}}, t); },
     often},
    {"gelutanh_backward",
     [](OneOp& of, DType t) {
       of.add<ops::GelutanhBackward>({}, {{4 * width, tokens}, {4 * width, tokens}}, t);
     },
     often},
    {"add",
     [](OneOp& of, DType t) {
       of.add<ops::Add>({.alpha = 1, .beta = 1}, {{width, tokens}, {width, tokens}}, t);
     },
     often},
    {"sum_slice",
     [](OneOp& of, DType t) { of.add<ops::SumSlice>({.axis = 1}, {{width, tokens}}, t); }, often},
    {"softmax", [](OneOp& of, DType t) { of.add<ops::Softmax>({}, {{classes, tokens}}, t); }},
    {"cross_entropy",
     [](OneOp& of, DType t) { of.add<ops::CrossEntropy>({}, {{classes, tokens}, {tokens}}, t); }},
    {"cross_entropy_backward",
     [](OneOp& of, DType t) {
       of.add<ops::CrossEntropyBackward>(
           {}, {{classes, tokens}, {tokens}, {tokens}, {tokens}, {tokens}}, t);
     }},
    {"embedding",
     [](OneOp& of, DType t) { of.add<ops::Embedding>({}, {{tokens}, {width, classes}}, t); }},
    {"adamw_step",
     [](OneOp& of, DType t) {
       of.add<ops::AdamwStep>(
           {}, {{width, classes}, {width, classes}, {width, classes}, {width, classes}, {}, {}}, t);
     }},
    {"copy", [](OneOp& of, DType t) { of.add<ops::Copy>({}, {{width, classes}}, t); }},
};

}  // namespace

int main(int argc, char** argv) try {
  bench::Records records(
      "device_ops",
      bench::parse(argc, argv,
                   "Operations that memory bounds on a device, at the sizes of GPT-2 124M with 16 "
                   "sequences: bytes a second of the kernel by events, and their share of what a "
                   "copy from memory to memory reaches, run in turn with it."));
  int const runs = records.options().quick ? 3 : 15;
  DeviceLog log;
  CudaRing runtime(RuntimeOptions{}, CudaOptions{.devices = 1, .log = &log});
  for (DType const element : {DType::fp32, DType::bf16})
    for (Case const& of : cases) {
      std::string const name = concat(of.name, "_", name_of(element));
      OneOp op(of.name);
      for (int each = 0; each < of.times; ++each) of.add(op, element);
      std::vector<double> rates = op.rates(runtime, log, runs), copies;
      while (copies.size() < rates.size())
        copies.push_back(1e-9 * nntile_device_copy_rate(std::size_t{1} << 30));
      records.add(name, "ring-device", "rate", "GB/s", rates);
      records.add_ratio(name, "ring-device", "share_of_copy", rates, copies);
    }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_device_ops: %s\n", error.what());
  return 1;
}
