#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// CompiledGraph: a plan bound to a runtime, a store and an instruction set.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "nntile/core/later.hh"
#include "nntile/graph/passes/lower.hh"
#include "nntile/graph/store.hh"
#include "nntile/graph/trace.hh"
#include "nntile/runtime/common/aligned.hh"
#include "nntile/tile/submit.hh"

namespace nntile {

namespace detail {

/// The arena's memory, freed when the last slot that was adopted from it has been let go of.
class ArenaBlock {
 public:
  static std::byte* allocate(std::size_t bytes, std::size_t slots, ArenaBlock*& block) {
    std::unique_ptr<ArenaBlock> made(new ArenaBlock(slots));
    made->memory_ = common::allocate_aligned(bytes);
    block = made.release();
    return static_cast<std::byte*>(block->memory_);
  }
  /// Lets go of one slot.
  static void release(void* state) noexcept { release(state, 1); }
  static void release(void* state, std::size_t slots) noexcept {
    auto* const block = static_cast<ArenaBlock*>(state);
    if (block->left_.fetch_sub(slots, std::memory_order_acq_rel) == slots) delete block;
  }
  ~ArenaBlock() { common::free_aligned(memory_); }

 private:
  explicit ArenaBlock(std::size_t slots) : left_(slots) {}
  void* memory_ = nullptr;
  std::atomic<std::size_t> left_;
};

}  // namespace detail

/// How a plan is bound.
struct BindOptions {
  Isa isa = Isa::best;
  /// Replays a recorded program where the runtime can; off, tasks are submitted one by one.
  bool replay = true;
  /// Notes when and where each task runs; see CompiledGraph::times(). Costs two clock reads a task.
  bool trace = false;
};

/// One run in flight; a copyable value, valid while its graph lives.
template <Runtime R> class GraphRun {
 public:
  GraphRun(R& runtime, std::span<Event const> events) : runtime_(&runtime), events_(events) {}

  /// Waits for this run alone. Throws TaskError for its first failed or cancelled task.
  void wait() const {
    std::exception_ptr first;
    for (Event const event : events_) {
      try {
        runtime_->wait(event);
      } catch (TaskError const&) {
        if (first == nullptr) first = std::current_exception();
      }
    }
    if (first != nullptr) std::rethrow_exception(first);
  }
  bool is_complete() const {
    for (Event const event : events_)
      if (!runtime_->done(event)) return false;
    return true;
  }

 private:
  R* runtime_;
  std::span<Event const> events_;
};

/// Runs a plan any number of times. Storage that outlives a run is the store's; the arena is this
/// object's. Nothing is allocated during a run, and nothing in it waits for more than room.
template <Runtime R> class CompiledGraph {
 public:
  using Handle = typename R::Handle;

  /// Throws PlanError (the store cuts a tensor otherwise), TypeError (no kernel), OutOfMemory.
  CompiledGraph(std::shared_ptr<Plan const> plan, TensorStore<R>& store,
                BindOptions const& options = {})
      : CompiledGraph(Unbound{}, std::move(plan), store) {  // whatever throws, the destructor runs
    if (!kernels::available(options.isa))
      throw ValueError(concat("compile: kernels for ", name_of(options.isa),
                              " are not in this build or this CPU lacks it"));
    Isa const isa = options.isa == Isa::best ? kernels::best() : options.isa;
    for (auto const& kernel : plan_->kernels())
      codelets_.push_back(
          detail::kernel_for(*kernel.op, kernel.element, kernel.source, kernel.mode, isa));
    if (options.trace) trace_tasks();
    bind_buffers();
    find_sinks();
    if constexpr (ReplayingRuntime<R>)
      if (options.replay) record();
  }
  CompiledGraph(CompiledGraph const&) = delete;
  CompiledGraph& operator=(CompiledGraph const&) = delete;
  ~CompiledGraph() {
    for (Handle const slot : slots_) runtime_.retire(slot);
  }

  Plan const& plan() const { return *plan_; }
  TensorStore<R>& store() const { return store_; }
  /// Of the last run that has ended, one per task of the plan; empty unless bound with `trace`.
  std::span<TaskTime const> times() const { return times_; }

  /// Copies a whole column-major array into an input. Waits for that tensor's tasks alone.
  template <Element T> void bind_input(std::string const& name, std::span<T const> values) {
    store_.template write<T>(name, values);
  }
  /// Copies an output, parameter or state out. Waits for that tensor's tasks alone.
  template <Element T> std::vector<T> get_output(std::string const& name) const {
    return store_.template read<T>(name);
  }

  /// Submits one run and returns. Throws LifetimeError where a stored tensor that is read was never
  /// written.
  GraphRun<R> execute_async() {
    if constexpr (ReplayingRuntime<R>) {
      if (program_ != nullptr) {
        events_[0] = runtime_.replay(*program_, std::span<Handle const>(bindings_),
                                     std::span<std::byte const>{});
        return {runtime_, {events_.data(), 1}};
      }
    }
    submit_tasks();
    return {runtime_, events_};
  }
  /// Runs once and waits for that run alone. Throws TaskError.
  void execute() { execute_async().wait(); }

 private:
  struct Unbound {};
  CompiledGraph(Unbound, std::shared_ptr<Plan const> plan, TensorStore<R>& store)
      : plan_(std::move(plan)), store_(store), runtime_(store.runtime()) {}

  void bind_buffers() {
    Plan const& plan = *plan_;
    Index arena = 0;
    for (Index const bytes : plan.slots()) arena += bytes;
    if (!plan.slots().empty()) {
      detail::ArenaBlock* block = nullptr;
      slots_.reserve(plan.slots().size());
      std::byte* at =
          detail::ArenaBlock::allocate(static_cast<std::size_t>(arena), plan.slots().size(), block);
      try {
        for (Index const bytes : plan.slots()) {
          slots_.push_back(runtime_.adopt({at, static_cast<std::size_t>(bytes)}, host,
                                          {&detail::ArenaBlock::release, block}));
          at += bytes;
        }
      } catch (...) {
        detail::ArenaBlock::release(block, plan.slots().size() - slots_.size());
        throw;
      }
    }
    // The binding table: the slots, then the stored tiles that the plan uses.
    bindings_ = slots_;
    binding_.resize(plan.buffers().size());
    typename TensorStore<R>::Stored* stored = nullptr;
    std::uint32_t of = no_id;
    for (std::size_t b = 0; b < plan.buffers().size(); ++b) {
      PlannedBuffer const& buffer = plan.buffers()[b];
      if (buffer.slot != no_id) {
        binding_[b] = buffer.slot;
        continue;
      }
      if (buffer.tensor != of) stored = &store_.ensure(plan.tensors()[of = buffer.tensor]);
      binding_[b] = static_cast<std::uint32_t>(bindings_.size());
      bindings_.push_back(stored->tiles[buffer.tile]);
    }
  }

  /// Tasks that nothing in the plan waits for: a run is over when they are.
  void find_sinks() {
    std::vector<bool> used(bindings_.size());  // by a later task
    std::vector<bool> written(bindings_.size());
    for (std::size_t t = plan_->tasks().size(); t-- > 0;) {
      PlannedTask const& task = plan_->tasks()[t];
      bool followed = false;
      for (auto const& use : plan_->uses(task)) {
        std::uint32_t const b = binding_[use.buffer];
        followed |= written[b] || (writes(use.access) && used[b]);
      }
      if (!followed) sinks_.push_back(static_cast<std::uint32_t>(t));
      for (auto const& use : plan_->uses(task)) {
        used[binding_[use.buffer]] = true;
        if (writes(use.access)) written[binding_[use.buffer]] = true;
      }
    }
    std::reverse(sinks_.begin(), sinks_.end());
    events_.resize(std::max<std::size_t>(sinks_.size(), 1));
  }

  /// Bodies that can be timed are wrapped; what a runtime completes later is left as it is.
  void trace_tasks() {
    times_.resize(plan_->tasks().size());
    for (std::size_t t = 0; t < times_.size(); ++t) {
      PlannedTask const& task = plan_->tasks()[t];
      traced_.push_back({codelets_[task.kernel], plan_->args(task).data(), &times_[t]});
    }
  }
  bool traced(PlannedTask const& task) const {
    return !traced_.empty() && codelets_[task.kernel]->cpu != nullptr;
  }
  Codelet const* codelet(PlannedTask const& task) const {
    return traced(task) ? &detail::traced_codelet : codelets_[task.kernel];
  }
  std::span<std::byte const> attributes(PlannedTask const& task) const {
    if (!traced(task)) return plan_->args(task);
    auto const number = static_cast<std::size_t>(&task - plan_->tasks().data());
    return std::as_bytes(std::span(&traced_[number], 1));
  }

  TaskLabel label(PlannedTask const& task) const {
    return {plan_->tensors()[task.tensor].name.c_str(), task.tile};
  }

  void record() requires ReplayingRuntime<R> {
    std::vector<later_t<ProgramUse, R>> uses;
    std::vector<later_t<ProgramTask, R>> tasks;
    for (auto const& task : plan_->tasks())
      for (auto const& use : plan_->uses(task)) uses.push_back({binding_[use.buffer], use.access});
    std::size_t at = 0;
    for (auto const& task : plan_->tasks()) {
      tasks.push_back({codelet(task),
                       {uses.data() + at, task.use_count},
                       attributes(task),
                       {-1, task.priority},
                       label(task)});
      at += task.use_count;
    }
    program_ =
        std::make_unique<decltype(runtime_.record(tasks, 0u, std::span<ProgramParameter const>{}))>(
            runtime_.record(tasks, static_cast<std::uint32_t>(bindings_.size()),
                            std::span<ProgramParameter const>{}));
  }

  void submit_tasks() {
    std::size_t sink = 0;
    std::size_t number = 0;
    inplace_vector<Use<Handle>, max_operands> uses;
    try {
      for (; number < plan_->tasks().size(); ++number) {
        PlannedTask const& task = plan_->tasks()[number];
        uses.clear();
        for (auto const& use : plan_->uses(task))
          uses.push_back({bindings_[binding_[use.buffer]], use.access});
        Event const event = submit(runtime_, Task<Handle>{codelet(task),
                                                          {uses.data(), uses.size()},
                                                          attributes(task),
                                                          {-1, task.priority},
                                                          label(task)});
        if (sink < sinks_.size() && sinks_[sink] == number) events_[sink++] = event;
      }
    } catch (std::exception const& error) {
      for (; number < plan_->tasks().size(); ++number)
        for (auto const& use : plan_->uses(plan_->tasks()[number]))
          if (writes(use.access))
            mark_unsubmitted(runtime_, bindings_[binding_[use.buffer]], error.what(),
                             label(plan_->tasks()[number]));
      throw;
    }
  }

  template <class Self> struct ProgramOf { using type = void; };
  template <ReplayingRuntime Self> struct ProgramOf<Self> { using type = typename Self::Program; };
  struct NoProgram {};
  using Program = std::conditional_t<ReplayingRuntime<R>, typename ProgramOf<R>::type, NoProgram>;

  std::shared_ptr<Plan const> plan_;
  TensorStore<R>& store_;
  R& runtime_;
  std::vector<later_t<Codelet, R> const*> codelets_;
  std::vector<later_t<TaskTime, R>> times_;
  std::vector<later_t<detail::TracedTask, R>> traced_;
  std::vector<Handle> slots_;
  std::vector<Handle> bindings_;
  std::vector<std::uint32_t> binding_;  // of a buffer of the plan
  std::vector<std::uint32_t> sinks_;
  std::vector<later_t<Event, R>> events_;
  std::unique_ptr<Program> program_;
};

/// Plans a graph around what the store holds, and binds it.
template <Runtime R>
CompiledGraph<R> compile(LogicalGraph const& graph, TensorStore<R>& store, PlanOptions options = {},
                         BindOptions const& bind = {}) {
  auto const kept = store.tilings();
  options.keep.insert(options.keep.end(), kept.begin(), kept.end());
  return CompiledGraph<R>(std::make_shared<Plan const>(graph, options), store, bind);
}

}  // namespace nntile
