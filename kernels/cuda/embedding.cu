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
        Index const v = index[i] < 0 ? -1 : index[i] - args.v_begin;
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
/// n^2 comparisons by threads, of an index that stays in the cache.
template <class T, class Position> struct EmbeddingBackward {
  using V = compute_t<T>;
  using Operand = ops::EmbeddingBackward::Operand;
  using Call = DeviceCall<ops::EmbeddingBackward>;
  /// Of a block that compares.
  static constexpr int token_threads = 256;
  static constexpr int token_warps = token_threads / warp_size;
  /// Indices that a block looks for at once, and tokens that a thread reads before it compares.
  static constexpr int group = 8, met_ahead = 4;

  /// Votes of a block, each with one barrier: two places of shared memory take turns.
  class Votes {
   public:
    static constexpr std::size_t shared_bytes = 2 * token_warps * sizeof(std::uint32_t);
    NNTILE_DEVICE explicit Votes(Thread& thread) : thread_(thread) {}

    /// Whether any thread votes so; all of the block call it, and `either`.
    NNTILE_DEVICE bool any(bool vote) { return of_warps(thread_.ballot(vote)) != 0; }
    /// The bits that any thread has.
    NNTILE_DEVICE std::uint32_t either(std::uint32_t bits) {
      NNTILE_UNROLL()
      for (int half = warp_size / 2; half > 0; half /= 2) bits |= thread_.exchange(bits, half);
      return of_warps(bits);
    }

   private:
    NNTILE_DEVICE std::uint32_t of_warps(std::uint32_t own) {
      auto const words = thread_.template shared<std::uint32_t>(turn_, token_warps);
      turn_ ^= token_warps * sizeof(std::uint32_t);
      if (thread_.rank() % warp_size == 0) words[thread_.rank() / warp_size] = own;
      thread_.sync();
      std::uint32_t all = 0;
      NNTILE_UNROLL()
      for (int warp = 0; warp < token_warps; ++warp) all |= words[warp];
      return all;
    }

    Thread& thread_;
    std::size_t turn_ = 0;
  };

  /// Indices that a block searches for: number k where bit k of `open` is set, before token end[k].
  struct Group {
    std::uint32_t open = 0;
    Position wanted[group];
    Index end[group];
    Index last = 0;  // the largest end

    NNTILE_DEVICE void set(int k, bool there, Index wanted_, Index end_) {
      wanted[k] = static_cast<Position>(wanted_);
      end[k] = end_;
      if (!there) return;
      open |= 1u << k;
      if (end_ > last) last = end_;
    }
    /// Takes out of `open` those that are met; all of a block call it.
    NNTILE_DEVICE void drop_met(Thread& thread, Votes& votes, Position const* index) {
      for (Index begin = 0; open != 0 && begin < last; begin += met_ahead * token_threads) {
        Index const from = begin + thread.rank(), left = last - from;
        Position values[met_ahead];
        NNTILE_UNROLL()
        for (int each = 0; each < met_ahead; ++each)
          if (each * token_threads < left) values[each] = index[from + each * token_threads];
        std::uint32_t met = 0;
        NNTILE_UNROLL()
        for (int each = 0; each < met_ahead; ++each) {
          Index const at = from + each * token_threads;
          if (each * token_threads >= left) continue;
          NNTILE_UNROLL()
          for (int k = 0; k < group; ++k)
            if (at < end[k] && values[each] == wanted[k]) met |= 1u << k;
        }
        open &= ~votes.either(met);
      }
    }
  };

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
    static constexpr int threads = token_threads;
    Call call;
    S* table;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      Position const* const index =
          call.buffers().template at<Position const>(Operand::index) + args.index_offset;
      Votes votes(thread);
      for (Index v = thread.block(); v < args.v; v += group * thread.blocks()) {
        Group rows;
        NNTILE_UNROLL()
        for (int k = 0; k < group; ++k) {
          Index const each = v + k * thread.blocks();
          rows.set(k, each < args.v, args.v_begin + each, args.n);
        }
        rows.drop_met(thread, votes, index);
        for (; rows.open != 0; rows.open &= rows.open - 1) {
          S* const row = table + (v + first_lane(rows.open) * thread.blocks()) * args.ld_table;
          for (Index e = thread.rank(); e < args.e; e += threads)
            put(row + e, scaled_at(args.beta, row + e));
        }
      }
    }
  };

  /// `begin`: by what a row is multiplied before its tokens are added. `pair`: these are of a pair
  /// of canonical groups, and the row is finished. A block takes as many elements of a row as it
  /// has threads.
  template <class S, bool pair> struct Tokens {
    static constexpr int threads = token_threads, least_blocks = sizeof(T) == 8 ? 2 : 3;
    /// Tokens that a thread compares at once, and rows of which it reads before it adds the first.
    static constexpr int compared = 16, ahead = pair || sizeof(T) == 8 ? 16 : 24;
    static constexpr int run = compared * threads;  // that the block compares
    static constexpr std::size_t words_at = Votes::shared_bytes;
    static constexpr std::size_t list_at = words_at + run / 8;
    static constexpr std::size_t shared_bytes = list_at + (run + ahead) * sizeof(std::uint32_t);
    Call call;
    S* sums;
    double begin;

    NNTILE_DEVICE void operator()(Thread& thread) const {
      auto const& args = call.args();
      Position const* const index =
          call.buffers().template at<Position const>(Operand::index) + args.index_offset;  // [n]
      Votes votes(thread);
      Index const all = (args.e + threads - 1) / threads, items = args.n * all;
      for (Index at = thread.block(); at < items; at += group * thread.blocks()) {
        Group firsts;
        NNTILE_UNROLL()
        for (int k = 0; k < group; ++k) {
          Index const item = at + k * thread.blocks();
          Index const i = item < items ? Pair(item, all, args.n).j : 0;
          Index const v = index[i] < 0 ? -1 : index[i] - args.v_begin;
          firsts.set(k, item < items && v >= 0 && v < args.v, index[i], i);
        }
        firsts.drop_met(thread, votes, index);
        for (; firsts.open != 0; firsts.open &= firsts.open - 1) {
          Pair const p(at + first_lane(firsts.open) * thread.blocks(), all, args.n);
          add_rows(thread, votes, index, p.j, p.i * threads + thread.rank(),
                   sums + (index[p.j] - args.v_begin) * args.ld_table);
        }
      }
    }

    /// use(from, count, list) for each run of tokens, beginning with i and `from`, where some have
    /// the index of i: `list` has their distances from `from`, ascending, then `ahead` zeros.
    template <class Use>
    static NNTILE_DEVICE void for_each_list(Thread& thread, Votes& votes, Position const* index,
                                            Index i, Index n, Use use) {
      auto const words = thread.template shared<std::uint32_t>(words_at, run / warp_size);
      auto const list = thread.template shared<std::uint32_t>(list_at, run + ahead);
      int const warp = thread.rank() / warp_size, lane = thread.rank() % warp_size;
      Position const wanted = index[i];
      for (Index from = i; from < n; from += run) {
        std::uint32_t same = 0;  // a bit for each
        Index const left = n - from - thread.rank();
        Position const* const own = index + from + thread.rank();
        NNTILE_UNROLL()
        for (int each = 0; each < compared; ++each) {
          if (each * threads < left && own[each * threads] == wanted) same |= 1u << each;
        }
        if (!votes.any(same != 0)) continue;
        for (int each = 0; each < compared; ++each) {
          std::uint32_t const word = thread.ballot((same >> each & 1) != 0);
          if (lane == 0) words[each * token_warps + warp] = word;
        }
        thread.sync();
        int count = 0;
        for (int each = 0; each < compared; ++each) NNTILE_UNROLL()
        for (int of = 0; of < token_warps; ++of) {
          std::uint32_t const word = words[each * token_warps + of];
          if ((same >> each & 1) != 0 && of == warp)
            list[count + __builtin_popcount(word & ((1u << lane) - 1))] =
                static_cast<std::uint32_t>(each * threads + thread.rank());
          count += __builtin_popcount(word);
        }
        if (thread.rank() < ahead) list[count + thread.rank()] = 0;
        thread.sync();
        use(from, count, list);
      }
    }

    /// Element e of a row whose first token is i.
    NNTILE_DEVICE void add_rows(Thread& thread, Votes& votes, Position const* index, Index i,
                                Index e, S* row) const {
      auto const& args = call.args();
      T const* const dy = call.buffers().template at<T const>(Operand::dy) + args.dy_offset + e;
      bool const own = e < args.e;
      Vec<V> held(0), left_held(0);
      if (own && begin != 0)
        held = begin == 1 ? get(static_cast<S const*>(row) + e)
                          : Vec<V>(begin) * get(static_cast<S const*>(row) + e);
      for_each_list(thread, votes, index, i, args.n, [&](Index from, int count, auto const& list) {
        if (!own) return;
        T const* const base = dy + from * args.lddy;
        for (int first = 0; first < count; first += ahead) {
          T values[ahead];
          NNTILE_UNROLL()
          for (int each = 0; each < ahead; each += 4) {
            Quad<std::uint32_t> const numbers = thread.four(list, first + each);
            NNTILE_UNROLL()
            for (int k = 0; k < 4; ++k) values[each + k] = base[numbers.of[k] * args.lddy];
          }
          NNTILE_UNROLL()
          for (int each = 0; each < ahead; ++each) {
            if (first + each >= count) continue;
            if (pair && from + list[first + each] < args.left_terms)
              left_held += get(&values[each]);
            else
              held += get(&values[each]);
          }
        }
      });
      if (!own) return;
      if constexpr (pair)
        finish(args.beta, row + e, left_held + held);
      else
        put(row + e, held);
    }
  };

  template <class Kernel> static Status launch_tokens(void* stream, Kernel const& kernel) {
    auto const& args = kernel.call.arguments.args;
    return launch_over(args.n * ((args.e + token_threads - 1) / token_threads), group, stream,
                       kernel, Kernel::shared_bytes);
  }
  template <class Kernel> static Status scale_others(void* stream, Kernel const& kernel) {
    return launch_over(kernel.call.arguments.args.v, group, stream, kernel, Votes::shared_bytes);
  }
  template <class S>
  static Status add_tokens(Call const& call, S* sums, double begin, void* stream) {
    return launch_tokens(stream, Tokens<S, false>{call, sums, begin});
  }
  template <class S> static Status add_pair(Call const& call, S* sums, void* stream) {
    auto const& args = call.arguments.args;
    Status status;
    if (args.beta != 1) status = scale_others(stream, OtherRows<S>{call, sums});
    if (!status.ok()) return status;
    return launch_tokens(stream, Tokens<S, true>{call, sums, 0});
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
    Status const status = scale_others(stream, OtherRows<T>{call, dtable});
    return status.ok() ? add_tokens(call, dtable, args.beta, stream) : status;
  }
};

constinit auto const kernels = join(op_kernels<ops::Embedding, Embedding>(),
                                    op_kernels<ops::EmbeddingBackward, EmbeddingBackward>());

}  // namespace
NNTILE_KERNEL_LIST(embedding, kernels)
}  // namespace nntile::kernels::cuda
