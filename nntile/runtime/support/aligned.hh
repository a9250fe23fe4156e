#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Memory for buffers: the host's, aligned to a cache line, in huge pages where it is large.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#include <unistd.h>

#include "nntile/core/error.hh"
#include "nntile/core/place.hh"

namespace nntile::support {

[[noreturn, gnu::noinline]] inline void fail_place(char const* call) {
  throw ValueError(concat(call, ": this runtime has memory on the host only"));
}
/// Throws ValueError for a place that a runtime of the host lacks.
inline void check_host(char const* call, Place place) {
  if (place != host) [[unlikely]]
    fail_place(call);
}

/// Bytes of a cache line on x86 and most ARM; the alignment of every buffer.
inline constexpr std::size_t line_bytes = 64;
/// From here on memory is asked for in huge pages: first touch is 6 times as fast, and large tiles
/// miss no TLB.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Allocates at least `bytes`, aligned to 64 bytes or more, contents undefined; never null, also
/// for 0 bytes. Throws OutOfMemory that names the bytes.
inline void* allocate_aligned(std::size_t bytes) {
  void* pointer = nullptr;
  bool const huge = bytes >= 2 * huge_page_bytes;
  // A size beyond PTRDIFF_MAX is refused here, because checking allocators abort on it.
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX) - huge_page_bytes ||
      posix_memalign(&pointer, huge ? huge_page_bytes : line_bytes, bytes == 0 ? 1 : bytes) != 0)
    throw OutOfMemory(concat("allocate: cannot allocate ", bytes,
                             " bytes of host memory; free some, raise the limit of this process "
                             "(ulimit -v), or use smaller tensors"));
#if defined(__linux__)
  // Only whole huge pages inside the block; a refusal costs speed and nothing else.
  if (huge) (void)madvise(pointer, bytes & ~(huge_page_bytes - 1), MADV_HUGEPAGE);
#endif
  return pointer;
}

/// Bytes of memory of the machine; 0 if the system does not say.
inline std::size_t physical_memory() noexcept {
  long const pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages <= 0 || bytes <= 0
             ? 0
             : static_cast<std::size_t>(pages) * static_cast<std::size_t>(bytes);
}

/// Throws OutOfMemory, before any of it is taken, for `count` things that the machine's memory has
/// no room for. The two names begin the sentence.
inline void check_room(char const* call, char const* name, std::uint64_t count,
                       std::size_t bytes_each) {
  std::size_t const all = physical_memory();
  if (all != 0 && count > all / bytes_each)
    throw OutOfMemory(concat(call, name, " of ", count, " need ", bytes_each,
                             " bytes each, and the machine has ", all, " bytes of memory"));
}

inline void free_aligned(void* pointer) noexcept { std::free(pointer); }

}  // namespace nntile::support
