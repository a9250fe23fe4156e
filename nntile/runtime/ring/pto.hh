#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The PTO calls (pto.h) in C++, over a ring of any policy. Errors are thrown; who exports C symbols
// turns them into codes (pto_errors.hh).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>

#include "nntile/core/inplace_vector.hh"
#include "nntile/core/region.hh"
#include "nntile/runtime/regions.hh"
#include "nntile/runtime/ring/blocks.hh"
#include "nntile/runtime/ring/pto_buffers.hh"
#include "nntile/runtime/ring/pto_errors.hh"
#include "nntile/runtime/ring/pto_tasks.hh"
#include "nntile/runtime/ring/ring.hh"

namespace nntile {

/// The ::Runtime of a C program. Members are named after the calls, and keep what pto.h says of
/// them.
///
/// Law: a call that throws has changed nothing but the ring's own counters; each first takes the
/// ring as its driver, so that nothing here is touched by two threads or inside a task.
template <class Policy = RingPolicy> class PtoRuntime : public ::Runtime {
  using Ring = BasicRing<Policy>;

 public:
  /// Throws ValueError (a count that cannot be), OutOfMemory.
  explicit PtoRuntime(PtoOptions const& options = {})
      : tasks_(options.max_tasks != 0 ? options.max_tasks : 65536),
        kinds_{options.cube_workers, options.vector_workers},
        ring_(ring_options(options), ring_capacities(options), kinds_),
        buffers_(ring_) {
    if (options.max_buffers < 0 || options.max_buffers > most_buffers)
      throw ValueError(concat("pto_create: max_buffers of ", options.max_buffers, " where 0 to ",
                              most_buffers, " are possible"));
    if (options.max_buffers != 0) reserve(static_cast<std::size_t>(options.max_buffers));
    task_descriptors = tasks_.descriptors();
  }

  void* alloc(std::size_t bytes) {
    auto const inside = ring_.drive("pto_alloc");
    Index const index = buffers_.take({"pto_alloc"}, bytes);
    buffers_.keep();
    return reinterpret_cast<void*>(buffers_[index].begin);
  }
  void free(void* buffer) {
    auto const inside = ring_.drive("pto_free");
    buffers_.free(reinterpret_cast<std::uintptr_t>(buffer));
  }
  void scope_begin() {
    auto const inside = ring_.drive("pto_scope_begin");
    buffers_.scope_begin();
  }
  void scope_end() {
    auto const inside = ring_.drive("pto_scope_end");
    buffers_.scope_end();
  }

  std::int32_t submit_task(std::int32_t kernel_id, std::int32_t worker_type, TaskParam* params,
                           std::int32_t count) {
    auto const inside = ring_.drive("pto_submit_task");
    Submission task(kernels_[kernel_id]);
    task.hints = hints_for(task, worker_type);
    check(task, params, count);
    try {
      for (std::int32_t i = 0; i < count; ++i) add(task, params[i], i);
      std::int32_t const id = submit(task, kernel_id, worker_type, params);
      buffers_.keep();
      return id;
    } catch (...) {
      for (std::size_t i = task.made.size(); i-- > 0;) buffers_.forget(task.made[i]);
      throw;
    }
  }

  /// Any thread.
  void task_complete(std::int32_t id) { close(id, "pto_task_complete").token.complete(); }
  /// Any thread.
  void task_fail(std::int32_t id, std::int32_t code, char const* message) {
    if (code == 0)
      throw ValueError(concat("pto_task_fail: task ", id,
                              " with code 0, which stands for success: pto_task_complete ends it"));
    TaskRecord const& record = close(id, "pto_task_fail");
    char text[status_text_bytes];
    if (message == nullptr || message[0] == 0)
      (void)std::snprintf(text, sizeof text, "failed with code %d", code);
    else
      (void)std::snprintf(text, sizeof text, "%s", message);
    detail::pto::keep_failure(text);
    record.token.complete({text});
  }

  void register_kernel(std::int32_t id, char const* name, PtoKernel kernel, void* context,
                       bool asynchronous = false) {
    auto const inside = ring_.drive("pto_register_kernel");
    kernels_.add(id, name, kernel, context, asynchronous);
  }

  void adopt(void* base, std::size_t bytes) {
    auto const inside = ring_.drive("pto_adopt");
    buffers_.adopt(reinterpret_cast<std::uintptr_t>(base), bytes);
  }

  void wait(std::int32_t id) {
    auto const inside = ring_.drive("pto_wait");
    ring_.wait(tasks_.find(id, "pto_wait").event);
  }
  void wait_all() {
    auto const inside = ring_.drive("pto_wait_all");
    try {
      ring_.wait_all();
    } catch (TaskError const&) {  // they have all ended nevertheless
      buffers_.forget_noticed();
      throw;
    }
    buffers_.forget_noticed();
  }

  ::TaskState task_state(std::int32_t id) {
    auto const inside = ring_.drive("pto_task_state");
    TaskRecord const& record = tasks_.find(id, "pto_task_state");
    switch (ring_.progress(record.event)) {
      case RingProgress::waiting:
        return PTO_TASK_PENDING;
      case RingProgress::ready:
        return record.phase.load(std::memory_order_acquire) == detail::pto::Phase::submitted
                   ? PTO_TASK_READY
                   : PTO_TASK_RUNNING;
      case RingProgress::ended:
        return PTO_TASK_COMPLETED;
      case RingProgress::past:
        break;
    }
    return ring_.progress(record.last_consumer) == RingProgress::past ? PTO_TASK_CONSUMED
                                                                      : PTO_TASK_COMPLETED;
  }

  /// Throws unless the calling thread may destroy it: LifetimeError.
  void check_destroy() { (void)ring_.drive("pto_destroy"); }
  detail::pto::FirstError& first_error() { return first_error_; }
  Ring& ring() { return ring_; }
  /// Times that memory was taken for the addresses of buffers.
  std::uint64_t address_growths() const { return buffers_.growths(); }

 private:
  using Block = detail::pto::Block;
  using TaskRecord = detail::pto::TaskRecord;
  using Subject = detail::pto::Subject;
  using Buffers = detail::pto::Buffers<Ring>;
  using Index = typename Buffers::Index;

  /// The task of an asynchronous kernel, whose token is the caller's from here on. Throws
  /// ValueError (there is no such task), LifetimeError (it is not to be ended, or not any more).
  TaskRecord& close(std::int32_t id, char const* call) {
    using detail::pto::Phase;
    TaskRecord& record = tasks_.find(id, call);
    if (detail::pto::close(record)) return record;
    Phase const phase = record.phase.load(std::memory_order_acquire);
    char const* const why = phase == Phase::closed ? " was completed before, or has failed"
                            : phase == Phase::running
                                ? " ends when its kernel returns: only those of "
                                  "pto_register_async_kernel are ended by a call"
                                : " has not begun: end it after its kernel has, unless "
                                  "it was cancelled, and so has ended";
    throw LifetimeError(concat(call, ": task ", id, why));
  }

  /// One operand of a task in the making.
  struct Operand {
    std::int32_t position;  // among the parameters
    Access access;
    Index block;
    std::uintptr_t begin;
    std::size_t bytes;  // of one run
    std::size_t span;   // from its first byte to behind its last
  };
  /// A task in the making.
  struct Submission {
    explicit Submission(detail::pto::Kernel const& its_kernel) : kernel(its_kernel) {}

    detail::pto::Kernel const& kernel;
    Hints hints;
    std::int32_t repeat = 0;  // as PARAM_REPEAT says; 0: it is not there
    inplace_vector<Operand, PTO_MAX_PARAMS> operands;
    inplace_vector<Use<DataHandle>, PTO_MAX_PARAMS> uses;  // each handle once
    inplace_vector<Index, PTO_MAX_PARAMS> made;            // to be forgotten if it fails
    void* first_output = nullptr;                          // of those that submission gives
  };

  static constexpr std::int32_t most_buffers = 1 << 24;
  static constexpr std::size_t most_argument_bytes =
      sizeof(detail::pto::TaskArguments) + PTO_MAX_PARAMS * 2 * sizeof(void*);

  void reserve(std::size_t buffers) {
    buffers_.reserve(buffers, 64);
    ring_.reserve_regions({.regions = buffers, .buffers = buffers});
  }

  static RuntimeOptions ring_options(PtoOptions const& options) {
    RuntimeOptions result;
    if (options.workers != 0) result.workers = options.workers;
    return result;
  }
  static RingCapacities ring_capacities(PtoOptions const& options) {
    RingCapacities result;
    if (options.heap_size != 0)
      result.step = result.scope = result.scratch = {options.heap_size, OnFull::wait};
    if (options.max_buffers > 0 && options.max_buffers <= most_buffers) {
      result.buffers = result.tokens = static_cast<std::uint32_t>(options.max_buffers);
      result.records = std::max(result.buffers, Policy::Sizes::heap_records);
      result.operands = PTO_MAX_PARAMS;
      result.argument_bytes = sizeof(detail::BlockHeader) + most_argument_bytes;
    }
    return result;
  }

  /// The hints of a task for workers of a type. Throws ValueError: there is none.
  Hints hints_for(Submission const& task, std::int32_t worker_type) const {
    constexpr WorkerKind kinds[] = {WorkerKind::cube, WorkerKind::vector, WorkerKind::cpu};
    if (worker_type < WORKER_CUBE || worker_type > WORKER_CPU)
      throw ValueError(concat("pto_submit_task: ", task.kernel.name, ": no worker type is ",
                              worker_type, "; they are 0 (cube), 1 (vector) and 2 (CPU)"));
    if (kinds_.cube == 0 && kinds_.vector == 0) return {};
    int const served[] = {kinds_.cube, kinds_.vector,
                          ring_.workers().cpu - kinds_.cube - kinds_.vector};
    if (served[worker_type] == 0)
      throw ValueError(concat("pto_submit_task: ", task.kernel.name, ": no worker serves type ",
                              worker_type, "; there are ", served[0], " for cube, ", served[1],
                              " for vector, ", served[2], " for CPU (PtoOptions)"));
    Hints hints;
    hints.worker = any_of(kinds[worker_type]);
    return hints;
  }
  static void check(Submission const& task, TaskParam const* params, std::int32_t count) {
    if (count < 0 || count > PTO_MAX_PARAMS)
      throw ValueError(concat("pto_submit_task: ", task.kernel.name, ": ", count,
                              " parameters where 0 to ", int{PTO_MAX_PARAMS}, " are possible"));
    if (params == nullptr && count > 0)
      throw ValueError(
          concat("pto_submit_task: ", task.kernel.name, ": ", count, " parameters at NULL"));
  }

  /// Adds one parameter.
  void add(Submission& task, TaskParam const& param, std::int32_t i) {
    Subject const subject{"pto_submit_task", task.kernel.codelet.name, i, param.type};
    if (param.type < PARAM_INPUT || param.type > PARAM_REPEAT)
      throw ValueError(subject.text() + ": types are 0 to 4");
    if (param.type == PARAM_REPEAT) {
      if (param.size == 0 || param.size > max_blocks || task.repeat != 0)
        throw ValueError(concat(subject.text(), ": ", param.size, " times where one count of 1 to ",
                                max_blocks, " is possible"));
      task.repeat = static_cast<std::int32_t>(param.size);
      return;
    }
    bool const by_region = param.region.buffer_ptr != nullptr;
    if (by_region && param.buffer != nullptr)
      throw ValueError(subject.text() + ": a buffer and a region: give one of them");
    if (!by_region && param.buffer == nullptr) return add_output(task, subject, param.size);
    auto const base =
        reinterpret_cast<std::uintptr_t>(by_region ? param.region.buffer_ptr : param.buffer);
    Region region{0, by_region ? param.region.size : param.size, {}};
    std::size_t const offset = by_region ? param.region.offset : 0;
    if (by_region && param.region.count > 1)
      region.steps.push_back({param.region.count, param.region.stride});
    if (base + offset < base)
      throw ValueError(concat(subject.text(), ": offset ", offset, " from ", detail::pto::hex(base),
                              " goes beyond all addresses"));
    std::size_t const span = span_of(subject, region);
    Operand operand{i, access_of(param.type), 0, base + offset, region.bytes, span};
    operand.block = buffers_.find(subject, operand.begin, operand.span, task.made);
    Block const& block = buffers_[operand.block];
    region.offset = operand.begin - block.begin;
    add(task, operand, ring_.region(block.handle, region));
  }
  static std::size_t span_of(Subject const& subject, Region const& region) {
    try {
      return nntile::span_of(region);
    } catch (ValueError const& error) {
      throw ValueError(concat(subject.text(), ": ", error.what()));
    }
  }
  static constexpr Access access_of(ParamType type) {
    constexpr Access accesses[] = {Access::read, Access::write, Access::update, Access::accumulate};
    return accesses[type];
  }
  void add_output(Submission& task, Subject const& subject, std::size_t bytes) {
    if (subject.type != PARAM_OUTPUT)
      throw ValueError(subject.text() + ": the address is NULL, which only an output may be");
    Index const index = buffers_.take(subject, bytes);
    task.made.push_back(index);
    Block const& block = buffers_[index];
    add(task, {subject.position, Access::write, index, block.begin, bytes, bytes}, block.handle);
    if (task.first_output == nullptr) task.first_output = reinterpret_cast<void*>(block.begin);
  }
  /// Adds one operand; what has been named before becomes no second use.
  static void add(Submission& task, Operand const& operand, DataHandle handle) {
    task.operands.push_back(operand);
    for (Use<DataHandle>& use : task.uses) {
      if (use.handle != handle) continue;
      if (use.access != operand.access) use.access = Access::update;
      return;
    }
    task.uses.push_back({handle, operand.access});
  }

  std::int32_t submit(Submission const& task, std::int32_t kernel_id, std::int32_t worker_type,
                      TaskParam* params) {
    using detail::pto::Phase;
    using detail::pto::TaskArguments;
    std::int32_t const id = next_id(), repeat = std::max(1, task.repeat);
    TaskRecord& record = tasks_[id];
    std::size_t const count = task.operands.size();
    TaskArguments const head{&task.kernel, &record, id, repeat, static_cast<std::int32_t>(count)};
    alignas(TaskArguments) std::byte bytes[most_argument_bytes];
    std::memcpy(bytes, &head, sizeof head);
    std::byte* const pointers = bytes + sizeof head;
    std::byte* const sizes = pointers + count * sizeof(void*);
    for (std::size_t i = 0; i < count; ++i) {
      Operand const& operand = task.operands[i];
      std::memcpy(pointers + i * sizeof(void*), &operand.begin, sizeof(void*));
      std::memcpy(sizes + i * sizeof(std::size_t), &operand.bytes, sizeof(std::size_t));
    }
    Phase const before = record.phase.load(std::memory_order_relaxed);
    record.phase.store(Phase::submitted, std::memory_order_release);
    try {
      std::span<Use<DataHandle> const> const uses(task.uses.data(), task.uses.size());
      std::span<std::byte const> const arguments(bytes, TaskArguments::bytes(count));
      auto const blocks = static_cast<std::uint32_t>(repeat);
      if (blocks > 1 && task.kernel.in_blocks.block != nullptr)
        record.event =
            submit_blocks(ring_, task.kernel.in_blocks, blocks, uses, arguments, task.hints);
      else
        record.event = ring_.submit({&task.kernel.codelet, uses, arguments, task.hints, {}});
    } catch (...) {
      record.phase.store(before, std::memory_order_release);
      throw;
    }
    record.last_consumer = {};
    note(task, id, record.event);
    tasks_.take(id);
    task_descriptors[id] = {id, kernel_id, worker_type, task.first_output};
    for (Operand const& operand : task.operands)
      params[operand.position].address = reinterpret_cast<void*>(operand.begin);
    return id;
  }
  /// Notes a submitted task with the buffers that it names, and with the tasks that wrote them: of
  /// these it is the last consumer, unless they have been consumed.
  void note(Submission const& task, std::int32_t id, Event event) {
    for (Operand const& operand : task.operands)
      buffers_[operand.block].writers.each(
          operand.begin, operand.begin + operand.span, [&](auto const& writer) {
            TaskRecord& record = tasks_[writer.task];
            bool const there = record.event.sequence == writer.sequence;
            if (there && task_state(writer.task) != PTO_TASK_CONSUMED) record.last_consumer = event;
          });
    for (Operand const& operand : task.operands)
      if (writes(operand.access))
        buffers_[operand.block].writers.add(
            {id, event.sequence, operand.begin, operand.begin + operand.span},
            operand.span == operand.bytes);
  }

  /// An id for a task. Waits while all of them name tasks that have not ended, any of which may end
  /// first.
  std::int32_t next_id() {
    auto const ended = [this](TaskRecord const& record) {
      return ring_.progress(record.event) >= RingProgress::ended;
    };
    std::int32_t id = tasks_.next(ended);
    int yields = 64;  // then it sleeps: a ring has no wait for one of many
    while (id < 0) {
      id = tasks_.next([this](TaskRecord const& record) { return ring_.done(record.event); });
      if (id < 0) yields == 0 ? detail::sleep_ns(50'000) : (--yields, detail::yield_core());
    }
    return id;
  }

  detail::pto::FirstError first_error_;
  detail::pto::KernelTable kernels_;
  detail::pto::TaskTable tasks_;
  WorkerKinds const kinds_;
  Ring ring_;  // its tasks end before the members above do
  Buffers buffers_;
};

}  // namespace nntile
