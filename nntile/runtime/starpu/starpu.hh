#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The runtime over StarPU. Needs the library nntile_starpu (pkg-config: nntile-starpu).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/starpu/job.hh"
#include "nntile/runtime/starpu/shim.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/events.hh"
#include "nntile/runtime/support/options.hh"
#include "nntile/runtime/support/run_body.hh"
#include "nntile/runtime/support/storage_calls.hh"
#include "nntile/runtime/support/submitted.hh"
#include "nntile/runtime/support/wake.hh"
#include "nntile/runtime/support/workspaces.hh"

namespace nntile {

struct StarPUOptions {
  /// CUDA workers, one a device. By default as many as the environment variable STARPU_NCUDA says,
  /// else none.
  std::optional<int> devices = {};
};

/// Runs tasks on StarPU: its workers, its scheduler, its dependences and, on devices, its replicas.
/// The driving thread only waits. Persistent and adopted buffers stay where they are on the host;
/// the others exist from their first writer on. All objects of a process share StarPU, hence the
/// number of workers. Cost of a submission: 2 to 5 us. Memory: 4 kB a buffer, 1.3 kB a task in
/// flight, StarPU's own. Blocks: `submit`, while 65,536 tasks are in flight and no token is out.
class StarPU : public support::StorageCalls<StarPU> {
 public:
  static constexpr char const* runtime_name = "starpu";
  static constexpr bool heeds_hints = true;
  static constexpr bool reads_costs = true;
  static constexpr bool coherent = true;

  /// Throws ValueError: 0 workers, more than this build of StarPU has, or others than those that
  /// run in this process already; a STARPU_NCUDA that is no number; no folder (STARPU_HOME, HOME)
  /// that StarPU can write to.
  /// DeviceError: more devices are asked for than this build of StarPU or the machine has.
  /// LifetimeError: inside a task, or this process was forked from one in which StarPU ran then.
  /// Tasks run on devices where their codelets have such entries: those of kernels::find() do once
  /// use_cuda_kernels() was called (nntile/runtime/cuda.hh).
  explicit StarPU(RuntimeOptions const& options = {}, StarPUOptions const& starpu = {}) {
    check_not_on_worker("StarPU");
    auto const checked = support::check_options(options, runtime_name);
    if (starpu.devices.value_or(0) < 0)
      throw ValueError(concat("StarPU: devices=", *starpu.devices, "; 0 is none"));
    workers_ = starpu_shim::start({.workers = options.workers ? checked.workers : 0,
                                   .cores = static_cast<int>(checked.cores.size()),
                                   .pin = checked.pin,
                                   .devices = starpu.devices.value_or(starpu_shim::devices_unasked),
                                   .allocate = &allocate_or_null,
                                   .free = &support::free_aligned});
    workers_.oversubscribed = workers_.cpu > static_cast<int>(checked.cores.size());
    try {
      workspaces_.emplace(static_cast<std::size_t>(workers_.cpu));
    } catch (...) {
      starpu_shim::stop();
      throw;
    }
    starpu_shim::add_poller(poller_);
  }
  /// Waits for tasks and tokens, releases what was adopted; never throws. In a process that was
  /// forked since, where StarPU's threads are not, it waits for nothing and releases nothing.
  ~StarPU() {
    bool const in_child = thread_.in_child();
    link_->close(!in_child);
    if (in_child) {
      std::construct_at(&wake_);  // a sleeper is in the parent, and would be waited for
      return;
    }
    auto const inside = thread_.enter_to_destroy();
    take_dropped();
    block_until_all_ended();
    for (std::uint32_t i = 0; i < buffers_.count(); ++i) end_buffer(buffers_[i]);
    // StarPU calls back shortly after the last task: too soon to sleep for.
    while (callbacks_.load(std::memory_order_acquire) != 0) detail::yield_core();
    tokens_.quiesce();
    starpu_shim::remove_poller(poller_);
    starpu_shim::stop();
  }

  DataHandle allocate(std::size_t bytes, Place place = host,
                      Lifetime lifetime = Lifetime::persistent) {
    if (lifetime == Lifetime::persistent) return StorageCalls::allocate(bytes, place, lifetime);
    Inside const inside(*this, "allocate");
    if (place != host) throw ValueError("allocate: this runtime has memory on the host only");
    // StarPU allocates in a worker, which cannot report a refusal: ask now.
    if (bytes >= probed_bytes) support::free_aligned(support::allocate_aligned(bytes));
    prepare_retirement();
    DataHandle const handle = buffers_.add_without_storage(bytes, place, lifetime);
    buffers_.find(handle, "allocate").native =
        starpu_shim::register_transient(bytes == 0 ? 1 : bytes);
    return handle;
  }

  /// Does not model RegionRuntime: StarPU orders tasks by whole buffers.
  DataHandle region(DataHandle, Region const&) = delete;
  DataHandle find(void const*) = delete;
  DataHandle region_at(void const*, Region const&) = delete;

  Event submit(Task<DataHandle> const& task) {
    Inside const inside(*this, "submit");
    std::size_t const count = task.uses.size();
    if (uses_.size() < count) {
      pointers_.resize(count);
      uses_.resize(count);
    }
    buffers_.bind(task, uses_.data(), pointers_.data());
    if (submitted_ - ended_.load(std::memory_order_relaxed) >= most_in_flight) wait_for_room();
    std::uint64_t const sequence = submitted_ + 1;
    support::Events::Block& block = events_.begin(sequence);
    auto job = detail::make_starpu_job(task, {uses_.data(), count}, sequence);
    job->runtime = this;
    job->block = &block;
    job->cost = task.cost;
    job->run = &run;
    job->left = &left;
    merge_operands({uses_.data(), count}, job->positions);
    callbacks_.fetch_add(1, std::memory_order_relaxed);
    try {
      // A task without a CPU entry is ended by its token, not by its body's return.
      starpu_shim::submit(*job, *task.codelet, operands_, task.hints, task.codelet->cpu == nullptr);
    } catch (...) {
      callbacks_.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
    (void)job.release();  // StarPU's, and perhaps gone by now
    support::BufferTable::commit({uses_.data(), count}, support::Ticket{sequence});
    submitted_ = sequence;
    return {this, sequence};
  }

  void wait(Event event) {
    Inside const inside(*this, "wait");
    support::check_event(event, this, submitted_, "wait");
    block_until_ended(event.sequence);
    failures_.throw_if_failed(event.sequence);
  }
  bool done(Event event) {
    support::check_event(event, this, submitted_, "done");
    if (has_ended(event.sequence)) return true;
    auto const inside = thread_.enter_as_driver();
    if (!inside) thread_.check_process("done");
    if (!inside || !tokens_.poll(true)) return false;
    return has_ended(event.sequence);
  }
  void wait_all() {
    Inside const inside(*this, "wait_all");
    buffers_.check_nothing_locked();
    block_until_all_ended();
    this->link()->forget_names();
    failures_.report();
  }

  std::span<std::byte> lock(DataHandle handle, Access access) {
    Inside const inside(*this, "lock");
    support::Buffer& buffer = buffers_.check_lock(handle, access);
    wait_for_host_copy(buffer, access);
    try {
      failures_.check_lock(buffer, access);
    } catch (...) {
      starpu_shim::release(data_of(buffer));
      throw;
    }
    if (!buffer.is(support::Buffer::live))
      buffer.pointer = starpu_shim::host_pointer(data_of(buffer));
    return buffers_.begin_lock(buffer, access);
  }
  bool here() const noexcept { return thread_.here(); }
  Workers workers() const { return workers_; }
  /// Names the tasks that wait for a token; "" if none does.
  std::string waiting_for() const { return tokens_.waiting_for(); }

 private:
  friend class support::StorageCalls<StarPU>;
  using Job = detail::StarPUJob;

  // StarPU keeps 1.3 kB of a task in flight, so this many take 85 MB.
  static constexpr std::uint64_t most_in_flight = 65'536;
  // glibc takes memory of this size and more from the system at once (its mmap threshold's
  // maximum).
  static constexpr std::size_t probed_bytes = std::size_t{32} << 20;

  struct HostCopy {
    StarPU* runtime;
    std::atomic<bool> granted{false};
    Release grant{&host_copy_granted, this};
  };
  /// The retirement of a buffer, from `retire` until its last task has ended.
  struct Retired {
    StarPU* runtime = nullptr;
    support::Buffer* buffer = nullptr;
    starpu_shim::Retirement under_way{{&retired_buffer_ended, this}};
  };

  support::StorageState state() noexcept { return {thread_, failures_, buffers_}; }
  template <class Take> DataHandle make(Take take) {
    prepare_retirement();
    DataHandle const handle = take();
    support::Buffer& buffer = buffers_[handle.index];
    buffer.native = starpu_shim::register_memory(buffer.pointer, buffer.bytes);
    return handle;
  }
  void wait_until_unused(support::Buffer& buffer) { wait_for_uses(buffer, Access::write); }
  void wait_for_uses(support::Buffer& buffer, Access) {
    // StarPU aborts where it is asked for a value that nothing has written.
    bool const written = !buffer.is(support::Buffer::unwritten);
    wait_for_host_copy(buffer, written ? Access::update : Access::write);
    starpu_shim::release(data_of(buffer));
  }

  static void* allocate_or_null(std::size_t bytes) noexcept {
    try {
      return support::allocate_aligned(bytes);
    } catch (...) {
      return nullptr;
    }
  }
  static starpu_shim::Data* data_of(support::Buffer const& buffer) {
    return static_cast<starpu_shim::Data*>(buffer.native);
  }

  static void check_not_on_worker(char const* call) {
    if (starpu_shim::on_worker()) [[unlikely]]
      throw LifetimeError(
          concat(call, ": called inside a task of StarPU, whose runtime does not nest tasks"));
  }
  support::DrivingThread::Inside enter(char const* call) {
    check_not_on_worker(call);
    return thread_.enter(call);
  }

  bool has_ended(std::uint64_t sequence) const { return events_.has_ended(sequence); }

  /// Returns once ready() holds; calls polls meanwhile.
  template <class Ready> void block(Ready&& ready) {
    while (!ready()) {
      if (tokens_.poll(true)) continue;
      std::uint64_t const ticket = wake_.prepare();
      if (ready())
        wake_.cancel();
      else if (tokens_.polls() != 0)
        wake_.nap(ticket);
      else
        wake_.sleep(ticket);
    }
  }
  void block_until_ended(std::uint64_t sequence) {
    if (has_ended(sequence)) return;
    awaited_sequence_.store(sequence);
    block([&] { return has_ended(sequence); });
    awaited_sequence_.store(0);
  }
  void block_until_all_ended() {
    awaited_count_.store(submitted_);
    block([&] { return ended_.load() == submitted_; });
    awaited_count_.store(0);
  }

  /// Lets tasks end, unless they may all wait for a token that the driving thread will complete.
  void wait_for_room() {
    std::uint64_t const rest = most_in_flight / 4 * 3;
    awaited_count_.store(submitted_ - rest);
    block([&] { return submitted_ - ended_.load() <= rest || tokens_.outstanding() != 0; });
    awaited_count_.store(0);
  }

  /// Fills operands_ with the distinct buffers of the uses, and the position of each use among
  /// them: a handle used twice is locked once, with the union of the accesses.
  void merge_operands(std::span<Use<support::Buffer*> const> uses, unsigned* position_of_use) {
    if (positions_.size() < buffers_.count()) positions_.resize(buffers_.count());
    operands_.clear();
    for (auto const& [buffer, declared] : uses) {
      Access const access = mapped(declared, *buffer);
      unsigned& position = positions_[buffer->index];  // left by some submission before
      if (position >= operands_.size() || operands_[position].handle != data_of(*buffer)) {
        position = static_cast<unsigned>(operands_.size());
        operands_.push_back({data_of(*buffer), access});
      } else if (operands_[position].access != access) {
        operands_[position].access = Access::update;
      }
      *position_of_use++ = position;
    }
  }

  /// StarPU has no mode for tasks that may write one buffer at a time, or in no order: they are in
  /// order, which is more than the law asks for. What nothing has written StarPU lets no task read.
  static Access mapped(Access access, support::Buffer const& buffer) {
    if (access <= Access::accumulate) return access;
    return buffer.is(support::Buffer::unwritten) ? Access::write : Access::update;
  }

  /// Waits for the buffer's tasks and for its contents in host memory.
  void wait_for_host_copy(support::Buffer& buffer, Access access) {
    HostCopy wanted{this};
    callbacks_.fetch_add(1, std::memory_order_relaxed);
    starpu_shim::acquire(data_of(buffer), access, wanted.grant);
    block([&] { return wanted.granted.load(); });
  }
  static void host_copy_granted(void* state) noexcept {
    auto& wanted = *static_cast<HostCopy*>(state);
    StarPU& self = *wanted.runtime;
    wanted.granted.store(true);  // and `wanted` is no more
    self.wake_.notify();
    self.callbacks_.fetch_sub(1, std::memory_order_release);
  }

  void end_lock(DataHandle handle) {
    support::Buffer& buffer = buffers_.end_lock(handle);
    starpu_shim::release(data_of(buffer));
    if (buffer.is(support::Buffer::dropped)) retire_one(handle);
  }

  /// Room for the retirement of one buffer more: destructors retire, too, and take no memory.
  void prepare_retirement() {
    while (retired_.size() <= buffers_.count()) retired_.emplace_back();
  }
  void retire_one(DataHandle handle) {
    support::Buffer& buffer = buffers_.begin_retire(handle);
    starpu_shim::Data* const data = data_of(buffer);
    buffer.native = nullptr;
    Retired& retired = retired_[buffer.index];
    retired.runtime = this;
    retired.buffer = &buffer;
    callbacks_.fetch_add(1, std::memory_order_relaxed);
    starpu_shim::retire(data, retired.under_way);
  }
  static void retired_buffer_ended(void* state) noexcept {
    auto const& retired = *static_cast<Retired const*>(state);
    StarPU& self = *retired.runtime;
    self.buffers_.reclaim(*retired.buffer);  // then the record may be another's
    self.callbacks_.fetch_sub(1, std::memory_order_release);
  }
  void end_buffer(support::Buffer& buffer) {
    if (buffer.native == nullptr) return;
    DataHandle const handle = buffers_.handle_of(buffer);
    if (buffer.is(support::Buffer::locked))
      starpu_shim::release(data_of(buffers_.end_lock(handle)));
    retire_one(handle);
  }

  static void run(starpu_shim::Job& base, void* stream) noexcept {
    auto& job = static_cast<Job&>(base);
    StarPU& self = *job.runtime;
    if (stream != nullptr) {
      job.on_device = true;  // ends when the stream has come to its end, in `left`
      return support::run_on_device(self.failures_, job.body, stream);
    }
    bool const held = job.body.codelet->cpu == nullptr;
    support::Ran ran;
    {
      support::Workspaces::Loan const workspace(*self.workspaces_, *job.body.codelet);
      ran = support::run_body(self.failures_, self.tokens_, job.body, &job, workspace.block());
    }
    if (ran == support::Ran::pending) {
      if (self.tokens_.polls() != 0) starpu_shim::poll_soon();
      self.wake_.notify();  // a driver that waits for room goes on while a token is out
      return;
    }
    if (self.tokens_.due(false)) (void)self.tokens_.poll(false);
    // Before StarPU lets successors start: tasks end in the order of their dependences.
    self.end(job);
    if (held) starpu_shim::end(job);
  }
  static void left(starpu_shim::Job& base) noexcept {
    auto& job = static_cast<Job&>(base);
    StarPU& self = *job.runtime;
    if (job.on_device) self.end(job);
    self.callbacks_.fetch_sub(1, std::memory_order_release);  // the destructor may go on
  }
  static void token_ended(void* runtime, void* task, Status status) noexcept {
    auto& self = *static_cast<StarPU*>(runtime);
    auto& job = *static_cast<Job*>(task);
    support::settle(self.failures_, job.body, status);
    self.end(job);
    starpu_shim::end(job);
  }
  /// Publishes that the task has ended. The job may be gone as soon as StarPU may let go of it.
  void end(Job& job) noexcept {
    std::uint64_t const sequence = job.body.sequence;
    events_.end(*job.block, sequence);
    std::uint64_t const count = ended_.fetch_add(1) + 1;
    // The driver says what it waits for before it looks: waking it for every task would cost more
    // than the tasks.
    if (sequence == awaited_sequence_.load() || count == awaited_count_.load()) wake_.notify();
  }
  static bool poll(void* runtime) noexcept {
    auto& self = *static_cast<StarPU*>(runtime);
    if (self.tokens_.polls() != 0) (void)self.tokens_.poll(false);
    return self.tokens_.polls() != 0;
  }

  Workers workers_;
  std::optional<support::Workspaces> workspaces_;  // one a worker
  support::Failures failures_;
  support::DrivingThread thread_{starpu_shim::worker_limit(), &link_->driver()};
  support::BufferTable buffers_{failures_, {}, &thread_};
  support::Submitted submitted_;
  support::Events events_;
  std::vector<Use<support::Buffer*>> uses_;  // of the submission at hand, as are the next three
  std::vector<void*> pointers_;
  std::vector<Use<starpu_shim::Data*>> operands_;
  std::deque<Retired> retired_;          // by buffer
  std::vector<unsigned> positions_;      // by buffer: where it may stand in operands_
  std::atomic<std::uint64_t> ended_{0};  // counts tasks
  std::atomic<std::uint64_t> awaited_sequence_{0};
  std::atomic<std::uint64_t> awaited_count_{0};
  std::atomic<std::int64_t> callbacks_{0};  // StarPU's, still to come into this object
  support::Wake wake_;
  support::Tokens tokens_{this, &token_ended, &wake_, &thread_};
  starpu_shim::Poller poller_{&poll, this};
};
static_assert(ScopedRuntime<StarPU> && CoherentRuntime<StarPU> && CostedRuntime<StarPU>);
static_assert(!NestingRuntime<StarPU>);  // StarPU's tasks may not wait

}  // namespace nntile
