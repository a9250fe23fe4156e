#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A bound on the memory that a reader takes, counted by the sanitizer's hooks.

#include <sanitizer/allocator_interface.h>

#include <cstddef>
#include <string>

#include "tests/fuzz/check.hh"

namespace nntile::test {

/// While it lives, this process may take that many bytes more than it had when it began: a multiple
/// of an input's size, and a fixed sum for what does not depend on it.
class MemoryLimit {
 public:
  static constexpr std::size_t per_byte = 1024;
  static constexpr std::size_t fixed = std::size_t{1} << 20;

  explicit MemoryLimit(std::size_t input_bytes) {
    static int const hooked = __sanitizer_install_malloc_and_free_hooks(&taken, &given_back);
    must(hooked > 0, "the sanitizer takes hooks");
    live() = 0;
    limit() = fixed + per_byte * input_bytes;
  }
  MemoryLimit(MemoryLimit const&) = delete;
  MemoryLimit& operator=(MemoryLimit const&) = delete;
  ~MemoryLimit() { limit() = no_limit; }

 private:
  static constexpr std::size_t no_limit = ~std::size_t{0};

  static std::size_t& live() {
    static std::size_t bytes = 0;
    return bytes;
  }
  static std::size_t& limit() {
    static std::size_t bytes = no_limit;
    return bytes;
  }
  static void taken(void const volatile*, std::size_t bytes) {
    if (limit() == no_limit) return;
    live() += bytes;
    if (live() <= limit()) return;
    limit() = no_limit;
    must(false, "a reader takes memory in proportion to its input");
  }
  static void given_back(void const volatile* at) {
    if (limit() == no_limit) return;
    std::size_t const bytes = __sanitizer_get_allocated_size(const_cast<void const*>(at));
    live() -= bytes < live() ? bytes : live();
  }
};

}  // namespace nntile::test
