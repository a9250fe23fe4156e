#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Handles, dependences, marks, tokens, scopes and locks over a user's threads: an executor in, a
// runtime out.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/engine/dependency_map.hh"
#include "nntile/runtime/engine/executor.hh"
#include "nntile/runtime/engine/progress.hh"
#include "nntile/runtime/engine/unspawned.hh"
#include "nntile/runtime/engine/waiters.hh"
#include "nntile/runtime/orchestrate.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/device_tasks.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/events.hh"
#include "nntile/runtime/support/options.hh"
#include "nntile/runtime/support/run_body.hh"
#include "nntile/runtime/support/storage_calls.hh"
#include "nntile/runtime/support/submitted.hh"
#include "nntile/runtime/support/workspaces.hh"

namespace nntile {

namespace detail::engine {
template <class E> class Nest;
template <class E> class Nests;
}  // namespace detail::engine

/// Models Runtime over any executor. The driving thread executes tasks too, inside `wait`,
/// `wait_all`, `lock` and a blocked `submit`, one at a time; unless a RuntimeOptions among the
/// constructor's arguments says `own_driver`. At most `most_in_flight` tasks wait or run before
/// `submit` blocks; while tokens are out it only helps, and lets more in. Memory: about 700 bytes a
/// task in flight, kept for reuse. Allocates: nothing in a steady state.
/// With a Device, tasks that name memory of one run there, as asynchronous tasks.
template <RequiredExecutor X, RequiredDevice D = NoDevice>
class Engine : public support::StorageCalls<Engine<X, D>>, public Orchestrates<Engine<X, D>> {
  using Calls = support::StorageCalls<Engine>;
  using Calls::link_;
  using typename Calls::Inside;

 public:
  /// The executor's own name, if it has one.
  static constexpr std::string_view runtime_name = [] {
    if constexpr (requires { std::string_view(X::runtime_name); })
      return std::string_view(X::runtime_name);
    return std::string_view("engine");
  }();
  static constexpr std::uint64_t most_in_flight = 65536;

  /// Hands its arguments to the executor. Throws ValueError for a RuntimeOptions that asks for 0 or
  /// too many workers.
  template <class... Arguments>
  requires(!D::exists) && std::constructible_from<X, Arguments...>
  explicit Engine(Arguments&&... arguments)
      : driver_helps_((check(arguments) && ...)),
        executor_(std::make_unique<X>(static_cast<Arguments&&>(arguments)...)),
        thread_(bodies(executor_->workers()), &link_->driver()),
        workspaces_(static_cast<std::size_t>(bodies(executor_->workers()))) {}
  /// Hands the options to the executor, what follows to the device. Throws likewise.
  template <class... Arguments>
  requires D::exists && std::constructible_from<X, RuntimeOptions const&> &&
               std::constructible_from<D, Arguments...>
  explicit Engine(RuntimeOptions const& options = {}, Arguments&&... device)
      : driver_helps_(check(options)),
        executor_(std::make_unique<X>(options)),
        devices_(static_cast<Arguments&&>(device)...),
        thread_(bodies(executor_->workers()), &link_->driver()),
        workspaces_(static_cast<std::size_t>(bodies(executor_->workers()))) {}
  /// Waits for all tasks; never throws. In a process that was forked since, where the executor's
  /// threads are not, it waits for nothing, and keeps the child's copies of executor and buffers.
  ~Engine() {
    bool const in_child = thread_.in_child();
    link_->close(!in_child);
    if (in_child) {
      (void)executor_.release();
      progress_.forget_sleepers();
      return;
    }
    auto const inside = thread_.enter_to_destroy();
    this->take_dropped();
    drain();
    tokens_.quiesce();
    if (polls_when_idle_) executor_->on_idle({});
    buffers_.release_all();
    executor_.reset();  // joins its threads: they touch the other members until then
  }

  Event submit(Task<DataHandle> const& task) {
    Inside const inside(*this, "submit");
    return submit(task, true, [](support::TaskNode&) {});
  }

  void wait(Event event) {
    Inside const inside(*this, "wait");
    support::check_event(event, this, submitted_, "wait");
    wait_for(event.sequence, [&] { return events_.has_ended(event.sequence); });
    failures_.throw_if_failed(event.sequence);
  }
  bool done(Event event) {
    support::check_event(event, this, submitted_, "done");
    if (events_.has_ended(event.sequence)) return true;
    auto const inside = thread_.enter_as_driver();
    if (!inside) {
      thread_.check_process("done");
      return false;
    }
    (void)tokens_.poll(true);
    if (driver_helps_ && executor_->workers().cpu <= 1) (void)executor_->help();
    return events_.has_ended(event.sequence);
  }
  void wait_all() {
    Inside const inside(*this, "wait_all");
    buffers_.check_nothing_locked();
    drain();
    if (polls_when_idle_) executor_->on_idle({});
    polls_when_idle_ = false;
    this->link()->forget_names();
    failures_.report();
  }

  bool here() const noexcept { return thread_.here(); }
  Workers workers() const { return executor_->workers(); }
  /// Names the tasks that wait for a token; "" if none does.
  std::string waiting_for() const { return tokens_.waiting_for(); }
  X& executor() noexcept { return *executor_; }
  D& device() noexcept
  requires D::exists {
    return devices_.device();
  }

 private:
  using Node = std::conditional_t<D::exists, support::DeviceTaskNode, support::TaskNode>;
  using Claims = detail::engine::Claims;
  using Waiters = detail::engine::Waiters;
  friend class support::StorageCalls<Engine>;
  friend class detail::engine::Nest<Engine>;
  friend class detail::engine::Nests<Engine>;
  friend struct Nesting<Engine>;
  struct DriverWork {
    Engine& self;
    bool help() const { return self.driver_helps_ && self.executor_->help(); }
    support::Tokens& tokens() const { return self.tokens_; }
  };

  /// Whether the driver may execute tasks, as far as this argument of the constructor says.
  template <class Argument> static bool check(Argument const& argument) {
    if constexpr (std::same_as<std::remove_cvref_t<Argument>, RuntimeOptions>)
      return !support::check_options(argument, "engine").own_driver;
    return true;
  }
  /// Threads that run bodies at a time, those of devices among them.
  static int bodies(Workers const& workers) {
    int const all = workers.cpu + workers.cuda;
    return all < 1 ? 1 : all;
  }
  support::StorageSource source() noexcept {
    if constexpr (StoringExecutor<X> && !D::exists) {
      return {[](void* x, std::size_t bytes, Place place) {
                return static_cast<X*>(x)->allocate(bytes, place);
              },
              [](void* x, void* pointer, std::size_t bytes, Place place) noexcept {
                static_cast<X*>(x)->free(pointer, bytes, place);
              },
              executor_.get(), &check_place_of_executor};
    }
    return devices_.source();
  }
  static void check_place_of_executor(void*, char const* call, Place place) {
    if (place != host && place != pinned)
      throw ValueError(concat(call, ": there is no ", name_of(place.kind), " ", place.device,
                              ": this runtime has its executor's memory on the host, and pinned"));
  }

  support::StorageState state() noexcept { return {thread_, failures_, buffers_}; }
  void wait_for_uses(support::Buffer const& buffer, Access access) {
    dependences_.each_user(buffer, access,
                           [this](support::TaskReference const& task) { wait_for(task); });
  }
  void wait_until_unused(support::Buffer const& buffer) {
    wait_for_uses(buffer, Access::write);
    dependences_.each_unordered(buffer,
                                [this](support::TaskReference const& task) { wait_for(task); });
  }
  bool is_unused(support::Buffer const& buffer) const { return dependences_.is_idle(buffer); }

  template <class Take> DataHandle make(Take take) {
    dependences_.prepare(buffers_.count());
    DataHandle const handle = take();
    dependences_.reset(handle.index);
    return handle;
  }

  /// Submits a task to which extend(node) adds what a Task has not. `commutes`: it is in groups,
  /// with claims where it accumulates.
  template <class Extend> Event submit(Task<DataHandle> const& task, bool commutes, Extend extend) {
    progress_.make_room(DriverWork{*this});
    support::TaskNode& node = take_node();
    std::span<support::TaskReference const> producers;
    try {
      producers = fill(node, task, commutes);
      extend(node);
    } catch (...) {
      free_nodes_.push(node);
      throw;
    }
    std::uint64_t const sequence = ++submitted_;
    support::BufferTable::commit(node.uses, support::Ticket{sequence});
    support::commit_parts(node.uses, support::Ticket{sequence});
    dependences_.insert(node, node.uses);
    start(node, producers);
    return {this, sequence};
  }

  support::TaskNode& take_node() {
    support::TaskNode* node = free_nodes_.pop();
    if (node == nullptr) {
      auto& chunk = nodes_.emplace_back(std::make_unique<Node[]>(nodes_per_chunk));
      for (std::size_t i = 1; i < nodes_per_chunk; ++i) free_nodes_.push(chunk[i]);
      node = &chunk[0];
    }
    node->number = ++numbers_;
    node->engine = this;
    node->retired = nullptr;
    node->block = nullptr;
    node->groups = support::Groups::none;
    node->claimed = false;
    node->claim_from = 0;
    node->start = node->ended = nullptr;
    begin_lists(*node);
    return *node;
  }
  static void begin_lists(support::TaskNode& node) noexcept {
    node.successors.store(nullptr, std::memory_order_relaxed);
    if constexpr (D::exists) {
      static_cast<Node&>(node).at_launch.store(nullptr, std::memory_order_relaxed);
      static_cast<Node&>(node).stream = {-1, 0};
    }
  }

  /// Copies and checks a submission; what must come before it. Changes nothing but the node.
  std::span<support::TaskReference const> fill(support::TaskNode& node,
                                               Task<DataHandle> const& task, bool commutes) {
    support::copy_task(node, task, submitted_ + 1);
    bool const usual = buffers_.bind(task, node.uses.data(), node.pointers.data());
    if (!usual && commutes) node.groups = support::groups_of(node.uses, true);
    if (node.groups == support::Groups::claimed) claims_.prepare(node.uses);
    auto const producers = collect(node, node.uses);
    node.edges.resize(producers.size());
    node.block = &events_.begin(submitted_ + 1);
    if (task.codelet->cpu == nullptr || devices_.own(node.uses)) poll_when_idle();
    if constexpr (D::exists)
      static_cast<Node&>(node).stream = devices_.stream_of(*task.codelet, node.uses);
    return producers;
  }
  void poll_when_idle() {
    if (polls_when_idle_) return;
    executor_->on_idle({&poll_idle, this});
    polls_when_idle_ = true;
  }

  std::span<support::TaskReference const> collect(support::TaskNode const& node,
                                                  std::span<Use<support::Buffer*> const> uses) {
    return dependences_.collect(
        node, uses, [this](auto const& tasks) { return join({tasks.data(), tasks.size()}); });
  }
  /// A node that comes after these.
  support::TaskReference join(std::span<support::TaskReference const> tasks) {
    joined_.clear();
    for (support::TaskReference const& task : tasks)
      if (!support::has_ended(task)) joined_.push_back(task);
    support::TaskNode& node = take_node();
    try {
      node.edges.resize(joined_.size());
    } catch (...) {
      free_nodes_.push(node);
      throw;
    }
    support::TaskReference const self{&node, node.number};
    start(node, joined_);
    return self;
  }

  void start(support::TaskNode& node, std::span<support::TaskReference const> producers) noexcept {
    progress_.start();
    if (link_behind(node, producers)) ready(node);
  }
  /// Behind the launch of those on its own stream, and the end of all others.
  static bool link_behind(support::TaskNode& node,
                          std::span<support::TaskReference const> producers) noexcept {
    if constexpr (support::DeviceTasks<D>::runs_ahead) {
      Stream const stream = static_cast<Node&>(node).stream;
      return support::link(
          node, producers, [=](support::TaskNode& producer) -> std::atomic<support::TaskEdge*>& {
            auto& its = static_cast<Node&>(producer);
            return stream.device >= 0 && its.stream == stream ? its.at_launch : its.successors;
          });
    } else {
      return support::link(node, producers);
    }
  }
  void ready(support::TaskNode& node) noexcept {
    if (node.block == nullptr) {
      if (node.retired != nullptr) buffers_.reclaim(*node.retired);
      (void)end(node, false);
      return;
    }
    try {
      executor_->spawn({&run_job, &node});
    } catch (...) {  // no memory for the executor's queue
      unspawned_.run(node, &run_job);
    }
  }

  /// Reclaims the buffer behind its tasks. Without memory to leave that to the last of them, waits
  /// for all: destructors retire, too.
  void retire_one(DataHandle handle) {
    support::Buffer const& buffer = buffers_.find(handle, "retire");
    if (buffer.is(support::Buffer::region)) return (void)buffers_.begin_retire(handle);
    if (!dependences_.is_idle(buffer)) {
      try {
        return retire_behind_tasks(handle);
      } catch (std::bad_alloc const&) {
        drain();
      }
    }
    buffers_.reclaim(buffers_.begin_retire(handle));
  }
  /// As if a last task wrote the buffer.
  void retire_behind_tasks(DataHandle handle) {
    support::TaskNode& node = take_node();
    std::span<support::TaskReference const> producers;
    try {
      producers = dependences_.collect_holders(node, buffers_[handle.index]);
      node.edges.resize(producers.size());
      node.retired = &buffers_.begin_retire(handle);
    } catch (...) {
      free_nodes_.push(node);
      throw;
    }
    start(node, producers);
  }

  /// Runs a task and then, on a worker, the first of its successors that becomes ready, and so on.
  /// The driver returns after one: it has its own work to do.
  static void run_job(void* state) noexcept {
    auto* node = static_cast<support::TaskNode*>(state);
    auto& self = *static_cast<Engine*>(node->engine);
    bool const keep = !self.thread_.is_driver();
    while (node != nullptr) node = self.run(*node, keep);
  }
  support::TaskNode* run(support::TaskNode& node, bool keep) noexcept {
    if (node.groups == support::Groups::claimed && !node.claimed) {
      if (!Claims::take(Waiters{}, Waiters::name(node))) return nullptr;
      node.claimed = true;
    }
    if (node.start != nullptr) [[unlikely]] {
      node.start(node);
      return nullptr;
    }
    if constexpr (DeviceExecutor<X>)
      if (run_on_device(node)) return end(node, keep);
    return run_body(node) ? end(node, keep) : nullptr;
  }
  /// Whether the task has ended; if not, its token ends it.
  bool run_body(support::TaskNode& node) noexcept {
    support::Ran ran;
    {
      support::DrivingThread::InTask const in_task(thread_);
      support::Workspaces::Loan const workspace(workspaces_, *node.body.codelet);
      if constexpr (D::exists)
        ran = devices_.run_body(failures_, tokens_, node.body, &node, workspace.block(),
                                [&] { launched(node); });
      else
        ran = support::run_body(failures_, tokens_, node.body, &node, workspace.block());
    }
    if (ran != support::Ran::ended) {
      progress_.notify();  // a blocked submit may go on
      return false;
    }
    if (bool const driver = thread_.is_driver(); tokens_.due(driver)) [[unlikely]]
      (void)tokens_.poll(driver);
    return true;
  }
  /// The task is on its stream.
  void launched(support::TaskNode& node) noexcept {
    bool spawned = false;
    support::unlink(static_cast<Node&>(node).at_launch, [&](support::TaskNode& next) {
      ready(next);
      spawned = true;
    });
    if (spawned && driver_helps_) progress_.notify();
  }
  /// False where the task has no device entry, or the calling thread no device.
  bool run_on_device(support::TaskNode& node) noexcept {
    void* const stream = node.body.codelet->cuda != nullptr ? executor_->stream() : nullptr;
    if (stream == nullptr) return false;
    support::DrivingThread::InTask const in_task(thread_);
    support::run_on_device(failures_, node.body, stream,
                           [this](void* own) { return executor_->synchronize(own); });
    return true;
  }
  static void token_ended(void* runtime, void* task, Status status) noexcept {
    auto& self = *static_cast<Engine*>(runtime);
    auto& node = *static_cast<support::TaskNode*>(task);
    self.devices_.settle(self.failures_, node.body, status);
    if (node.ended != nullptr) return node.ended(node);
    (void)self.end(node, false);
  }
  static void poll_idle(void* state) noexcept {
    (void)static_cast<Engine*>(state)->tokens_.poll(false);
  }

  /// Publishes the end of a node, and spawns what waited for it alone; but keeps and returns the
  /// first of them if asked.
  support::TaskNode* end(support::TaskNode& node, bool keep) noexcept {
    support::TaskNode* kept = nullptr;
    bool spawned = false;
    auto const go_on = [&](support::TaskNode& next) {
      bool const has_body = next.block != nullptr;
      if (keep && kept == nullptr && has_body) {
        kept = &next;
        return;
      }
      spawned |= has_body;
      ready(next);
    };
    if (node.claimed)
      Claims::release(Waiters{}, node.uses, [&](support::ClaimWaiter waiter) {
        Waiters::node(waiter).claimed = true;
        go_on(Waiters::node(waiter));
      });
    bool const is_join =
        node.block == nullptr && node.retired == nullptr;  // a lock may wait for it
    if constexpr (D::exists)
      if (auto& list = static_cast<Node&>(node).at_launch;
          list.load(std::memory_order_acquire) != support::TaskNode::closed())
        support::unlink(list, go_on);  // it was not launched
    support::unlink(node, go_on);
    std::uint64_t const sequence = node.block != nullptr ? node.body.sequence : 0;
    if (sequence != 0) events_.end(*node.block, sequence);
    free_nodes_.push(node);
    progress_.end(sequence, (spawned && driver_helps_) || is_join);
    return kept;
  }

  template <class Reached> void wait_for(std::uint64_t sequence, Reached&& reached) {
    progress_.wait_for(DriverWork{*this}, sequence, reached);
  }
  void wait_for(support::TaskReference const& task) {
    if (!support::has_ended(task))
      wait_for(task.node->body.sequence, [&] { return support::has_ended(task); });
  }
  /// Waits for the end of every node issued so far.
  void drain() { progress_.drain(DriverWork{*this}); }

  static constexpr std::size_t nodes_per_chunk = 64;

  bool const driver_helps_;
  std::unique_ptr<X> executor_;
  [[no_unique_address]] support::DeviceTasks<D> devices_;
  support::DrivingThread thread_;
  support::Workspaces workspaces_;
  support::Failures failures_;
  support::BufferTable buffers_{failures_, source(), &thread_};
  support::DependencyMap dependences_;
  Claims claims_;
  std::vector<support::TaskReference> joined_;
  support::Events events_;
  support::FreeStack<support::TaskNode> free_nodes_;
  std::vector<std::unique_ptr<Node[]>> nodes_;
  std::uint64_t numbers_ = 0;
  support::Submitted submitted_;
  bool polls_when_idle_ = false;
  detail::engine::Progress progress_{most_in_flight};
  detail::engine::Unspawned unspawned_;
  /// Of tasks that submit, once there was one (nest.hh): programs without pay for none of it.
  using Nests = detail::engine::Nests<Engine>;
  std::unique_ptr<Nests, void (*)(Nests*)> nests_{nullptr, nullptr};
  support::Tokens tokens_{this, &token_ended, &progress_.wake(), &thread_};
};
static_assert(ScopedRuntime<Engine<ExecutorArchetype>>);

}  // namespace nntile
