// SPDX-License-Identifier: BSD-3-Clause
// The counted start of StarPU, its sleep while nothing is in flight, and the polls of its idle
// workers.
#include "kernels/starpu/process.hh"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "nntile/core/error.hh"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace nntile::starpu_shim {

namespace {

// Waking a sleeping thread costs 20 us, so idle workers spin ten times as long before they sleep.
constexpr std::int64_t spin_ns = 200'000;

// A look of an idle worker takes about 10 us, most of it StarPU's back-off.
constexpr int looks_while_spinning = 20;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Gives a worker back the mask of the process, or one core of it: StarPU binds its threads to
/// cores that it counts itself, outside the mask even.
struct Binding {
  cpu_set_t mask;
  bool pin;
};

void bind_worker(void* argument) {
  Binding const& binding = *static_cast<Binding*>(argument);
  cpu_set_t mine = binding.mask;
  if (binding.pin) {
    int skip = starpu_worker_get_id() % CPU_COUNT(&binding.mask);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &binding.mask) || skip-- > 0) ++cpu;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
  }
  sched_setaffinity(0, sizeof mine, &mine);  // refused: the worker stays where StarPU put it
}

void run_nothing(void**, void*) {}

void configure(starpu_conf& conf, int workers, int devices) {
  starpu_conf_init(&conf);
  conf.precedence_over_environment_variables = 1;
  conf.ncpus = workers;
  conf.reserve_ncpus =
      -2;  // none, also after STARPU_MAIN_THREAD_BIND has added one (1.4: but to -1)
  conf.ncuda = devices;
  conf.nopencl = 0;
  conf.catch_signals = 0;  // signals are the application's
#ifdef STARPU_USE_HIP
  conf.nhip = 0;
#endif
}

void read_scheduler(Process& p) {
  starpu_codelet_init(&p.end_codelet);
  p.end_codelet.where = STARPU_CPU;
  p.end_codelet.cpu_funcs[0] = run_nothing;
  p.min_priority = starpu_sched_get_min_priority();
  p.max_priority = starpu_sched_get_max_priority();
  starpu_sched_policy const* policy = starpu_sched_ctx_get_sched_policy(0);
  if (policy == nullptr) return;
  p.maps_priorities =
      policy->policy_name != nullptr &&
      std::string_view(policy->policy_name).find("heteroprio") != std::string_view::npos;
  if (p.maps_priorities) p.min_priority = p.max_priority = 0;
  p.end_needs_worker = policy->post_exec_hook != nullptr;
}

int allocate_memory(unsigned, void** pointer, std::size_t bytes, int) {
  *pointer = process().allocate(bytes);
  return *pointer != nullptr ? 0 : -ENOMEM;
}

int free_memory(unsigned, void* pointer, std::size_t, int) {
  process().free(pointer);
  return 0;
}

/// Excludes memory that StarPU and its plugins allocate at start and never free from a leak
/// sanitizer, where there is one: it reports later leaks alone.
struct StartLeaks {
#ifdef __SANITIZE_ADDRESS__
  __lsan::ScopedDisabler disabler;
#else
  StartLeaks() noexcept {}
#endif
};

/// A number of CUDA workers, and who asks for it.
struct Devices {
  int count = 0;
  std::string asked;
};

/// StarPU reads the variable in any case, and aborts on one that is negative.
Devices devices_of(Start const& start) {
  Devices devices;
  if (char const* const text = std::getenv("STARPU_NCUDA"); text != nullptr && *text != 0) {
    devices.asked = concat("STARPU_NCUDA='", text, "'");
    auto const [end, error] = std::from_chars(text, text + std::strlen(text), devices.count);
    if (error != std::errc() || *end != 0 || devices.count < 0)
      throw ValueError(concat("StarPU: ", devices.asked,
                              " is no number of devices: unset it, or "
                              "set it to 0 for none"));
  }
  if (start.devices != devices_unasked)
    devices = {start.devices, concat("devices=", start.devices)};
  return devices;
}

void check_build([[maybe_unused]] Devices const& devices) {
#ifndef STARPU_USE_CUDA
  if (devices.count == 0) return;
  int version[3];
  starpu_get_version(&version[0], &version[1], &version[2]);
  throw DeviceError(concat("StarPU: ", devices.asked, ", but this StarPU ", version[0], ".",
                           version[1], ".", version[2],
                           " was built without CUDA: build it with that, use CudaRing, or ask for "
                           "no devices"));
#endif
}

void start_here(int workers, bool pin, Devices const& devices) {
  Binding binding{.mask = {}, .pin = pin};
  bool const have_mask = sched_getaffinity(0, sizeof binding.mask, &binding.mask) == 0;
  EnvironmentCalibrationLock const lock;
  starpu_conf conf;
  configure(conf, workers, devices.count);
  int const code = [&conf] {
    StartLeaks const ignored;
    return starpu_init(&conf);
  }();
  if (code != 0)
    throw ValueError(concat("StarPU: starpu_init with ", workers, " CPU workers returned ", code));
  int const got = static_cast<int>(starpu_cpu_worker_get_count());
  if (got != workers) {
    starpu_shutdown();
    throw ValueError(concat("StarPU: ", workers, " CPU workers asked, ", got,
                            " started; its environment variables or its build limit them"));
  }
  if (int const there = static_cast<int>(starpu_cuda_worker_get_count()); there < devices.count) {
    starpu_shutdown();
    throw DeviceError(concat("StarPU: ", devices.asked, ", and ", there,
                             " started: this machine has no more that CUDA_VISIBLE_DEVICES and the "
                             "driver show"));
  }
  if (have_mask) starpu_execute_on_each_worker(bind_worker, &binding, STARPU_CPU);
#ifndef STARPU_USE_CUDA  // with CUDA, StarPU's own memory is pinned
  starpu_malloc_set_hooks(allocate_memory, free_memory);
#endif
}

void check_count(Start const& asked, Workers running, char const* owner) {
  auto const refuse = [&](char const* name, int wanted, int there) {
    throw ValueError(
        concat("StarPU: ", name, "=", wanted, ", but ", owner, " runs StarPU with ", there,
               " already in this process, which has one set of workers: ask for ", there));
  };
  if (asked.workers != 0 && asked.workers != running.cpu)
    refuse("workers", asked.workers, running.cpu);
  if (asked.devices != devices_unasked && asked.devices != running.cuda)
    refuse("devices", asked.devices, running.cuda);
}

Workers running_workers() {
  return {.cpu = static_cast<int>(starpu_cpu_worker_get_count()),
          .cuda = static_cast<int>(starpu_cuda_worker_get_count())};
}

}  // namespace

Process& process() noexcept {
  static constinit Process state;
  return state;
}

int worker_limit() noexcept { return std::min(STARPU_MAXCPUS, STARPU_NMAXWORKERS); }

Workers start(Start const& start) {
  Process& p = process();
  // Before the lock, which a thread of the parent may hold.
  if (pid_t const runs_in = p.runs_in.load(); runs_in != 0 && runs_in != getpid())
    throw LifetimeError(
        concat("StarPU: called in a process that was forked from process ", runs_in,
               " while StarPU ran there: its threads are in the parent alone; end its objects "
               "before the fork, or make a runtime of another kind in the child"));
  std::lock_guard guard(p.gate);
  int const workers = start.workers;
  if (p.objects > 0) {
    check_count(start, {.cpu = p.workers, .cuda = p.devices}, "another object");
    ++p.objects;
    return {.cpu = p.workers, .cuda = p.devices};
  }
  if (workers > worker_limit())
    throw ValueError(concat("StarPU: workers=", workers, ", but this build of StarPU has at most ",
                            worker_limit(), " (its configure option --enable-maxcpus)"));
  p.started_here = starpu_is_initialized() == 0;
  if (p.started_here) {
    Devices const devices = devices_of(start);
    check_build(devices);
    p.allocate = start.allocate;
    p.free = start.free;
    start_here(workers != 0 ? workers : std::min(start.cores, worker_limit()), start.pin, devices);
  } else {
    check_count(start, running_workers(), "the application");
    if (int const code = starpu_init(nullptr); code != 0)
      throw ValueError(concat("StarPU: starpu_init returned ", code));
  }
  p.workers = static_cast<int>(
      starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, p.worker_ids, STARPU_NMAXWORKERS));
  starpu_malloc_set_align(64);
  read_scheduler(p);
  p.idle_hook = starpu_idle_hook_register(idle_hook, nullptr);
#ifndef STARPU_NON_BLOCKING_DRIVERS
  // Asked before a worker sleeps. Where none does, it would cost every task 16 read locks.
  p.progression_hook = starpu_progression_hook_register(progression_hook, nullptr);
#endif
  bool const oversubscribed = p.workers > start.cores;
  p.looks_before_nap = oversubscribed ? 1 : looks_while_spinning;
  p.spin_ns = oversubscribed ? 0 : spin_ns;
  p.objects = 1;
  p.runs_in = getpid();
  p.devices = running_workers().cuda;
  starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, p.device_ids, STARPU_NMAXWORKERS);
  return {.cpu = p.workers, .cuda = p.devices};
}

void stop() noexcept {
  Process& p = process();
  std::lock_guard guard(p.gate);
  if (--p.objects > 0) return;
  p.runs_in = 0;
  if (p.paused.load()) starpu_resume();  // shutting down paused workers aborts
  p.paused = false;
  if (p.idle_hook >= 0) starpu_idle_hook_deregister(p.idle_hook);
  if (p.progression_hook >= 0) starpu_progression_hook_deregister(p.progression_hook);
  p.progression_hook = -1;
  // A thread that ended a task may still be on its way out of StarPU.
  while (p.enders.load() != 0) std::this_thread::yield();
  starpu_shutdown();
  if (p.started_here) starpu_malloc_set_hooks(nullptr, nullptr);
}

bool on_worker() noexcept { return starpu_worker_get_id() >= 0; }

void enter_flight() noexcept {
  Process& p = process();
  // The sleeper stores `paused` and then looks at `in_flight`; here it is the other way round: one
  // of the two sees.
  p.in_flight.fetch_add(1);
  if (!p.paused.load()) return;
  std::lock_guard guard(p.gate);
  if (p.paused.load()) starpu_resume();
  p.paused = false;
}

void leave_flight() noexcept { process().in_flight.fetch_sub(1); }

namespace {

/// Naps, for a worker that has long found no task although some are in flight: StarPU's own idling
/// takes a whole core, which the tasks that run may need.
void nap_if_long_idle(Process& p) {
  int const worker = starpu_worker_get_id();
  if (worker < 0 || worker >= STARPU_NMAXWORKERS) return;
  if (p.idle_looks[worker] < p.looks_before_nap) {
    ++p.idle_looks[worker];
    return;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

void worker_found_task() noexcept {
  int const worker = starpu_worker_get_id();
  if (worker >= 0 && worker < STARPU_NMAXWORKERS) process().idle_looks[worker] = 0;
}

unsigned idle_hook(void*) noexcept {
  Process& p = process();
  if (std::unique_lock polls(p.poll_gate, std::try_to_lock); polls.owns_lock()) {
    p.polls_wanted = false;  // first, so that a poll which arrives meanwhile is not forgotten
    bool more = false;
    for (Poller* poller = p.pollers; poller != nullptr; poller = poller->next)
      more |= poller->poll(poller->state);
    if (more) p.polls_wanted = true;
  }
  if (p.in_flight.load(std::memory_order_relaxed) != 0 ||
      p.paused.load(std::memory_order_relaxed)) {
    if (p.idle_since.load(std::memory_order_relaxed) != 0)
      p.idle_since.store(0, std::memory_order_relaxed);
    nap_if_long_idle(p);
    return 1;
  }
  std::int64_t const since = p.idle_since.load(std::memory_order_relaxed);
  if (since == 0) p.idle_since.store(now_ns(), std::memory_order_relaxed);
  if (since == 0 || now_ns() - since < p.spin_ns) return 1;
  std::unique_lock guard(p.gate, std::try_to_lock);
  // An application that started StarPU may have tasks of its own, which are not counted here.
  if (!guard.owns_lock() || p.objects == 0 || !p.started_here || p.paused.load()) return 1;
  starpu_pause();
  p.paused = true;
  if (p.in_flight.load() == 0) return 1;
  starpu_resume();
  p.paused = false;
  return 1;
}

unsigned progression_hook(void*) noexcept { return process().polls_wanted.load() ? 0 : 1; }

void add_poller(Poller& poller) noexcept {
  Process& p = process();
  std::lock_guard guard(p.poll_gate);
  poller.next = p.pollers;
  p.pollers = &poller;
}

void remove_poller(Poller& poller) noexcept {
  Process& p = process();
  std::lock_guard guard(p.poll_gate);
  for (Poller** at = &p.pollers; *at != nullptr; at = &(*at)->next)
    if (*at == &poller) {
      *at = poller.next;
      return;
    }
}

void poll_soon() noexcept {
  process().polls_wanted = true;
#ifndef STARPU_NON_BLOCKING_DRIVERS
  starpu_wake_all_blocked_workers();
#endif
}

}  // namespace nntile::starpu_shim
