#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Which of the submitted tasks have ended: StarPU's own answer is void once it has freed the task.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace nntile::detail {

/// A set of sequences, dense from below: all up to some number, and bits for those after it. Every
/// member may be called from any thread, but `expect`. Memory: a bit for each task since the oldest
/// that has not ended.
class Finished {
 public:
  Finished() : bits_(smallest_window, 0) {}

  /// Makes room for a sequence, so that `add` never allocates. Throws std::bad_alloc.
  void expect(std::uint64_t sequence) {
    std::lock_guard guard(mutex_);
    if (word_of(sequence) - first_word_ < bits_.size()) return;
    std::vector<std::uint64_t> wider(2 * bits_.size(), 0);
    for (std::uint64_t word = first_word_; word < first_word_ + bits_.size(); ++word)
      wider[word & (wider.size() - 1)] = at(word);
    bits_.swap(wider);
  }

  void add(std::uint64_t sequence) noexcept {
    std::lock_guard guard(mutex_);
    at(word_of(sequence)) |= std::uint64_t{1} << (sequence % word_bits);
    while (at(first_word_) == ~std::uint64_t{0}) {
      at(first_word_) = 0;
      ++first_word_;
    }
  }

  bool contains(std::uint64_t sequence) const noexcept {
    std::lock_guard guard(mutex_);
    std::uint64_t const word = word_of(sequence);
    if (word < first_word_) return true;
    if (word - first_word_ >= bits_.size()) return false;
    return (bits_[word & (bits_.size() - 1)] >> (sequence % word_bits) & 1) != 0;
  }

 private:
  static constexpr std::uint64_t word_bits = 64;
  static constexpr std::size_t smallest_window = 64;  // words; 4,096 tasks in flight

  static std::uint64_t word_of(std::uint64_t sequence) noexcept { return sequence / word_bits; }
  std::uint64_t& at(std::uint64_t word) noexcept { return bits_[word & (bits_.size() - 1)]; }

  mutable std::mutex mutex_;
  std::uint64_t first_word_ = 0;     // every sequence of the words before it has ended
  std::vector<std::uint64_t> bits_;  // a power of two of words, the window after it
};

}  // namespace nntile::detail
