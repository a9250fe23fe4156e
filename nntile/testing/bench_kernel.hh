#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Measures the kernel of an op, checked against the op's own definition first.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nntile/ops/walk.hh"
#include "nntile/testing/array.hh"
#include "nntile/testing/compare.hh"
#include "nntile/testing/records.hh"
#include "nntile/tile/submit.hh"

namespace nntile::testing {

struct KernelBenchOptions {
  std::string name = {};             // of the case; empty: op, dtype and shapes
  DType dtype = DType::fp32;         // of operands of Kind::element
  std::optional<DType> second = {};  // of those of Kind::second; none: the usual one
  Isa isa = Isa::best;               // of the library's kernels
  Codelet const* kernel = nullptr;   // in place of the one that tasks would run
  int runs = 21;
  double seconds = 2e-3;  // of a run at least: a short kernel is called several times
  /// Of an error, relative to the largest element of its result; 0: 4 sqrt(n) roundings of the
  /// accumulator, n the terms of a sum. That to the result's dtype is allowed besides.
  double tolerance = 0;
  /// Sets operands, in the order of the op's table, whose values must mean something: labels,
  /// variances. Before it floats are uniform in [-1, 1), the rest is 0. Shapes and dtypes stay.
  std::function<void(std::span<Array>)> prepare = {};
};

namespace detail {

/// An op's operands and its tasks on whole tiles.
class KernelBench final : TileVisitor {
 public:
  KernelBench(OpInfo const& op, void const* attrs, std::vector<Shape> const& shapes,
              KernelBenchOptions const& options)
      : options_(options), types_(usual_types(op, options.dtype)) {
    if (options.second) types_.second = *options.second;
    call_.op = &op;
    if (options.runs < 1) refuse(concat(options.runs, " runs; 1 or more"));
    if (!(options.seconds >= 0 && std::isfinite(options.seconds)))
      refuse(concat("runs of ", options.seconds, " s; 0 or more, such as 2e-3"));
    if (!(options.tolerance >= 0 && std::isfinite(options.tolerance)))
      refuse(concat("a tolerance of ", options.tolerance, "; 0 (by roundings) or more"));
    call_.attrs = attrs;
    call_.element = types_.element, call_.second = types_.second;
    call_.operands = op.operands(attrs);
    resolve(shapes);
    for (Axis const& axis : call_.table.axes) tilings_.push_back(AxisTiling::whole(axis.extent));
    for (AxisTiling const& tiling : tilings_) call_.tilings.push_back(&tiling);
    walk(call_, *this);
    if (options.kernel == nullptr)
      nntile::detail::check_isa(concat("bench: ", op.name).c_str(), options.isa);
    kernel_ = options.kernel != nullptr
                  ? options.kernel
                  : nntile::detail::find_kernel(op, types_.element, types_.second, Mode::exact,
                                                options.isa);
    if (kernel_->cpu == nullptr) refuse(concat("'", kernel_->name, "' has no entry for the CPU"));
    workspace_.resize(kernel_->workspace / sizeof(Line) + 1);
    fill();
  }
  KernelBench(KernelBench const&) = delete;
  KernelBench& operator=(KernelBench const&) = delete;

  Cost const& cost() const { return cost_; }
  /// "rms_norm fp32 {768, 1024}".
  std::string name() const {
    if (!options_.name.empty()) return options_.name;
    std::string text = concat(call_.op->name, " ", name_of(types_.element));
    for (std::size_t o = 0; o < shown_; ++o) text += concat(" ", to_string(call_.table.shape(o)));
    return text;
  }

  /// Throws Error where a result is not what the reference gives.
  void check() {
    std::vector<Array> const exact = reference();
    restore();
    spoil();
    run(*kernel_);
    for (std::size_t o = 0; o < arrays_.size(); ++o)
      if (writes(call_.operands[o].access)) compare(o, exact[o]);
  }

  /// Seconds of a call, of several from the same operands on.
  double sample() {
    restore();
    run(*kernel_);  // brings in what the caches hold
    auto const begin = std::chrono::steady_clock::now();
    for (int call = 0; call < calls_; ++call) run(*kernel_);
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    return took.count() / calls_;
  }
  /// Finds out how many calls a run takes.
  void warm_up() {
    for (calls_ = 1; calls_ < 1 << 20; calls_ *= 2)
      if (sample() * calls_ >= options_.seconds) break;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  struct Call {
    alignas(16) std::byte args[max_args_bytes];
    inplace_vector<std::uint8_t, max_operands> operands;
  };

  [[noreturn]] void refuse(std::string const& why) const {
    throw ValueError(concat("bench: ", call_.op->name, ": ", why));
  }

  void resolve(std::vector<Shape> const& shapes) {
    std::size_t visible = 0;
    while (visible < call_.operands.size() && call_.operands[visible].carry == Carry::none)
      ++visible;
    if (shapes.size() > visible)
      throw ShapeError(concat("bench: ", call_.op->name, ": ", shapes.size(),
                              " shapes are given, but it takes ", visible, " operands"));
    shown_ = shapes.size();
    GivenOperands given;
    TypedOperand typed[max_operands];
    for (std::size_t o = 0; o < call_.operands.size(); ++o) {
      given.push_back({o < shown_ ? &shapes[o] : nullptr, call_.operands[o].name});
      typed[o] = {dtype_of_kind(call_.operands[o].kind, types_), call_.operands[o].name};
    }
    call_types(*call_.op, call_.operands, {typed, visible});
    call_.table = axes_of(*call_.op, call_.attrs, call_.operands, given);
    for (std::size_t o = 0; o < visible; ++o)
      arrays_.emplace_back(typed[o].dtype, call_.table.shape(o));
  }
  void visit(TileTask const& task) override {
    calls_of_.emplace_back();
    call_.op->args(call_.attrs, task.range, calls_of_.back().args);
    for (Use<OperandTile> const& use : task.uses)
      calls_of_.back().operands.push_back(use.handle.operand);
    cost_ += cost_of(call_, task);
  }

  /// Numbers that follow from a fixed seed, then the caller's.
  void fill() {
    std::uint64_t state = 20250611;
    for (Array& array : arrays_)
      for (Index i = 0; i < array.count() && is_float(array.dtype); ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth, TAOCP 3.3.4
        array.set(i, static_cast<double>(state >> 11) * 0x1p-52 - 1);
      }
    if (options_.prepare) options_.prepare(arrays_);
    for (std::size_t o = 0; o < arrays_.size(); ++o) check_shape(o);
    for (Array const& array : arrays_) memory_.emplace_back(array.bytes.size() / sizeof(Line) + 1);
  }
  /// Throws where an operand was exchanged for another one, which the kernel would not know.
  void check_shape(std::size_t o) const {
    Array const& now = arrays_[o];
    DType const dtype = dtype_of_kind(call_.operands[o].kind, types_);
    Shape const shape = call_.table.shape(o);
    std::size_t const bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
    if (now.dtype == dtype && now.shape == shape && now.bytes.size() == bytes) return;
    refuse(concat("prepare made ", now.bytes.size(), " bytes of ", name_of(now.dtype), " ",
                  to_string(now.shape), " of ", call_.operands[o].name, ", which is ",
                  name_of(dtype), " ", to_string(shape), "; it may set elements alone"));
  }
  bool overwritten(std::size_t o) const {
    return call_.operands[o].access == Access::write ||
           (writes(call_.operands[o].access) &&
            call_.op->overwrites(call_.attrs, static_cast<int>(o)));
  }
  /// Makes operands what they were, but results that are overwritten.
  void restore() {
    for (std::size_t o = 0; o < arrays_.size(); ++o)
      if (!overwritten(o))
        std::memcpy(memory_[o].data()->bytes, arrays_[o].bytes.data(), arrays_[o].bytes.size());
  }
  /// Makes results that are overwritten what no kernel leaves: NaN, -1.
  void spoil() {
    for (std::size_t o = 0; o < arrays_.size(); ++o)
      if (overwritten(o)) std::memset(memory_[o].data()->bytes, 0xff, arrays_[o].bytes.size());
  }
  void run(Codelet const& codelet) {
    char text[status_text_bytes];
    for (Call const& call : calls_of_) {
      void* buffers[max_operands];
      for (std::size_t u = 0; u < call.operands.size(); ++u)
        buffers[u] = memory_[call.operands[u]].data();
      Status const status = codelet.cpu({buffers, call.args, text, workspace_.data()});
      if (!status.ok()) throw Error(concat("bench: ", call_.op->name, ": ", status.error));
    }
  }

  /// The results of the op's reference, in fp64 where it has such.
  std::vector<Array> reference() const {
    ElementTypes types = usual_types(*call_.op, DType::fp64);
    if (call_.op->reference(types) == nullptr) types = types_;
    Codelet const* const definition = call_.op->reference(types);
    if (definition == nullptr) refuse("it has no reference to be checked against");
    std::vector<Array> result;
    for (std::size_t o = 0; o < arrays_.size(); ++o)
      result.push_back(arrays_[o].as(dtype_of_kind(call_.operands[o].kind, types)));
    char text[status_text_bytes];
    for (Call const& call : calls_of_) {
      void* buffers[max_operands];
      for (std::size_t u = 0; u < call.operands.size(); ++u)
        buffers[u] = result[call.operands[u]].bytes.data();
      Status const status = definition->cpu({buffers, call.args, text});
      if (!status.ok()) throw Error(concat("bench: ", call_.op->name, ": ", status.error));
    }
    return result;
  }

  /// The largest relative error of a number rounded to a dtype.
  static double rounding(DType dtype) {
    switch (dtype) {
      case DType::fp64:
        return 0x1p-53;
      case DType::bf16:
        return 0x1p-8;
      case DType::fp16:
        return 0x1p-11;
      default:
        return is_float(dtype) ? 0x1p-24 : 0;
    }
  }
  /// Terms of the sums that a result may be: along the axes that it lacks, or that stay whole.
  double terms(std::size_t result) const {
    double count = 1;
    for (std::size_t id = 0; id < call_.table.axes.size(); ++id) {
      bool kept = false;
      for (auto const axis : call_.table.operands[result]) kept = kept || axis == id;
      if (!kept || call_.table.axes[id].whole)
        count *= static_cast<double>(call_.table.axes[id].extent);
    }
    return count;
  }
  void compare(std::size_t result, Array const& exact) const {
    Array seen(arrays_[result].dtype, arrays_[result].shape);
    std::memcpy(seen.bytes.data(), memory_[result].data(), seen.bytes.size());
    double largest = 0;
    for (Index i = 0; i < exact.count(); ++i)
      if (std::isfinite(exact.get(i))) largest = std::max(largest, std::fabs(exact.get(i)));
    double const relative =
        !is_float(seen.dtype) ? 0
        : options_.tolerance != 0
            ? options_.tolerance
            : 4 * std::sqrt(terms(result)) * rounding(accumulator_of(types_.element));
    for (Index i = 0; i < exact.count(); ++i) {
      double const want = exact.get(i), have = seen.get(i);
      double const bound = !std::isfinite(want)
                               ? 0
                               : relative * largest + rounding(seen.dtype) * std::fabs(want) +
                                     (seen.dtype == DType::fp16 ? 0x1p-25 : 0);  // of subnormals
      if (want == have || (std::isnan(want) && std::isnan(have)) || std::fabs(want - have) <= bound)
        continue;
      throw Error(concat("bench: ", call_.op->name, ": ", call_.operands[result].name, " ",
                         position(static_cast<std::size_t>(i),
                                  static_cast<std::size_t>(exact.count()), exact.shape),
                         " is ", std::isnan(have) ? "NaN" : concat(have),
                         " where the reference gives ", want, "; ", bound,
                         " is allowed between them"));
    }
  }

  KernelBenchOptions const& options_;
  ElementTypes types_;
  TiledCall call_;
  std::size_t shown_ = 0;
  std::vector<AxisTiling> tilings_;
  std::vector<Call> calls_of_;
  Cost cost_;
  Codelet const* kernel_ = nullptr;
  std::vector<Array> arrays_;  // as they are before a call
  std::vector<std::vector<Line>> memory_;
  std::vector<Line> workspace_;
  int calls_ = 1;
};

}  // namespace detail

/// The measurement of bench_kernel<Op>(), of an op without its type.
inline std::vector<BenchRecord> bench_kernel(OpInfo const& op, void const* attrs,
                                             std::vector<Shape> const& shapes,
                                             KernelBenchOptions const& options = {}) {
  detail::KernelBench bench(op, attrs, shapes, options);
  bench.check();
  bench.warm_up();
  std::vector<double> microseconds, bytes, flops;
  for (int run = 0; run < options.runs; ++run) {
    double const took = bench.sample();
    microseconds.push_back(took * 1e6);
    bytes.push_back(static_cast<double>(bench.cost().bytes) / took * 1e-9);
    flops.push_back(static_cast<double>(bench.cost().flops) / took * 1e-9);
  }
  std::vector<BenchRecord> records;
  auto const add = [&](char const* metric, char const* unit, std::vector<double> const& samples) {
    records.push_back(bench_record("kernel", bench.name(), "kernel_1", metric, unit, samples));
  };
  add("wall", "us", microseconds);
  add("gbytes_per_second", "GB/s", bytes);
  if (bench.cost().flops > 0) add("gflops", "GFLOP/s", flops);
  return records;
}

/// The kernel of an op, a user's as well, on one thread and whole operands: microseconds a call,
/// and the bytes and flops of the op's own cost over them. It is the kernel that tasks would run:
/// the op's own, the library's, or the reference. `shapes` are those of the first operands; the
/// others follow. Its results are compared with the op's reference, in fp64 where there is such,
/// before it is timed. Throws Error where they differ or the kernel fails, ShapeError, TypeError,
/// ValueError (no entry for the CPU, no reference, options out of range, an instruction set that is
/// not there).
/// Blocks: for a tenth of a second, and for the reference.
template <OpStruct Op>
std::vector<BenchRecord> bench_kernel(typename Op::Attrs const& attrs,
                                      std::vector<Shape> const& shapes,
                                      KernelBenchOptions const& options = {}) {
  return bench_kernel(op_info<Op>, &attrs, shapes, options);
}

}  // namespace nntile::testing
