// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Kernels on the emulator against those of the CPU, bit for bit.

#include <cstdint>
#include <string>

#include "kernels/cuda/launch.hh"
#include "nntile/ops/kv_cache_append.hh"
#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"
#include "tests/support/sanitized.hh"
#include "tests/support/simt/runtime.hh"
#include "tests/support/skip.hh"

namespace nntile::test {

/// Whether a result of the case has elements.
inline bool writes_something(OpCase const& c) {
  Operands const operands = visible(c);
  if (c.op == &op_info<ops::KvCacheAppend>) return element_count(c.shapes[0]) > 0;
  for (std::size_t o = 0; o < operands.size(); ++o)
    if (writes(operands[o].access) && element_count(c.shapes[o]) > 0) return true;
  return false;
}

/// CHECKs that a case has the CPU's bits, for each dtype that has a kernel; how many had.
inline int check_bits(OpCase const& c, Cuts const& cuts = {}) {
  int checked = 0;
  for (DType const element : c.op->dtypes) {
    if (on_device(c.op->name, element, c.types(element).second) == nullptr) continue;
    // What is stored as fp32 runs its code: once is enough.
    bool const alias = element != DType::fp32 && is_float(element) && size_of(element) == 4;
    if (alias && !(cuts.empty() && c.groups.empty())) continue;
    auto const operands = make_operands(c, element);
    auto const want = run_kernel(c, element, operands, {.cuts = cuts, .isa = Isa::v3});
    for (std::uint64_t seed = 1; seed <= (alias || sanitized ? 1 : 2); ++seed) {
      simt::set_seed(seed);
      auto const launches = simt::counts().launches;
      auto const got =
          run_kernel(c, element, operands, {.cuts = cuts, .isa = Isa::v3, .runtime = "simt"});
      std::string text = c.op->name;
      for (Shape const& shape : c.shapes) text += concat(" ", to_string(shape));
      INFO(text << " " << name_of(element) << " seed " << seed);
      CHECK(difference(c, got, want) == "");
      CHECK((!writes_something(c) || simt::counts().launches > launches));
    }
    ++checked;
  }
  return checked;
}

/// What kernels are told of their device, while it lives.
struct Multiprocessors {
  explicit Multiprocessors(int count) { simt::set_multiprocessors(count); }
  ~Multiprocessors() { simt::set_multiprocessors(1); }
};

/// Without AVX2 there are no kernels of the CPU with these bits.
inline bool comparable() {
  if (kernels::available(Isa::v3)) return true;
  skip("this CPU has no FMA");
  return false;
}

}  // namespace nntile::test
