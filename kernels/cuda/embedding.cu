// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, a team of threads a token, and their sum back into it. Bound: the bytes
// of the rows. An index outside the table, which the CPU's kernel refuses, gives NaN; its
// derivative goes nowhere.
#include "nntile/ops/embedding.hh"

#include "kernels/cuda/rows.hh"
#include "nntile/ops/chain.hh"

namespace nntile::kernels::cuda {
namespace {

template <class T, class Position> struct Embedding {
  template <int size> struct Kernel {
    static constexpr int threads = row_threads;
    DeviceCall<ops::Embedding> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      using Operand = ops::Embedding::Operand;
      auto const& args = call.args();
      auto const buffers = call.buffers();
      Position const* const index = buffers.template at<Position const>(Operand::index);  // [n]
      T const* const table = buffers.template at<T const>(Operand::table);                // [e, v]
      Team<size> const team(thread);
      team.for_each_row(args.n, [&](Index i) {
        T* const out = buffers.template at<T>(Operand::out) + i * args.ld_out;  // [e]
        Index const v = index[i] - args.v_begin;
        bool const outside = index[i] < 0 || index[i] >= args.whole_v;
        if (v >= 0 && v < args.v)
          team.for_each(
              args.e, [&](Index e) { return table[e + v * args.ld_table]; },
              [&](Index e, T value) { out[e] = value; });
        else if (args.first)
          team.for_each(args.e, [&](Index e) {
            put(out + e, Vec<compute_t<T>>(outside ? __builtin_nan("") : 0));
          });
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Embedding>(call);
    return launch_over_rows<Kernel>(args.n, args.e, stream, call);
  }
};

/// The sums begin as beta dtable, then tokens add their rows: a block takes the tokens of a row of
/// the table where the first of them is, in ascending order. It looks for the others by comparing:
/// n^2 / 2 comparisons per warp of a block, of an index that stays in the cache.
template <class T, class Position> struct EmbeddingBackward {
  using V = compute_t<T>;
  using Operand = ops::EmbeddingBackward::Operand;
  using Call = DeviceCall<ops::EmbeddingBackward>;

  /// Whether a token before `end` has the index `wanted`; all of a warp call it.
  static NNTILE_DEVICE bool is_met(Thread& thread, Position const* index, Index end,
                                   Position wanted) {
    int const lane = thread.rank() % warp_size;
    for (Index from = 0; from < end; from += warp_size)
      if (thread.ballot(from + lane < end && index[from + lane] == wanted) != 0) return true;
    return false;
  }

  /// sums = beta dtable, or what the last task makes of them.
  template <class S, bool ends> struct Table {
    static constexpr int threads = loop_threads;
    Call call;
    S* sums;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      T* const dtable = call.buffers().template at<T>(Operand::dtable);  // [e, v]
      for_each_pair(thread, args.e, args.v, [&](Index e, Index v) {
        Index const at = e + v * args.ld_table;
        if constexpr (ends) {
          if (args.finishing)
            finish(args.beta, dtable + at, get(sums + at));
          else
            put(dtable + at, get(sums + at));
        } else {
          put(sums + at, scaled_at(args.beta, dtable + at));
        }
      });
    }
  };

  template <class S> static NNTILE_DEVICE Vec<V> scaled_at(double beta, S const* at) {
    return scaled<Vec<V>>(beta, [=] { return get(at); });
  }
  /// ops::EmbeddingBackward::finished, stored.
  template <class S> static NNTILE_DEVICE void finish(double beta, S* at, Vec<V> sum) {
    put(at, Vec<V>::raw(ops::EmbeddingBackward::finished(beta, at, sum.v)));
  }

  /// Rows without a token times beta, where others are rounded once, with their tokens.
  template <class S> struct OtherRows {
    static constexpr int threads = row_threads;
    Call call;
    S* table;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      Position const* const index =
          call.buffers().template at<Position const>(Operand::index) + args.index_offset;
      for (Index v = thread.block(); v < args.v; v += thread.blocks()) {
        if (is_met(thread, index, args.n, static_cast<Position>(args.v_begin + v))) continue;
        S* const row = table + v * args.ld_table;
        for (Index e = thread.rank(); e < args.e; e += threads)
          put(row + e, scaled_at(args.beta, row + e));
      }
    }
  };

  /// `begin`: by what a row is multiplied before its tokens are added. `pair`: these are of a pair
  /// of canonical groups, and the row is finished.
  template <class S, bool pair> struct Tokens {
    static constexpr int threads = row_threads;
    static constexpr int own = 8;  // sums of a thread
    Call call;
    S* sums;
    double begin;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      Position const* const index =
          call.buffers().template at<Position const>(Operand::index) + args.index_offset;  // [n]
      for (Index i = thread.block(); i < args.n; i += thread.blocks()) {
        Index const v = index[i] - args.v_begin;
        if (v < 0 || v >= args.v || is_met(thread, index, i, index[i])) continue;
        for (Index e = thread.rank(); e - thread.rank() < args.e; e += threads * own)
          add_rows(thread, index, i, e, sums + v * args.ld_table);
      }
    }

    /// Elements e, e + threads, ... of a row whose first token is i.
    NNTILE_DEVICE void add_rows(Thread& thread, Position const* index, Index i, Index e,
                                S* row) const {
      auto const& args = call.args();
      T const* const dy = call.buffers().template at<T const>(Operand::dy) + args.dy_offset;
      int const lane = thread.rank() % warp_size;
      Vec<V> held[own], left_held[pair ? own : 1];
      for (int k = 0; k < own; ++k) {
        held[k] = Vec<V>(0);
        if constexpr (pair) left_held[k] = Vec<V>(0);
        if (Index const at = e + k * threads; at < args.e && begin != 0)
          held[k] = begin == 1 ? get(static_cast<S const*>(row) + at)
                               : Vec<V>(begin) * get(static_cast<S const*>(row) + at);
      }
      for (Index from = i; from < args.n; from += warp_size) {
        std::uint32_t left = thread.ballot(from + lane < args.n && index[from + lane] == index[i]);
        for (; left != 0; left &= left - 1) {
          Index const number = from + first_lane(left);
          T const* const token = dy + number * args.lddy;
          for (int k = 0; k < own; ++k)
            if (Index const at = e + k * threads; at < args.e)
              (pair && number < args.left_terms ? left_held[pair ? k : 0] : held[k]) +=
                  get(token + at);
        }
      }
      for (int k = 0; k < own; ++k)
        if (Index const at = e + k * threads; at < args.e) {
          if constexpr (pair)
            finish(args.beta, row + at, left_held[k] + held[k]);
          else
            put(row + at, held[k]);
        }
    }
  };

  template <class S>
  static Status add_tokens(Call const& call, S* sums, double begin, void* stream) {
    return launch_over(call.arguments.args.n, 1, stream, Tokens<S, false>{call, sums, begin});
  }
  template <class S> static Status add_pair(Call const& call, S* sums, void* stream) {
    auto const& args = call.arguments.args;
    Status status;
    if (args.beta != 1) status = launch_over(args.v, 1, stream, OtherRows<S>{call, sums});
    if (!status.ok()) return status;
    return launch_over(args.n, 1, stream, Tokens<S, true>{call, sums, 0});
  }

  static Status enqueue(KernelCall const& from, void* stream) noexcept {
    Call const call(from);
    auto const& args = call.arguments.args;
    Buffers<ops::EmbeddingBackward> const buffers(from);
    T* const dtable = buffers.template at<T>(Operand::dtable);
    V* const carry = buffers.template at<V>(Operand::carry);  // or null
    Index const elements = args.e * args.v;
    auto const begin = [&](auto* sums) {
      using S = std::remove_pointer_t<decltype(sums)>;
      return launch_over(elements, loop_threads, stream, Table<S, false>{call, sums});
    };
    if (args.left_terms > 0)
      return carry != nullptr ? add_pair(call, carry, stream) : add_pair(call, dtable, stream);
    if (carry != nullptr) {
      Status status;
      if (args.chain.first) status = begin(carry);
      if (status.ok()) status = add_tokens(call, carry, 1, stream);
      if (status.ok() && args.chain.last)
        status = launch_over(elements, loop_threads, stream, Table<V, true>{call, carry});
      return status;
    }
    bool const scales = args.chain.first && args.beta != 0 && args.beta != 1;
    if (sizeof(T) == sizeof(V) || !scales) {
      Status status;
      if (args.chain.first && args.beta != 1) status = begin(dtable);
      return status.ok() ? add_tokens(call, dtable, 1, stream) : status;
    }
    Status const status = launch_over(args.v, 1, stream, OtherRows<T>{call, dtable});
    return status.ok() ? add_tokens(call, dtable, args.beta, stream) : status;
  }
};

constinit auto const kernels = join(op_kernels<ops::Embedding, Embedding>(),
                                    op_kernels<ops::EmbeddingBackward, EmbeddingBackward>());

}  // namespace
NNTILE_KERNEL_LIST(embedding, kernels)
}  // namespace nntile::kernels::cuda
