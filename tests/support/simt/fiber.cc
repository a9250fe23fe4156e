// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/simt/fiber.hh"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <vector>

#include "tests/support/sanitized.hh"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace nntile::test::simt {
namespace {

constexpr std::size_t stack_bytes = sanitized ? 256 << 10 : 64 << 10;

/// Stacks that are free, of this thread.
struct Stacks {
  std::vector<std::byte*> free;
  ~Stacks() {
    for (std::byte* const stack : free) munmap(stack, stack_bytes);
  }
  std::byte* take() {
    if (free.empty()) {
      void* const at = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) throw std::bad_alloc();
      return static_cast<std::byte*>(at);
    }
    std::byte* const stack = free.back();
    free.pop_back();
    return stack;
  }
};
thread_local Stacks stacks;

/// The fiber that runs, and where its thread goes on when that stops.
thread_local Fiber* running = nullptr;
#if defined(__x86_64__)
thread_local void* outside = nullptr;
#else
thread_local ucontext_t outside;
#endif
#if defined(__SANITIZE_ADDRESS__)
thread_local void const* outside_stack = nullptr;
thread_local std::size_t outside_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
thread_local void* outside_record = nullptr;
#endif

}  // namespace

#if defined(__x86_64__)
// What a call must leave as it was is on the stack that is left: six registers, and where to
// return.
asm(R"(
.text
.type nntile_simt_switch, @function
nntile_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size nntile_simt_switch, .-nntile_simt_switch
)");
extern "C" void nntile_simt_switch(void** left, void* entered) asm("nntile_simt_switch");
#endif

Fiber::Fiber(Body body, void* state) : body_(body), state_(state), stack_(stacks.take()) {
#if defined(__x86_64__)
  // As if `enter` had been called, and had left its place in `nntile_simt_switch`.
  auto** const end = reinterpret_cast<void**>(stack_ + stack_bytes);
  end[-2] = reinterpret_cast<void*>(&Fiber::enter);
  for (int i = 3; i <= 8; ++i) end[-i] = nullptr;
  top_ = end - 8;
#else
  auto* const context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack_;
  context->uc_stack.ss_size = stack_bytes;
  context->uc_link = nullptr;
  makecontext(context, &Fiber::enter, 0);
  top_ = context;
#endif
#if defined(__SANITIZE_THREAD__)
  record_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if !defined(__x86_64__)
  delete static_cast<ucontext_t*>(top_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(record_);
#endif
  stacks.free.push_back(stack_);
}

void Fiber::resume() {
  running = this;
#if defined(__SANITIZE_ADDRESS__)
  void* own = nullptr;
  __sanitizer_start_switch_fiber(&own, stack_, stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  outside_record = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(record_, 0);
#endif
#if defined(__x86_64__)
  nntile_simt_switch(&outside, top_);
#else
  swapcontext(&outside, static_cast<ucontext_t*>(top_));
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#endif
  running = nullptr;
}

void Fiber::stop() { running->leave(); }

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(ended_ ? nullptr : &record_, outside_stack, outside_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(outside_record, 0);
#endif
#if defined(__x86_64__)
  nntile_simt_switch(&top_, outside);
#else
  swapcontext(static_cast<ucontext_t*>(top_), &outside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(record_, &outside_stack, &outside_bytes);
#endif
}

void Fiber::enter() {
  Fiber& self = *running;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &outside_stack, &outside_bytes);
#endif
  self.body_(self.state_);
  self.ended_ = true;
  self.leave();
}

}  // namespace nntile::test::simt
