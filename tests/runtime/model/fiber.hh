// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Stacks that one thread of the system switches between.

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace nntile::test::model {

/// One routine and its stack, which is used again by the next routine.
class Fiber {
 public:
  Fiber() = default;
  Fiber(Fiber const&) = delete;
  Fiber& operator=(Fiber const&) = delete;

  /// Prepares body(), which does not return but leaves by `switch_to`.
  void prepare(std::function<void()> body) {
    body_ = std::move(body);
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    auto const self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&enter), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self & 0xffffffffu));
  }
  static void switch_to(ucontext_t& from, Fiber& to) { swapcontext(&from, &to.context_); }
  void switch_to(Fiber& to) { swapcontext(&context_, &to.context_); }
  void switch_to(ucontext_t& to) { swapcontext(&context_, &to); }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{1} << 18;

  static void enter(unsigned high, unsigned low) {
    auto const self = static_cast<std::uintptr_t>(high) << 32 | low;
    reinterpret_cast<Fiber*>(self)->body_();
  }

  ucontext_t context_{};
  std::unique_ptr<std::byte[]> stack_ = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  std::function<void()> body_;
};

}  // namespace nntile::test::model
