#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of an engine that submit tasks.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/stack.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/engine/engine.hh"
#include "nntile/runtime/engine/unspawned.hh"
#include "nntile/runtime/nested.hh"
#include "nntile/runtime/support/event_name.hh"
#include "nntile/runtime/support/nested_buffers.hh"

namespace nntile {

namespace detail::engine {

/// State that all bodies of one engine share: those that are ready, and the bodies that wait.
///
/// Law: each ready task is in the list until one thread takes it out, and for each a job was
/// spawned that takes some task out of it: so every task is taken, by a worker or by a body that
/// waits for it. The newest is taken first, so that a recursion goes down before it goes wide.
template <class E> class Nests {
 public:
  using Node = support::TaskNode;
  explicit Nests(E& engine) : engine_(engine) {}

  /// A nest that no task uses. Throws OutOfMemory (2^20 of them), std::bad_alloc.
  Nest<E>& take() {
    Lock guard(mutex_);
    if (free_.empty()) {
      if (nests_.size() + 1 >= support::EventName::domains)
        throw OutOfMemory(concat("engine: more than ", nests_.size(),
                                 " tasks that submit have not ended: let fewer run at a time"));
      free_.reserve(nests_.size() + 1);
      nests_.push_back(
          std::make_unique<Nest<E>>(engine_, *this, static_cast<std::uint32_t>(nests_.size() + 1)));
      free_.push_back(nests_.back().get());
    }
    Nest<E>& nest = *free_.back();
    free_.pop_back();
    return nest;
  }
  void give_back(Nest<E>& nest) noexcept {
    Lock guard(mutex_);
    free_.push_back(&nest);
  }

  /// Makes room so that offering one task more cannot fail. Throws std::bad_alloc.
  void reserve() {
    Lock guard(mutex_);
    if (submitted_ == ready_.capacity()) ready_.reserve(2 * submitted_ + 16);
    ++submitted_;
  }
  void forget() noexcept {
    Lock guard(mutex_);
    --submitted_;
  }

  /// Makes a task that waits for nothing any more available to all.
  void offer(Node& node) noexcept {
    {
      Lock guard(mutex_);
      ready_.push_back(&node);
    }
    changed_.notify_all();
    try {
      engine_.executor_->spawn({&run_newest, this});
    } catch (...) {  // no memory for the executor's queue
      unspawned_.run([this] { run_newest(this); });
    }
    if (engine_.driver_helps_) engine_.progress_.notify();
  }
  /// Runs a ready task of this nest or of one below it; false if there is none.
  bool run_one(Nest<E> const& nest) noexcept {
    Node* const node = take(&nest);
    if (node != nullptr) Nest<E>::run(*node);
    return node != nullptr;
  }
  /// Sleeps until over() may hold, or a task of that nest is ready.
  template <class Over> void sleep(Nest<E> const& nest, Over over) {
    Lock guard(mutex_);
    if (over() || find(&nest) != ready_.size()) return;
    // A token that is out may be given a poll by any thread, which this would not hear of.
    if (engine_.tokens_.outstanding() == 0) return changed_.wait(guard);
    bool woken = false;
    (void)changed_.wait_for(guard, nap_ns, [&] { return std::exchange(woken, true); });
  }
  /// Wakes the bodies that wait: something has ended.
  void notify() noexcept {
    {
      Lock const guard(mutex_);
    }
    changed_.notify_all();
  }

 private:
  static constexpr std::int64_t nap_ns = 50'000;

  static void run_newest(void* state) noexcept {
    if (Node* const node = static_cast<Nests*>(state)->take(nullptr)) Nest<E>::run(*node);
  }
  /// The newest that is part of that nest, or of any; null if there is none.
  Node* take(Nest<E> const* nest) noexcept {
    Lock guard(mutex_);
    std::size_t const at = find(nest);
    if (at == ready_.size()) return nullptr;
    Node* const node = ready_[at];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
    --submitted_;
    return node;
  }
  std::size_t find(Nest<E> const* nest) const noexcept {
    for (std::size_t at = ready_.size(); at-- > 0;)
      if (nest == nullptr || nest->holds(*ready_[at])) return at;
    return ready_.size();
  }

  E& engine_;
  Mutex mutex_;
  Condition changed_;
  Unspawned unspawned_;
  std::vector<Node*> ready_;
  std::size_t submitted_ = 0;  // that were not taken yet
  std::vector<std::unique_ptr<Nest<E>>> nests_;
  std::vector<Nest<E>*> free_;
};

/// The runtime that the body of a task submits into. Its domain is that of its body's thread alone,
/// which hands it with the last count to the thread that closes it.
template <class E> class Nest : public support::NestedCalls {
  using Node = support::TaskNode;

 public:
  using Handle = DataHandle;
  /// A task that submits, until its body runs.
  struct Submits {
    NestingBody<Nest> body;
    std::vector<DataHandle> handles;
  };

  Nest(E& engine, Nests<E>& nests, std::uint32_t number)
      : engine_(engine),
        nests_(nests),
        number_(number),
        submitted_(support::EventName{number, 0}.pack()),
        buffers_(engine.failures_, engine.devices_.source()) {}

  /// Makes the task of a node one that submits, into the engine or into a nest.
  static void fill(Node& node, NestingTask<Nest>&& task) {
    auto submits = std::make_unique<Submits>();
    for (Use<DataHandle> const& use : task.uses) submits->handles.push_back(use.handle);
    submits->body = std::move(task.body);
    node.start = &start;
    node.submits = submits.release();
  }

  /// Runs a task that is part of another.
  static void run(Node& node) noexcept {
    if (node.start != nullptr) return node.start(node);
    Nest& nest = *static_cast<Nest*>(node.nest);
    if (nest.engine_.run_body(node)) return end(node);
    nest.nests_.notify();  // for one that is to poll
  }

  DataHandle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    reclaim();
    dependences_.prepare(buffers_.count());
    return buffers_.handle_of(buffers_.allocate(bytes, place, lifetime));
  }
  void retire(DataHandle handle) {
    retire_one(handle);
    reclaim();
  }
  ScopeName open_scope(Lifetime lifetime, CallSite site) {
    return {buffers_.open_scope(lifetime, site).number};
  }
  void close_scope(Lifetime lifetime, ScopeName name) {
    buffers_.close_scope(lifetime, name, [this](DataHandle handle) { retire_one(handle); });
    reclaim();
  }
  Event submit(Task<DataHandle> const& task) {
    return submit(task, [](Node&) {});
  }
  Event submit_nesting(NestingTask<Nest>&& task) {
    return submit({&support::nesting_codelet, task.uses, {}, task.hints, task.label},
                  [&](Node& node) { fill(node, std::move(task)); });
  }
  void wait(Event event) {
    check(event, "wait");
    if (event.runtime == nullptr) return;
    wait_for(tasks_[event.sequence - first_]);
    engine_.failures_.throw_if_failed(event.sequence);
  }
  bool done(Event event) {
    check(event, "done");
    if (event.runtime == nullptr) return true;
    support::TaskReference const& task = tasks_[event.sequence - first_];
    if (support::has_ended(task)) return true;
    check_stack(stack_, "engine");
    (void)engine_.tokens_.poll(engine_.thread_.is_driver());
    (void)nests_.run_one(*this);
    return support::has_ended(task);
  }
  void wait_all() {
    buffers_.check_nothing_locked();
    help_until([this] { return live_.load(std::memory_order_seq_cst) == 1; });
    reclaim(retired_.size());
    engine_.failures_.report(first_, submitted_);
  }
  std::span<std::byte> lock(DataHandle handle, Access access) {
    support::Buffer& buffer = buffers_.check_lock(handle, access);
    dependences_.each_user(buffer, access,
                           [this](support::TaskReference const& task) { wait_for(task); });
    engine_.failures_.check_lock(buffer, access);
    return buffers_.begin_lock(buffer, access);
  }
  void unlock(DataHandle handle) { buffers_.end_lock(handle); }

  /// Whether a task is part of this nest, or of one below it.
  bool holds(Node const& node) const noexcept {
    for (auto const* nest = static_cast<Nest const*>(node.nest); nest != nullptr;
         nest = static_cast<Nest const*>(nest->outer_->nest))
      if (nest == this) return true;
    return false;
  }

 private:
  static constexpr std::uint32_t most_in_flight = 4096;
  static constexpr std::size_t most_nodes_per_chunk = 64;

  /// Node::start.
  static void start(Node& node) noexcept {
    auto& engine = *static_cast<E*>(node.engine);
    std::unique_ptr<Submits> submits(static_cast<Submits*>(node.submits));
    // As if the body had run, what it holds ends inside the task.
    auto const end_unstarted = [&] {
      {
        support::DrivingThread::InTask const in_task(engine.thread_);
        submits.reset();
      }
      end(node);
    };
    if (engine.failures_.any_marked() && engine.failures_.cancel_if_marked(node.body))
      return end_unstarted();
    Nest* nest = nullptr;
    try {
      nest = &engine.nests_->take();
      nest->begin(node, *submits);
    } catch (std::exception const& error) {
      if (nest != nullptr) nest->nests_.give_back(*nest);
      engine.failures_.fail(node.body, error.what());
      return end_unstarted();
    }
    {
      support::DrivingThread::InTask const in_task(engine.thread_);
      support::DefaultFloatEnvironment const environment;
      Nested<Nest> nested(*nest, nest->begin_body());
      nest->cause_ = submits->body.run(nested);
      nest->end_body();
    }
    leave(nest);
  }
  void begin(Node& outer, Submits const& submits) {
    outer_ = &outer;
    buffers_.begin(number_, outer.body, submits.handles);
    dependences_.prepare(buffers_.count());  // tasks that it still names have all ended
    first_ = submitted_ + 1;
    tasks_.clear();
    retired_.clear();
    live_.store(1, std::memory_order_relaxed);
  }

  template <class Extend> Event submit(Task<DataHandle> const& task, Extend extend) {
    if (live_.load(std::memory_order_relaxed) > most_in_flight)
      help_until([this] { return live_.load(std::memory_order_seq_cst) <= most_in_flight / 2; });
    Node& node = take_node();
    std::span<support::TaskReference const> producers;
    try {
      support::copy_task(node, task, submitted_ + 1);
      buffers_.bind(task, node.uses.data(), node.pointers.data());
      producers = dependences_.collect(node, node.uses,
                                       [](auto const&) { return support::TaskReference{}; });
      node.edges.resize(producers.size());
      if (tasks_.size() == tasks_.capacity()) tasks_.reserve(2 * tasks_.size() + 8);
      nests_.reserve();
      try {
        extend(node);
      } catch (...) {
        nests_.forget();
        throw;
      }
    } catch (...) {
      free_nodes_.put_back(node);
      throw;
    }
    tasks_.push_back({&node, node.number});
    std::uint64_t const sequence = ++submitted_;
    support::BufferTable::commit(node.uses, support::Ticket{sequence});
    dependences_.insert(node, node.uses);
    live_.fetch_add(1, std::memory_order_relaxed);
    if (support::link(node, producers)) nests_.offer(node);
    return {&engine_, sequence};
  }
  Node& take_node() {
    Node* node = free_nodes_.pop();
    if (node == nullptr) {
      std::size_t const count = chunks_.empty() ? 2 : most_nodes_per_chunk;
      auto& chunk = chunks_.emplace_back(std::make_unique<typename E::Node[]>(count));
      for (std::size_t i = 1; i < count; ++i) free_nodes_.put_back(chunk[i]);
      node = &chunk[0];
    }
    node->number = ++numbers_;
    node->engine = &engine_;
    node->nest = this;
    node->start = nullptr;
    node->ended = &end;
    node->groups = support::Groups::none;  // in order
    E::begin_lists(*node);
    return *node;
  }

  void retire_one(DataHandle handle) {
    support::Buffer& buffer = buffers_.begin_retire(handle);
    try {
      retired_.push_back(&buffer);
    } catch (std::bad_alloc const&) {  // no memory to note it: it ends with the outer task
    }
  }
  /// Frees retired buffers whose tasks have ended, among the next `looks`, since a body may have
  /// thousands.
  void reclaim(std::size_t looks = 16) {
    for (looks = std::min(looks, retired_.size()); looks > 0; --looks) {
      if (looked_ >= retired_.size()) looked_ = 0;
      support::Buffer*& buffer = retired_[looked_];
      if (!dependences_.is_idle(*buffer)) {
        ++looked_;
        continue;
      }
      buffers_.reclaim(*buffer);
      buffer = retired_.back();
      retired_.pop_back();
    }
  }

  void wait_for(support::TaskReference const& task) {
    help_until([&] { return support::has_ended(task); });
  }
  /// Runs tasks of this body, and no others: any other could in its turn wait for what is below it
  /// on this stack.
  template <class Over> void help_until(Over over) {
    if (over()) return;
    check_stack(stack_, "engine");
    support::DefaultFloatEnvironment const environment;
    while (!over())
      if (!nests_.run_one(*this) && !engine_.tokens_.poll(engine_.thread_.is_driver()))
        nests_.sleep(*this, over);
  }

  /// Ends a task that is part of another, or an engine's that submits.
  static void end(Node& node) noexcept {
    auto& engine = *static_cast<E*>(node.engine);
    auto* const nest = static_cast<Nest*>(node.nest);
    if (nest == nullptr) return (void)engine.end(node, false);
    nest->close(node);
    leave(nest);
  }
  void close(Node& node) noexcept {
    support::unlink(node, [this](Node& next) { nests_.offer(next); });
    free_nodes_.push(node);
  }
  /// Counts off what has ended of a task that submits, and ends the task with the last of it; and
  /// so on outwards.
  static void leave(Nest* nest) noexcept {
    E& engine = nest->engine_;
    while (nest->live_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
      Node& outer = *nest->outer_;
      nest->settle();
      nest = static_cast<Nest*>(outer.nest);
      if (nest == nullptr) {
        (void)engine.end(outer, false);
        break;
      }
      nest->close(outer);
    }
    engine.nests_->notify();
  }
  void settle() noexcept {
    std::string failed = engine_.failures_.reported(first_, submitted_);
    if (cause_.empty()) cause_ = std::move(failed);
    buffers_.end(std::exchange(cause_, {}));
    nests_.give_back(*this);
  }

  void check(Event event, char const* call) const {
    bool const own = event.sequence >= first_ && event.sequence <= submitted_;
    if (event.runtime != nullptr && (event.runtime != &engine_ || !own))
      throw LifetimeError(support::foreign_event(call));
  }

  E& engine_;
  Nests<E>& nests_;
  std::uint32_t const number_;
  std::uint64_t submitted_;
  std::uint64_t first_ = 0;
  Node* outer_ = nullptr;
  support::NestedBuffers buffers_;
  support::DependencyMap dependences_;
  std::vector<support::TaskReference> tasks_;  // by sequence, from `first_`
  std::vector<support::Buffer*> retired_;      // last tasks of these may not have ended
  std::size_t looked_ = 0;                     // place in it of the next look
  support::FreeStack<Node> free_nodes_;
  std::vector<std::unique_ptr<typename E::Node[]>> chunks_;
  std::uint64_t numbers_ = 0;
  /// The body, and each of its tasks.
  std::atomic<std::uint32_t> live_{0};
  std::string cause_;  // of the body's failure
  StackOfThread stack_;
};

}  // namespace detail::engine

/// Makes engines a NestingRuntime.
template <Executor X, Device D> struct Nesting<Engine<X, D>> {
  using E = Engine<X, D>;
  using Calls = detail::engine::Nest<E>;
  static Event submit(E& engine, NestingTask<Calls>&& task) {
    using Nests = detail::engine::Nests<E>;
    typename E::Inside const inside(engine, "orchestrate");
    if (engine.nests_ == nullptr)
      engine.nests_ = {new Nests(engine), [](Nests* nests) { delete nests; }};
    engine.poll_when_idle();
    return engine.submit({&support::nesting_codelet, task.uses, {}, task.hints, task.label}, false,
                         [&](support::TaskNode& node) {
                           support::check_apart(node.uses);
                           node.nest = nullptr;
                           Calls::fill(node, std::move(task));
                         });
  }
};

}  // namespace nntile
