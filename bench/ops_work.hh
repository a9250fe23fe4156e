#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The parts of a case of bench/ops: arrays, a kernel's call, the bytes it moves, its check.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness.hh"
#include "nntile/core/shape.hh"
#include "nntile/ops/concept.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/workspaces.hh"

namespace nntile::bench {

/// Extents of all cases: rows of `width`, as many as make an array larger than the caches.
struct Sizes {
  Index width = 768, rows = 0;
  Index classes = 50257, tokens = 0;  // of cross-entropy
  Index seq = 1024, heads = 12, depth = 64;
  Index elements() const { return width * rows; }
};

/// Rows, as Args count those of a tile.
constexpr std::uint32_t row_count(Index rows) { return static_cast<std::uint32_t>(rows); }

/// Memory allocated as arenas are, shared between the copies of the object.
template <class T = float> class Array {
 public:
  explicit Array(Index size)
      : size_(size),
        data_(
            static_cast<T*>(support::allocate_aligned(static_cast<std::size_t>(size) * sizeof(T))),
            support::free_aligned) {
    std::fill_n(data_.get(), size, T(0));  // touches it
  }
  template <class Value> Array(Index size, Value value) : Array(size) {
    for (Index i = 0; i < size; ++i) data_.get()[i] = static_cast<T>(value(i));
  }
  Index size() const { return size_; }
  T* data() const { return data_.get(); }
  T& operator[](Index i) const { return data_.get()[i]; }
  std::shared_ptr<void> memory() const { return data_; }

 private:
  Index size_;
  std::shared_ptr<T> data_;
};

/// The same number in [low, high) for the same arguments, so that what is overwritten is known.
struct Uniform {
  std::uint32_t seed;
  double low, high;
  double operator()(Index i) const {
    auto word = static_cast<std::uint32_t>(i) * 2654435761u + seed * 40503u;
    word = (word ^ word >> 16) * 0x85ebca6bu;  // the finalizer of MurmurHash3
    word = (word ^ word >> 13) * 0xc2b2ae35u;
    word ^= word >> 16;
    double const value = low + (high - low) * (word >> 8) * 0x1p-24;
    return static_cast<double>(static_cast<float>(value));
  }
};
/// Whole numbers, whose sums are exact.
struct Whole {
  std::uint32_t seed;
  Index below;
  double operator()(Index i) const {
    return std::floor(Uniform{seed, 0, static_cast<double>(below)}(i));
  }
};

/// An array of any type, as an operand.
struct Operand {
  template <class T> Operand(Array<T> const& array) : memory(array.memory()) {}
  std::shared_ptr<void> memory;
};

/// A kernel with arguments and operands, as a task calls it.
class BoundKernel {
 public:
  template <class Op>
  BoundKernel(Isa isa, Arguments<Op> const& args, std::vector<Operand> operands,
              DType dtype = DType::fp32)
      : codelet_(kernels::find(Op::name, dtype, usual_types(op_info<Op>, dtype).second, Mode::exact,
                               isa)),
        args_(sizeof args),
        operands_(std::move(operands)) {
    std::memcpy(args_.data(), &args, sizeof args);
    std::size_t named = Op::operands.size();
    if constexpr (requires { args.operands; }) {
      named = 0;
      for (std::size_t o = 0; o < Op::operands.size(); ++o)
        named += args.operands.has(OperandIndex(o));
    }
    if (operands_.size() != named) {
      std::fprintf(stderr, "%s has %zu operands here, not %zu\n", Op::name, named,
                   operands_.size());
      std::exit(1);
    }
    for (Operand const& operand : operands_) buffers_.push_back(operand.memory.get());
    if (codelet_ == nullptr) {
      std::fprintf(stderr, "there is no kernel for %s\n", Op::name);
      std::exit(1);
    }
  }
  void operator()() const {
    char text[status_text_bytes];
    Status const status = codelet_->cpu({buffers_.data(), args_.data(), text, (*workspace_)[0]});
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", codelet_->name, status.error);
      std::exit(1);
    }
  }

 private:
  std::shared_ptr<support::Workspaces const> workspace_ =
      std::make_shared<support::Workspaces const>(1);  // shared by copies, which take turns
  Codelet const* codelet_;
  std::vector<std::byte> args_;
  std::vector<Operand> operands_;
  std::vector<void*> buffers_;
};

/// One case, ready to run.
struct Work {
  double amount = 0;  // bytes, reads and writes counted once; flops of attention
  std::function<void()> run = {};
  /// The largest error of the first run's result, as a multiple of what is allowed.
  std::function<double()> error = {};
  /// Reads and writes the same arrays and does nothing else; AdamW's yardstick.
  std::function<void()> stream = {};
};

/// A float's distance from one to the next.
constexpr double eps = 0x1p-23;

/// error / allowed; no error is allowed where `allowed` is 0.
inline double excess(double value, double exact, double allowed) {
  double const error = std::fabs(value - exact);
  if (error == 0) return 0;
  double const result = error / allowed;
  return std::isnan(result) ? std::numeric_limits<double>::infinity() : result;
}

/// The largest of of(i) over every `stride`-th i < n and the last one.
template <class Of> double largest(Index n, Index stride, Of of) {
  double result = of(n - 1);
  for (Index i = 0; i < n; i += stride) result = std::max(result, of(i));
  return result;
}

}  // namespace nntile::bench
