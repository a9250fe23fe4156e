#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Kernels and tasks of the PTO calls: what a body needs to call a C function, and what is kept of a
// task by its id.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/blocks.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/ring/pto.h"

namespace nntile::detail::pto {

/// Progress of a task's body, for threads that do not drive. `open`: an asynchronous one that
/// nothing has ended.
enum class Phase : std::uint8_t { none, submitted, running, open, closed };

/// Record of the task that has an id.
struct TaskRecord {
  Event event;
  Event last_consumer;  // of what it wrote
  Completion token;     // from `open` on
  std::atomic<Phase> phase{Phase::none};
};

/// A registered function. Its codelets are known by address.
struct Kernel {
  std::string name;
  PtoKernel call;
  void* context;
  Codelet codelet;
  BlockCodelet in_blocks;  // not of an asynchronous one
};

/// The arguments of a body; behind them lie `operands` addresses and as many sizes.
struct TaskArguments {
  Kernel const* kernel;
  TaskRecord* record;
  std::int32_t task_id;
  std::int32_t blocks;
  std::int32_t operands;

  static std::size_t bytes(std::size_t operands) {
    return sizeof(TaskArguments) + operands * (sizeof(void*) + sizeof(std::size_t));
  }
  void* const* buffers() const { return reinterpret_cast<void* const*>(this + 1); }
  std::size_t const* sizes() const {
    return reinterpret_cast<std::size_t const*>(buffers() + operands);
  }
};
static_assert(sizeof(TaskArguments) % alignof(std::size_t) == 0 &&
              sizeof(void*) == sizeof(std::size_t));

/// Lets no words of a kernel's pass for the library's mark of a task that was cancelled.
inline void keep_failure(char* text) noexcept {
  if (text[0] == cancelled_mark) text[0] = ' ';
}

/// Calls the kernel for the blocks from `first` to before `end`, until one fails. No exception
/// leaves it.
inline Status run_blocks(TaskArguments const& task, std::int32_t first, std::int32_t end,
                         char* text) noexcept {
  Kernel const& kernel = *task.kernel;
  PtoCall call{kernel.context, task.buffers(), task.sizes(), task.operands,
               task.task_id,   first,          task.blocks,  text};
  for (; call.block < end; ++call.block) {
    text[0] = 0;  // not the text of a block before, which succeeded
    try {
      std::int32_t const result = kernel.call(&call);
      if (result == 0) continue;
      if (text[0] == 0)
        (void)std::snprintf(text, status_text_bytes, "kernel %s returned %d in block %d of %d",
                            kernel.name.c_str(), result, call.block, call.num_blocks);
    } catch (std::exception const& error) {
      (void)std::snprintf(text, status_text_bytes, "%s", error.what());
    } catch (...) {
      (void)std::snprintf(text, status_text_bytes, "the kernel threw an exception");
    }
    keep_failure(text);
    return {text};
  }
  return {};
}

inline Status run_kernel(KernelCall const& call) noexcept {
  auto const& task = *static_cast<TaskArguments const*>(call.arguments);
  task.record->phase.store(Phase::running, std::memory_order_release);
  return run_blocks(task, 0, 1, call.text);
}
inline Status run_kernel_block(KernelCall const& call, nntile::Block block) noexcept {
  auto const& task = *static_cast<TaskArguments const*>(call.arguments);
  task.record->phase.store(Phase::running, std::memory_order_release);
  auto const index = static_cast<std::int32_t>(block.index);
  return run_blocks(task, index, index + 1, call.text);
}

/// Ends the phase `open`; true for one caller only.
inline bool close(TaskRecord& record) noexcept {
  Phase expected = Phase::open;
  return record.phase.compare_exchange_strong(expected, Phase::closed, std::memory_order_acq_rel);
}

/// Starts an asynchronous kernel. Its task may end before this returns.
inline Status start_kernel(KernelCall const& call, Completion token) noexcept {
  auto const& task = *static_cast<TaskArguments const*>(call.arguments);
  TaskRecord& record = *task.record;
  record.token = token;
  record.phase.store(Phase::open, std::memory_order_release);
  Status const status = run_blocks(task, 0, task.blocks, call.text);
  return status.ok() || close(record) ? status : Status{};
}

/// The kernels of a runtime, by their ids.
class KernelTable {
 public:
  /// Throws ValueError: the id, or a function that is null.
  void add(std::int32_t id, char const* name, PtoKernel call, void* context, bool asynchronous) {
    if (id < 0 || id >= PTO_MAX_KERNELS)
      throw ValueError(concat("pto_register_kernel: id ", id, " where 0 to ",
                              int{PTO_MAX_KERNELS} - 1, " are possible"));
    if (call == nullptr || name == nullptr)
      throw ValueError(concat("pto_register_kernel: kernel ", id, " has no ",
                              name == nullptr ? "name" : "function"));
    auto const place = static_cast<std::size_t>(id);
    if (place >= kernels_.size()) kernels_.resize(place + 1);
    if (kernels_[place] != nullptr)
      throw ValueError(concat("pto_register_kernel: id ", id, " is kernel ", kernels_[place]->name,
                              "'s, and cannot be ", name, "'s too"));
    auto kernel = std::make_unique<Kernel>(Kernel{name, call, context, {}, {}});
    kernel->codelet.name = kernel->name.c_str();
    if (asynchronous)
      kernel->codelet.async = start_kernel;
    else
      kernel->codelet.cpu = run_kernel;
    if (!asynchronous)
      kernel->in_blocks = nntile::in_blocks<&run_kernel_block>(kernel->codelet.name);
    kernels_[place] = std::move(kernel);
  }

  /// Throws ValueError: none has that id.
  Kernel const& operator[](std::int32_t id) const {
    auto const place = static_cast<std::size_t>(id);
    if (id < 0 || place >= kernels_.size() || kernels_[place] == nullptr)
      throw ValueError(concat("pto_submit_task: no kernel has id ", id,
                              ": name it by pto_register_kernel first"));
    return *kernels_[place];
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

/// Ids and what they name. They are given in turn; one whose task has not ended is passed over.
class TaskTable {
 public:
  /// Throws ValueError: `count`.
  explicit TaskTable(std::int32_t count) : count_(check(count)) {
    auto const size = static_cast<std::size_t>(count_);
    records_ = std::make_unique<TaskRecord[]>(size);
    descriptors_ = std::make_unique<TaskDescriptor[]>(size + codes);
  }

  /// By id; those of negative ids, which errors give, are zeros.
  TaskDescriptor* descriptors() const { return descriptors_.get() + codes; }
  TaskRecord& operator[](std::int32_t id) { return records_[static_cast<std::size_t>(id)]; }

  /// The next id that is free by ended(record); -1 if none is.
  template <class Ended> std::int32_t next(Ended ended) {
    for (std::int32_t i = 0; i < count_; ++i) {
      std::int32_t const id = (next_ + i) % count_;
      TaskRecord const& record = (*this)[id];
      if (record.phase.load(std::memory_order_relaxed) == Phase::none || ended(record)) return id;
    }
    return -1;
  }
  void take(std::int32_t id) { next_ = (id + 1) % count_; }

  /// The task that has this id. Any thread. Throws ValueError: none ever had it.
  TaskRecord& find(std::int32_t id, char const* call) {
    if (id < 0 || id >= count_ || (*this)[id].phase.load(std::memory_order_acquire) == Phase::none)
      throw ValueError(concat(call, ": no task has id ", id,
                              id < 0 ? ", which stands for one that could not be submitted"
                                     : ": pto_submit_task gives them"));
    return (*this)[id];
  }

 private:
  static constexpr std::int32_t most = 1 << 24;
  static constexpr std::size_t codes = 16;

  static std::int32_t check(std::int32_t count) {
    if (count < 1 || count > most)
      throw ValueError(
          concat("pto_create: max_tasks of ", count, " where 1 to ", most, " are possible"));
    return count;
  }

  std::int32_t count_;
  std::int32_t next_ = 0;
  std::unique_ptr<TaskRecord[]> records_;
  std::unique_ptr<TaskDescriptor[]> descriptors_;
};

}  // namespace nntile::detail::pto
