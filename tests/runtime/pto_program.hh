#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A PTO runtime with a few kernels over long numbers, for tests.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/pto.h"

namespace nntile::test {

class PtoProgram {
 public:
  enum KernelId : std::int32_t {
    set,
    set_two,
    step,
    copy,
    add,
    note_block,
    meet,
    note_thread,
    begin,
    finish,
    fail,
    speak,
    raise,
    call_back
  };

  /// A parameter by its first members.
  struct Param {
    ParamType type;
    void* buffer;
    std::size_t size;
    TaskRegion region{};
  };

  explicit PtoProgram(std::int32_t workers, std::int32_t max_tasks = 0, std::uint64_t heap_size = 0,
                      std::int32_t cube_workers = 0, std::int32_t vector_workers = 0) {
    PtoOptions const options{workers, max_tasks, heap_size, cube_workers, vector_workers, 0};
    rt_ = pto_create(&options, nullptr);
    if (rt_ == nullptr) throw std::runtime_error("no runtime");
    reg(set, "set", [](PtoCall const* call) -> std::int32_t { return put(call, 0, 0); });
    reg(set_two, "set_two",
        [](PtoCall const* call) -> std::int32_t { return put(call, 1, 0) + put(call, 2, 1); });
    reg(step, "step", [](PtoCall const* call) -> std::int32_t {
      long& x = at(call, 0);
      x = next(x);
      return 0;
    });
    reg(copy, "copy", [](PtoCall const* call) -> std::int32_t {
      at(call, 1) = at(call, 0);
      return 0;
    });
    reg(add, "add", [](PtoCall const* call) -> std::int32_t {
      at(call, 1) += at(call, 0);
      return 0;
    });
    reg(note_block, "note_block", [](PtoCall const* call) -> std::int32_t {
      static_cast<long*>(call->buffers[0])[call->block] += 100 * call->num_blocks + call->block + 1;
      return 0;
    });
    // Two blocks, each of which waits for the other to begin.
    reg(meet, "meet", [](PtoCall const* call) -> std::int32_t {
      auto& met = static_cast<PtoProgram*>(call->context)->met_;
      ++met;
      while (met < call->num_blocks) std::this_thread::yield();
      if (call->block == 0) at(call, 0) += 2;
      return 0;
    });
    // The thread that ran all of them; 1 where several did.
    reg(note_thread, "note_thread", [](PtoCall const* call) -> std::int32_t {
      auto& thread = *static_cast<std::uint64_t*>(call->buffers[0]);
      thread = thread == 0 || thread == this_thread() ? this_thread() : 1;
      return 0;
    });
    pto_register_async_kernel(
        rt_, begin, "begin",
        [](PtoCall const* call) -> std::int32_t {
          static_cast<PtoProgram*>(call->context)->begun_ = true;
          return 0;
        },
        this);
    pto_register_async_kernel(
        rt_, finish, "finish",
        [](PtoCall const* call) -> std::int32_t {
          at(call, 0) = 9;
          pto_task_complete(static_cast<PtoProgram*>(call->context)->rt_, call->task_id);
          return 0;
        },
        this);
    reg(fail, "fail", [](PtoCall const*) -> std::int32_t { return 3; });
    reg(speak, "speak", [](PtoCall const* call) -> std::int32_t {
      (void)std::snprintf(call->message, 192, "the disk is full");
      return 1;
    });
    reg(raise, "raise", [](PtoCall const*) -> std::int32_t { throw std::runtime_error("raised"); });
    reg(call_back, "call_back", [](PtoCall const* call) -> std::int32_t {
      Runtime* const rt = static_cast<PtoProgram*>(call->context)->rt_;
      at(call, 0) = pto_submit_task(rt, set, WORKER_CPU, nullptr, 0);
      pto_scope_begin(rt);
      at(call, 1) = pto_destroy(rt);
      return 0;
    });
  }
  PtoProgram(PtoProgram const&) = delete;
  PtoProgram& operator=(PtoProgram const&) = delete;
  ~PtoProgram() { pto_destroy(rt_); }

  operator Runtime*() const { return rt_; }
  Runtime* operator->() const { return rt_; }
  bool begun() const { return begun_; }

  /// Submits a task; `number` is what `set` puts.
  std::int32_t submit(std::int32_t kernel, std::initializer_list<Param> list, long number = 0,
                      std::int32_t worker = WORKER_CPU) const {
    std::vector<TaskParam> params;
    for (Param const& param : list)
      params.push_back({param.type, param.buffer, param.size, param.region, nullptr});
    if (kernel == set) params.push_back(value(number));
    return pto_submit_task(rt_, kernel, worker, params.data(),
                           static_cast<std::int32_t>(params.size()));
  }
  /// An operand that holds a number.
  TaskParam value(long number) const {
    numbers_.push_back(std::make_unique<long>(number));
    return {PARAM_INPUT, numbers_.back().get(), sizeof(long), {}, nullptr};
  }

  static TaskParam output(std::size_t bytes) { return {PARAM_OUTPUT, nullptr, bytes, {}, nullptr}; }

  static std::uint64_t this_thread() {
    return std::hash<std::thread::id>()(std::this_thread::get_id());
  }

  static long next(long x) {  // of steps that do not commute with others
    return static_cast<long>(static_cast<unsigned long>(x) * 6364136223846793005u + 1);
  }
  static long stepped(long x, int times) {
    for (int i = 0; i < times; ++i) x = next(x);
    return x;
  }

 private:
  static long& at(PtoCall const* call, int i) { return *static_cast<long*>(call->buffers[i]); }
  /// Of `set`: the number comes last; of `set_two`: first.
  static std::int32_t put(PtoCall const* call, int i, long more) {
    at(call, i) = at(call, i == 0 ? call->num_buffers - 1 : 0) + more;
    return 0;
  }
  void reg(std::int32_t id, char const* name, PtoKernel kernel) {
    pto_register_kernel(rt_, id, name, kernel, this);
  }

  Runtime* rt_ = nullptr;
  std::atomic<bool> begun_{false};
  std::atomic<std::int32_t> met_{0};
  mutable std::vector<std::unique_ptr<long>> numbers_;
};

}  // namespace nntile::test
