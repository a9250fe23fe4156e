#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The memory of emulated devices: addresses that fault, and the bytes that they stand for.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/place.hh"

namespace nntile::testing {

/// Bytes on the heap, aligned to 64, so that an address sanitizer sees what is touched beside them.
/// They hold a pattern at first that is no number.
class EmulatedBytes {
 public:
  /// Throws OutOfMemory.
  explicit EmulatedBytes(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(
            ::operator new(bytes == 0 ? 1 : bytes, alignment, std::nothrow))) {
    if (bytes_ == nullptr)
      throw OutOfMemory(concat("emulated device: the host has no ", bytes, " bytes"));
    std::memset(bytes_, 0xff, bytes);
  }
  EmulatedBytes(EmulatedBytes const&) = delete;
  EmulatedBytes& operator=(EmulatedBytes const&) = delete;
  ~EmulatedBytes() { release(get()); }

  std::byte* get() const noexcept { return bytes_; }
  /// The bytes, which the caller releases.
  std::byte* take() noexcept {
    std::byte* const bytes = bytes_;
    bytes_ = nullptr;
    return bytes;
  }
  static void release(void* bytes) noexcept { ::operator delete(bytes, alignment); }

 private:
  static constexpr std::align_val_t alignment{64};
  std::byte* bytes_;
};

/// The memory of several devices, in one range of addresses that nothing can be read from or
/// written to. Every member may be called from any thread.
class EmulatedMemory {
 public:
  /// Throws OutOfMemory: no address space.
  EmulatedMemory(int devices, std::size_t capacity)
      : capacity_(capacity), used_(static_cast<std::size_t>(devices)), peak_(used_.size()) {
    void* const at =
        mmap(nullptr, address_space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw OutOfMemory(concat("emulated device: no address space of ", address_space,
                               " bytes; raise the limit of this process (ulimit -v)"));
    first_ = static_cast<std::byte*>(at);
    next_ = first_;
  }
  EmulatedMemory(EmulatedMemory const&) = delete;
  EmulatedMemory& operator=(EmulatedMemory const&) = delete;
  ~EmulatedMemory() { (void)munmap(first_, address_space); }

  /// Memory of a device, or pinned memory of the host. Throws OutOfMemory.
  void* allocate(std::size_t bytes, Place place) {
    std::lock_guard const lock(mutex_);
    if (place.kind != Place::Kind::device) return EmulatedBytes(bytes).take();
    std::size_t& used = used_[static_cast<std::size_t>(place.device)];
    if (bytes > capacity_ - used)
      throw OutOfMemory(concat("allocate: ", bytes, " bytes on device ", place.device, ", where ",
                               used, " of ", capacity_,
                               " bytes are taken; free some, evict to the "
                               "host, or use smaller tensors"));
    std::byte* const address = take_addresses(bytes);
    blocks_.try_emplace(address, address, bytes, place.device);
    used += bytes;
    std::size_t& peak = peak_[static_cast<std::size_t>(place.device)];
    if (used > peak) peak = used;
    return address;
  }
  /// Returns why that is an error: a job uses the memory, which stays; or "".
  std::string free(void* pointer, Place place) noexcept {
    std::lock_guard const lock(mutex_);
    if (place.kind != Place::Kind::device) return EmulatedBytes::release(pointer), "";
    auto const found = blocks_.find(static_cast<std::byte*>(pointer));
    if (found == blocks_.end()) return "memory that it did not give was freed";
    used_[static_cast<std::size_t>(found->second.device)] -= found->second.size;
    bool const in_use = found->second.jobs != 0;
    auto block = blocks_.extract(found);
    if (in_use) freed_in_use_.push_back(std::move(block));
    return in_use ? "memory was freed while a job used it" : "";
  }

  /// The byte's address while a job uses it, until `release`; an address of the host is that of its
  /// byte; null: freed, or never allocated.
  void* use(void* pointer) noexcept {
    if (!contains(pointer)) return pointer;
    std::lock_guard const lock(mutex_);
    Block* const block = block_of(pointer);
    if (block == nullptr) return nullptr;
    ++block->jobs;
    return block->bytes.get() + (static_cast<std::byte*>(pointer) - block->address);
  }
  void release(void* pointer) noexcept {
    if (!contains(pointer)) return;
    std::lock_guard const lock(mutex_);
    if (Block* const block = block_of(pointer)) --block->jobs;
  }

  /// The same without a claim; the memory lives.
  void* at(void* pointer) noexcept {
    void* const byte = use(pointer);
    release(pointer);
    return byte;
  }

  /// Whether it is an address of a device.
  bool contains(void const* pointer) const noexcept {
    auto const* const byte = static_cast<std::byte const*>(pointer);
    return byte >= first_ && byte < first_ + address_space;
  }
  /// The device of an address; of the host all memory passes for pinned.
  Place place_of(void const* pointer) const {
    if (!contains(pointer)) return pinned;
    std::lock_guard const lock(mutex_);
    Block const* const block = const_cast<EmulatedMemory*>(this)->block_of(pointer);
    return nntile::device(block == nullptr ? -1 : block->device);
  }
  /// "byte 16 of 4096 bytes on device 0", for a handler of faults; it takes no lock.
  std::string describe(void const* pointer) const {
    if (!contains(pointer)) return "no address of a device";
    Block const* const block = const_cast<EmulatedMemory*>(this)->block_of(pointer);
    if (block == nullptr) return "freed memory of a device";
    return concat("byte ", static_cast<std::byte const*>(pointer) - block->address, " of ",
                  block->size, " bytes on device ", block->device);
  }
  std::size_t used(int device) const {
    std::lock_guard const lock(mutex_);
    return used_[static_cast<std::size_t>(device)];
  }
  /// The most bytes that were in use at one time.
  std::size_t peak(int device) const {
    std::lock_guard const lock(mutex_);
    return peak_[static_cast<std::size_t>(device)];
  }

 private:
  // Far above what is in use at a time: an address that was freed is not given again for long.
  static constexpr std::size_t address_space = std::size_t{1} << 36;
  static constexpr std::size_t page = 4096;

  struct Block {
    Block(std::byte* at, std::size_t count, int of)
        : address(at), size(count), device(of), bytes(count) {}
    std::byte* address;
    std::size_t size;
    int device;
    int jobs = 0;  // that use it now
    EmulatedBytes bytes;
  };

  /// Whole pages, and one behind them that is never used.
  static std::size_t span(std::size_t bytes) noexcept { return (bytes / page + 2) * page; }
  std::byte* take_addresses(std::size_t bytes) {
    for (int round = bytes < address_space ? 0 : 2; round < 2; ++round) {
      auto above = blocks_.lower_bound(next_);
      for (; above != blocks_.end() && above->first < next_ + span(bytes); ++above)
        next_ = above->first + span(above->second.size);
      if (next_ + span(bytes) <= first_ + address_space)
        return std::exchange(next_, next_ + span(bytes));
      next_ = first_;
    }
    throw OutOfMemory(concat("emulated device: no addresses for ", bytes, " bytes"));
  }
  Block* block_of(void const* pointer) noexcept {
    auto const* const byte = static_cast<std::byte const*>(pointer);
    auto above = blocks_.upper_bound(const_cast<std::byte*>(byte));
    if (above == blocks_.begin()) return nullptr;
    Block& block = std::prev(above)->second;
    return byte <= block.address + block.size ? &block : nullptr;
  }

  std::size_t const capacity_;
  mutable std::mutex mutex_;
  std::byte* first_ = nullptr;
  std::byte* next_ = nullptr;
  std::map<std::byte*, Block> blocks_;
  std::vector<std::map<std::byte*, Block>::node_type> freed_in_use_;
  std::vector<std::size_t> used_;
  std::vector<std::size_t> peak_;
};

}  // namespace nntile::testing
