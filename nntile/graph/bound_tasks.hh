#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The tasks of a plan as a runtime takes them: with codelets, arguments and labels.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/copy.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/last_users.hh"
#include "nntile/core/random.hh"
#include "nntile/core/rank_link.hh"
#include "nntile/graph/plan.hh"
#include "nntile/graph/trace.hh"
#include "nntile/tile/submit.hh"

namespace nntile::detail {

/// The codelet of a planned kernel, from the library, or from an op of the user's. Throws
/// TypeError; ValueError for an op of the user's that has the name of one of the library's.
inline Codelet const* find_codelet(PlannedKernel const& kernel, Isa isa,
                                   std::span<OpInfo const* const> ops, RankLink const& link) {
  if (kernel.kind == KernelKind::copy) return &copy_codelet;
  if (kernel.kind == KernelKind::send && link.send != nullptr) return link.send;
  if (kernel.kind == KernelKind::receive && link.receive != nullptr) return link.receive;
  if (kernel.kind != KernelKind::op)
    throw PlanError(concat("compile: the plan is for several ranks (its kernel '", kernel.name,
                           "' moves tiles), and the store has no communicator"));
  for (OpInfo const* const op : ops)
    if (kernel.type == op->type)
      return find_kernel(*op, kernel.element, kernel.second, kernel.mode, isa);
  auto const* const found =
      find_in_library(kernel.name, kernel.type, kernel.element, kernel.second, kernel.mode, isa);
  if (found == nullptr)
    throw TypeError(concat("compile: no kernel '", kernel.name, "' for ", name_of(kernel.element),
                           " in the library; bind an op of one's own by compile(graph, store), or "
                           "name it in BindOptions::ops"));
  return found;
}
/// The same for a runtime that can run it. Throws ValueError where it needs more workspace than the
/// runtime lends.
template <Runtime R>
Codelet const* codelet_for(R const& runtime, PlannedKernel const& kernel, Isa isa,
                           std::span<OpInfo const* const> ops, RankLink const& link) {
  Codelet const* const found = find_codelet(kernel, isa, ops, link);
  if (kernel.kind == KernelKind::op) check_workspace(runtime, *found, kernel.element);
  return found;
}

/// The positions of a plan's buffers in the binding table of its programs: the slots of the arena,
/// then the stored tiles that the plan uses and its rank holds, tensor by tensor, then turns:
/// memory of no meaning, a piece for each send of an input whose tiles change with its binding,
/// which the send writes. So it begins behind itself in the run before, as others do by the tiles
/// that they share; the receiver tells runs apart by the order of their messages alone.
class BindingTable {
 public:
  BindingTable() = default;
  explicit BindingTable(Plan const& plan)
      : of_buffer_(plan.buffers().size()), size_(static_cast<std::uint32_t>(plan.slots().size())) {
    for (std::size_t b = 0; b < of_buffer_.size(); ++b)
      if (plan.buffers()[b].slot != no_id) of_buffer_[b] = plan.buffers()[b].slot;
    for (PlannedTensor const& tensor : plan.tensors())
      each_stored(plan, tensor, [&](std::size_t buffer) { of_buffer_[buffer] = size_++; });
    for (std::uint32_t t = 0; t < plan.tasks().size(); ++t) {
      PlannedTask const& task = plan.tasks()[t];
      if (plan.kernels()[task.kernel].kind != KernelKind::send) continue;
      PlannedBuffer const& sent = plan.buffers()[plan.uses(task)[0].handle];
      PlannedTensor const& tensor = plan.tensors()[sent.tensor];
      if (tensor.is_kept() && tensor.storage != Storage::stored && sent.is_stored(plan.rank()))
        turns_.push_back(t);
    }
    size_ += static_cast<std::uint32_t>(turns_.size());
    memory_.resize(turns_.size());
  }

  std::uint32_t size() const { return size_; }
  std::uint32_t operator[](std::size_t buffer) const { return of_buffer_[buffer]; }
  std::uint32_t turns() const { return static_cast<std::uint32_t>(turns_.size()); }

  /// Calls visit(position, access) for the uses of a task, with its turn last.
  template <class Visit> void each_use(Plan const& plan, std::uint32_t task, Visit visit) const {
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[task]))
      visit(of_buffer_[use.handle], use.access);
    auto const turn = std::lower_bound(turns_.begin(), turns_.end(), task);
    if (turn != turns_.end() && *turn == task)
      visit(size_ - turns() + static_cast<std::uint32_t>(turn - turns_.begin()), Access::write);
  }
  /// The same as a list, with the handles of `bindings`.
  template <class Bindings, class Uses>
  void list(Plan const& plan, std::uint32_t task, Bindings const& bindings, Uses& uses) const {
    uses.clear();
    each_use(plan, task,
             [&](std::uint32_t at, Access access) { uses.push_back({bindings[at], access}); });
  }
  /// Adopts the memory of the turns, to be retired with `handles`.
  template <Runtime R>
  void bind_turns(R& runtime, DynamicArray<typename R::Handle>& handles,
                  DynamicArray<typename R::Handle>& bindings) {
    for (std::uint32_t i = 0; i < turns(); ++i) {
      handles.push_back(
          runtime.adopt(std::as_writable_bytes(std::span(&memory_[i], 1)), host, Release{}));
      bindings[size_ - turns() + i] = handles.back();
    }
  }

  /// Calls visit(buffer) for the tiles of a tensor that the store keeps on the plan's rank.
  template <class Visit>
  static void each_stored(Plan const& plan, PlannedTensor const& tensor, Visit visit) {
    if (!tensor.used || tensor.storage == Storage::view || tensor.storage == Storage::arena) return;
    std::size_t const end = tensor.first_buffer + tensor.buffer_count;
    for (std::size_t buffer = tensor.first_buffer; buffer < end; ++buffer)
      if (plan.buffers()[buffer].is_stored(plan.rank())) visit(buffer);
  }

 private:
  DynamicArray<std::uint32_t> of_buffer_;
  DynamicArray<std::uint32_t> turns_;   // tasks that have one
  DynamicArray<std::uint64_t> memory_;  // of these
  std::uint32_t size_ = 0;
};

/// Tasks of a plan with the codelets of an instruction set; bodies that can be timed are wrapped
/// where `trace` says so. The plan outlives it.
class BoundTasks {
 public:
  BoundTasks() = default;
  /// Throws what codelet_for does, PlanError for a hint at a worker that the runtime lacks.
  template <Runtime R>
  BoundTasks(Plan const& plan, R const& runtime, Isa isa, std::span<OpInfo const* const> ops,
             bool trace, RankLink const& link = {})
      : plan_(&plan) {
    for (PlannedKernel const& kernel : plan.kernels())
      codelets_.push_back(codelet_for(runtime, kernel, isa, ops, link));
    if (plan.ranks() != 1) bind_transfers(link);
    by_place_ = requires(R& own) { own.device(); };
    if (trace) trace_tasks();
    if (!plan.data().hints.empty()) check_hints(runtime.workers());
    for (Use<BufferId> const& use : plan.data().uses) in_order_ &= use.access != Access::accumulate;
  }

  /// Throws TypeError where an op runs on a device that has no code for it.
  template <class D> void check_devices(D const& device) const {
    for (PlannedTask const& task : plan_->tasks()) {
      PlannedKernel const& kernel = plan_->kernels()[task.kernel];
      Codelet const& own = *codelets_[task.kernel];
      if (!is_on_device(task.location.place) || kernel.kind != KernelKind::op || device.runs(own) ||
          own.async != nullptr)
        continue;
      throw TypeError(concat("compile: plan '", plan_->name(), "': ", kernel.name, " of '",
                             plan_->tensors()[task.tensor].name, "' for ", name_of(kernel.element),
                             " is to run at ", to_string(task.location.place),
                             ", which has no code for it; give its codelet an entry for devices, "
                             "or keep what it writes on the host (PlanOptions::place)"));
    }
  }

  /// Has each device of a runtime that lends workspaces lend what the tasks there need. Throws what
  /// `lend` does; `at` says where.
  template <class R> void lend_workspaces(R& runtime, Place& at) const {
    if constexpr (lends<R>)
      for (MemoryReport const& report : plan_->memories())
        if (std::size_t const bytes = workspace(report.location.place); bytes != 0) {
          at = report.location.place;
          runtime.device().lend(at.device, bytes);
        }
  }
  /// Notes what they lend.
  template <class R> void count_workspaces(std::span<MemoryReport> memory) const {
    if constexpr (lends<R>)
      for (MemoryReport& report : memory)
        report.workspace = static_cast<Index>(workspace(report.location.place));
  }

  /// The bytes that ranks exchange of their messages: PlanData::messages, and a sum of hashes that
  /// is 0 over all ranks if each message is received as it is sent.
  std::vector<std::byte> messages() const {
    Messages own{plan_->data().messages};
    for (Transfer const& transfer : transfers_) {
      TransferCall const& call = transfer.call;
      std::int64_t from = plan_->rank(), to = call.peer;
      bool const sends =
          plan_->kernels()[plan_->tasks()[transfer.task].kernel].kind == KernelKind::send;
      if (!sends) std::swap(from, to);
      std::uint64_t hash = hash_name(call.tensor);
      for (std::int64_t const each : {from, to, call.number, call.bytes, call.tile})
        hash = mix_bits(hash ^ static_cast<std::uint64_t>(each));
      own.sum += sends ? hash : 0 - hash;
    }
    auto const bytes = std::as_bytes(std::span(&own, 1));
    return {bytes.begin(), bytes.end()};
  }
  /// Takes numbers for the messages of the plan's ranks, which do so together, once: as many as the
  /// largest says of what messages() gave on each. Throws PlanError, on all, where a message has
  /// one end alone, or another tile at the other.
  void number_messages(RankLink const& link, std::vector<std::vector<std::byte>> const& of_ranks) {
    Messages all;
    for (auto const& bytes : of_ranks) {
      Messages its;
      std::memcpy(&its, bytes.data(), sizeof its);
      all.count = std::max(all.count, its.count);
      all.sum += its.sum;
    }
    if (all.sum != 0)
      throw PlanError(concat("plan '", plan_->name(),
                             "': the ranks' parts send other messages than ",
                             "they receive: plan all of them anew, with the same options"));
    std::int64_t const messages = all.count;
    std::int64_t const first = link.reserve(link.engine, 2 * messages);  // and records of failures
    for (Transfer& transfer : transfers_) {
      transfer.call.number += first;
      transfer.call.record = transfer.call.number + messages;
    }
  }

  /// Whether each task of a run, submitted alone, comes behind itself in the run before: not where
  /// some accumulate, which do not wait for each other.
  bool in_order() const { return in_order_; }
  template <class Handle>
  Task<Handle> task(PlannedTask const& task, std::span<Use<Handle> const> uses) const {
    return {codelet(task), uses, arguments(task), plan_->hints(task), label(task), task.cost};
  }
  TaskLabel label(PlannedTask const& task) const {
    return {plan_->tensors()[task.tensor].name.c_str(), task.tile};
  }
  /// One per task, of the run that has ended last; none unless traced.
  std::span<TaskTime const> times() const { return times_; }
  /// Forgets those of a range of tasks, before its next run: one that a failure cancels has none
  /// then. Not while an event of a run before is to come, whose tasks note theirs.
  template <Runtime R>
  void forget_times(R& runtime, std::uint32_t begin, std::uint32_t end,
                    std::initializer_list<DynamicArray<Event> const*> before) {
    if (times_.empty()) return;
    for (auto const* events : before)
      for (Event const event : *events)
        if (!runtime.done(event)) return;
    std::fill(times_.begin() + begin, times_.begin() + end, TaskTime{});
  }

 private:
  /// Whether it has a LendingDevice.
  template <class R>
  static constexpr bool lends = requires(R& runtime) { runtime.device().lend(0, std::size_t{}); };

  /// The most bytes that a kernel of the plan is to be lent at a place.
  std::size_t workspace(Place place) const {
    std::size_t most = 0;
    if (is_on_device(place))
      for (PlannedTask const& task : plan_->tasks())
        if (task.location.place == place)
          most = std::max<std::size_t>(most, codelets_[task.kernel]->device_workspace);
    return most;
  }
  void check_hints(Workers const& workers) const {
    for (PlannedTask const& task : plan_->tasks())
      if (std::string const text = absent(plan_->hints(task), workers); !text.empty())
        throw PlanError(concat("plan '", plan_->name(), "': ", plan_->kernels()[task.kernel].name,
                               " of '", plan_->tensors()[task.tensor].name, "', tile ", task.tile,
                               ": ", text));
  }
  void bind_transfers(RankLink const& link) {
    for (std::size_t t = 0; t < plan_->tasks().size(); ++t) {
      PlannedTask const& task = plan_->tasks()[t];
      if (!is_transfer(plan_->kernels()[task.kernel].kind)) continue;
      TransferArgs args;
      std::memcpy(&args, plan_->args(task).data(), sizeof args);
      std::int64_t const bytes = plan_->buffers()[plan_->uses(task)[0].handle].payload();
      TaskLabel const its = label(task);
      transfers_.push_back({t, {link.engine, args.number, bytes, args.peer, its.tensor, its.tile}});
    }
  }
  TransferCall const* transfer(std::size_t task) const {
    auto const at = std::lower_bound(
        transfers_.begin(), transfers_.end(), task,
        [](Transfer const& transfer, std::size_t number) { return transfer.task < number; });
    return at != transfers_.end() && at->task == task ? &at->call : nullptr;
  }
  void trace_tasks() {
    times_.resize(plan_->tasks().size());
    for (std::size_t t = 0; t < times_.size(); ++t) {
      PlannedTask const& task = plan_->tasks()[t];
      traced_.push_back({codelets_[task.kernel], plan_->args(task).data(), &times_[t]});
    }
  }
  /// Tasks that a runtime completes later, or may run on a device, are left as they are; so are
  /// copies, which devices know by their codelet.
  bool traced(PlannedTask const& task) const {
    Codelet const& own = *codelets_[task.kernel];
    bool const on_cpu = own.cuda == nullptr || (by_place_ && host_reaches(task.location.place));
    return !traced_.empty() && own.cpu != nullptr && on_cpu && &own != &copy_codelet;
  }
  Codelet const* codelet(PlannedTask const& task) const {
    Codelet const* const own = codelets_[task.kernel];
    return traced(task) ? &traced_codelet_for(*own) : own;
  }
  std::span<std::byte const> arguments(PlannedTask const& task) const {
    auto const number = static_cast<std::size_t>(&task - plan_->tasks().data());
    if (!transfers_.empty())
      if (auto const* call = transfer(number)) return std::as_bytes(std::span(call, 1));
    if (!traced(task)) return plan_->args(task);
    return std::as_bytes(std::span(&traced_[number], 1));
  }

  struct Transfer {
    std::size_t task;
    TransferCall call;
  };
  struct Messages {
    std::int64_t count = 0;
    std::uint64_t sum = 0;
  };

  Plan const* plan_ = nullptr;
  DynamicArray<Codelet const*> codelets_;
  DynamicArray<TaskTime> times_;
  DynamicArray<TracedTask> traced_;
  DynamicArray<Transfer> transfers_;  // by task
  bool by_place_ = false;             // operands, not workers, decide what runs on a device
  bool in_order_ = true;
};

/// The tasks from `begin` to `end` that nothing among these waits for: they are over when those
/// are. What accumulates counts as a reader, as the next one of a buffer does not wait for it.
inline DynamicArray<std::uint32_t> sinks_of(Plan const& plan, BindingTable const& table,
                                            std::uint32_t begin, std::uint32_t end) {
  using Users = LastUsers<std::uint32_t>;
  DynamicArray<Users> users(table.size(), Users{no_id, {}});
  DynamicArray<bool> followed(end);
  for (std::uint32_t t = begin; t < end; ++t)
    for (auto const& use : plan.uses(plan.tasks()[t])) {
      Access const access = use.access == Access::accumulate ? Access::read : use.access;
      users[table[use.handle]].each_before(access, [&](std::uint32_t earlier) {
        if (earlier != no_id && earlier != t) followed[earlier] = true;
      });
      users[table[use.handle]].enter(access, t);
    }
  DynamicArray<std::uint32_t> sinks;
  for (std::uint32_t t = begin; t < end; ++t)
    if (!followed[t]) sinks.push_back(t);
  return sinks;
}

/// Records the tasks from `begin` to `end`, on the bindings of the table. Throws what record does.
template <ReplayingRuntime R>
program_t<R> program_of(R& runtime, Plan const& plan, BoundTasks const& bound,
                        BindingTable const& table, std::uint32_t begin, std::uint32_t end) {
  std::span<PlannedTask const> const tasks = plan.tasks().subspan(begin, end - begin);
  DynamicArray<Use<Binding>> uses;
  DynamicArray<std::size_t> ends;
  DynamicArray<ProgramTask> recorded;
  for (std::uint32_t t = begin; t < end; ++t) {
    table.each_use(plan, t, [&](std::uint32_t at, Access access) { uses.push_back({at, access}); });
    ends.push_back(uses.size());
  }
  std::size_t at = 0;
  for (std::size_t t = 0; t < tasks.size(); at = ends[t++])
    recorded.push_back(
        bound.task(tasks[t], std::span<Use<Binding> const>(uses.data() + at, ends[t] - at)));
  return runtime.record(recorded, table.size(), std::span<ProgramParameter const>{});
}

}  // namespace nntile::detail
