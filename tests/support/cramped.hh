// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The least that kernels are promised: threads of 64 KiB of stack, tiles that end with their last
// element and workspaces that end where the codelet says, both before a page without access.

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <new>
#include <vector>

#include "nntile/core/threads.hh"
#include "nntile/runtime/engine/engine.hh"
#include "tests/support/sanitized.hh"

namespace nntile::test {

/// Sanitizers put much beside each variable.
inline constexpr std::size_t small_stack_bytes = sanitized ? 1 << 20 : 64 << 10;

/// Calls `body` on a thread of so much stack, with a guard page below, and joins it.
template <class Body> void call_on_stack_of(std::size_t bytes, Body&& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  auto const call = [](void* state) -> void* { return (*static_cast<Body*>(state))(), nullptr; };
  pthread_t thread;
  if (pthread_create(&thread, &attributes, call, &body) != 0) throw std::bad_alloc();
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

/// Memory that ends before a page without access, aligned as its size is.
class FencedMemory {
 public:
  static void* allocate(std::size_t bytes) {
    std::size_t const whole = whole_pages(bytes);
    void* const at =
        mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    std::byte* const end = static_cast<std::byte*>(at) + whole;
    mprotect(end, page, PROT_NONE);
    return end - bytes;
  }
  static void free(void* pointer, std::size_t bytes) noexcept {
    std::size_t const whole = whole_pages(bytes);
    munmap(static_cast<std::byte*>(pointer) + bytes - whole, whole + page);
  }

 private:
  static constexpr std::size_t page = 4096;
  static std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }
};

/// One thread of little stack.
class SmallStackExecutor {
 public:
  explicit SmallStackExecutor(RuntimeOptions const& = {}) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, small_stack_bytes);
    auto const call = [](void* self) -> void* {
      return static_cast<SmallStackExecutor*>(self)->work(), nullptr;
    };
    if (pthread_create(&thread_, &attributes, call, this) != 0) throw std::bad_alloc();
    pthread_attr_destroy(&attributes);
  }
  SmallStackExecutor(SmallStackExecutor const&) = delete;
  SmallStackExecutor& operator=(SmallStackExecutor const&) = delete;
  ~SmallStackExecutor() {
    spawn({});
    pthread_join(thread_, nullptr);
  }

  void spawn(Job job) {
    detail::Lock const hold(mutex_);
    jobs_.push_back(job);
    changed_.notify_one();
  }
  bool help() { return false; }
  Workers workers() const { return {}; }
  void on_idle(Job) {}
  void* allocate(std::size_t bytes, Place) { return FencedMemory::allocate(bytes); }
  void free(void* pointer, std::size_t bytes, Place) { FencedMemory::free(pointer, bytes); }

 private:
  void work() {
    for (;;) {
      Job job;
      {
        detail::Lock hold(mutex_);
        changed_.wait(hold, [this] { return !jobs_.empty(); });
        job = jobs_.front();
        jobs_.pop_front();
      }
      if (job.call == nullptr) return;
      job();
    }
  }

  detail::Mutex mutex_;
  detail::Condition changed_;
  std::deque<Job> jobs_;
  pthread_t thread_;
};

/// Runs bodies on a small stack and fenced tiles, each with exactly the workspace that its codelet
/// states, all of it NaN.
class Cramped : public Engine<SmallStackExecutor> {
  using Base = Engine<SmallStackExecutor>;

 public:
  static constexpr std::string_view runtime_name = "cramped";

  explicit Cramped(RuntimeOptions const& = {})
      : end_(static_cast<std::byte*>(FencedMemory::allocate(max_workspace_bytes)) +
             max_workspace_bytes) {}
  ~Cramped() {
    try {
      wait_all();
    } catch (Error const&) {  // the test's to report
    }
    FencedMemory::free(end_ - max_workspace_bytes, max_workspace_bytes);
  }

  Event submit(Task<DataHandle> const& task) {
    Inner const inner{task.codelet, end_};
    std::vector<std::byte> arguments(sizeof inner + task.arguments.size());
    std::memcpy(arguments.data(), &inner, sizeof inner);
    if (!task.arguments.empty())
      std::memcpy(arguments.data() + sizeof inner, task.arguments.data(), task.arguments.size());
    return Base::submit({&cramped_codelet, task.uses, arguments, task.hints, task.label});
  }

 private:
  struct alignas(16) Inner {
    Codelet const* codelet;
    std::byte* workspace_end;
  };

  static Status run(KernelCall const& call) noexcept {
    Inner inner;
    std::memcpy(&inner, call.arguments, sizeof inner);
    std::size_t const bytes = inner.codelet->workspace;
    std::byte* const workspace = bytes == 0 ? nullptr : inner.workspace_end - bytes;
    if (bytes != 0) std::memset(workspace, 0xff, bytes);
    auto const* const arguments = static_cast<std::byte const*>(call.arguments) + sizeof inner;
    return inner.codelet->cpu({call.buffers, arguments, call.text, workspace});
  }
  static constexpr Codelet cramped_codelet{"cramped", &run, nullptr, nullptr};

  std::byte* end_;
};
static_assert(LendingRuntime<Cramped>);

}  // namespace nntile::test
