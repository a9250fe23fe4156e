// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The policy of a ring that is explored: everything is as small as can be, and ids wrap.

#include "nntile/runtime/ring/policy.hh"
#include "tests/runtime/model/atomic.hh"
#include "tests/runtime/model/plain.hh"
#include "tests/runtime/model/threads.hh"

namespace nntile::test::model {

template <std::uint32_t Window> struct Policy : RingPolicy {
  template <class T> using Atomic = model::Atomic<T>;
  template <class T> using Plain = model::Plain<T>;
  using Mutex = model::Mutex;
  using Condition = model::Condition;
  using Thread = model::Thread;
  struct Clock {
    static std::int64_t nanoseconds() { return 0; }
    static void yield_core() { Exploration::current->yield(); }
  };
  struct Sizes : RingSizes {
    static constexpr std::uint32_t window = Window;
    static constexpr std::uint32_t child_window = 2;
    static constexpr std::uint32_t larger_child_window = 4;
    static constexpr std::uint32_t deque = 2;
    static constexpr std::uint32_t argument_bytes = 256;
    static constexpr std::uint32_t flights = 1;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 2;  // ids wrap
    static constexpr std::int64_t spin_ns = 0;
    static constexpr std::uint32_t timed_every = 1;  // every body is tiny
    static constexpr std::uint32_t most_rounds = 0;
    static constexpr int yields = 0;  // an idle thread sleeps at once
  };
};
static_assert(RingPolicyType<Policy<2>>);

}  // namespace nntile::test::model
