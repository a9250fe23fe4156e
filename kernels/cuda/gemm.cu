// SPDX-License-Identifier: BSD-3-Clause
// Matrix products: each element of C is one chain of FMAs in ascending k, in a register.
#include "nntile/ops/gemm.hh"

#include "kernels/cuda/gemm_pipelined.hh"
#include "kernels/cuda/kernel.hh"
#include "kernels/cuda/runs.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::cuda {
namespace {

/// C in rectangles of `64 * quads` rows a block, whose threads have rows and columns by fours, 64
/// apart. While a panel of k is multiplied in shared memory, the next one comes from memory into
/// registers. `pair`: of canonical groups.
template <class S, bool pair, int quads> struct GemmKernel {
  using T = compute_t<S>;
  static constexpr int threads = 256;
  static constexpr bool wide = pair || sizeof(T) > sizeof(float);  // twice the registers a sum
  static constexpr int least_blocks = wide ? 1 : 2;
  static constexpr int own_rows = 4 * quads, own_columns = wide ? 4 : 4 * quads;
  static constexpr int rows = 16 * own_rows, columns = 16 * own_columns;
  static constexpr int depth = 4 * threads / rows;  // steps of k: each thread fetches four elements
  /// Fours stay together, and those of lines beside each other fall into banks of their own.
  static constexpr int padded_rows = rows + 4, padded_columns = columns + 4;
  static constexpr std::size_t left_elements = depth * padded_rows;
  static constexpr std::size_t panel_elements = left_elements + depth * padded_columns;
  static constexpr std::size_t shared_bytes = 2 * panel_elements * sizeof(T);
  /// Steps whose operands are in registers at once; 64 sums leave room for those of one.
  static constexpr int unrolled = own_rows * own_columns > 32 ? 1 : depth;
  static_assert(16 * rows <= 2 * panel_elements, "columns of results take the place of panels");
  DeviceCall<ops::Gemm> call;

  static constexpr NNTILE_ALWAYS_INLINE Index pieces(Index extent, int size) {
    return (extent + size - 1) / size;
  }
  static Index blocks(ops::Gemm::Args const& args) {
    return pieces(args.m, rows) * pieces(args.n, columns) * args.batch;
  }
  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    GemmKernel const kernel{DeviceCall<ops::Gemm>(from)};
    return launch_over(blocks(kernel.call.arguments.args), 1, stream, kernel, shared_bytes);
  }

  NNTILE_DEVICE void operator()(Thread& thread) const {
    auto const& args = call.args();
    Index const down = pieces(args.m, rows), right = pieces(args.n, columns);
    for (Index at = thread.block(); at < down * right * args.batch; at += thread.blocks())
      rectangle(thread, at % down * rows, at / down % right * columns, at / down / right);
  }

 private:
  /// A warp has 8 fours of rows and 4 of columns: what its lanes read at once is 128 bytes at most.
  static NNTILE_DEVICE int first_row(Thread const& thread) {
    return 4 * (thread.rank() / warp_size % 2 * 8 + thread.rank() % 8);
  }
  static NNTILE_DEVICE int first_column(Thread const& thread) {
    return 4 * (thread.rank() / (2 * warp_size) * 4 + thread.rank() % warp_size / 8);
  }
  /// Of a thread's rows or columns, the distance of one from its first.
  static constexpr NNTILE_ALWAYS_INLINE int place(int number) {
    return number / 4 * 64 + number % 4;
  }

  /// One thread's part in bringing the panels of an operand: four elements of `lines` times
  /// `depth`, those beyond the extents as 0. A line's steps are beside each other if `k_first`,
  /// else the lines of a step are.
  template <int lines> struct Carrier {
    static constexpr int fours = lines * depth / 4;
    static_assert(fours <= threads);
    S const* from;
    Index stride;  // from panel to panel
    int there;     // lines
    bool k_first, whole;
    Quad<S> taken;

    NNTILE_DEVICE Carrier(Thread const& thread, S const* base, bool by_steps, Index ld, Index first,
                          Index extent, Index k)
        : stride(depth * (by_steps ? 1 : ld)), k_first(by_steps) {
      int const line = line_of(thread), step = step_of(thread);
      there = extent - first < lines ? static_cast<int>(extent - first) : lines;
      from = base + (by_steps ? k + step + (first + line) * ld : first + line + (k + step) * ld);
      whole = thread.rank() < fours && line + (by_steps ? 1 : 4) <= there &&
              reinterpret_cast<std::uintptr_t>(from) % alignof(Quad<S>) == 0;
    }
    NNTILE_DEVICE int line_of(Thread const& thread) const {
      return k_first ? thread.rank() / (depth / 4) : thread.rank() % (lines / 4) * 4;
    }
    NNTILE_DEVICE int step_of(Thread const& thread) const {
      return k_first ? thread.rank() % (depth / 4) * 4 : thread.rank() / (lines / 4);
    }

    NNTILE_DEVICE void fetch(Thread const& thread, int steps) {
      if (whole && steps == depth) {
        taken = thread.four(from, 0);
      } else {
        int const line = line_of(thread), step = step_of(thread);
        for (int i = 0; i < 4; ++i) {
          bool const inside =
              k_first ? line < there && step + i < steps : line + i < there && step < steps;
          taken.of[i] = inside ? from[i] : S{};
        }
      }
      from += stride;
    }

    template <class Scale>
    NNTILE_DEVICE void store(Thread const& thread, Shared<T> const& panel, Scale scale) const {
      constexpr int padded = lines + 4;
      if (thread.rank() >= fours) return;
      int const line = line_of(thread), step = step_of(thread);
      Quad<T> values;
      for (int i = 0; i < 4; ++i) values.of[i] = scale(get(taken.of + i)).v;
      if (k_first)
        for (int i = 0; i < 4; ++i) panel[(step + i) * padded + line] = values.of[i];
      else
        thread.set_four(panel, step * padded + line, values);
    }
  };

  using Sums = Vec<T> (&)[own_columns][own_rows];

  NNTILE_DEVICE ChainResult<S> result(Index batch) const {
    using Operand = ops::Gemm::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    return ChainResult<S>{buffers.template at<S>(Operand::c),
                          buffers.template at<T>(Operand::carry), args.beta, args.chain,
                          args.finishing}
        .at(args.c_offset + batch * args.c_stride);
  }

  /// The rectangle of one product of the batch whose first row and column are given.
  NNTILE_DEVICE void rectangle(Thread& thread, Index row, Index column, Index batch) const {
    auto const& args = call.args();
    ChainResult<S> const c = result(batch);
    Index const i0 = row + first_row(thread), j0 = column + first_column(thread);
    Vec<T> sums[own_columns][own_rows];
    NNTILE_UNROLL()
    for (int j = 0; j < own_columns; ++j) NNTILE_UNROLL()
    for (int i = 0; i < own_rows; ++i)
      if (!pair && i0 + place(i) < args.m && j0 + place(j) < args.n)
        sums[j][i] = Vec<T>::raw(c.start(i0 + place(i) + (j0 + place(j)) * args.ldc));
      else
        sums[j][i] = Vec<T>(0);
    if constexpr (pair) {
      Vec<T> left[own_columns][own_rows];
      add_products(thread, row, column, batch, 0, args.left_terms, sums);
      NNTILE_UNROLL()
      for (int j = 0; j < own_columns; ++j) NNTILE_UNROLL()
      for (int i = 0; i < own_rows; ++i) left[j][i] = sums[j][i], sums[j][i] = Vec<T>(0);
      add_products(thread, row, column, batch, args.left_terms, args.k, sums);
      NNTILE_UNROLL()
      for (int j = 0; j < own_columns; ++j) NNTILE_UNROLL()
      for (int i = 0; i < own_rows; ++i)
        if (i0 + place(i) < args.m && j0 + place(j) < args.n)
          sums[j][i] = Vec<T>::raw(
              c.of_pair(i0 + place(i) + (j0 + place(j)) * args.ldc, left[j][i].v, sums[j][i].v));
    } else {
      add_products(thread, row, column, batch, 0, args.k, sums);
    }
    finish(thread, row, column, batch, sums);
  }

  /// Those of k from `first` to `end`.
  NNTILE_DEVICE void add_products(Thread& thread, Index row, Index column, Index batch, Index first,
                                  Index end, Sums sums) const {
    using Operand = ops::Gemm::Operand;
    if (first >= end) return;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    Vec<T> const alpha(args.alpha);
    Carrier<rows> a(
        thread, buffers.template at<S const>(Operand::a) + args.a_offset + batch * args.a_stride,
        args.trans_a, args.lda, row, args.m, first);
    Carrier<columns> b(
        thread, buffers.template at<S const>(Operand::b) + args.b_offset + batch * args.b_stride,
        !args.trans_b, args.ldb, column, args.n, first);
    auto const fetch = [&](Index begin) {
      int const steps = end - begin < depth ? static_cast<int>(end - begin) : depth;
      a.fetch(thread, steps);
      b.fetch(thread, steps);
    };
    auto const store = [&](int side) {
      a.store(thread, left(thread, side), [&](Vec<T> value) { return alpha * value; });
      b.store(thread, right(thread, side), [](Vec<T> value) { return value; });
    };
    fetch(first);
    store(0);
    thread.sync();
    int side = 0;
    Index begin = first;
    for (; end - begin > depth; begin += depth, side = 1 - side) {
      fetch(begin + depth);
      NNTILE_UNROLL(unrolled)
      for (int k = 0; k < depth; ++k) multiply(thread, side, k, sums);
      store(1 - side);
      thread.sync();
    }
    NNTILE_UNROLL(1)
    for (int k = 0; k < static_cast<int>(end - begin); ++k) multiply(thread, side, k, sums);
    thread.sync();
  }

  static NNTILE_DEVICE Shared<T> left(Thread const& thread, int side) {
    return thread.template shared<T>(static_cast<std::size_t>(side) * panel_elements * sizeof(T),
                                     left_elements);
  }
  static NNTILE_DEVICE Shared<T> right(Thread const& thread, int side) {
    return thread.template shared<T>(
        (static_cast<std::size_t>(side) * panel_elements + left_elements) * sizeof(T),
        panel_elements - left_elements);
  }

  /// One step of k, of the panels of a side.
  static NNTILE_DEVICE void multiply(Thread const& thread, int side, int k, Sums sums) {
    Shared<T> const of_left = left(thread, side), of_right = right(thread, side);
    Vec<T> of_a[own_rows], of_b[own_columns];
    NNTILE_UNROLL()
    for (int q = 0; q < own_rows / 4; ++q) {
      Quad<T> const four = thread.four(of_left, k * padded_rows + 64 * q + first_row(thread));
      NNTILE_UNROLL()
      for (int i = 0; i < 4; ++i) of_a[4 * q + i] = Vec<T>::raw(four.of[i]);
    }
    NNTILE_UNROLL()
    for (int q = 0; q < own_columns / 4; ++q) {
      Quad<T> const four =
          thread.four(of_right, k * padded_columns + 64 * q + first_column(thread));
      NNTILE_UNROLL()
      for (int j = 0; j < 4; ++j) of_b[4 * q + j] = Vec<T>::raw(four.of[j]);
    }
    NNTILE_UNROLL()
    for (int j = 0; j < own_columns; ++j) NNTILE_UNROLL()
    for (int i = 0; i < own_rows; ++i) sums[j][i] = fma(of_a[i], of_b[j], sums[j][i]);
  }

  /// Bias and activation where the chain ends, and the result's rounding. Sums go through shared
  /// memory, a column of each thread at once, so that a warp writes what is beside each other.
  NNTILE_DEVICE void finish(Thread& thread, Index row, Index column, Index batch, Sums sums) const {
    auto const& args = call.args();
    ChainResult<S> const c = result(batch);
    S const* const bias = call.buffers().template at<S const>(ops::Gemm::Operand::bias);
    Shared<T> const staged = thread.template shared<T>(0, 16 * rows);
    Index const i = row + thread.rank() % rows;
    bool const biased = args.chain.last && bias != nullptr && i < args.m;
    Vec<T> const added = biased ? get(bias + args.bias_offset + i) : Vec<T>(0);
    NNTILE_UNROLL()
    for (int j = 0; j < own_columns; ++j) {
      NNTILE_UNROLL()
      for (int q = 0; q < own_rows / 4; ++q) {
        Quad<T> four;
        for (int each = 0; each < 4; ++each) four.of[each] = sums[j][4 * q + each].v;
        thread.set_four(staged, first_column(thread) / 4 * rows + 64 * q + first_row(thread), four);
      }
      thread.sync();
      NNTILE_UNROLL(1)
      for (int of = thread.rank() / rows; of < 16; of += threads / rows) {
        Index const to = column + 4 * of + place(j);
        Vec<T> sum = Vec<T>::raw(staged[of * rows + thread.rank() % rows]);
        if (i >= args.m || to >= args.n) continue;
        if (biased) sum += added;
        if (args.chain.last && args.activation == Activation::gelu_tanh)
          sum = ops::Gelutanh::apply({}, sum);
        c.put(i + to * args.ldc, sum.v);
      }
      thread.sync();
    }
  }
};

/// Elements of C that the busiest multiprocessor computes, those of a block that are not wanted,
/// too.
template <class Kernel> double busiest(ops::Gemm::Args const& args) {
  Index const blocks = Kernel::blocks(args), at_once = multiprocessors();
  return static_cast<double>((blocks + at_once - 1) / at_once) * Kernel::rows * Kernel::columns;
}

/// Larger blocks read less of shared memory for a product, where there are enough of them and they
/// are not half empty.
template <class S, bool pair> Status enqueue_gemm(KernelCall const& call, void* stream) noexcept {
  auto const args = arguments<ops::Gemm>(call);
  if constexpr (std::is_same_v<S, float> && !pair) {
    using Large = Pipelined<12, 8>;
    using Small = Pipelined<8, 4>;
    constexpr double slower = 1.1;  // an element in a small one; H200
    if (Large::suits(call) && busiest<Large::Any>(args) <= slower * busiest<Small::Any>(args))
      return Large::enqueue(call, stream);
    if (Small::suits(call)) return Small::enqueue(call, stream);
  }
  using Large = GemmKernel<S, pair, 2>;
  if (args.m > Large::rows / 2 && args.n > Large::columns / 2 &&
      Large::blocks(args) >= multiprocessors())
    return Large::enqueue(call, stream);
  return GemmKernel<S, pair, 1>::enqueue(call, stream);
}

/// A task without terms, which starts a chain or finishes one. Bound: the bytes of C.
template <class S> struct NoTerms {
  using T = compute_t<S>;
  using Operand = ops::Gemm::Operand;

  template <int length> struct Kernel {
    static constexpr int threads = loop_threads;
    DeviceCall<ops::Gemm> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      auto const buffers = call.buffers();
      S* const out = buffers.template at<S>(Operand::c);
      T* const carry = buffers.template at<T>(Operand::carry);
      S const* const bias = args.chain.last ? buffers.template at<S const>(Operand::bias) : nullptr;
      bool const finishes = args.finishing && carry != nullptr;
      bool const of_out = finishes || args.chain.first ? args.beta != 0 : carry == nullptr;
      bool const of_carry = finishes || (!args.chain.first && carry != nullptr);
      for_each_run<length>(
          thread, args.m, args.n * args.batch, [&]<int count>(Index i, Index column, Count<count>) {
            Pair const of(column, args.n, args.batch);
            Index const at = args.c_offset + i + of.i * args.ldc + of.j * args.c_stride;
            Run<count, S> before{};
            Run<count, T> left{};
            if (of_out) before = get_run<count>(thread, static_cast<S const*>(out) + at);
            if (of_carry) left = get_run<count>(thread, static_cast<T const*>(carry) + at);
            ChainResult<S> const c{before.of, of_carry ? left.of : nullptr, args.beta, args.chain,
                                   args.finishing};
            Run<count, Vec<T>> sums;
            NNTILE_UNROLL()
            for (int k = 0; k < count; ++k) sums.of[k] = Vec<T>::raw(c.start(k));
            if (bias != nullptr) {
              auto const added = get_run<count>(thread, bias + args.bias_offset + i);
              NNTILE_UNROLL()
              for (int k = 0; k < count; ++k) sums.of[k] += get(added.of + k);
            }
            if (args.chain.last && args.activation == Activation::gelu_tanh) {
              NNTILE_UNROLL()
              for (int k = 0; k < count; ++k) sums.of[k] = ops::Gelutanh::apply({}, sums.of[k]);
            }
            if (args.chain.leaves_in(carry))
              put_run(thread, carry + at, sums);
            else
              put_run(thread, out + at, sums);
          });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Gemm>(call);
    Buffers<ops::Gemm> const buffers(call);
    auto const packs = [&](auto* first, Index offset, Index ld, Index stride) {
      Index const bytes = Index{sizeof(*first)};
      return first == nullptr || (begins_packs(first + offset, ld * bytes) &&
                                  begins_packs(nullptr, args.batch == 1 ? 0 : stride * bytes));
    };
    bool const all =
        packs(buffers.at<S const>(Operand::c), args.c_offset, args.ldc, args.c_stride) &&
        packs(buffers.at<T const>(Operand::carry), args.c_offset, args.ldc, args.c_stride) &&
        packs(buffers.at<S const>(Operand::bias), args.bias_offset, 0, 0);
    return launch_over_runs<Kernel, run_length<S>>(args.m, args.n * args.batch, all, stream, call);
  }
};

template <class S> struct Gemm {
  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Gemm>(call);
    if (args.left_terms > 0) return enqueue_gemm<S, true>(call, stream);
    if (args.k == 0) return NoTerms<S>::enqueue(call, stream);
    return enqueue_gemm<S, false>(call, stream);
  }
};

constinit auto const kernels = op_kernels<ops::Gemm, Gemm>();

}  // namespace
NNTILE_KERNEL_LIST(gemm, kernels)
}  // namespace nntile::kernels::cuda
