// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An op that notes where its kernel finds its operand.

#include <mutex>
#include <set>
#include <utility>

#include "tests/support/one_to_one.hh"

namespace nntile::test {

/// y = 2 x.
struct Spy : OneToOne {
  static constexpr char const* name = "spy";
  template <class T> static void reference(Args const& args, Buffers<Spy> const& buffers) {
    T const* const x = buffers.template at<T>(Operand::x);
    T* const y = buffers.template at<T>(Operand::y);
    for (Index i = 0; i < args.n; ++i) y[i] = static_cast<T>(x[i] + x[i]);
    std::lock_guard const guard(mutex);
    seen.insert(x);
  }
  /// The addresses since the last call, of all threads.
  static std::set<void const*> take() {
    std::lock_guard const guard(mutex);
    return std::exchange(seen, {});
  }

 private:
  inline static std::mutex mutex;
  inline static std::set<void const*> seen;
};

}  // namespace nntile::test
