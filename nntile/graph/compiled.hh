#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// CompiledGraph: a plan bound to a runtime, a store and an instruction set.

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/bind_options.hh"
#include "nntile/graph/binding_errors.hh"
#include "nntile/graph/bound_tasks.hh"
#include "nntile/graph/left_out.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/run.hh"
#include "nntile/graph/store.hh"
#include "nntile/graph/values.hh"
#include "nntile/graph/watch.hh"

namespace nntile {

/// Runs a plan any number of times. Storage that outlives a run is the store's; the arena is this
/// object's. Nothing is allocated during a run, and nothing in it waits for more than room. It
/// shares the plan, and waits for runs in flight when it ends; the LogicalGraph need not outlive
/// it. The store must, to its last call but the destructor: nothing checks that. Calls throw
/// LifetimeError once the runtime has ended.
template <Runtime R> class CompiledGraph {
 public:
  using Handle = typename R::Handle;

  /// Throws PlanError (there is no plan; the store cuts a tensor otherwise; hints name a worker or
  /// memory that the runtime lacks; parts do not fit together), TypeError (no kernel, or none of
  /// the device where it is to run), ValueError (no such instruction set, a runtime that lends a
  /// kernel no workspace), OutOfMemory.
  CompiledGraph(std::shared_ptr<Plan const> plan, TensorStore<R>& store,
                BindOptions const& options = {})
      : CompiledGraph(Unbound{}, std::move(plan), store) {  // whatever throws, the destructor runs
    stored_before_ = store.tensors().size();
    if (plan_->ranks() == 1) store.check_ranks(*plan_);  // no other rank binds it
    auto const call = [this] { return concat("binding of '", plan_->name(), "'"); };
    auto const messages = store.together(call, [&] {
      store.check_ranks(*plan_);
      detail::check_isa("compile", options.isa);
      Isa const isa = options.isa == Isa::best ? kernels::best() : options.isa;
      tasks_ = detail::BoundTasks(*plan_, *runtime_, isa, options.ops, options.trace, store.link());
      if constexpr (requires(R& runtime, Codelet const& codelet) {
                      runtime.device().runs(codelet);
                    })
        tasks_.check_devices(runtime_->device());
      Place allocating;
      try {
        bind_buffers(allocating);
        tasks_.lend_workspaces(*runtime_, allocating);
      } catch (ValueError const& error) {
        detail::fail_places(*plan_, error);
      } catch (OutOfMemory const& error) {
        detail::fail_memory(*plan_, allocating, error);
      }
      return tasks_.messages();
    });
    if (plan_->ranks() > 1) tasks_.number_messages(store.link(), messages);
    (void)store.together(call, [&] {  // the others would wait for its runs if one could not
      if (plan_->ranks() > 1) last_run_ = store.add_run();
      events_ = std::make_shared<DynamicArray<Event>>();
      for (PlannedPhase const& phase : plan_->phases()) parts_.push_back({phase.begin, phase.end});
      if (parts_.empty()) parts_.push_back({0, static_cast<std::uint32_t>(plan_->tasks().size())});
      for (Part& part : parts_) prepare(part, options.replay);
      return std::vector<std::byte>();
    });
    for (PlannedTensor const& tensor : plan_->tensors())  // last: nothing takes it back
      if (tensor.used && tensor.is_kept()) detail::join(stored_of(tensor).spec, tensor);
    stored_before_ = bound;
  }
  template <class Other>
  requires(!std::same_as<Other, R>)
  CompiledGraph(std::shared_ptr<Plan const> const&, TensorStore<Other>&, BindOptions const& = {}) {
    static_assert(std::same_as<Other, R>,
                  "a CompiledGraph<R> is bound to a TensorStore<R>: this store is on another type "
                  "of runtime");
  }
  /// A moved-from graph can only be destroyed or assigned to.
  CompiledGraph(CompiledGraph&& other) noexcept { swap(other); }
  CompiledGraph& operator=(CompiledGraph&& other) noexcept {
    CompiledGraph taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~CompiledGraph() {
    // Labels and arguments of tasks are the plan's.
    for (Part const& part : parts_)
      for (auto const* events : {&part.in_flight, &part.interrupted})
        for (Event const event : *events) life_.wait(event);
    for (Handle const& slot : slots_) life_.retire(slot);
    if (stored_before_ != bound) store_->take_back(stored_before_);
  }

  Plan const& plan() const { return *checked("plan").plan_; }
  TensorStore<R>& store() const { return *checked("store").store_; }
  /// Statistics that are known without waiting.
  GraphStats stats() const {
    (void)checked("stats");
    GraphStats stats{
        plan_->tasks().size(), runs_, 0, {plan_->memories().begin(), plan_->memories().end()}};
    tasks_.template count_workspaces<R>(stats.memory);
    for (auto const* input : inputs_) stats.bytes_bound += input->bytes_bound;
    return stats;
  }
  /// Of the last run that has ended, one per task of the plan; empty unless bound with `trace`. A
  /// task that a failure cancelled has none, unless the run was submitted amid the one before.
  std::span<TaskTime const> times() const { return tasks_.times(); }

  /// Hands a column-major array to an input, the whole or what this rank holds of it:
  /// bind_input("x", values), or, where braces give no type, bind_input<float>("x", {1, 2}). Copies
  /// it, waiting for that tensor's tasks alone, and calls `release`; of a double-buffered input the
  /// other buffer is filled while a run reads this one. An adopted one is read in place by later
  /// runs: see TensorStore::bind for how long the memory lives. Throws GraphError (no such tensor,
  /// or one that is not kept), ShapeError, TypeError; of an adopted one ValueError (alignment, an
  /// overlap), LifetimeError (a temporary).
  template <class T = void, class Values>
  void bind_input(std::string const& name, Values&& values, Release release = {}) {
    if constexpr (detail::ArrayOf<Values, T>) {
      auto& stored = kept("bind_input", name);
      detail::bind_values(*store_, stored, values, detail::is_lasting<Values>, release);
    } else {
      static_assert(detail::ArrayOf<Values, T>,
                    "bind_input: values are an array, vector or span of the C++ type of a dtype, "
                    "which is T where one is named: bind_input<T>(name, values)");
    }
  }
  template <Element T> void bind_input(std::string const& name, std::initializer_list<T> values) {
    auto& stored = kept("bind_input", name);
    detail::bind_values(*store_, stored, values, false);
  }
  /// Copies an output, parameter or state out. Waits for that tensor's tasks alone. Throws as
  /// bind_input does; LifetimeError before the first run.
  template <Element T> std::vector<T> get_output(std::string const& name) const {
    auto& stored = kept("get_output", name);  // first: there is no store after a move
    return store_->template read<T>(stored);
  }
  /// A tensor that outlives runs. Throws GraphError, naming `call`, where there is none of that
  /// name or it is not kept.
  typename TensorStore<R>::Stored& kept(char const* call, std::string const& name) const {
    for (auto* const input : checked(call).inputs_)
      if (input->spec.name == name) return *input;
    for (PlannedTensor const& tensor : plan_->tensors()) {
      if (tensor.name != name) continue;
      // The store may have another graph's of that name.
      if (!tensor.is_kept()) detail::fail_unknown(*plan_, call, name);
      if (auto* const found = store_->find(name, tensor.tiling.shape())) return *found;
      detail::fail_unknown(*plan_, call, name);
    }
    if (!store_->contains(name)) detail::fail_unknown(*plan_, call, name);
    return store_->at(name);
  }

  /// Has each later run end with a copy of a kept tensor, which any thread may look at while the
  /// next ones run: auto const loss = step.watch<float>("loss"), and there loss.latest(). Throws as
  /// get_output does, but for a value. Cost: a copy and a task a run, for as long as a Watch of it
  /// lives; memory: three times the tensor.
  template <Element T> Watch<T> watch(std::string const& name) {
    auto const& stored = kept("watch", name);
    if (stored.spec.dtype != dtype_of<T>)
      throw TypeError(concat("watch: '", name, "' is ", name_of(stored.spec.dtype), ", not ",
                             name_of(dtype_of<T>)));
    if (stored.storage != Storage::stored)
      throw GraphError(concat("watch: '", name, "' is ", name_of(stored.storage), ", so that its ",
                              "memory changes with each binding; watch what a run computes"));
    store_->check_here(stored, "watch");
    [[maybe_unused]] auto const inside = drive("watch");
    auto block = std::make_shared<detail::WatchBlock>(name, stored.spec.tiling,
                                                      stored.spec.column_unit, sizeof(T));
    Watch<T> result(block);
    watches_.emplace_back(*runtime_, stored.spec, std::span<Handle const>(stored.tiles),
                          std::move(block));
    return result;
  }

  /// Submits one run and returns. Throws LifetimeError, before anything is submitted, where an
  /// input was never bound, or a parameter or state that is read has no value. Where it throws on
  /// one rank of several, others get TaskError: they are sent the cause in the place of tiles.
  GraphRun<R> execute_async() & {
    submit_parts("execute_async", 0, parts_.size());
    return {*runtime_, events_};
  }
  /// The same for one phase of a plan that keeps phases apart. The first may be run at any time,
  /// each other one behind the one before it; all of several ranks run the same ones, behind one
  /// that threw on some, too. Reads what inputs are bound to then, whatever phases before it have
  /// read. Write parameters and states before the first: ranks that were sent tiles of them keep
  /// these to the last phase. Throws PlanError (no such phase, or the plan does not keep them
  /// apart), LifetimeError (out of turn).
  GraphRun<R> execute_async(std::string_view phase) & {
    submit_phase("execute_async", phase);
    return {*runtime_, events_};
  }
  template <class Self = CompiledGraph> GraphRun<R> execute_async() && {
    static_assert(!std::same_as<Self, CompiledGraph>,
                  "execute_async() of a temporary graph: it ends with this statement; keep the "
                  "graph in a variable, or call execute()");
    return static_cast<CompiledGraph&>(*this).execute_async();
  }
  /// Runs once and waits for that run alone. Throws TaskError, and what execute_async does.
  void execute() {
    wait_for([&] { submit_parts("execute", 0, parts_.size()); });
  }
  void execute(std::string_view phase) {
    wait_for([&] { submit_phase("execute", phase); });
  }

 private:
  auto drive(char const* call) const { return detail::drive(checked(call).life_.get(call), call); }

  struct Unbound {};
  CompiledGraph(Unbound, std::shared_ptr<Plan const> plan, TensorStore<R>& store)
      : plan_(std::move(plan)), store_(&store), runtime_(&store.runtime()), life_(*runtime_) {
    if (plan_ == nullptr || plan_->tensors().empty())  // any other has those of its graph
      (void)store.together("binding", [this]() -> std::vector<std::byte> {
        detail::fail_without_plan(plan_.get());
      });
  }

  void swap(CompiledGraph& other) noexcept {
    std::swap(plan_, other.plan_);
    std::swap(store_, other.store_);
    std::swap(runtime_, other.runtime_);
    std::swap(life_, other.life_);
    std::swap(tasks_, other.tasks_);
    std::swap(slots_, other.slots_);
    std::swap(bindings_, other.bindings_);
    std::swap(binding_, other.binding_);
    std::swap(seen_, other.seen_);
    std::swap(switched_, other.switched_);
    std::swap(inputs_, other.inputs_);
    std::swap(parts_, other.parts_);
    std::swap(next_part_, other.next_part_);
    std::swap(next_of_others_, other.next_of_others_);
    std::swap(next_task_, other.next_task_);
    std::swap(runs_, other.runs_);
    std::swap(watches_, other.watches_);
    std::swap(events_, other.events_);
    std::swap(last_run_, other.last_run_);
  }

  CompiledGraph const& checked(char const* call) const {
    if (plan_ == nullptr)
      throw LifetimeError(concat(call,
                                 ": the compiled graph was moved from; use the one that it "
                                 "was moved to"));
    return *this;
  }

  /// The binding table takes over the tiles of inputs that were bound since the last run.
  void take_bindings() {
    for (Switched& input : switched_) {
      if (input.seen == input.stored->bindings) continue;
      bind_tiles(*input.stored, *input.tensor);
      input.seen = input.stored->bindings;
    }
  }

  using Program = program_t<R>;
  /// A range of tasks that is submitted at once: a phase, or all.
  struct Part {
    std::uint32_t begin, end;
    DynamicArray<std::uint32_t> sinks = {};  // tasks that nothing in the part waits for
    std::unique_ptr<Program> program = {};
    DynamicArray<Event> in_flight = {};    // perhaps; of its last run, which all before it precede
    DynamicArray<Event> interrupted = {};  // all tasks of runs cut short, or that are in no order
    bool values_known = false;             // all that it reads has been written
  };

  /// Waits for what submit_run() submits, also, of several ranks, where it throws.
  template <class Submit> void wait_for(Submit submit_run) {
    [[maybe_unused]] auto const inside = drive("execute");
    try {
      submit_run();
    } catch (...) {
      for (Part const& part : parts_)
        for (Event const event : part.interrupted)
          if (plan_->ranks() > 1) life_.wait(event);
      throw;
    }
    detail::wait_for(*runtime_, std::span<Event const>(*events_));
  }

  /// The store's entry for a kept tensor of the plan; of its name there may be other shapes.
  typename TensorStore<R>::Stored& stored_of(PlannedTensor const& tensor) const {
    return *store_->find(tensor.name, tensor.tiling.shape());
  }

  void submit_phase(char const* call, std::string_view name) {
    [[maybe_unused]] auto const inside = drive(call);
    std::size_t const at = plan_->phase(name);
    submit_parts(call, at, at + 1);
  }
  void submit_parts(char const* call, std::size_t first, std::size_t end) {
    [[maybe_unused]] auto const inside = drive(call);
    bool const in_turn = first == 0 || first == next_part_;
    bool const others_come = in_turn || first == next_of_others_;
    if (others_come) next_of_others_ = end;
    next_task_ = parts_[first].begin;
    try {
      if (!in_turn) detail::fail_out_of_turn(*plan_, call, first, next_part_);
      submit_run(first, end);
      note_in_flight(first, end);
    } catch (std::exception const& error) {
      if (plan_->ranks() > 1 && others_come) leave_out(first, end, error.what());
      throw;
    }
  }
  void submit_run(std::size_t first, std::size_t end) {
    std::span<Part> const parts = std::span(parts_).subspan(first, end - first);
    bool const known =
        std::all_of(parts.begin(), parts.end(), [](Part const& part) { return part.values_known; });
    if (!known) check_values(tasks(parts.front().begin, parts.back().end));
    take_bindings();
    // A GraphRun that is still in use keeps its events.
    if (events_.use_count() > 1) {
      std::size_t const room = events_->capacity();
      events_ = std::make_shared<DynamicArray<Event>>();
      events_->reserve(room);
    }
    erase_if(watches_, [](auto const& watch) { return !watch.wanted(); });
    events_->clear();
    next_part_ = 0;
    for (Part& part : parts) {
      std::size_t const before = events_->size();
      submit_part(part);
      part.in_flight.assign(std::span<Event const>(events_->begin() + before, events_->end()));
      if (!part.values_known) note_values(part);
    }
    next_part_ = end;
    if (end != parts_.size()) return;
    ++runs_;
    for (auto const& watch : watches_) events_->push_back(watch.submit(runs_));
  }
  void leave_out(std::size_t first, std::size_t end, char const* cause) noexcept try {
    next_part_ = 0;  // others go on from this run: none goes on from the one before
    for (Part& part : std::span(parts_).subspan(first, end - first))
      if (next_task_ <= part.begin)
        detail::exchange_nothing(*runtime_, *plan_, tasks_, part.begin, part.end, cause,
                                 {&part.in_flight, &part.interrupted});
    note_in_flight(first, end);
  } catch (std::exception const&) {
  }
  void note_in_flight(std::size_t first, std::size_t end) {
    if (last_run_ == nullptr) return;
    *last_run_ = *events_;
    for (std::size_t p = 0; p < parts_.size(); ++p) {  // transfers of other phases may be open
      if (p < first || p >= end) last_run_->append(parts_[p].in_flight);
      last_run_->append(parts_[p].interrupted);
    }
  }

  void submit_part(Part& part) {
    tasks_.forget_times(*runtime_, part.begin, part.end, {&part.in_flight, &part.interrupted});
    if constexpr (ReplayingRuntime<R>)
      if (part.program != nullptr)
        events_->push_back(runtime_->replay(*part.program, std::span<Handle const>(bindings_),
                                            std::span<std::byte const>{}));
    if (part.program == nullptr) submit_tasks(part);
    next_task_ = part.end;
  }

  std::span<PlannedTask const> tasks(std::uint32_t begin, std::uint32_t end) const {
    return plan_->tasks().subspan(begin, end - begin);
  }

  /// Calls visit(buffer, access) for the first use of each stored buffer, in the plan's order.
  template <class Visit> void each_first_use(std::span<PlannedTask const> tasks, Visit visit) {
    seen_.assign(plan_->buffers().size(), false);
    for (PlannedTask const& task : tasks)
      for (Use<BufferId> const& use : plan_->uses(task)) {
        if (plan_->buffers()[use.handle].slot != no_id || seen_[use.handle]) continue;
        seen_[use.handle] = true;
        visit(plan_->buffers()[use.handle], use.access);
      }
  }
  /// Throws LifetimeError where a run would read a stored tensor that nothing has written.
  void check_values(std::span<PlannedTask const> tasks) {
    each_first_use(tasks, [&](PlannedBuffer const& buffer, Access access) {
      PlannedTensor const& tensor = plan_->tensors()[buffer.tensor];
      if (!reads(access) || store_->has_value(stored_of(tensor), buffer.tile)) return;
      detail::fail_without_value(*plan_, tensor);
    });
  }
  /// Notes that the tensors which a run writes have values from then on.
  void note_values(Part& part) {
    each_first_use(tasks(part.begin, part.end), [&](PlannedBuffer const& buffer, Access) {
      stored_of(plan_->tensors()[buffer.tensor]).written[buffer.tile] = true;
    });
    part.values_known = true;
  }

  /// Allocates the arena's slots, and has the store allocate what it lacks: `at` this place.
  void bind_buffers(Place& at) {
    Plan const& plan = *plan_;
    slots_.reserve(plan.slots().size());
    for (PlannedSlot const& slot : plan.slots()) {
      at = slot.location.place;
      slots_.push_back(
          runtime_->allocate(static_cast<std::size_t>(slot.bytes), at, Lifetime::persistent));
    }
    binding_ = detail::BindingTable(plan);
    bindings_ = slots_;
    bindings_.resize(binding_.size());
    binding_.bind_turns(*runtime_, slots_, bindings_);
    seen_.reserve(plan.buffers().size());
    for (PlannedTensor const& tensor : plan.tensors()) {
      if (!tensor.used || !tensor.is_kept()) continue;
      at = tensor.place;
      auto& stored =
          store_->ensure(tensor, plan.buffers().subspan(tensor.first_buffer, tensor.buffer_count));
      if (tensor.attributes.external) inputs_.push_back(&stored);
      if (stored.storage != Storage::stored)
        switched_.push_back({&stored, stored.bindings, &tensor});
      bind_tiles(stored, tensor);
    }
  }
  void bind_tiles(typename TensorStore<R>::Stored const& stored, PlannedTensor const& tensor) {
    detail::BindingTable::each_stored(*plan_, tensor, [&](std::size_t buffer) {
      bindings_[binding_[buffer]] = stored.tiles[plan_->buffers()[buffer].tile];
    });
  }

  void prepare(Part& part, [[maybe_unused]] bool replay) {
    part.sinks = detail::sinks_of(*plan_, binding_, part.begin, part.end);
    part.in_flight.reserve(part.sinks.size());
    events_->reserve(events_->capacity() + part.sinks.size());
    if constexpr (ReplayingRuntime<R>)
      if (replay)
        part.program = std::make_unique<Program>(
            detail::program_of(*runtime_, *plan_, tasks_, binding_, part.begin, part.end));
    if (part.program == nullptr) part.interrupted.reserve(part.end - part.begin);
  }
  void submit_tasks(Part& part) {
    auto sink = part.sinks.begin();
    inplace_vector<Use<Handle>, max_operands> uses;
    if (!tasks_.in_order())
      erase_if(part.interrupted, [&](Event event) { return runtime_->done(event); });
    part.interrupted.reserve(part.interrupted.size() + (part.end - part.begin));
    try {
      for (; next_task_ < part.end; ++next_task_) {
        PlannedTask const& task = plan_->tasks()[next_task_];
        binding_.list(*plan_, next_task_, bindings_, uses);
        Event const event = submit(
            *runtime_, tasks_.task(task, std::span<Use<Handle> const>(uses.data(), uses.size())));
        part.interrupted.push_back(event);
        if (sink == part.sinks.end() || *sink != next_task_) continue;
        events_->push_back(event);
        ++sink;
      }
      if (tasks_.in_order()) part.interrupted.clear();
    } catch (std::exception const& error) {
      detail::submit_left_out(*runtime_, *plan_, tasks_, binding_, bindings_, next_task_, part.end,
                              error.what(), part.interrupted);
      next_task_ = part.end;
      throw;
    }
  }

  /// An input whose tiles change with its binding.
  struct Switched {
    typename TensorStore<R>::Stored const* stored;
    std::uint64_t seen;  // the binding that the table has
    PlannedTensor const* tensor;
  };

  std::shared_ptr<Plan const> plan_;
  TensorStore<R>* store_ = nullptr;
  R* runtime_ = nullptr;
  RuntimeRef<R> life_;
  static constexpr std::size_t bound = ~std::size_t{0};
  std::size_t stored_before_ = bound;  // tensors of the store, while the constructor binds
  detail::BoundTasks tasks_;
  DynamicArray<Handle> slots_, bindings_;
  detail::BindingTable binding_;
  DynamicArray<bool> seen_;  // buffers, in each_first_use
  DynamicArray<Switched> switched_;
  DynamicArray<typename TensorStore<R>::Stored*> inputs_;
  DynamicArray<Part> parts_;
  std::size_t next_part_ = 0;       // behind the one that was run last
  std::size_t next_of_others_ = 0;  // likewise, or that was left out here
  std::uint32_t next_task_ = 0;     // behind what a run has submitted
  std::uint64_t runs_ = 0;
  DynamicArray<detail::WatchTask<R>> watches_;
  std::shared_ptr<DynamicArray<Event>> events_;
  std::shared_ptr<DynamicArray<Event>> last_run_;  // across ranks, for the store
};

}  // namespace nntile
