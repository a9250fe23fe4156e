// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A grid of threads without a GPU: what kernels/cuda/launch.hh says, on the CPU, one thread at a
// time. Lanes run in an order by seed. A thread that meets others' words in shared memory without
// a barrier between, words that nothing has written, words outside, and threads that do not come to
// the same barrier are errors, with both places.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "nntile/core/call_site.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/error.hh"
#include "nntile/core/shape.hh"
#include "tests/support/simt/fiber.hh"

namespace nntile::test::simt {

/// Decides the order of blocks and threads of what is launched from now on, by this thread, and
/// with its lowest bit where operands are: `Fenced` of memory.hh, aligned if it is odd.
void set_seed(std::uint64_t seed);
bool aligned();
/// Ends the emulator's thread that calls, and its grid, for this reason, without a way back. Does
/// nothing outside of such threads. A handler of signals may call it.
void fail_thread(std::string const& what);
/// What kernels of this thread are told of their device from now on; 1 at first.
void set_multiprocessors(int count);
int multiprocessors();
/// Bytes of shared memory that a block can have from now on, by this thread; 227 KiB at first.
void set_most_shared(std::size_t bytes);
std::size_t most_shared();
/// What was launched by this thread so far.
struct Counts {
  std::uint64_t launches = 0, blocks = 0, barriers = 0, shuffles = 0, products = 0;
};
Counts const& counts();

/// Which of these bytes are in the pages of a task's operands (memory.hh), but of none of them, in
/// words; "" if none is. Finds what stays within a page.
std::string beside(void const* from, std::size_t bytes);

using Place = CallSite;
using kernels::cuda::Factor;

/// What a lane brings to a product, and where its sums are.
struct Product {
  Factor of;
  std::uint32_t a[4], b[2];
  float* sums;
};
/// The row that a lane has read, and what it gets.
struct Matrices {
  bool transposed;
  std::uint32_t row[4], got[4];
};

/// The threads of one block, and the memory that they share.
class Block {
 public:
  using Body = void (*)(void const* kernel, Block& block, int rank);

  Block(Index number, Index count, int threads, std::size_t shared_bytes, void const* kernel,
        Body body);

  /// Runs all its threads to their end, or to the first error, which is then in `error`.
  void run(std::string& error);

  Index number() const { return number_; }
  Index count() const { return count_; }
  int threads() const { return static_cast<int>(lanes_.size()); }

  void sync(int rank, Place place);
  void sync_warp(int rank, Place place);
  /// The 8 bytes that another lane of the warp brought: that of `own lane xor mask`, or of `lane`.
  std::uint64_t exchange(int rank, std::uint64_t bits, int mask, Place place);
  std::uint64_t from(int rank, std::uint64_t bits, int lane, Place place);
  /// Bit l: whether lane l of the warp voted so.
  std::uint32_t ballot(int rank, bool vote, Place place);
  void multiply(int rank, Product& product, Place place);
  void matrices(int rank, Matrices& matrices, Place place);

  void check_range(std::size_t offset, std::size_t bytes, std::size_t alignment) const;
  void read(int rank, std::size_t offset, void* to, std::size_t bytes);
  void write(int rank, std::size_t offset, void const* from, std::size_t bytes);
  /// Begins a copy from memory, which arrives where its thread waits for the group that it is in.
  void copy(int rank, std::size_t offset, void const* from, std::size_t bytes);
  void end_copies(int rank);
  void wait_for_copies(int rank, int pending);
  /// Fails where a thread ends that has not waited for its copies.
  void check_end(int rank) const;

  [[noreturn]] void fail(std::string what) const;

 private:
  enum class Stop : std::uint8_t {
    none,
    barrier,
    warp,
    exchange,
    from,
    ballot,
    multiply,
    matrices
  };
  struct Copy {
    int group;  // how many of its thread's ended before
    std::size_t offset;
    void const* from;
    std::size_t bytes;
  };
  struct Lane {
    std::unique_ptr<Fiber> fiber;
    Stop stop = Stop::none;
    Place place;
    int argument = 0;  // mask or lane
    std::uint64_t bits = 0;
    std::uint64_t result = 0;
    void* brought = nullptr;   // a Product or Matrices
    std::vector<Copy> copies;  // that have not arrived
    int groups = 0;            // that have ended
  };
  /// When a thread touched a word: the number of barriers before, of the block and of its warp.
  struct Touch {
    int rank = none;
    std::uint32_t block = 0, warp = 0;
  };
  static constexpr int none = -1, several_of_warp = -2, several = -3;
  struct Word {
    Touch writer, reader;
    int reader_warp = 0;
    int copier = none;  // the thread whose copy is under way
  };

  void stop_at(int rank, Stop kind, Place place, int argument = 0, std::uint64_t bits = 0);
  bool release_warps();
  bool release_block();
  std::string waiting() const;
  Touch touch(int rank) const;
  /// Whether what was touched then is seen by `rank` now.
  bool seen(Touch then, int rank) const;
  void note_read(Word& word, int rank);
  /// Fails where what others did with a word may come after what `rank` does.
  void check_write(std::size_t word, int rank, char const* doing) const;
  void check_copied(std::size_t word, int rank, char const* doing) const;

  Index number_, count_;
  void const* kernel_;
  Body body_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> warp_barriers_;
  std::uint32_t barriers_ = 0;
  std::vector<std::byte> memory_;
  std::vector<Word> words_;
};

/// Runs all blocks of a grid of the kernel whose type has this name. With NNTILE_SIMT_LAUNCHES=FILE
/// a line `name threads bytes` is added to it for each kind of launch. The text of a failure stays
/// until the thread's next one.
Status run_grid(Index blocks, int threads, std::size_t shared_bytes, void const* kernel,
                Block::Body body, char const* name) noexcept;

}  // namespace nntile::test::simt

namespace nntile::kernels::cuda {

namespace simt = test::simt;

/// Elements in the memory of a block.
template <class T> class Shared {
  static_assert(sizeof(T) % 4 == 0 && std::is_trivially_copyable_v<T>);

 public:
  class Element {
   public:
    Element(Shared const& array, Index index) : array_(array), index_(index) {}
    Element(Element const&) = default;
    operator T() const {
      T value;
      array_.block_->read(array_.rank_, array_.at(index_), &value, sizeof value);
      return value;
    }
    void operator=(T value) const {
      array_.block_->write(array_.rank_, array_.at(index_), &value, sizeof value);
    }
    void operator=(Element const& other) const { *this = static_cast<T>(other); }
    void operator+=(T value) const { *this = static_cast<T>(*this) + value; }

   private:
    Shared const& array_;
    Index index_;
  };

  Shared(simt::Block& block, int rank, std::size_t offset, std::size_t count)
      : block_(&block), rank_(rank), offset_(offset), count_(count) {
    block.check_range(offset, count * sizeof(T), alignof(T));
  }
  Element operator[](Index index) const { return {*this, index}; }

  Quad<T> four(Index index) const {
    Quad<T> values;
    block_->read(rank_, place_of_four(index), values.of, sizeof values.of);
    return values;
  }
  void set_four(Index index, Quad<T> const& values) const {
    block_->write(rank_, place_of_four(index), values.of, sizeof values.of);
  }
  void copy(Index index, T const* from) const { block_->copy(rank_, at(index), from, sizeof(T)); }
  void copy_four(Index index, T const* from) const {
    block_->copy(rank_, place_of_four(index), from, sizeof(Quad<T>));
  }

 private:
  std::size_t at(Index index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= count_)
      block_->fail(concat("element ", index, " of ", count_, " in shared memory"));
    return offset_ + static_cast<std::size_t>(index) * sizeof(T);
  }
  std::size_t place_of_four(Index index) const {
    (void)at(index + 3);
    std::size_t const place = at(index);
    if (place % alignof(Quad<T>) != 0)
      block_->fail(concat("four elements from byte ", place, ", which is not a multiple of ",
                          alignof(Quad<T>)));
    return place;
  }

  simt::Block* block_;
  int rank_;
  std::size_t offset_, count_;
};

class Thread {
 public:
  Thread(simt::Block& block, int rank) : block_(block), rank_(rank) {}

  int rank() const { return rank_; }
  Index block() const { return block_.number(); }
  Index blocks() const { return block_.count(); }
  template <class T> Shared<T> shared(std::size_t offset, std::size_t count) const {
    return {block_, rank_, offset, count};
  }
  template <class T> Quad<T> four(Shared<T> const& array, Index i) const { return array.four(i); }
  template <class T> void set_four(Shared<T> const& array, Index i, Quad<T> const& values) const {
    array.set_four(i, values);
  }
  template <class T> Quad<T> four(T const* array, Index i) const {
    check_memory<T>(array + i, 4, alignof(Quad<T>));
    Quad<T> values;
    for (int each = 0; each < 4; ++each) values.of[each] = array[i + each];
    return values;
  }
  template <class T> void set_four(T* array, Index i, Quad<T> const& values) const {
    check_memory<T>(array + i, 4, alignof(Quad<T>));
    for (int each = 0; each < 4; ++each) array[i + each] = values.of[each];
  }
  template <class T> Pack<T> pack(T const* from) const {
    check_memory<T>(from, Pack<T>::size, alignof(Pack<T>));
    Pack<T> values;
    for (int each = 0; each < Pack<T>::size; ++each) values.of[each] = from[each];
    return values;
  }
  template <class T> void copy(Shared<T> const& array, Index i, T const* from, bool wanted) const {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    if (!wanted) return;
    check_memory<T>(from, 1, 1);
    array.copy(i, from);
  }
  template <class T>
  void copy_four(Shared<T> const& array, Index i, T const* from, bool wanted) const {
    static_assert(sizeof(T) == 4);
    if (!wanted) return;
    check_memory<T>(from, 4, alignof(Quad<T>));
    array.copy_four(i, from);
  }
  void copy_four_or_zeros(Shared<std::uint32_t> const& words, Index i, void const* from,
                          bool wanted) const {
    alignas(16) static constexpr std::uint32_t zeros[4] = {};
    auto const* const of = wanted ? static_cast<std::uint32_t const*>(from) : zeros;
    if (wanted) check_memory<std::uint32_t>(of, 4, alignof(Quad<std::uint32_t>));
    words.copy_four(i, of);
  }
  void end_copies() const { block_.end_copies(rank_); }
  template <int pending> void wait_for_copies() const { block_.wait_for_copies(rank_, pending); }
  template <class Word> void put(void* to, Word word) const {
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof word != 0)
      block_.fail(concat("writes ", sizeof word, " bytes to no multiple of them"));
    if (std::string const what = simt::beside(to, sizeof word); !what.empty())
      block_.fail("touches " + what);
    std::memcpy(to, &word, sizeof word);
  }
  void sync(simt::Place place = simt::Place::here()) const { block_.sync(rank_, place); }
  void sync_warp(simt::Place place = simt::Place::here()) const { block_.sync_warp(rank_, place); }
  template <class T> T exchange(T value, int mask, simt::Place place = simt::Place::here()) const {
    return unpacked<T>(block_.exchange(rank_, packed(value), mask, place));
  }
  template <class T> T from(T value, int lane, simt::Place place = simt::Place::here()) const {
    return unpacked<T>(block_.from(rank_, packed(value), lane, place));
  }
  std::uint32_t ballot(bool vote, simt::Place place = simt::Place::here()) const {
    return block_.ballot(rank_, vote, place);
  }
  Quad<std::uint32_t> matrices(Shared<std::uint32_t> const& words, int i,
                               simt::Place place = simt::Place::here()) const {
    return met(words.four(i), false, place);
  }
  Quad<std::uint32_t> matrices_transposed(Shared<std::uint32_t> const& words, int i,
                                          simt::Place place = simt::Place::here()) const {
    return met(words.four(i), true, place);
  }
  template <Factor of>
  void multiply(float (&sums)[4], Quad<std::uint32_t> const& a, std::uint32_t b0, std::uint32_t b1,
                simt::Place place = simt::Place::here()) const {
    simt::Product product{of, {a.of[0], a.of[1], a.of[2], a.of[3]}, {b0, b1}, sums};
    block_.multiply(rank_, product, place);
  }

 private:
  template <class T> void check_memory(T const* from, int count, std::size_t alignment) const {
    if (reinterpret_cast<std::uintptr_t>(from) % alignment != 0)
      block_.fail(
          concat(count, " elements of memory that begin at no multiple of ", alignment, " bytes"));
    std::size_t const bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (std::string const what = simt::beside(from, bytes); !what.empty())
      block_.fail("touches " + what);
  }
  Quad<std::uint32_t> met(Quad<std::uint32_t> const& row, bool transposed,
                          simt::Place place) const {
    simt::Matrices part{transposed, {row.of[0], row.of[1], row.of[2], row.of[3]}, {}};
    block_.matrices(rank_, part, place);
    return {{part.got[0], part.got[1], part.got[2], part.got[3]}};
  }
  template <class T> static std::uint64_t packed(T value) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
  template <class T> static T unpacked(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  simt::Block& block_;
  int rank_;
};

template <class T> T kept(T value) { return value; }
inline int first_lane(std::uint32_t votes) { return std::countr_zero(votes); }
inline int multiprocessors() { return simt::multiprocessors(); }
inline std::size_t most_shared() { return simt::most_shared(); }

/// A NaN becomes the one that a device makes.
template <Factor of> std::uint32_t packed(float low, float high) {
  using T = std::conditional_t<of == Factor::bf16, bf16_t, fp16_t>;
  auto const word = [](float x) { return x != x ? std::uint32_t{0x7fff} : T(x).bits; };
  return word(low) | word(high) << 16;
}
/// The nearest, away from zero in the middle.
inline std::uint32_t rounded_to_tf32(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}
inline float exp2_estimate(float x) { return x < -126 ? 0.0f : std::exp2(x); }

template <class Kernel> Status launch(Grid grid, void*, Kernel const& kernel) noexcept {
  static_assert(Kernel::threads % warp_size == 0 && Kernel::threads <= 1024);
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= 4096);
  return simt::run_grid(
      grid.blocks, Kernel::threads, grid.shared, &kernel,
      [](void const* body, simt::Block& block, int rank) {
        Thread thread(block, rank);
        (*static_cast<Kernel const*>(body))(thread);
      },
      typeid(Kernel).name());
}

}  // namespace nntile::kernels::cuda
