#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Codelets of runs from texts: they touch nothing but the bytes of their operands.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "nntile/core/region.hh"
#include "nntile/io/transcript.hh"

namespace nntile::test {

/// The operand of a task, from its first byte on. A task's arguments begin with the address of its
/// list.
struct TouchedOperand {
  Access access;
  Region region;
};
struct TouchedOperands {
  std::vector<TouchedOperand> list;
  std::uint64_t task = 0;
};

/// Writes what follows from the task and the bytes that it reads. Tasks that accumulate, or write
/// disjoint bytes, do alike in any order; what has no order is not touched.
inline Status touch_operands(KernelCall const& call) noexcept {
  TouchedOperands const* of;
  std::memcpy(&of, call.arguments, sizeof of);
  auto const each_byte = [&](std::size_t operand, auto visit) {
    auto* const first = static_cast<unsigned char*>(call.buffers[operand]);
    each_run(of->list[operand].region, [&](std::size_t begin, std::size_t end) {
      for (std::size_t at = begin; at < end; ++at) visit(first[at]);
    });
  };
  std::uint64_t sum = of->task + 1;
  for (std::size_t i = 0; i < of->list.size(); ++i)
    if (of->list[i].access == Access::read || of->list[i].access == Access::update)
      each_byte(i, [&](unsigned char byte) { sum = 31 * sum + byte; });
  for (std::size_t i = 0; i < of->list.size(); ++i)
    each_byte(i, [&](unsigned char& byte) {
      Access const access = of->list[i].access;
      if (access == Access::write || access == Access::update)
        byte = static_cast<unsigned char>((sum = 31 * sum + 7) >> 8);
      if (access == Access::accumulate) ++byte;
      if (access == Access::write_disjoint)
        std::atomic_ref(byte).store(0xdd, std::memory_order_relaxed);
    });
  return {};
}
inline Status refuse_operands(KernelCall const&) noexcept { return {"it broke"}; }

inline constexpr Codelet touch_codelet{"touch", &touch_operands},
    refuse_codelet{"refuse", &refuse_operands};
inline std::vector<io::NamedCodelet> const& touching_codelets() {
  static std::vector<io::NamedCodelet> const all{{"touch", &touch_codelet},
                                                 {"re fuse%", &refuse_codelet}};
  return all;
}

}  // namespace nntile::test
