#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The least that models Runtime, and Executor: what compiles against these asks for no more than
// the concepts.

#include <cstddef>
#include <cstdint>
#include <span>

#include "nntile/runtime/concept.hh"

namespace nntile {

/// Has the members of a runtime and does nothing: for compiling templates, not for running them.
class RuntimeArchetype {
 public:
  /// Copyable, and nothing else: no default, no comparison, no number.
  class Handle {
   public:
    Handle(Handle const&) = default;
    Handle& operator=(Handle const&) = default;

   private:
    friend class RuntimeArchetype;
    Handle() = default;
  };

  RuntimeArchetype() = default;
  RuntimeArchetype(RuntimeArchetype const&) = delete;
  RuntimeArchetype& operator=(RuntimeArchetype const&) = delete;

  Handle allocate(std::size_t, Place, Lifetime) { return {}; }
  Handle adopt(std::span<std::byte>, Place, Release) { return {}; }
  void retire(Handle) {}
  Event submit(Task<Handle> const&) { return {this, 1}; }
  void wait(Event) {}
  bool done(Event) { return true; }
  void wait_all() {}
  std::span<std::byte> lock(Handle, Access) { return {}; }
  void unlock(Handle) {}
  Workers workers() const { return {}; }
};
static_assert(Runtime<RuntimeArchetype>);

/// Has the members of an executor and runs nothing.
class ExecutorArchetype {
 public:
  ExecutorArchetype() = default;
  ExecutorArchetype(ExecutorArchetype const&) = delete;
  ExecutorArchetype& operator=(ExecutorArchetype const&) = delete;

  void spawn(Job) {}
  bool help() { return false; }
  Workers workers() const { return {}; }
  void on_idle(Job) {}
};
static_assert(Executor<ExecutorArchetype>);

}  // namespace nntile
