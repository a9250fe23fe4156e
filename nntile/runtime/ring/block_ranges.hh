#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of many blocks at work, whose blocks any worker may claim.

#include <bit>
#include <cstdint>
#include <cstring>

#include "nntile/core/codelet.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/policy.hh"
#include "nntile/runtime/ring/ready_task.hh"

namespace nntile::detail::ring {

template <class Policy> struct Pending;
template <class Policy> class Machine;

/// The open blocks of a few tasks.
///
/// Law: a claim moves one word, which holds the kind of workers, the number of blocks and the next
/// one; whether it is of the task that was seen before does not matter: the claimer looks for the
/// task behind its claim, and until it has ended that block the range is not another's. The range
/// of a task whose blocks are all claimed offers nothing. The thread that counts the last block off
/// ends the task, and gives the range back first: then nothing of the task is touched any more.
template <class Policy> class BlockRanges {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

  static constexpr unsigned kind_bits = 4;

 public:
  static constexpr std::uint32_t most = 1u << block_range_bits;
  /// Blocks that a word counts.
  static constexpr std::uint32_t most_blocks = (1u << (32 - kind_bits)) - 1;

  struct Range;
  /// Runs a block, and ends the task with its last one.
  using Run = void (*)(Machine<Policy>& machine, std::uint32_t self, Range& range,
                       std::uint32_t block);

  struct alignas(apart) Range {
    Atomic<std::uint64_t> claims{0};
    alignas(apart) Atomic<std::uint32_t> left{0};  // blocks that have not ended
    typename Policy::template Plain<Pending<Policy>*> task = nullptr;
    Run run = nullptr;
    // Of the failed block of the lowest index.
    typename Policy::Mutex mutex;
    std::uint32_t failed = 0;
    char text[status_text_bytes];

    /// Notes a block's failure.
    void fail(std::uint32_t block, char const* error) {
      Lock guard(mutex);
      if (block >= failed) return;
      failed = block;
      std::strncpy(text, error, sizeof text - 1);
    }
  };
  static constexpr std::uint32_t none_failed = ~0u;

  Range& operator[](std::uint32_t range) { return ranges_[range]; }

  /// Opens a task's blocks for workers of a kind (-1: any); false where all ranges are in use.
  bool open(Pending<Policy>& task, std::uint32_t count, int kind, Run run) {
    std::uint32_t used = used_.load(std::memory_order_relaxed);
    std::uint32_t free;
    do {
      free = static_cast<std::uint32_t>(std::countr_one(used));
      if (free == most) return false;
    } while (!used_.compare_exchange_weak(used, used | 1u << free, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    Range& range = ranges_[free];
    range.task = &task;
    range.run = run;
    range.failed = none_failed;
    std::memset(range.text, 0, sizeof range.text);
    range.left.store(count, std::memory_order_relaxed);
    // Sequentially consistent: see `any`.
    range.claims.store(word(count, kind), std::memory_order_seq_cst);
    return true;
  }

  /// Claims a block; no_task if there is none for workers of that kind.
  ReadyTask claim(std::uint32_t kind) {
    for (std::uint32_t used = used_.load(std::memory_order_acquire); used != 0; used &= used - 1) {
      auto const number = static_cast<std::uint32_t>(std::countr_zero(used));
      auto& claims = ranges_[number].claims;
      std::uint64_t seen = claims.load(std::memory_order_acquire);
      while (offers(seen, kind))
        if (claims.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire))
          return block_task(number, static_cast<std::uint32_t>(seen));
    }
    return no_task;
  }

  /// Counts a block off; true for the last one, and then the range is the caller's to give back.
  static bool end_block(Range& range) {
    return range.left.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  void give_back(Range& range) {
    used_.fetch_and(~(1u << (&range - ranges_)), std::memory_order_release);
  }

  /// Whether a block can be claimed. An idle worker that announced itself before it asks is seen by
  /// every `open` that this does not see.
  bool any(std::uint32_t kind) const {
    for (std::uint32_t used = used_.load(std::memory_order_seq_cst); used != 0; used &= used - 1)
      if (offers(ranges_[std::countr_zero(used)].claims.load(std::memory_order_seq_cst), kind))
        return true;
    return false;
  }

 private:
  /// From the top: the kind + 1, the number of blocks, the next one.
  static constexpr std::uint64_t word(std::uint32_t count, int kind) {
    return static_cast<std::uint64_t>(kind + 1) << (64 - kind_bits) | std::uint64_t{count} << 32;
  }
  static constexpr bool offers(std::uint64_t word, std::uint32_t kind) {
    std::uint64_t const wanted = word >> (64 - kind_bits);
    auto const count = static_cast<std::uint32_t>(word >> 32) & most_blocks;
    return static_cast<std::uint32_t>(word) < count && (wanted == 0 || wanted == kind + 1);
  }

  Atomic<std::uint32_t> used_{0};
  Range ranges_[most];
};

}  // namespace nntile::detail::ring
