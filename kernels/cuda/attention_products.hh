#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Products of attention by tensor cores: rows of heads in shared memory, read as factors, and sums
// in registers, which become factors again. A warp has tiles of 16 rows of the result; lane l has
// rows l/4 and l/4 + 8 of each, and columns 2(l%4) and 2(l%4) + 1 of every eight.

#include "kernels/cuda/kernel.hh"

#include "kernels/cpu/attention_layout.hh"
#include "nntile/ops/attention.hh"

namespace nntile::kernels::cuda::sdpa {

/// Columns that a lane has of every eight, and 16 rows by `columns` of sums.
template <int columns> using SumTile = float[columns / 8][4];

inline constexpr float log2_of_e = 0x1.715476p0f;

NNTILE_DEVICE int lane_of(Thread const& thread) { return thread.rank() % warp_size; }

/// All that this thread has begun to fetch has come.
NNTILE_DEVICE void await_words(Thread const& thread) {
  thread.end_copies();
  thread.wait_for_copies<0>();
}

/// `count` rows of d elements in the shared memory of a block of `threads`. Four words after each
/// row: eight rows lie in different banks.
template <class T, int d, int count, int threads> class HeadRows {
 public:
  static constexpr Factor factor = factor_of<T>;
  static constexpr int elements = 4 / sizeof(T);  // of a word
  static constexpr int words = d / elements, line = words + 4;
  static constexpr std::size_t bytes = std::size_t{count} * line * 4;
  static constexpr int steps = words / 8;           // of a product over d
  static constexpr int rows_a_step = 8 * elements;  // of a product over rows

  NNTILE_DEVICE HeadRows(Thread const& thread, std::size_t offset)
      : thread_(thread), words_(thread.shared<std::uint32_t>(offset, count * line)) {
    int const lane = lane_of(thread);
    by_rows_ = lane % 16 * line + lane / 16 * 4;
    by_columns_ = (lane % 8 + lane / 16 * 8) * line + lane / 8 % 2 * 4;
  }

  /// Rows `ld` apart begin to come, zeros for those from `there` on. All threads call it.
  NNTILE_DEVICE void fetch(T const* from, Index ld, int there) const {
    T const* next = from + first_row() * ld + 4 * elements * (thread_.rank() % chunks);
    NNTILE_UNROLL()
    for (int row = 0; row < count; row += rows_at_once) {
      if (count % rows_at_once != 0 && row + first_row() >= count) break;
      thread_.copy_four_or_zeros(words_, own_chunk() + row * line, next, row + first_row() < there);
      next += rows_at_once * ld;
    }
  }
  /// After await_words, before others read: what this thread has fetched is rounded.
  NNTILE_DEVICE void round() const {
    if constexpr (factor == Factor::tf32) {
      NNTILE_UNROLL()
      for (int row = 0; row < count; row += rows_at_once) {
        if (count % rows_at_once != 0 && row + first_row() >= count) break;
        Quad<std::uint32_t> values = thread_.four(words_, own_chunk() + row * line);
        NNTILE_UNROLL()
        for (int i = 0; i < 4; ++i)
          values.of[i] = rounded_to_tf32(__builtin_bit_cast(float, values.of[i]));
        thread_.set_four(words_, own_chunk() + row * line, values);
      }
    }
  }

  /// Rows row to row + 15 as a left factor, step `step` over d.
  NNTILE_DEVICE Quad<std::uint32_t> left(int row, int step) const {
    return thread_.matrices(words_, by_rows_ + row * line + 8 * step);
  }
  /// Rows row to row + 15 as columns of a right factor, two words for each eight.
  NNTILE_DEVICE Quad<std::uint32_t> right(int row, int step) const {
    return thread_.matrices(words_, by_columns_ + row * line + 8 * step);
  }
  /// Rows row to row + rows_a_step - 1 over which a product sums, and 16 columns.
  NNTILE_DEVICE Quad<std::uint32_t> right_transposed(int row, int column) const {
    if constexpr (factor == Factor::tf32) {
      int const lane = lane_of(thread_);
      int const at = (row + 2 * (lane % 4)) * line + column + lane / 4;
      return {{words_[at], words_[at + line], words_[at + 8], words_[at + line + 8]}};
    } else {
      return thread_.matrices_transposed(words_, by_rows_ + row * line + column / 2);
    }
  }
  NNTILE_DEVICE Thread const& thread() const { return thread_; }

 private:
  static constexpr int chunks = words / 4, rows_at_once = threads / chunks;
  static_assert(threads % chunks == 0);
  NNTILE_DEVICE int first_row() const { return thread_.rank() / chunks; }
  NNTILE_DEVICE int own_chunk() const { return first_row() * line + thread_.rank() % chunks * 4; }

  Thread const& thread_;
  Shared<std::uint32_t> words_;
  int by_rows_, by_columns_;
};

/// sums = left rows' product with `columns` rows: left(tile, step) gives a factor, `at_once` steps
/// without a loop.
template <int tiles, int columns, int at_once, class Left, class Rows>
NNTILE_DEVICE void multiply_rows(SumTile<columns> (&sums)[tiles], Left left, Rows const& rows) {
  NNTILE_UNROLL()
  for (int i = 0; i < tiles; ++i) {
    NNTILE_UNROLL()
    for (int c = 0; c < columns / 8; ++c) {
      NNTILE_UNROLL()
      for (int e = 0; e < 4; ++e) sums[i][c][e] = 0;
    }
  }
  NNTILE_UNROLL(at_once)
  for (int step = 0; step < Rows::steps; ++step) {
    Quad<std::uint32_t> a[tiles];
    NNTILE_UNROLL()
    for (int i = 0; i < tiles; ++i) a[i] = left(i, step);
    NNTILE_UNROLL()
    for (int c = 0; c < columns / 16; ++c) {
      Quad<std::uint32_t> const b = rows.right(16 * c, step);
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        rows.thread().template multiply<Rows::factor>(sums[i][2 * c], a[i], b.of[0], b.of[1]);
        rows.thread().template multiply<Rows::factor>(sums[i][2 * c + 1], a[i], b.of[2], b.of[3]);
      }
    }
  }
}

/// Sums of eight columns, or 16 of 16-bit elements, as a left factor over them. A step of tf32
/// takes columns 2t and 2t + 1 as its terms t and t + 4, as right_transposed has them.
template <Factor of, int columns>
NNTILE_DEVICE Quad<std::uint32_t> left_of(SumTile<columns> const& sums, int step) {
  if constexpr (of == Factor::tf32) {
    float const(&x)[4] = sums[step];
    return {{rounded_to_tf32(x[0]), rounded_to_tf32(x[2]), rounded_to_tf32(x[1]),
             rounded_to_tf32(x[3])}};
  } else {
    float const(&x)[4] = sums[2 * step];
    float const(&y)[4] = sums[2 * step + 1];
    return {{packed<of>(x[0], x[1]), packed<of>(x[2], x[3]), packed<of>(y[0], y[1]),
             packed<of>(y[2], y[3])}};
  }
}

/// result += weights times rows, as many as the weights have columns.
template <int tiles, int columns, int d, class Rows>
NNTILE_DEVICE void add_rows(SumTile<d> (&result)[tiles], SumTile<columns> const (&weights)[tiles],
                            Rows const& rows) {
  NNTILE_UNROLL()
  for (int step = 0; step < columns / Rows::rows_a_step; ++step) {
    Quad<std::uint32_t> a[tiles];
    NNTILE_UNROLL()
    for (int i = 0; i < tiles; ++i) a[i] = left_of<Rows::factor, columns>(weights[i], step);
    NNTILE_UNROLL()
    for (int c = 0; c < d / 16; ++c) {
      Quad<std::uint32_t> const b = rows.right_transposed(step * Rows::rows_a_step, 16 * c);
      NNTILE_UNROLL()
      for (int i = 0; i < tiles; ++i) {
        rows.thread().template multiply<Rows::factor>(result[i][2 * c], a[i], b.of[0], b.of[1]);
        rows.thread().template multiply<Rows::factor>(result[i][2 * c + 1], a[i], b.of[2], b.of[3]);
      }
    }
  }
}

/// Elements 2(l%4) and the next of every eight of a row of results: factor times sums, and beta
/// times what is there.
template <class T, int d>
NNTILE_DEVICE void put_row(Thread const& thread, T* row, SumTile<d> const& sums, int half,
                           float factor, double beta) {
  NNTILE_UNROLL()
  for (int c = 0; c < d / 8; ++c) {
    T* const to = row + 8 * c + lane_of(thread) % 4 * 2;
    float low = sums[c][2 * half] * factor, high = sums[c][2 * half + 1] * factor;
    if (beta != 0) {
      low = __builtin_fmaf(static_cast<float>(beta), static_cast<float>(to[0]), low);
      high = __builtin_fmaf(static_cast<float>(beta), static_cast<float>(to[1]), high);
    }
    if constexpr (factor_of<T> == Factor::tf32)
      thread.put(to, std::uint64_t{__builtin_bit_cast(std::uint32_t, high)} << 32 |
                         __builtin_bit_cast(std::uint32_t, low));
    else
      thread.put(to, packed<factor_of<T>>(low, high));
  }
}

/// The head and tile of a block of threads: tile 0 of each of `group` heads, which take longest,
/// then tile 1 of each. What others read of the heads of a group stays in a device's cache.
struct BlockOrder {
  Index heads, tiles, group;
  struct Place {
    Index head;
    int tile;
  };

  BlockOrder(Index of_heads, Index of_tiles, Index bytes_of_head)
      : heads(of_heads), tiles(of_tiles), group(cached / (bytes_of_head + 1) + 1) {}
  Index blocks() const { return heads * tiles; }
  NNTILE_DEVICE Place of(Index block) const {
    Index const first = block / (group * tiles) * group;
    Index const here = heads - first < group ? heads - first : group;
    Index const rest = block - first * tiles;
    return {first + rest % here, static_cast<int>(rest / here)};
  }

 private:
  static constexpr Index cached = Index{32} << 20;  // bytes, of the 50 MB of an H100
};

NNTILE_DEVICE int rest_of(Index all, Index from, int most) {
  return all - from < most ? static_cast<int>(all - from) : most;
}

/// Whether rows of these operands can be copied 16 bytes at once.
inline bool whole_vectors(void* const* pointers, int count) {
  std::uintptr_t bits = 0;
  for (int i = 0; i < count; ++i) bits |= reinterpret_cast<std::uintptr_t>(pointers[i]);
  return bits % 16 == 0;
}

}  // namespace nntile::kernels::cuda::sdpa
