#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Layout of a task's operands and arguments in its slot, or in the argument ring behind it.

#include <bit>
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
    if (units_.get() == nullptr) make();
    std::uint64_t const need = (bytes + 15) & ~std::uint64_t{15};
    std::uint64_t const offset = head_ & (size_ - 1);
    std::uint64_t const skip =
        offset + need > size_ ? size_ - offset : 0;  // never straddles the end
    if (head_ + skip + need - tail_ > size_) return nullptr;
    head_ += skip + need;
    return reinterpret_cast<std::byte*>(units_.get()) + ((head_ - need) & (size_ - 1));
  }

  /// Takes the memory, which the first block does otherwise. Throws std::bad_alloc.
  void make() { units_ = HeapArray<Unit>(size_ / sizeof(Unit)); }
  bool is_made() const { return units_.get() != nullptr; }

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

/// The address of a buffer's record, of which a process has 48 bits unless it asks for more, with
/// the access in the low bits. Kept in 6 bytes: each is stored as 8, of which what follows
/// overwrites 2.
using PackedUse = std::uintptr_t;
inline constexpr std::size_t packed_use_bytes = 6;
static_assert(sizeof(PackedUse) == 8 && std::endian::native == std::endian::little);

/// The payload of one task: arguments, padded to 8 bytes; the operands' pointers, which the body
/// gets as they are, and uses; the label's tile. In a block of their own, where they do not fit
/// into the slot, the uses are not packed, and come before the pointers. A worker that only runs
/// the body reads no line of a buffer's record, which the submitter writes.
struct Payload {
  static constexpr std::size_t inline_operands = 7;

  static std::size_t padded(std::size_t arguments) { return (arguments + 7) & ~std::size_t{7}; }

  /// Whether the slot has room; `arguments` are padded.
  static constexpr bool fits(std::size_t operands, std::size_t arguments) {
    return operands <= inline_operands &&
           arguments + operands * (sizeof(void*) + packed_use_bytes) + sizeof(std::int64_t) <=
               sizeof(ColdSlot::payload);
  }
  /// Bytes of a block, or 0 if the slot has room.
  static std::size_t block_bytes(std::size_t operands, std::size_t arguments) {
    if (fits(operands, padded(arguments))) return 0;
    return padded(arguments) + operands * (sizeof(Use<support::Buffer*>) + sizeof(void*)) +
           sizeof(std::int64_t);
  }

  /// The places of operands in a slot where they fit.
  class Place {
   public:
    Place(std::byte* pointers, std::size_t operands)
        : pointers_(pointers), uses_(pointers + operands * sizeof(void*)), operands_(operands) {}
    /// In ascending order, and `end` behind the last.
    void put(std::size_t i, void* pointer, support::Buffer& buffer, Access access) const {
      PackedUse const packed =
          reinterpret_cast<std::uintptr_t>(&buffer) | static_cast<std::uintptr_t>(access);
      std::memcpy(pointers_ + i * sizeof pointer, &pointer, sizeof pointer);
      std::memcpy(uses_ + i * packed_use_bytes, &packed, sizeof packed);
    }
    void put(std::size_t i, support::Buffer& buffer, Access access) const {
      put(i, buffer.pointer, buffer, access);
    }
    /// Writes the rest of the payload.
    void end(ColdSlot& cold, std::span<std::byte const> arguments, std::int64_t tile) const {
      append(cold.payload, arguments.data(), arguments.size());
      append(uses_ + operands_ * packed_use_bytes, &tile, sizeof tile);
    }

   private:
    std::byte* const pointers_;
    std::byte* const uses_;
    std::size_t const operands_;
  };
  /// `arguments` are padded.
  static Place place(ColdSlot& cold, std::size_t arguments, std::size_t operands) {
    return {cold.payload + arguments, operands};
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

  /// Arguments of a task's body.
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
      for (std::size_t i = 0; i < count; ++i, behind += packed_use_bytes) {
        PackedUse packed;
        std::memcpy(&packed, behind, sizeof packed);  // with the bytes behind
        packed &= (PackedUse{1} << 8 * packed_use_bytes) - 1;
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
static_assert(Payload::fits(Payload::inline_operands, 0) &&
              !Payload::fits(Payload::inline_operands + 1, 0));

}  // namespace nntile::detail::ring
