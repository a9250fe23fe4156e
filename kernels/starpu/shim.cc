// SPDX-License-Identifier: BSD-3-Clause
// Buffers and tasks of StarPU, behind the plain interface of nntile/runtime/starpu/shim.hh.
#include "nntile/runtime/starpu/shim.hh"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "kernels/starpu/process.hh"
#include "nntile/core/error.hh"
#include "nntile/core/machine_model.hh"

namespace nntile::starpu_shim {

namespace {

starpu_data_handle_t handle_of(Data* data) { return reinterpret_cast<starpu_data_handle_t>(data); }

starpu_data_access_mode mode_of(Access access) {
  switch (access) {
    case Access::read:
      return STARPU_R;
    case Access::write:
      return STARPU_W;
    case Access::update:
    case Access::write_disjoint:  // the runtime passes neither of these
    case Access::unordered:
      return STARPU_RW;
    case Access::accumulate:
      return static_cast<starpu_data_access_mode>(STARPU_RW | STARPU_COMMUTE);
  }
  return STARPU_RW;
}

void run_job(void** descriptors, Job& job, void* stream) {
  for (unsigned i = 0; i < job.use_count; ++i)
    job.pointers[i] =
        reinterpret_cast<void*>(STARPU_VARIABLE_GET_PTR(descriptors[job.operand_of_use[i]]));
  worker_found_task();
  job.run(job, stream);
}

void run_on_cpu(void** descriptors, void* argument) {
  run_job(descriptors, *static_cast<Job*>(argument), nullptr);
}

/// A build of StarPU without CUDA has no worker that calls it, but tests do.
void run_on_cuda(void** descriptors, void* argument) {
#ifdef STARPU_USE_CUDA
  void* const stream = starpu_cuda_get_local_stream();
#else
  static char no_stream;
  void* const stream = &no_stream;
#endif
  run_job(descriptors, *static_cast<Job*>(argument), stream);
}

void job_left(void* argument) {
  Job& job = *static_cast<Job*>(argument);
  job.left(job);
  leave_flight();
}

/// The time of a task on a core, in us: from its cost, else from the bytes of its operands.
double microseconds(starpu_task* task, unsigned) {
  Cost cost = static_cast<Job const*>(task->cl_arg)->cost;
  if (cost == Cost{})
    for (int i = 0; i < task->nbuffers; ++i)
      cost.bytes += static_cast<std::int64_t>(
          starpu_data_get_size(STARPU_TASK_GET_HANDLE(task, static_cast<unsigned>(i))) *
          ((STARPU_TASK_GET_MODE(task, static_cast<unsigned>(i)) & STARPU_RW) == STARPU_RW ? 2
                                                                                           : 1));
  return 1e6 * task_seconds(cost, MachineModel{});
}

/// The starpu_codelet of a computation, made on first sight: StarPU keeps its address, and knows
/// nothing of instruction sets. The job carries the entries.
starpu_codelet* codelet_of(Codelet const& codelet) {
  void const* const key = codelet.computation != nullptr
                              ? static_cast<void const*>(codelet.computation)
                              : static_cast<void const*>(&codelet);
  Process& p = process();
  std::lock_guard guard(p.codelet_gate);
  CodeletEntry*& bucket =
      p.buckets[(reinterpret_cast<std::uintptr_t>(key) >> 4) % Process::bucket_count];
  for (CodeletEntry* entry = bucket; entry != nullptr; entry = entry->next)
    if (entry->key == key) return &entry->codelet;
  auto* const entry = new CodeletEntry{};
  entry->key = key;
  entry->next = bucket;
  entry->model.type = STARPU_COMMON;
  entry->model.cost_function = microseconds;
  starpu_codelet_init(&entry->codelet);
  entry->codelet.where = STARPU_CPU | STARPU_CUDA;
  entry->codelet.cpu_funcs[0] = run_on_cpu;
  entry->codelet.cuda_funcs[0] = run_on_cuda;
  entry->codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
  entry->codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
  entry->codelet.model = &entry->model;
  bucket = entry;
  return &entry->codelet;
}

/// The workers that may run these entries: of their computation others may have more. A task that
/// is held until a token is completed is given to its asynchronous entry, which alone has one.
std::int32_t where_of(Codelet const& codelet, bool held) {
  return codelet.cuda != nullptr && !held ? STARPU_CPU | STARPU_CUDA : STARPU_CPU;
}

/// StarPU lets the next of commuting tasks start when the body of one returns: one that is held
/// until its token is completed has to be ordered.
void set_operands(starpu_task& task, std::span<Use<Data*> const> operands, bool held) {
  std::size_t const count = operands.size();
  task.nbuffers = static_cast<int>(count);
  starpu_data_handle_t* handles = task.handles;
  starpu_data_access_mode* modes = task.modes;
  if (count > STARPU_NMAXBUFS) {  // StarPU frees both
    task.dyn_handles = handles =
        static_cast<starpu_data_handle_t*>(std::malloc(count * sizeof *handles));
    task.dyn_modes = modes =
        static_cast<starpu_data_access_mode*>(std::malloc(count * sizeof *modes));
    if (handles == nullptr || modes == nullptr) throw std::bad_alloc();
  }
  for (std::size_t i = 0; i < count; ++i) {
    handles[i] = handle_of(operands[i].handle);
    bool const ordered = held && operands[i].access == Access::accumulate;
    modes[i] = mode_of(ordered ? Access::update : operands[i].access);
  }
}

void set_hints(starpu_task& task, Hints hints) {
  // Workers of devices are numbered behind those of the CPU.
  Process const& p = process();
  if (p.min_priority < p.max_priority)
    task.priority = std::clamp(hints.priority, p.min_priority, p.max_priority);
  if (hints.worker >= 0 && hints.worker < p.workers) {
    task.execute_on_a_specific_worker = 1;
    task.workerid = static_cast<unsigned>(p.worker_ids[hints.worker]);
  } else if (int const device = hints.worker >= 0 ? hints.worker - p.workers : hints.device;
             device >= 0 && device < p.devices &&
             (static_cast<unsigned>(task.where) & STARPU_CUDA) != 0) {
    task.execute_on_a_specific_worker = 1;
    task.workerid = static_cast<unsigned>(p.device_ids[device]);
  }
}

/// StarPU 1.3 never frees the node of a handle's queue for tasks of priority 0, only of others: it
/// would lose 48 bytes for each handle that a task has waited for.
void avoid_lost_queue(starpu_task& task) {
  bool commutes = false;
  for (int i = 0; i < task.nbuffers; ++i)
    commutes = commutes || (STARPU_TASK_GET_MODE(&task, i) & STARPU_COMMUTE) != 0;
  if (commutes && task.priority == 0 && !process().maps_priorities) task.priority = 1;
}

void destroy_unsubmitted(starpu_task* task) {
  task->cl_arg_free = 0;  // the job goes back to the caller
  task->destroy = 0;
  starpu_task_destroy(task);
}

void finish_retirement(void* argument) {
  Retirement const retirement = *static_cast<Retirement*>(argument);
  starpu_data_handle_t const handle = handle_of(retirement.data);
  // A home holds the only copy now, and unregistering looks at no contents: the owner may have
  // them.
  starpu_data_release_on_node(handle, retirement.node);
  starpu_data_unregister_submit(handle);
  retirement.after();
  leave_flight();
}

void grant(void* argument) {
  Release const granted = *static_cast<Release const*>(argument);
  leave_flight();
  granted();
}

void release_end(void* task) { starpu_task_end_dep_release(static_cast<starpu_task*>(task)); }

/// Ends the task from a worker, by the callback of an empty task there.
void end_on_worker(starpu_task* held) {
  starpu_task* const task = starpu_task_create();
  task->cl = &process().end_codelet;
  task->priority = process().max_priority;
  task->callback_func = release_end;
  task->callback_arg = held;
  if (starpu_task_submit(task) == 0) return;  // as always, since a CPU worker exists
  destroy_unsubmitted(task);
  release_end(held);
}

}  // namespace

Data* register_memory(void* pointer, std::size_t bytes) {
  starpu_data_handle_t handle = nullptr;
  starpu_variable_data_register(&handle, STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(pointer),
                                bytes);
  return reinterpret_cast<Data*>(handle);
}

Data* register_transient(std::size_t bytes) {
  starpu_data_handle_t handle = nullptr;
  starpu_variable_data_register(&handle, -1, 0, bytes);
  return reinterpret_cast<Data*>(handle);
}

void retire(Data* data, Retirement& retirement) noexcept {
  starpu_data_handle_t const handle = handle_of(data);
  bool const has_home = starpu_data_get_home_node(handle) >= 0;
  // Writing is what a transient buffer that nothing has written allows, and it fetches nothing.
  int const node = has_home ? STARPU_MAIN_RAM : STARPU_ACQUIRE_NO_NODE_LOCK_ALL;
  retirement.data = data;
  retirement.node = node;
  enter_flight();
  starpu_data_acquire_on_node_cb(handle, node, has_home ? STARPU_RW : STARPU_W, finish_retirement,
                                 &retirement);
}

void acquire(Data* data, Access access, Release const& granted) noexcept {
  enter_flight();
  starpu_data_acquire_on_node_cb(handle_of(data), STARPU_MAIN_RAM, mode_of(access), grant,
                                 const_cast<Release*>(&granted));
}

void* host_pointer(Data* data) {
  return starpu_data_handle_to_pointer(handle_of(data), STARPU_MAIN_RAM);
}

void release(Data* data) { starpu_data_release_on_node(handle_of(data), STARPU_MAIN_RAM); }

void submit(Job& job, Codelet const& codelet, std::span<Use<Data*> const> operands, Hints hints,
            bool held) {
  starpu_codelet* const own = codelet_of(codelet);
  starpu_task* const task = starpu_task_create();  // detached, destroyed by StarPU
  task->name = codelet.name;
  task->cl = own;
  task->where = where_of(codelet, held);
  task->cl_arg = &job;
  task->cl_arg_free = 1;
  task->callback_func = job_left;
  task->callback_arg = &job;
  try {
    set_operands(*task, operands, held);
  } catch (...) {
    destroy_unsubmitted(task);
    throw;
  }
  set_hints(*task, hints);
  avoid_lost_queue(*task);
  if (held) starpu_task_end_dep_add(task, 1);
  job.task = task;
  enter_flight();
  if (int const code = starpu_task_submit(task); code != 0) {
    leave_flight();
    destroy_unsubmitted(task);
    throw Error(concat("StarPU: starpu_task_submit of ", codelet.name, " returned ", code));
  }
}

void end(Job& job) noexcept {
  Process& p = process();
  auto* const task = static_cast<starpu_task*>(job.task);
  p.enders.fetch_add(1);
  if (p.end_needs_worker && !on_worker())
    end_on_worker(task);
  else
    starpu_task_end_dep_release(task);
  p.enders.fetch_sub(1);
}

}  // namespace nntile::starpu_shim
