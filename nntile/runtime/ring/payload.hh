#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Layout of a task's operands and arguments in its slot, or in the argument ring behind it.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nntile/core/heap_array.hh"
#include "nntile/runtime/ring/slot.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::detail::ring {

/// A ring of bytes, given out and taken back in submission order by the submitter alone. Blocks are
/// aligned to 16.
template <class Policy> class ArgumentRing {
 public:
  /// `bytes` is a power of two, at least 64.
  explicit ArgumentRing(std::uint64_t bytes = Policy::Sizes::argument_bytes) : size_(bytes) {}

  /// Whether a block of this size goes to the heap: it would fill a quarter of the ring.
  bool is_large(std::size_t bytes) const { return bytes >= size_ / 4; }
  /// Null if it is full until an older block is taken back.
  std::byte* take(std::size_t bytes) {
    if (units_.get() == nullptr) units_ = HeapArray<Unit>(size_ / sizeof(Unit));
    std::uint64_t const need = (bytes + 15) & ~std::uint64_t{15};
    std::uint64_t const offset = head_ & (size_ - 1);
    std::uint64_t const skip =
        offset + need > size_ ? size_ - offset : 0;  // never straddles the end
    if (head_ + skip + need - tail_ > size_) return nullptr;
    head_ += skip + need;
    return reinterpret_cast<std::byte*>(units_.get()) + ((head_ - need) & (size_ - 1));
  }

  /// The end of the latest block: taking back up to here frees it and all before it.
  std::uint64_t position() const { return head_; }
  void take_back_to(std::uint64_t position) { tail_ = position; }

 private:
  struct alignas(64) Unit {
    std::byte bytes[64];
  };
  std::uint64_t const size_;
  HeapArray<Unit> units_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

/// The address of a buffer's record, with the access in the low bits.
using PackedUse = std::uintptr_t;

/// The payload of one task: arguments, padded to 8 bytes; the operands' pointers, which the body
/// gets as they are, and uses; the label's tile. In a block of their own, where they do not fit
/// into the slot, the uses are not packed, and come before the pointers. A worker that only runs
/// the body reads no line of a buffer's record, which the submitter writes.
struct Payload {
  static constexpr std::size_t inline_operands = 6;

  static std::size_t padded(std::size_t arguments) { return (arguments + 7) & ~std::size_t{7}; }

  /// Bytes of a block, or 0 if the slot has room.
  static std::size_t block_bytes(std::size_t operands, std::size_t arguments) {
    if (operands <= inline_operands &&
        padded(arguments) + operands * (sizeof(void*) + sizeof(PackedUse)) + sizeof(std::int64_t) <=
            sizeof(ColdSlot::payload))
      return 0;
    return padded(arguments) + operands * (sizeof(Use<support::Buffer*>) + sizeof(void*)) +
           sizeof(std::int64_t);
  }

  /// Writes the payload into the slot; `block_bytes` is 0 for them. Calls each(i) for each operand,
  /// in turn.
  template <class Each>
  [[gnu::always_inline]] static void put(ColdSlot& cold, std::span<std::byte const> arguments,
                                         std::span<Use<support::Buffer*> const> uses,
                                         void* const* pointers, std::int64_t tile, Each&& each) {
    // g++ 12 warns of writes behind the slot where it does not know this.
    if (uses.size() > inline_operands) __builtin_unreachable();
    std::byte* at = put_arguments(cold.payload, arguments);
    std::byte* const packed_uses = at + uses.size() * sizeof(void*);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      PackedUse const packed = reinterpret_cast<std::uintptr_t>(uses[i].handle) |
                               static_cast<std::uintptr_t>(uses[i].access);
      std::memcpy(at + i * sizeof(void*), &pointers[i], sizeof(void*));
      std::memcpy(packed_uses + i * sizeof packed, &packed, sizeof packed);
      each(i);
    }
    append(packed_uses + uses.size() * sizeof(PackedUse), &tile, sizeof tile);
  }

  /// Writes the payload into a block, and its address, the arguments' size and the number of
  /// operands into the slot.
  static void put_block(ColdSlot& cold, std::byte* block, std::span<std::byte const> arguments,
                        std::span<Use<support::Buffer*> const> uses, void* const* pointers,
                        std::int64_t tile) {
    std::size_t const sizes[] = {padded(arguments.size()), uses.size()};
    append(append(cold.payload, &block, sizeof block), sizes, sizeof sizes);
    std::byte* at = put_arguments(block, arguments);
    at = append(at, uses.data(), uses.size_bytes());
    at = append(at, pointers, uses.size() * sizeof(void*));
    append(at, &tile, sizeof tile);
  }

  /// What the body of a task is called with.
  struct Operands {
    void* const* pointers;
    void const* arguments;
  };
  template <class Hot> static Operands operands(Hot const& slot, ColdSlot const& cold) {
    if (!slot.spilled) [[likely]]
      return {reinterpret_cast<void* const*>(cold.payload + slot.argument_bytes), cold.payload};
    std::byte const* block;
    std::size_t sizes[2];
    std::memcpy(&block, cold.payload, sizeof block);
    std::memcpy(sizes, cold.payload + sizeof block, sizeof sizes);
    std::size_t const before = sizes[0] + sizes[1] * sizeof(Use<support::Buffer*>);
    return {reinterpret_cast<void* const*>(block + before), block};
  }

  /// The task's body as it was submitted. The unpacked uses of an inline one lie in this object.
  template <class Hot> support::TaskBody body(Hot const& slot, ColdSlot const& cold) {
    auto const [pointers, arguments] = operands(slot, cold);
    std::size_t count = slot.operands;
    Use<support::Buffer*> const* uses = uses_;
    std::byte const* behind;  // the pointers
    if (slot.spilled) {
      std::memcpy(&count, cold.payload + 2 * sizeof(void*), sizeof count);
      behind = reinterpret_cast<std::byte const*>(pointers + count);
      uses = reinterpret_cast<Use<support::Buffer*> const*>(pointers) - count;
    } else {
      behind = reinterpret_cast<std::byte const*>(pointers + count);
      for (std::size_t i = 0; i < count; ++i, behind += sizeof(PackedUse)) {
        PackedUse packed;
        std::memcpy(&packed, behind, sizeof packed);
        uses_[i] = {reinterpret_cast<support::Buffer*>(packed & ~access_bits),
                    static_cast<Access>(packed & access_bits)};
      }
    }
    TaskLabel label{cold.tensor, 0};
    std::memcpy(&label.tile, behind, sizeof label.tile);
    return {static_cast<Codelet const*>(cold.work),
            slot.sequence.load(std::memory_order_relaxed),
            {uses, count},
            pointers,
            arguments,
            label};
  }

 private:
  static constexpr PackedUse access_bits = 7;
  static_assert(alignof(support::Buffer) > access_bits);

  static std::byte* append(std::byte* at, void const* from, std::size_t bytes) {
    if (bytes != 0) std::memcpy(at, from, bytes);
    return at + bytes;
  }
  static std::byte* put_arguments(std::byte* at, std::span<std::byte const> arguments) {
    append(at, arguments.data(), arguments.size());
    return at + padded(arguments.size());
  }

  Use<support::Buffer*> uses_[inline_operands];
};

}  // namespace nntile::detail::ring
