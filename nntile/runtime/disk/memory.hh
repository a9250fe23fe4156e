#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Memory in a file: addresses that nothing can be read from or written to stand for its bytes.

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/disk/file.hh"

namespace nntile::detail::on_disk {

/// Bytes of a file in use, at most in use at a time, and of the file.
struct Use {
  std::size_t used = 0, peak = 0, file = 0;
};

/// Blocks of a file. The byte at an offset has the address of that distance from the first one.
/// Blocks are whole pages; a new one takes the first gap that has room, or lengthens the file,
/// which ends with its last block. Every member may be called from any thread.
template <class File> class Memory {
 public:
  /// `capacity` in bytes; 0: what the file system has left. Throws OutOfMemory, DeviceError.
  Memory(std::string directory, std::size_t capacity)
      : file_(std::move(directory)), capacity_(capacity != 0 ? capacity : room(file_)) {
    // Of a range of 0 bytes there is no address.
    reserved_ = span(std::min(capacity_, SIZE_MAX - page));
    void* const at =
        mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw OutOfMemory(concat("disk: no address space of ", reserved_,
                               " bytes; raise the limit of this process (ulimit -v), or give the "
                               "disk less capacity"));
    first_ = static_cast<std::byte*>(at);
  }
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  ~Memory() { (void)munmap(first_, reserved_); }

  /// Throws OutOfMemory: beyond the capacity, or a full disk; DeviceError: another error of it.
  void* allocate(std::size_t bytes) {
    Lock guard(mutex_);
    std::string const asked = concat("allocate: ", bytes, " bytes on the disk, where ", used_,
                                     " of ", capacity_, " bytes are taken");
    if (bytes > capacity_ - std::min(capacity_, used_)) throw OutOfMemory(asked + advice);
    std::size_t const at = place_for(span(bytes));
    std::size_t const begin = at == 0 ? 0 : end_of(blocks_[at - 1]);
    if (begin + span(bytes) > reserved_) throw OutOfMemory(asked + ", in pieces" + advice);
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at), Block{begin, bytes});
    if (int const code = lengthen(end_of(blocks_.back())); code != 0) {
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
      std::string const text = concat(asked, ": ", file_.name(), ": ", reason_of(code));
      if (code == ENOSPC || code == EDQUOT || code == EFBIG) throw OutOfMemory(text);
      throw DeviceError(text);
    }
    if (at + 1 != blocks_.size()) gaps_ -= span(bytes);
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return first_ + begin;
  }
  void free(void* pointer) noexcept {
    Lock guard(mutex_);
    auto const at = find(pointer);
    if (at == blocks_.end()) return;
    used_ -= at->bytes;
    gaps_ += span(at->bytes);
    blocks_.erase(at);
    std::size_t const end = blocks_.empty() ? 0 : end_of(blocks_.back());
    if (end == length_) return;
    gaps_ -= length_ - end;
    file_.shrink(length_ = end);
  }

  /// The offset of `bytes` bytes from an address on; false: some of them are in no block.
  bool locate(void const* pointer, std::size_t bytes, std::uint64_t& offset) noexcept {
    Lock guard(mutex_);
    auto const at = find(pointer);
    if (at == blocks_.end()) return false;
    offset = static_cast<std::uint64_t>(static_cast<std::byte const*>(pointer) - first_);
    return offset + bytes <= at->begin + at->bytes;
  }
  bool contains(void const* pointer) const noexcept {
    auto const* const byte = static_cast<std::byte const*>(pointer);
    return byte >= first_ && byte < first_ + reserved_;
  }
  Use use() noexcept {
    Lock guard(mutex_);
    return {used_, peak_, length_};
  }
  File& file() noexcept { return file_; }

 private:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t unknown_room = std::size_t{1} << 40;
  static constexpr std::size_t most = std::size_t{1} << 45;  // of 2^47 bytes of addresses
  static constexpr char const* advice = "; free some, give it more, or keep more on the host";

  struct Block {
    std::size_t begin, bytes;
  };
  static std::size_t span(std::size_t bytes) noexcept {
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
  }
  static std::size_t end_of(Block const& block) noexcept { return block.begin + span(block.bytes); }
  static std::size_t room(File const& file) noexcept {
    std::uint64_t const room = file.room();
    return static_cast<std::size_t>(std::min<std::uint64_t>(room == 0 ? unknown_room : room, most));
  }

  /// The number of the block before which there is a gap of that many bytes, or of all.
  std::size_t place_for(std::size_t bytes) const noexcept {
    if (gaps_ < bytes) return blocks_.size();
    std::size_t end = 0;
    for (std::size_t i = 0; i < blocks_.size(); end = end_of(blocks_[i++]))
      if (blocks_[i].begin - end >= bytes) return i;
    return blocks_.size();
  }
  int lengthen(std::size_t end) noexcept {
    if (end <= length_) return 0;
    int const code = file_.grow(length_, end);
    if (code == 0) length_ = end;
    return code;
  }
  typename std::vector<Block>::iterator find(void const* pointer) noexcept {
    if (!contains(pointer)) return blocks_.end();
    auto const offset = static_cast<std::size_t>(static_cast<std::byte const*>(pointer) - first_);
    auto const above =
        std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                         [](std::size_t at, Block const& block) { return at < block.begin; });
    if (above == blocks_.begin()) return blocks_.end();
    auto const at = above - 1;
    return offset < end_of(*at) ? at : blocks_.end();
  }

  File file_;
  std::size_t const capacity_;
  std::size_t reserved_ = 0;
  std::byte* first_ = nullptr;
  Mutex mutex_;
  std::vector<Block> blocks_;  // by offset
  std::size_t length_ = 0;     // of the file
  std::size_t gaps_ = 0;       // bytes between blocks
  std::size_t used_ = 0, peak_ = 0;
};

}  // namespace nntile::detail::on_disk
