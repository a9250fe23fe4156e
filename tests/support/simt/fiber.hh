// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Threads that one thread runs in turn, each on a stack of its own. Sanitizers are told.

#include <cstddef>

namespace nntile::test::simt {

/// A function that can stop amid its calls and be resumed, by the thread that made it. What is on
/// its stack when it is destroyed is not: it holds nothing that must be.
class Fiber {
 public:
  using Body = void (*)(void* state);

  /// Takes a stack of `stack_bytes` from those that earlier fibers left. Throws std::bad_alloc.
  Fiber(Body body, void* state);
  Fiber(Fiber const&) = delete;
  Fiber& operator=(Fiber const&) = delete;
  ~Fiber();

  /// Runs the body until it stops or returns. Called outside fibers, of one that has not ended.
  void resume();
  /// Returns from `resume`. Called by the body.
  static void stop();
  bool ended() const { return ended_; }

 private:
  static void enter();
  void leave();

  Body body_;
  void* state_;
  std::byte* stack_;
  void* top_;
  void* record_ = nullptr;  // a sanitizer's
  bool ended_ = false;
};

}  // namespace nntile::test::simt
