#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks that submit tasks, each into a domain of its own.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/stack.hh"
#include "nntile/runtime/nested.hh"
#include "nntile/runtime/ring/nest_heaps.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/support/nested_buffers.hh"

namespace nntile {

namespace detail::ring {

/// The runtime that the body of a task submits into: a domain of the pool, with which this is kept.
///
/// Law: the task is a pending one of its own domain, ended by the thread that ends the last of its
/// body and its tasks. Its domain is that of its body's thread alone, which hands it with the last
/// count to the thread that closes it. Its tasks touch no buffer that tasks of another domain touch
/// unless the task itself is between them, so that no edge crosses domains.
template <class Policy> class Nest final : public support::NestedCalls, public Family<Policy> {
  using Machine = ring::Machine<Policy>;
  using Domain = ring::Domain<Policy>;

 public:
  using Handle = DataHandle;
  explicit Nest(Domain& domain)
      : Family<Policy>(domain.machine.families),
        machine_(domain.machine),
        submission_(domain),
        buffers_(machine_.failures, machine_.devices.source()) {}

  /// Runs a task that submits, as worker `self`. Pending::start.
  static void start(Machine& machine, std::uint32_t self, Pending<Policy>& task) noexcept {
    if (machine.failures.any_marked() && machine.failures.cancel_if_marked(task.body))
      return end_unstarted(machine, self, task);
    Nest* nest = nullptr;
    try {
      nest = &open(machine, Policy::Sizes::child_window);
      nest->begin(self, task);
    } catch (std::exception const& error) {
      if (nest != nullptr) nest->give_back();
      machine.failures.fail(task.body, error.what());
      return end_unstarted(machine, self, task);
    }
    nest->run();
  }

  DataHandle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    if (lifetime != Lifetime::persistent && bytes != 0)
      return allocate_in_heap(bytes, place, lifetime);
    submission_.driver.reclaim().collect();
    submission_.driver.reclaim().prepare_few(buffers_.count() + 1);
    support::Buffer const& buffer = buffers_.allocate(bytes, place, lifetime);
    submission_.driver.reclaim().users(buffer) = BufferUsers{};
    return buffers_.handle_of(buffer);
  }
  void retire(DataHandle handle) {
    submission_.driver.reclaim().collect();
    retire_one(handle);
  }
  ScopeName open_scope(Lifetime lifetime, CallSite site) {
    support::Scopes::check_open(lifetime);  // of others there is no heap
    prepare_heap(lifetime);
    support::Scope& scope = buffers_.open_scope(lifetime, site);
    heaps_->open_scope(scope);
    return {scope.number};
  }
  void close_scope(Lifetime lifetime, ScopeName name) {
    support::Scope& scope = buffers_.check_close(lifetime, name);
    if (buffers_.any_locked()) heaps_->check_close(scope);
    submission_.driver.reclaim().collect();
    heaps_->close_scope(scope);
    buffers_.end_scope(scope, [this](DataHandle handle) { retire_one(handle); });
  }

  Event submit(Task<DataHandle> const& task) {
    typename Policy::Trace::Submission trace(machine_.trace);
    Bound const bound(*this, task.uses.size());
    buffers_.bind(task, bound.uses, bound.pointers);
    std::span<Use<support::Buffer*> const> const uses(bound.uses, task.uses.size());
    return count_in(machine_.ends_later(*task.codelet, uses) ? 2 : 1, [&] {
      return submission_.submitter.submit_unusual(task, uses, bound.pointers, trace);
    });
  }
  Event submit_nesting(NestingTask<Nest>&& task) {
    Bound const bound(*this, task.uses.size());
    buffers_.bind(&support::nesting_codelet, task.label, task.uses, bound.uses, bound.pointers);
    return count_in(2, [&] {
      return submit(submission_.submitter, std::move(task), {bound.uses, task.uses.size()},
                    bound.pointers);
    });
  }
  /// Submits one into the root, and returns its sequence. Throws what BufferTable::bind does.
  static std::uint64_t submit(Machine& machine, Submitter<Policy>& submitter,
                              NestingTask<Nest>&& task) {
    DynamicArray<Use<support::Buffer*>> uses(task.uses.size());
    DynamicArray<void*> pointers(task.uses.size());
    machine.table.bind({&support::nesting_codelet, task.uses, {}, task.hints, task.label},
                       uses.data(), pointers.data());
    support::check_apart(uses);
    return submit(submitter, std::move(task), uses, pointers.data());
  }
  /// The same into any domain, for operands that were looked up.
  static std::uint64_t submit(Submitter<Policy>& submitter, NestingTask<Nest>&& task,
                              std::span<Use<support::Buffer*> const> uses, void* const* pointers) {
    return submitter.submit_pending(
        {&support::nesting_codelet, task.uses, {}, task.hints, task.label}, uses, pointers,
        [&](Pending<Policy>& pending) {
          pending.groups = support::Groups::none;
          pending.handles.clear();
          for (Use<DataHandle> const& use : task.uses) pending.handles.push_back(use.handle);
          pending.submits = std::move(task.body);
          pending.start = &start;
        });
  }

  void wait(Event event) {
    check(event, "wait");
    if (event.runtime == nullptr) return;
    submission_.wait(event.sequence);
    machine_.failures.throw_if_failed(event.sequence);
  }
  bool done(Event event) {
    check(event, "done");
    if (event.runtime == nullptr || submission_.over(event.sequence)) return true;
    check_stack(machine_.scheduler.worker(worker()).stack, "ring");
    (void)machine_.tokens.poll(machine_.thread.is_driver());
    submission_.driver.help_body_once();  // all others may be inside bodies that ask likewise
    submission_.driver.reclaim().collect();
    return submission_.over(event.sequence);
  }
  void wait_all() {
    buffers_.check_nothing_locked();
    submission_.wait_for_everything();
    report();
  }
  std::span<std::byte> lock(DataHandle handle, Access access) {
    support::Buffer& buffer = buffers_.check_lock(handle, access);
    auto& driver = submission_.driver;
    auto const user = [&] { return driver.next_user(buffer, access); };
    driver.block_until([&] { return user() == no_reference; }, user);
    machine_.failures.check_lock(buffer, access);
    return buffers_.begin_lock(buffer, access);
  }
  void unlock(DataHandle handle) { buffers_.end_lock(handle); }

  bool grow() noexcept override {
    if (larger_ != nullptr) return false;
    try {
      larger_ = &open(machine_, Policy::Sizes::larger_child_window);
    } catch (std::exception const&) {  // no memory: the few slots will do
      return false;
    }
    submission_.borrow(larger_->submission_);
    return true;
  }
  void close() noexcept override {
    submission_.driver.reclaim().collect();
    std::string failed = machine_.failures.reported(first_sequence_, last_sequence());
    if (cause_.empty()) cause_ = std::move(failed);
    if (heaps_ != nullptr) heaps_->end();
    buffers_.end(std::exchange(cause_, {}));
    this->detach();
    give_back();
  }

 private:
  /// Records of a task's operands while it is submitted.
  struct Bound {
    static constexpr std::size_t usual = 16;
    Bound(Nest& nest, std::size_t count) {
      if (count <= usual) return;
      nest.uses_.resize(count);
      nest.pointers_.resize(count);
      uses = nest.uses_.data();
      pointers = nest.pointers_.data();
    }
    Use<support::Buffer*> few_uses[usual];
    void* few_pointers[usual];
    Use<support::Buffer*>* uses = few_uses;
    void** pointers = few_pointers;
  };

  /// A free nest of that size. Throws OutOfMemory, std::bad_alloc.
  static Nest& open(Machine& machine, std::uint32_t slots) {
    Domain& domain = machine.domains.take(slots);
    try {
      if (domain.own_family == nullptr) domain.own_family = std::make_unique<Nest>(domain);
    } catch (...) {
      machine.domains.give_back(domain);
      throw;
    }
    return static_cast<Nest&>(*domain.own_family);
  }
  static void end_unstarted(Machine& machine, std::uint32_t self, Pending<Policy>& task) {
    task.submits = {};
    machine.end_pending(task, self);
  }

  void begin(std::uint32_t self, Pending<Policy>& task) {
    this->outer = &task;
    buffers_.begin(submission_.domain.number, task.body, task.handles);
    Domain& domain = submission_.domain;
    auto& reclaim = submission_.driver.reclaim();
    reclaim.restart(&buffers_, [](void* buffers, support::Buffer& buffer) {
      static_cast<support::NestedBuffers*>(buffers)->reclaim(buffer);
    });
    reclaim.clear_few(buffers_.count());
    domain.worker = self;
    domain.family = this;
    domain.outer_worker = task.worker;
    first_sequence_ = domain.window.next_sequence();
    this->inner = &domain;
    this->live.store(1, std::memory_order_relaxed);
    this->attach(task.domain->family);
  }
  void run() noexcept {
    {
      support::DefaultFloatEnvironment const environment;
      Nested<Nest> nested(*this, begin_body());
      cause_ = this->outer->submits.run(nested);
      end_body();
    }
    machine_.leave(worker(), this, 1);
  }
  void give_back() noexcept {
    if (Nest* const larger = std::exchange(larger_, nullptr)) {
      submission_.give_back_borrowed();
      machine_.domains.give_back(larger->submission_.domain);
    }
    submission_.domain.family = nullptr;
    machine_.domains.give_back(submission_.domain);
  }

  [[gnu::noinline]] DataHandle allocate_in_heap(std::size_t bytes, Place place, Lifetime lifetime) {
    buffers_.check_place(place);
    buffers_.check_scope(lifetime);
    return buffers_.handle_of(heaps_->allocate(bytes, lifetime));
  }
  [[gnu::noinline]] void prepare_heap(Lifetime lifetime) {
    if (heaps_ == nullptr)
      heaps_ =
          std::make_unique<NestHeaps<Policy>>(submission_.domain, submission_.driver, buffers_);
    heaps_->prepare(lifetime);
  }
  void retire_one(DataHandle handle) {
    support::Buffer& buffer = buffers_.begin_retire(handle);
    if (!NestHeaps<Policy>::end(buffer)) submission_.driver.reclaim().retire(buffer);
  }

  /// Submits a task that counts so much, unless it throws.
  template <class Submit> Event count_in(std::uint32_t count, Submit submit) {
    this->live.fetch_add(count, std::memory_order_relaxed);
    try {
      return {machine_.owner, submit()};
    } catch (...) {
      this->live.fetch_sub(count, std::memory_order_relaxed);
      throw;
    }
  }

  std::uint32_t worker() const { return submission_.domain.worker; }
  void check(Event event, char const* call) const {
    bool const given = event.runtime == machine_.owner && event.sequence >= first_sequence_ &&
                       event.sequence <= last_sequence();
    if (event.runtime != nullptr && !given) throw LifetimeError(support::foreign_event(call));
  }
  /// Throws the oldest failure that was not reported, and so reports all.
  void report() { machine_.failures.report(first_sequence_, last_sequence()); }
  std::uint64_t last_sequence() const { return submission_.domain.window.next_sequence() - 1; }

  Machine& machine_;
  Submission<Policy> submission_;
  Nest* larger_ = nullptr;  // lends its slots
  support::NestedBuffers buffers_;
  std::unique_ptr<NestHeaps<Policy>> heaps_;  // once a body has opened a scope
  std::uint64_t first_sequence_ = 0;
  std::string cause_;  // of the body's failure
  DynamicArray<Use<support::Buffer*>> uses_;
  DynamicArray<void*> pointers_;
};

}  // namespace detail::ring

/// Makes rings a NestingRuntime.
template <class Policy> struct Nesting<BasicRing<Policy>> {
  using Calls = detail::ring::Nest<Policy>;
  static Event submit(BasicRing<Policy>& ring, NestingTask<Calls>&& task) {
    typename BasicRing<Policy>::Inside const inside(ring, "orchestrate");
    return {&ring, Calls::submit(ring.machine_, ring.root_.submitter, std::move(task))};
  }
};

}  // namespace nntile
