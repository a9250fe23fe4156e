#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The address ranges of a runtime's buffers: what it has adopted, so that writable memory is
// adopted once, and what it has allocated and is asked for by address, or has shown by a lock.

#include <cstddef>
#include <cstdint>
#include <span>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/threads.hh"

namespace nntile::support {

/// Ranges of bytes, each of one buffer. Those that may be written overlap none; the others may
/// overlap each other. Two treaps, the second augmented by ends as an interval tree (Cormen et al.,
/// 14.3), since what is only read may overlap. Every member may be called from any thread.
class AdoptedRanges {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  /// Adds the range, unless it overlaps one and either may be written: then returns the other's
  /// buffer. Empty ranges overlap nothing. Cost: O(log n). Throws std::bad_alloc.
  std::uint32_t add(std::span<std::byte const> bytes, bool writable, std::uint32_t buffer,
                    std::uint32_t generation = 0) {
    if (bytes.empty()) return none;
    detail::Lock guard(mutex_);
    std::uintptr_t const begin = address(bytes), end = begin + bytes.size();
    std::uint32_t other = overlapping(roots_[1], begin, end);
    if (other == 0 && writable) other = overlapping(roots_[0], begin, end);
    if (other != 0) return nodes_[other].buffer;
    std::uint32_t const node = take();
    nodes_[node] = {begin, end, end, 0, 0, buffer, generation, random()};
    std::uint32_t left, right, &root = roots_[writable ? 1 : 0];
    split(root, begin, buffer, left, right);
    root = merge(merge(left, node), right);
    return none;
  }

  /// Makes room for `count` ranges. Throws std::bad_alloc.
  void reserve(std::uint32_t count) {
    detail::Lock guard(mutex_);
    nodes_.reserve(count + 1);
    free_.reserve(count + 1);
  }
  /// Times that memory was taken since.
  std::uint32_t growths() const noexcept {
    detail::Lock guard(mutex_);
    return growths_;
  }

  /// The buffer that holds a byte, what may be written first, and the generation that it was added
  /// with. Cost: O(log n).
  struct Found {
    std::uint32_t buffer = none;
    std::uint32_t generation = 0;
  };
  Found find(void const* byte) noexcept {
    detail::Lock guard(mutex_);
    auto const at = reinterpret_cast<std::uintptr_t>(byte);
    std::uint32_t node = overlapping(roots_[1], at, at + 1);
    if (node == 0) node = overlapping(roots_[0], at, at + 1);
    return node == 0 ? Found{} : Found{nodes_[node].buffer, nodes_[node].generation};
  }

  /// Removes a range that was added. Cost: O(log n).
  void remove(std::span<std::byte const> bytes, bool writable, std::uint32_t buffer) noexcept {
    if (bytes.empty()) return;
    detail::Lock guard(mutex_);
    remove(roots_[writable ? 1 : 0], address(bytes), buffer);
  }

 private:
  struct Node {
    std::uintptr_t begin, end;
    std::uintptr_t last;  // the largest end below and including it
    std::uint32_t left, right;
    std::uint32_t buffer;
    std::uint32_t generation;
    std::uint32_t priority;
  };

  static std::uintptr_t address(std::span<std::byte const> bytes) noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes.data());
  }
  std::uint32_t random() noexcept {  // Marsaglia's xorshift32
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    return random_ ^= random_ << 5;
  }

  std::uint32_t take() {
    if (free_.empty()) {
      if (nodes_.size() == nodes_.capacity()) ++growths_;
      if (nodes_.empty()) nodes_.push_back({});  // 0 is no node
      if (free_.capacity() <= nodes_.size())
        free_.reserve(2 * nodes_.size() + 16);  // removing never allocates
      nodes_.push_back({});
      return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    std::uint32_t const node = free_.back();
    free_.pop_back();
    return node;
  }

  /// A node below `at` whose range overlaps, or 0.
  std::uint32_t overlapping(std::uint32_t at, std::uintptr_t begin,
                            std::uintptr_t end) const noexcept {
    while (at != 0) {
      Node const& node = nodes_[at];
      if (node.begin < end && begin < node.end) return at;
      at = node.left != 0 && nodes_[node.left].last > begin ? node.left : node.right;
    }
    return 0;
  }

  void update(std::uint32_t at) noexcept {
    Node& node = nodes_[at];
    node.last = node.end;
    for (std::uint32_t const child : {node.left, node.right})
      if (child != 0 && nodes_[child].last > node.last) node.last = nodes_[child].last;
  }
  bool before(Node const& node, std::uintptr_t begin, std::uint32_t buffer) const noexcept {
    return node.begin != begin ? node.begin < begin : node.buffer < buffer;
  }
  void split(std::uint32_t at, std::uintptr_t begin, std::uint32_t buffer, std::uint32_t& left,
             std::uint32_t& right) noexcept {
    left = right = 0;
    if (at == 0) return;
    bool const goes_left = before(nodes_[at], begin, buffer);
    std::uint32_t inner_left, inner_right;
    split(goes_left ? nodes_[at].right : nodes_[at].left, begin, buffer, inner_left, inner_right);
    if (goes_left) {
      nodes_[at].right = inner_left;
      left = at, right = inner_right;
    } else {
      nodes_[at].left = inner_right;
      left = inner_left, right = at;
    }
    update(at);
  }
  std::uint32_t merge(std::uint32_t left, std::uint32_t right) noexcept {
    if (left == 0) return right;
    if (right == 0) return left;
    if (nodes_[left].priority > nodes_[right].priority) {
      nodes_[left].right = merge(nodes_[left].right, right);
      update(left);
      return left;
    }
    nodes_[right].left = merge(left, nodes_[right].left);
    update(right);
    return right;
  }
  void remove(std::uint32_t& at, std::uintptr_t begin, std::uint32_t buffer) noexcept {
    if (at == 0) return;
    Node& node = nodes_[at];
    if (node.begin == begin && node.buffer == buffer) {
      free_.push_back(at);
      at = merge(node.left, node.right);
      return;
    }
    remove(before(node, begin, buffer) ? node.right : node.left, begin, buffer);
    update(at);
  }

  mutable detail::Mutex mutex_;
  DynamicArray<Node> nodes_;
  DynamicArray<std::uint32_t> free_;
  std::uint32_t roots_[2] = {0, 0};  // of what is only read, of what may be written
  std::uint32_t growths_ = 0;
  std::uint32_t random_ = 2463534242u;
};

}  // namespace nntile::support
