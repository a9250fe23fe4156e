#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// fp32 products of whole rectangles: panels of k come by copies that go on while others are
// multiplied.
#include <algorithm>
#include <utility>

#include "kernels/cuda/kernel.hh"
#include "nntile/ops/gemm.hh"

namespace nntile::kernels::cuda {

/// Order in which an operand is stored: the steps of k of a row or column are beside each other, or
/// the rows or columns of a step are.
enum class Stored : std::uint8_t { by_steps, by_lines };

/// C in rectangles, of at least one's rows and columns: the last one begins where it still is
/// whole, and leaves alone what the one before has. A thread has rows and columns by fours. While
/// it multiplies one step of k, the operands of the next come from shared memory into registers;
/// while a block multiplies a panel, one comes, and another is there. No scaling of A, no
/// activation.
template <int own_rows, int own_columns, Stored of_a, Stored of_b> struct PipelinedGemm {
  using T = float;
  static constexpr int threads = 128;
  /// Registers allow these: a sum takes one, and operands of two steps some more.
  static constexpr int least_blocks = own_rows * own_columns > 64 ? 3 : 5;
  /// A warp has 4 fours of rows and 8 of columns, `own_rows / 4` and `own_columns / 4` times.
  static constexpr int row_lanes = 4, column_lanes = 8;
  static constexpr int rows = 2 * row_lanes * own_rows, columns = 2 * column_lanes * own_columns;
  static constexpr int depth = 16, stages = 3;
  /// Fours stay together, and what a warp copies at once falls into banks of its own.
  static constexpr int padded_rows = rows + 4, padded_columns = columns + 4;
  static constexpr int left_elements = depth * padded_rows;
  static constexpr int panel_elements = left_elements + depth * padded_columns;
  static constexpr std::size_t shared_bytes = stages * panel_elements * sizeof(T);
  DeviceCall<ops::Gemm> call;

  static Index blocks(ops::Gemm::Args const& args) {
    return pieces(args.m, rows) * pieces(args.n, columns) * args.batch;
  }
  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    PipelinedGemm const kernel{DeviceCall<ops::Gemm>(from)};
    return launch({blocks(kernel.call.arguments.args), shared_bytes}, stream, kernel);
  }

  NNTILE_DEVICE void operator()(Thread& thread) const {
    auto const& args = call.args();
    Index const at = thread.block();
    Index const down = pieces(args.m, rows), right = pieces(args.n, columns);
    rectangle(thread, at % down * rows, at / down % right * columns, at / down / right);
  }

 private:
  static constexpr NNTILE_ALWAYS_INLINE Index pieces(Index extent, int size) {
    return (extent + size - 1) / size;
  }
  /// Neighbours in a pair of lanes have the same columns, and those two apart the same rows: fours
  /// that all lanes read come in two parts, not four.
  static NNTILE_DEVICE int first_row(int rank) {
    int const lane = rank % warp_size, warp = rank / warp_size;
    return warp % 2 * row_lanes * own_rows + 4 * (lane / 16 * 2 + lane % 2);
  }
  static NNTILE_DEVICE int first_column(int rank) {
    int const lane = rank % warp_size, warp = rank / warp_size;
    return warp / 2 * column_lanes * own_columns + 4 * (lane % 16 / 2);
  }
  /// Of a thread's rows or columns, the distance of one from its first.
  static constexpr NNTILE_ALWAYS_INLINE int row_at(int number) {
    return number / 4 * 4 * row_lanes + number % 4;
  }
  static constexpr NNTILE_ALWAYS_INLINE int column_at(int number) {
    return number / 4 * 4 * column_lanes + number % 4;
  }

  /// One thread's part in copying the panels of an operand, `lines` times `depth`: single elements
  /// where they are stored by steps, else fours.
  template <int lines, Stored stored> struct Carrier {
    static constexpr int padded = lines + 4, parts = 2;
    static constexpr bool by_steps = stored == Stored::by_steps;
    static constexpr int lanes = 8, apart = by_steps ? threads / lanes : 4 * lanes;
    T const* from;  // of the thread's first copy, and its place in a panel
    int ld, to;

    NNTILE_DEVICE Carrier(Thread const& thread, T const* base, Index stride, Index first)
        : ld(static_cast<int>(stride)) {
      int const fast = thread.rank() % lanes, slow = thread.rank() / lanes;
      from = base + (by_steps ? fast + (first + slow) * stride : first + 4 * fast + slow * stride);
      to = by_steps ? fast * padded + slow : slow * padded + 4 * fast;
    }

    /// Begins a part of the next panel, if that is wanted.
    template <int part>
    NNTILE_DEVICE void copy(Thread const& thread, Shared<T> const& panel, bool wanted) {
      constexpr int all = lines / apart, first = part * all / parts, end = (part + 1) * all / parts;
      NNTILE_UNROLL()
      for (int l = first; l < end; ++l) {
        if constexpr (by_steps) {
          thread.copy(panel, to + apart * l, from, wanted);
          thread.copy(panel, to + apart * l + lanes * padded, from + lanes, wanted);
          from = kept(from + static_cast<Index>(ld) * apart);
        } else {
          thread.copy_four(panel, to + apart * l, from + apart * l, wanted);
        }
      }
      if (part == parts - 1) end_panel(depth);
    }
    /// The same of `steps` of them, less than a panel has, and all parts.
    NNTILE_DEVICE void copy_some(Thread const& thread, Shared<T> const& panel, int steps) {
      int const step = by_steps ? thread.rank() % lanes : thread.rank() / lanes;
      NNTILE_UNROLL()
      for (int l = 0; l < lines / apart; ++l) {
        if constexpr (by_steps) {
          thread.copy(panel, to + apart * l, from, step < steps);
          thread.copy(panel, to + apart * l + lanes * padded, from + lanes, step + lanes < steps);
          from = kept(from + static_cast<Index>(ld) * apart);
        } else {
          thread.copy_four(panel, to + apart * l, from + apart * l, step < steps);
        }
      }
      end_panel(steps);
    }
    NNTILE_DEVICE void end_panel(int steps) {
      if constexpr (by_steps)
        from = kept(from + steps - static_cast<Index>(ld) * lines);
      else
        from = kept(from + static_cast<Index>(ld) * steps);
    }
  };

  using Sums = Vec<T> (&)[own_columns][own_rows];
  using Rows = Vec<T> (&)[own_rows];
  using Columns = Vec<T> (&)[own_columns];

  static NNTILE_DEVICE Shared<T> left(Thread const& thread, int stage) {
    return thread.template shared<T>(static_cast<std::size_t>(stage) * panel_elements * sizeof(T),
                                     left_elements);
  }
  static NNTILE_DEVICE Shared<T> right(Thread const& thread, int stage) {
    return thread.template shared<T>(
        (static_cast<std::size_t>(stage) * panel_elements + left_elements) * sizeof(T),
        panel_elements - left_elements);
  }
  static NNTILE_DEVICE int after(int stage) { return stage == stages - 1 ? 0 : stage + 1; }

  static NNTILE_DEVICE void take_rows(Thread const& thread, Shared<T> const& of_left, int k,
                                      Rows values) {
    NNTILE_UNROLL()
    for (int i = 0; i < own_rows; i += 4) {
      Quad<T> const four =
          thread.four(of_left, k * padded_rows + row_at(i) + first_row(thread.rank()));
      NNTILE_UNROLL()
      for (int each = 0; each < 4; ++each) values[i + each] = Vec<T>::raw(four.of[each]);
    }
  }
  /// Four of them, from column j.
  static NNTILE_DEVICE void take_columns(Thread const& thread, Shared<T> const& of_right, int k,
                                         int j, Columns values) {
    Quad<T> const four =
        thread.four(of_right, k * padded_columns + column_at(j) + first_column(thread.rank()));
    NNTILE_UNROLL()
    for (int each = 0; each < 4; ++each) values[j + each] = Vec<T>::raw(four.of[each]);
  }
  /// Four columns, from j; a row's operand is used twice in a row.
  static NNTILE_DEVICE void multiply(Rows from_a, Columns from_b, int j, Sums sums) {
    NNTILE_UNROLL()
    for (int each = j; each < j + 4; ++each) NNTILE_UNROLL()
    for (int number = 0; number < own_rows; ++number) {
      int const i = each % 2 == 0 ? number : own_rows - 1 - number;
      sums[each][i] = fma(from_a[i], from_b[each], sums[each][i]);
    }
  }

  NNTILE_DEVICE ChainResult<T> result(Index batch) const {
    using Operand = ops::Gemm::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    return ChainResult<T>{buffers.template at<T>(Operand::c),
                          buffers.template at<T>(Operand::carry), args.beta, args.chain,
                          args.finishing}
        .at(args.c_offset + batch * args.c_stride);
  }

  /// That of one product of the batch that has what is from a row and a column on.
  NNTILE_DEVICE void rectangle(Thread& thread, Index own_row, Index own_column, Index batch) const {
    using Operand = ops::Gemm::Operand;
    auto const& args = call.args();
    auto const buffers = call.buffers();
    Index const row = std::min<Index>(own_row, args.m - rows);
    Index const column = std::min<Index>(own_column, args.n - columns);
    Carrier<rows, of_a> a(
        thread, buffers.template at<T const>(Operand::a) + args.a_offset + batch * args.a_stride,
        args.lda, row);
    Carrier<columns, of_b> b(
        thread, buffers.template at<T const>(Operand::b) + args.b_offset + batch * args.b_stride,
        args.ldb, column);
    Vec<T> sums[own_columns][own_rows];
    start(thread, row, column, own_row, own_column, batch, sums);
    int const few = static_cast<int>(args.k % depth);
    if (few > 0) {
      a.copy_some(thread, left(thread, 0), few);
      b.copy_some(thread, right(thread, 0), few);
      thread.end_copies();
      thread.template wait_for_copies<0>();
      thread.sync();
      add_few(thread, few, sums);
      thread.sync();
    }
    add_panels(thread, static_cast<int>(args.k / depth), a, b, sums);
    finish(thread, row, column, own_row, own_column, batch, sums);
  }

  /// Steps of the first panel.
  static NNTILE_DEVICE void add_few(Thread const& thread, int steps, Sums sums) {
    Vec<T> from_a[own_rows], from_b[own_columns];
    NNTILE_UNROLL(1)
    for (int k = 0; k < steps; ++k) {
      take_rows(thread, left(thread, 0), k, from_a);
      NNTILE_UNROLL()
      for (int j = 0; j < own_columns; j += 4) {
        take_columns(thread, right(thread, 0), k, j, from_b);
        multiply(from_a, from_b, j, sums);
      }
    }
  }

  /// use(k) for each step of a panel, a constant.
  template <class Use> static NNTILE_DEVICE void for_each_step(Use use) {
    [&]<int... k>(std::integer_sequence<int, k...>) {
      (use(std::integral_constant<int, k>()), ...);
    }(std::make_integer_sequence<int, depth>());
  }

  /// All steps of whole panels. Copies that are wanted have arrived where it ends: the last groups
  /// are empty.
  static NNTILE_DEVICE void add_panels(Thread& thread, int panels, Carrier<rows, of_a>& a,
                                       Carrier<columns, of_b>& b, Sums sums) {
    if (panels == 0) return;
    NNTILE_UNROLL()
    for (int stage = 0; stage < stages - 1; ++stage) {
      a.template copy<0>(thread, left(thread, stage), stage < panels);
      a.template copy<1>(thread, left(thread, stage), stage < panels);
      b.template copy<0>(thread, right(thread, stage), stage < panels);
      b.template copy<1>(thread, right(thread, stage), stage < panels);
      thread.end_copies();
    }
    thread.template wait_for_copies<stages - 2>();
    thread.sync();
    Vec<T> from_a[2][own_rows], from_b[own_columns];
    take_rows(thread, left(thread, 0), 0, from_a[0]);
    NNTILE_UNROLL()
    for (int j = 0; j < own_columns; j += 4) take_columns(thread, right(thread, 0), 0, j, from_b);
    int stage = 0, coming = stages - 1;
    NNTILE_UNROLL(1)
    for (int rest = panels; rest > 0; --rest) {
      bool const wanted = rest >= stages, more = rest > 1;
      int const next = stage == stages - 1 ? 0 : stage + 1;
      for_each_step([&](auto k) {
        constexpr bool last = k == depth - 1;
        if constexpr (k == 0) {
          a.template copy<0>(thread, left(thread, coming), wanted);
          a.template copy<1>(thread, left(thread, coming), wanted);
        }
        if constexpr (k == depth / 4) b.template copy<0>(thread, right(thread, coming), wanted);
        if constexpr (k == depth / 2) {
          b.template copy<1>(thread, right(thread, coming), wanted);
          thread.end_copies();
        }
        if constexpr (last) {
          thread.template wait_for_copies<stages - 2>();
          thread.sync();
        }
        int const of = last ? next : stage;
        constexpr int step = last ? 0 : k + 1;
        if (!last || more) take_rows(thread, left(thread, of), step, from_a[(k + 1) % 2]);
        NNTILE_UNROLL()
        for (int j = 0; j < own_columns; j += 4) {
          multiply(from_a[k % 2], from_b, j, sums);
          if (!last || more) take_columns(thread, right(thread, of), step, j, from_b);
        }
      });
      coming = stage;
      stage = next;
    }
  }

  /// Values from which sums go on, of this block's own elements.
  NNTILE_DEVICE void start(Thread const& thread, Index row, Index column, Index own_row,
                           Index own_column, Index batch, Sums sums) const {
    auto const& args = call.args();
    ChainResult<T> const c = result(batch);
    T const* before = c.out;
    if (!c.chain.first)
      before = c.with_left([](T const* left) __attribute__((always_inline)) { return left; });
    bool const zero = c.chain.first && c.beta == 0;
    Vec<T> const factor(c.chain.factor(c.beta));
    Index const i0 = row + first_row(thread.rank()), j0 = column + first_column(thread.rank());
    NNTILE_UNROLL()
    for (int j = 0; j < own_columns; ++j) NNTILE_UNROLL()
    for (int i = 0; i < own_rows; ++i) {
      sums[j][i] = Vec<T>(0);
      if (!zero && i0 + row_at(i) >= own_row && j0 + column_at(j) >= own_column)
        sums[j][i] = factor * get(before + i0 + row_at(i) + (j0 + column_at(j)) * args.ldc);
    }
  }

  /// Bias where the chain ends, and results in memory: four rows at once where they are aligned.
  NNTILE_DEVICE void finish(Thread const& thread, Index row, Index column, Index own_row,
                            Index own_column, Index batch, Sums sums) const {
    auto const& args = call.args();
    ChainResult<T> const c = result(batch);
    int const rank = kept(thread.rank());
    Index const i0 = row + first_row(rank), j0 = column + first_column(rank);
    T const* const bias = call.buffers().template at<T const>(ops::Gemm::Operand::bias);
    T* to = nullptr;
    c.put_by([&](T* place) __attribute__((always_inline)) { to = place; });
    bool const whole = i0 >= own_row && args.ldc % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(to + i0) % alignof(Quad<T>) == 0;
    NNTILE_UNROLL()
    for (int i = 0; i < own_rows; i += 4) {
      Quad<T> added{};
      bool const biased = args.chain.last && bias != nullptr;
      if (biased)
        for (int each = 0; each < 4; ++each)
          added.of[each] = bias[args.bias_offset + i0 + row_at(i) + each];
      NNTILE_UNROLL()
      for (int j = 0; j < own_columns; ++j) {
        Quad<T> four;
        for (int each = 0; each < 4; ++each)
          four.of[each] = biased ? sums[j][i + each].v + added.of[each] : sums[j][i + each].v;
        Index const at = i0 + row_at(i) + (j0 + column_at(j)) * args.ldc;
        if (j0 + column_at(j) < own_column) continue;
        if (whole)
          thread.set_four(to, at, four);
        else
          for (int each = 0; each < 4; ++each)
            if (i0 + row_at(i) + each >= own_row) to[at + each] = four.of[each];
      }
    }
  }
};

/// PipelinedGemm of rectangles of this size, for any operands that it can copy.
template <int own_rows, int own_columns> struct Pipelined {
  template <Stored of_a, Stored of_b>
  using Kernel = PipelinedGemm<own_rows, own_columns, of_a, of_b>;
  using Any = Kernel<Stored::by_lines, Stored::by_lines>;

  static bool suits(KernelCall const& call) {
    using Operand = ops::Gemm::Operand;
    auto const args = arguments<ops::Gemm>(call);
    Buffers<ops::Gemm> const buffers(call);
    auto const copies = [&](bool by_steps, float const* base, Index ld, Index stride, Index lines) {
      bool const aligned = reinterpret_cast<std::uintptr_t>(base) % alignof(Quad<float>) == 0 &&
                           ld % 4 == 0 && lines % 4 == 0 && (args.batch == 1 || stride % 4 == 0);
      return ld <= INT32_MAX && (by_steps || aligned);
    };
    return args.m >= Any::rows && args.n >= Any::columns && args.left_terms == 0 &&
           args.alpha == 1 && !args.finishing && args.activation == Activation::none &&
           copies(args.trans_a, buffers.at<float const>(Operand::a) + args.a_offset, args.lda,
                  args.a_stride, args.m) &&
           copies(!args.trans_b, buffers.at<float const>(Operand::b) + args.b_offset, args.ldb,
                  args.b_stride, args.n);
  }
  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Gemm>(call);
    constexpr Stored steps = Stored::by_steps, lines = Stored::by_lines;
    if (args.trans_a)
      return args.trans_b ? Kernel<steps, lines>::enqueue(call, stream)
                          : Kernel<steps, steps>::enqueue(call, stream);
    return args.trans_b ? Kernel<lines, lines>::enqueue(call, stream)
                        : Kernel<lines, steps>::enqueue(call, stream);
  }
};

}  // namespace nntile::kernels::cuda
