#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The tasks of all ranks of a job, what each waits for, and the messages between them: what a
// simulation runs.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nntile/graph/parts.hh"
#include "nntile/graph/simulate.hh"

namespace nntile {

/// The cost of a task, as far as models know: one of the few kernels and costs of a job.
struct TaskClass {
  std::string kernel;
  Cost cost;
  bool operator==(TaskClass const&) const = default;
};

/// Tasks of all ranks by number, those of a rank in the order of its part. 16 bytes for each, and
/// four for each of its followers.
struct JobTasks {
  enum class Kind : std::uint8_t { op, send, receive };
  struct Task {
    std::uint32_t what = 0;   // a class, or a message with the bits of its kind
    std::uint32_t waits = 0;  // number of predecessors on its rank
    std::uint32_t first_follower = 0;
    std::int32_t priority = 0;

    Kind kind() const { return static_cast<Kind>(what >> 30); }
    std::uint32_t number() const { return what & ((1u << 30) - 1); }
  };
  struct Message {
    std::uint32_t send = no_id, receive = no_id;  // tasks
    std::int32_t from = 0, to = 0;
    Index bytes = 0;
  };

  std::string name;
  std::vector<TaskClass> classes;
  std::vector<Task> tasks;
  std::vector<std::uint32_t> followers;  // of all tasks, in their order
  std::vector<std::uint32_t> first;      // task of each rank; the number of tasks behind the last
  std::vector<Message> messages;

  int ranks() const { return static_cast<int>(first.size()) - 1; }
  std::span<std::uint32_t const> followers_of(std::uint32_t task) const {
    std::size_t const begin = tasks[task].first_follower;
    std::size_t const end =
        task + 1 < tasks.size() ? tasks[task + 1].first_follower : followers.size();
    return std::span(followers).subspan(begin, end - begin);
  }
};

namespace detail {

/// Fills in a JobTasks rank by rank.
class JobTasksBuilder {
 public:
  using Kind = JobTasks::Kind;

  explicit JobTasksBuilder(std::string name) {
    job_.name = std::move(name);
    job_.first.push_back(0);
  }

  /// The class of a kernel and cost.
  std::uint32_t class_of(std::string const& kernel, Cost const& cost) {
    auto const next = static_cast<std::uint32_t>(job_.classes.size());
    auto const [at, is_new] = classes_.try_emplace(TaskClass{kernel, cost}, next);
    if (is_new) job_.classes.push_back(at->first);
    return at->second;
  }

  /// Adds the tasks of the next rank; what(task) gives kind and number of each. Throws PlanError
  /// where there are more of all ranks than numbers.
  template <class What> void add_rank(Plan const& part, What what) {
    TaskOrder const order = order_of(part);
    auto const base = static_cast<std::uint32_t>(job_.tasks.size());
    for (std::uint32_t t = 0; t < part.tasks().size(); ++t) {
      auto const [kind, number] = what(t);
      job_.tasks.push_back({static_cast<std::uint32_t>(kind) << 30 | number, order.earlier[t],
                            static_cast<std::uint32_t>(job_.followers.size()),
                            part.tasks()[t].priority});
      for (std::uint32_t const follower : order.followers[t])
        job_.followers.push_back(base + follower);
    }
    job_.first.push_back(static_cast<std::uint32_t>(job_.tasks.size()));
    if (job_.followers.size() > UINT32_MAX - (1u << 30))
      throw PlanError(concat("simulate: plan '", job_.name, "': ", job_.followers.size(),
                             " dependences on ", job_.ranks(), " ranks are too many; cut it into ",
                             "larger tiles"));
  }
  JobTasks& job() { return job_; }

 private:
  struct Hash {
    std::size_t operator()(TaskClass const& of) const {
      auto const mix = [](std::size_t a, std::int64_t b) {
        return (a ^ static_cast<std::size_t>(b)) * 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio
      };
      return mix(mix(std::hash<std::string>()(of.kernel), of.cost.flops), of.cost.bytes);
    }
  };

  JobTasks job_;
  std::unordered_map<TaskClass, std::uint32_t, Hash> classes_;
};

/// Pairs the two ends of messages of parts.
class MessageEnds {
 public:
  explicit MessageEnds(std::span<Plan const> parts) : parts_(parts) {}

  /// Adds a send or a receive of a part; throws PlanError where its peer is no other rank.
  void add(std::size_t rank, std::uint32_t task) {
    Plan const& part = parts_[rank];
    PlannedTask const& its = part.tasks()[task];
    TransferArgs args;
    std::memcpy(&args, part.args(its).data(), sizeof args);
    End end{args.peer, static_cast<int>(rank), args.number, task,
            part.kernels()[its.kernel].kind == KernelKind::send};
    if (end.sends) std::swap(end.from, end.to);
    if (args.peer < 0 || args.peer >= static_cast<int>(parts_.size()) || end.from == end.to)
      fail(end, "but there are ", parts_.size(), " ranks, and its own is no peer");
    ends_.push_back(end);
  }
  /// The messages; throws PlanError for an end without the other.
  std::vector<JobTasks::Message> pair(JobTasks const& job) {
    std::sort(ends_.begin(), ends_.end(),
              [](End const& a, End const& b) { return key(a) < key(b); });
    for (std::size_t i = 1; i < ends_.size(); ++i)
      if (name(ends_[i]) == name(ends_[i - 1]) && ends_[i].sends == ends_[i - 1].sends)
        fail(ends_[i], "has the number of another");
    std::vector<JobTasks::Message> messages;
    for (std::size_t i = 0; i < ends_.size(); i += 2) {
      End const& send = ends_[i];
      if (!send.sends) fail(send, "is not sent");
      if (i + 1 == ends_.size() || name(ends_[i + 1]) != name(send)) fail(send, "is not received");
      End const& receive = ends_[i + 1];
      if (bytes(send) != bytes(receive))
        fail(send, "has ", bytes(send), " bytes, but ", describe(receive), " has ", bytes(receive));
      messages.push_back(
          {number(job, send), number(job, receive), send.from, send.to, bytes(send)});
    }
    return messages;
  }

 private:
  struct End {
    int from, to;
    std::int64_t number;
    std::uint32_t task;
    bool sends;
  };
  using Name = std::tuple<int, int, std::int64_t>;
  static Name name(End const& end) { return {end.from, end.to, end.number}; }
  static std::tuple<Name, bool, std::uint32_t> key(End const& end) {
    return {name(end), !end.sends, end.task};
  }
  std::size_t rank(End const& end) const {
    return static_cast<std::size_t>(end.sends ? end.from : end.to);
  }
  std::uint32_t number(JobTasks const& job, End const& end) const {
    return job.first[rank(end)] + end.task;
  }
  Index bytes(End const& end) const {
    Plan const& part = parts_[rank(end)];
    return part.buffers()[part.uses(part.tasks()[end.task])[0].handle].payload();
  }
  template <class... Text> [[noreturn]] void fail(End const& end, Text const&... text) const {
    throw PlanError(concat("simulate: ", describe(end), " ", text...));
  }
  /// "plan 'step': rank 0, task 7: message 3 to rank 1, tile 2 of 'w',".
  std::string describe(End const& end) const {
    Plan const& part = parts_[rank(end)];
    PlannedTask const& its = part.tasks()[end.task];
    return concat("plan '", part.name(), "': rank ", rank(end), ", task ", end.task, ": message ",
                  end.number, end.sends ? " to rank " : " from rank ",
                  end.sends ? end.to : end.from, ", tile ", its.tile, " of '",
                  part.tensors()[its.tensor].name, "',");
  }

  std::span<Plan const> parts_;
  std::vector<End> ends_;
};

}  // namespace detail

/// The tasks of the parts of all ranks, by rank. Throws PlanError where they are not the parts of
/// one job: one is missing, a message has one end, or two of different sizes. Cost: n log n in the
/// number of messages, linear in that of tasks.
inline JobTasks job_tasks(std::span<Plan const> parts) {
  if (parts.empty()) throw PlanError("simulate: no parts; give those of all ranks");
  for (std::size_t r = 0; r < parts.size(); ++r)
    if (parts[r].rank() != static_cast<int>(r) ||
        parts[r].ranks() != static_cast<int>(parts.size()))
      throw PlanError(concat("simulate: plan '", parts[r].name(), "': part ", r, " of ",
                             parts.size(), " is that of rank ", parts[r].rank(), " of ",
                             parts[r].ranks(), "; give those of all ranks, rank 0 first"));
  detail::JobTasksBuilder builder(parts[0].name());
  detail::MessageEnds ends(parts);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    Plan const& part = parts[r];
    builder.add_rank(part, [&](std::uint32_t t) {
      PlannedTask const& task = part.tasks()[t];
      PlannedKernel const& kernel = part.kernels()[task.kernel];
      if (is_transfer(kernel.kind)) {
        ends.add(r, t);
        return std::pair(
            kernel.kind == KernelKind::send ? JobTasks::Kind::send : JobTasks::Kind::receive,
            std::uint32_t{0});
      }
      return std::pair(JobTasks::Kind::op, builder.class_of(kernel.name, task.cost));
    });
  }
  JobTasks& job = builder.job();
  job.messages = ends.pair(job);
  for (std::uint32_t m = 0; m < job.messages.size(); ++m)
    for (std::uint32_t const task : {job.messages[m].send, job.messages[m].receive})
      job.tasks[task].what |= m;
  return std::move(job);
}

/// The same by one walk, without planning each part: the same tasks and slots, without the hints of
/// a policy. Throws what planning a part does. Cost: linear in the tasks of all ranks, 50 bytes for
/// each; where values have other places than the host, that of planning each part.
inline JobTasks job_tasks(LogicalGraph const& graph, PlanOptions const& options) {
  passes::MeshShape const mesh(options.mesh);
  if (!passes::on_host_alone(options)) {
    std::vector<Plan> parts;
    for (int rank = 0; rank < mesh.ranks(); ++rank) parts.emplace_back(graph, options, rank);
    return job_tasks(parts);
  }
  detail::Job const of = detail::job_of(graph, options, mesh);
  passes::PartLists lists(of.plan, mesh, of.homes, options.keep_received);
  detail::JobTasksBuilder builder(graph.name());
  std::vector<std::uint32_t> classes;  // by task of the job
  for (PlannedTask const& task : of.plan.tasks)
    classes.push_back(builder.class_of(of.plan.kernels[task.kernel].name, task.cost));
  JobTasks& job = builder.job();
  for (auto const& message : lists.messages())
    job.messages.push_back(
        {no_id, no_id, message.from, message.to, of.plan.buffers[message.buffer].payload()});
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    std::uint32_t const base = job.first.back();
    builder.add_rank(Plan(lists.part(rank)), [&](std::uint32_t t) {
      auto const [moves, number] = lists.entry(rank, t);
      if (!moves) return std::pair(JobTasks::Kind::op, classes[number]);
      bool const sends = job.messages[number].from == rank;
      (sends ? job.messages[number].send : job.messages[number].receive) = base + t;
      return std::pair(sends ? JobTasks::Kind::send : JobTasks::Kind::receive, number);
    });
    lists.drop(rank);
  }
  return std::move(job);
}

}  // namespace nntile
