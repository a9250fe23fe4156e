#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Simulated run of a job on a cluster that is described by a few numbers: ranks with workers, and
// links between them.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/cost.hh"
#include "nntile/core/link_model.hh"
#include "nntile/core/machine_model.hh"
#include "nntile/graph/job_tasks.hh"
#include "nntile/graph/kernel_times.hh"

namespace nntile {

/// A cluster of equal ranks. Each rank has a link of its own in each direction; with
/// `ranks_per_node` above 1, as many neighbouring ranks share the node's link in each direction,
/// and what goes between them goes over `inside`, of which each rank has one in each direction.
struct ClusterModel {
  MachineModel rank = {};
  KernelTimes kernels = {};  // measured; of what is not in it `rank` says the time
  LinkModel link = {};
  int ranks_per_node = 1;
  LinkModel inside = {};
};

/// One rank's work in a simulated run; times in seconds, from the run's begin.
struct RankSimulation {
  double busy = 0;     // of all its workers
  double waiting = 0;  // that no worker of it runs anything while a transfer of it is open
  double finish = 0;   // of its last task
  std::int64_t messages_sent = 0;
  Index bytes_sent = 0, bytes_received = 0;
  bool operator==(RankSimulation const&) const = default;
};

/// Of a task the time on a worker; of a transfer that on its link, whose numbers come behind the
/// workers': out, in, and inside a node out and in.
struct SimulatedTask {
  double begin = 0, end = 0;  // seconds
  std::uint32_t worker = 0;
  bool operator==(SimulatedTask const&) const = default;
};

struct JobSimulation {
  double elapsed = 0;  // makespan, in seconds
  int workers = 0;     // of each rank
  std::vector<RankSimulation> ranks;
  std::vector<SimulatedTask> times;  // of all tasks, if asked for
  bool operator==(JobSimulation const&) const = default;
};

/// The share of the time of all workers in which they run nothing: of a pipeline its bubble.
inline double idle_share(JobSimulation const& run) {
  double busy = 0;
  for (RankSimulation const& rank : run.ranks) busy += rank.busy;
  double const all = run.elapsed * run.workers * static_cast<double>(run.ranks.size());
  return all > 0 ? 1 - busy / all : 0;
}

namespace detail {

/// A queue of which the least comes next: a heap of four children a node, flatter than one of two.
template <class T> class NextQueue {
 public:
  bool empty() const { return items_.empty(); }
  T const& front() const { return items_.front(); }
  void push(T const& item) {
    std::size_t at = items_.size();
    items_.push_back(item);
    for (; at > 0 && item < items_[(at - 1) / 4]; at = (at - 1) / 4)
      items_[at] = items_[(at - 1) / 4];
    items_[at] = item;
  }
  T pop() {
    T const first = items_.front(), last = items_.back();
    items_.pop_back();
    std::size_t const count = items_.size();
    std::size_t at = 0;
    for (std::size_t child = 1; child < count; child = 4 * at + 1) {
      for (std::size_t c = child + 1; c < std::min(child + 4, count); ++c)
        if (items_[c] < items_[child]) child = c;
      if (!(items_[child] < last)) break;
      items_[at] = items_[child];
      at = child;
    }
    if (count > 0) items_[at] = last;
    return first;
  }

 private:
  std::vector<T> items_;
};

/// One run. The state of a message: its two ends are `posted` when the send has been begun by a
/// worker and when the receive's slot is free; with both it queues for the sender's link.
class JobRun {
 public:
  JobRun(JobTasks const& job, ClusterModel const& cluster, bool timed)
      : job_(job), cluster_(cluster), posted_(job.messages.size()) {
    check();
    for (TaskClass const& of : job.classes) seconds_.push_back(seconds_of(of));
    waits_.reserve(job.tasks.size());
    for (JobTasks::Task const& task : job.tasks) waits_.push_back(task.waits);
    ranks_.resize(static_cast<std::size_t>(job.ranks()));
    for (Rank& rank : ranks_) rank.idle = cluster.rank.workers;
    auto const nodes = (ranks_.size() + per_node() - 1) / per_node();
    links_.resize(ranks_.size() + nodes);
    result_.ranks.resize(ranks_.size());
    result_.workers = cluster.rank.workers;
    if (timed) {
      result_.times.resize(job.tasks.size());
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        auto const workers = static_cast<std::uint32_t>(cluster.rank.workers);
        for (auto w = std::min(workers, job.first[r + 1] - job.first[r]); w-- > 0;)
          ranks_[r].free.push_back(w);  // others have no task
      }
    }
  }

  JobSimulation run() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      for (std::uint32_t task = job_.first[r]; task < job_.first[r + 1]; ++task)
        if (waits_[task] == 0) make_ready(task, r);
    start_all();
    while (!events_.empty()) {
      now_ = events_.front().time;
      while (!events_.empty() && events_.front().time == now_) handle(events_.pop());
      start_all();
    }
    if (ended_ != job_.tasks.size()) fail_deadlock();
    for (RankSimulation const& rank : result_.ranks)
      result_.elapsed = std::max(result_.elapsed, rank.finish);
    return std::move(result_);
  }

 private:
  using Kind = JobTasks::Kind;

  enum class What : std::uint8_t { body_ended, bytes_left, head_arrived, bytes_arrived };
  struct Event {
    double time;
    std::uint32_t task;  // of a message its send
    std::uint16_t rank;
    What what;
    bool operator<(Event const& b) const {
      if (time != b.time) return time < b.time;
      return task != b.task ? task < b.task : what < b.what;
    }
  };
  /// A task that a worker may take. Transfers go first, since a worker looks after them between
  /// tasks; then by priority, then what has been ready longest.
  struct Ready {
    double since;
    std::int32_t priority;
    std::uint32_t task;
    bool operator<(Ready const& b) const {
      if (priority != b.priority) return priority > b.priority;
      return since != b.since ? since < b.since : task < b.task;
    }
  };
  struct Rank {
    NextQueue<Ready> ready;
    std::vector<std::uint32_t> free;  // workers, if times are asked for
    int idle = 0;                     // workers
    int open = 0;                     // transfers
    double since = 0;                 // the last change of either
    bool touched = false;
  };
  struct Link {
    double out = 0, in = 0;  // times at which they are free
  };

  std::size_t per_node() const { return static_cast<std::size_t>(cluster_.ranks_per_node); }
  bool is_inside(JobTasks::Message const& of) const {
    return cluster_.ranks_per_node > 1 &&
           of.from / cluster_.ranks_per_node == of.to / cluster_.ranks_per_node;
  }
  LinkModel const& model(JobTasks::Message const& of) const {
    return is_inside(of) ? cluster_.inside : cluster_.link;
  }
  Link& link(JobTasks::Message const& of, std::int32_t end) {
    auto const rank = static_cast<std::size_t>(end);
    if (cluster_.ranks_per_node == 1 || is_inside(of)) return links_[rank];
    return links_[ranks_.size() + rank / per_node()];
  }
  /// Seconds that a worker spends on one end of a message.
  double overhead(JobTasks::Message const& of) const {
    LinkModel const& link = model(of);
    return link.overhead + static_cast<double>(of.bytes) * link.overhead_per_byte;
  }

  void touch(std::uint32_t r) {
    if (!std::exchange(ranks_[r].touched, true)) touched_.push_back(r);
  }
  /// Notes the time that a rank has waited, before a change of its workers or transfers.
  void settle(std::uint32_t r) {
    Rank& rank = ranks_[r];
    if (rank.open > 0 && rank.idle == cluster_.rank.workers)
      result_.ranks[r].waiting += now_ - rank.since;
    rank.since = now_;
  }
  void open(std::uint32_t r, int change) {
    settle(r);
    ranks_[r].open += change;
  }

  /// All that a task waits for has ended.
  void make_ready(std::uint32_t task, std::uint32_t r) {
    if (job_.tasks[task].kind() == Kind::receive) {
      open(r, 1);
      return post(job_.tasks[task].number());
    }
    push(task, r);
  }
  void push(std::uint32_t task, std::uint32_t r) {
    constexpr std::int32_t first = INT32_MAX;
    JobTasks::Task const& its = job_.tasks[task];
    ranks_[r].ready.push({now_, its.kind() == Kind::op ? its.priority : first, task});
    touch(r);
  }
  /// One end of a message is there; with both its bytes go.
  void post(std::uint32_t m) {
    if (++posted_[m] < 2) return;
    JobTasks::Message const& of = job_.messages[m];
    double& free = link(of, of.from).out;
    double const begin = std::max(now_, free);
    free = begin + wire(of);
    auto const from = static_cast<std::uint16_t>(of.from), to = static_cast<std::uint16_t>(of.to);
    events_.push({free, of.send, from, What::bytes_left});
    events_.push({begin + model(of).latency, of.send, to, What::head_arrived});
    if (!result_.times.empty()) result_.times[of.send] = {begin, free, row(of)};
  }
  std::uint32_t row(JobTasks::Message const& of) const {
    return static_cast<std::uint32_t>(cluster_.rank.workers) + (is_inside(of) ? 2 : 0);
  }
  double wire(JobTasks::Message const& of) const {
    return static_cast<double>(of.bytes) / model(of).bandwidth;
  }

  void handle(Event const& event) {
    std::uint32_t const r = event.rank;
    JobTasks::Task const& task = job_.tasks[event.task];
    switch (event.what) {
      case What::body_ended:
        return end_body(event.task, r);
      case What::bytes_left:
        open(r, -1);
        return finish(event.task, r);
      case What::head_arrived: {
        JobTasks::Message const& of = job_.messages[task.number()];
        double& free = link(of, of.to).in;
        double const begin = std::max(now_, free);
        free = begin + wire(of);
        events_.push({free, of.send, event.rank, What::bytes_arrived});
        if (!result_.times.empty()) result_.times[of.receive] = {begin, free, row(of) + 1};
        return;
      }
      case What::bytes_arrived:
        return push(job_.messages[task.number()].receive, r);
    }
  }
  void end_body(std::uint32_t task, std::uint32_t r) {
    settle(r);
    ++ranks_[r].idle;
    touch(r);
    JobTasks::Task const& its = job_.tasks[task];
    if (!result_.times.empty()) ranks_[r].free.push_back(result_.times[task].worker);
    if (its.kind() == Kind::send) {
      RankSimulation& of = result_.ranks[r];
      ++of.messages_sent, add_saturated(of.bytes_sent, job_.messages[its.number()].bytes);
      open(r, 1);
      return post(its.number());
    }
    if (its.kind() == Kind::receive) {
      open(r, -1);
      add_saturated(result_.ranks[r].bytes_received, job_.messages[its.number()].bytes);
      if (!result_.times.empty()) result_.times[task].worker = row(job_.messages[its.number()]) + 1;
    }
    finish(task, r);
  }
  void finish(std::uint32_t task, std::uint32_t r) {
    ++ended_;
    result_.ranks[r].finish = now_;
    for (std::uint32_t const follower : job_.followers_of(task))
      if (--waits_[follower] == 0) make_ready(follower, r);
  }

  void start_all() {
    while (!touched_.empty()) {
      std::uint32_t const r = touched_.back();
      touched_.pop_back();
      ranks_[r].touched = false;
      while (ranks_[r].idle > 0 && !ranks_[r].ready.empty()) start(ranks_[r].ready.pop().task, r);
    }
  }
  void start(std::uint32_t task, std::uint32_t r) {
    JobTasks::Task const& its = job_.tasks[task];
    bool const is_op = its.kind() == Kind::op;
    double const seconds = is_op ? seconds_[its.number()] : overhead(job_.messages[its.number()]);
    settle(r);
    --ranks_[r].idle;
    result_.ranks[r].busy += seconds;
    events_.push({now_ + seconds, task, static_cast<std::uint16_t>(r), What::body_ended});
    if (result_.times.empty()) return;
    std::uint32_t const worker = ranks_[r].free.back();
    ranks_[r].free.pop_back();
    result_.times[task].worker = worker;
    if (is_op) result_.times[task] = {now_, now_ + seconds, worker};
  }

  template <class... Text> [[noreturn, gnu::cold]] void fail(Text const&... text) const {
    throw ValueError(concat("simulate: plan '", job_.name, "': ", text...));
  }
  /// Of a body of a class. A time that is no number would come neither before nor behind another.
  double seconds_of(TaskClass const& of) const {
    double const seconds = cluster_.kernels.seconds(of.kernel, of.cost, cluster_.rank);
    if (seconds >= 0 && seconds <= std::numeric_limits<double>::max()) return seconds;
    fail("a task of ", of.kernel, " (", of.cost.flops, " flops, ", of.cost.bytes, " bytes) of ",
         seconds, " s; at least 0");
  }
  void check() const {
    if (std::string const fault = fault_of(cluster_.rank); !fault.empty()) fail("ranks of ", fault);
    if (cluster_.ranks_per_node < 1)
      fail("nodes of ", cluster_.ranks_per_node, " ranks; at least 1");
    if (std::string const fault = fault_of(cluster_.link); !fault.empty())
      fail("a link of ", fault);
    if (std::string const fault = fault_of(cluster_.inside); !fault.empty())
      fail("a link inside a node of ", fault);
  }
  /// Within a rank tasks wait for earlier ones alone, so some message has not gone.
  [[noreturn]] void fail_deadlock() const {
    std::size_t m = 0;
    while (posted_[m] == 2) ++m;
    JobTasks::Message const& of = job_.messages[m];
    auto const end = [&](std::uint32_t task, std::int32_t rank, char const* what) {
      return concat(what, " on rank ", rank, ", task ",
                    task - job_.first[static_cast<std::size_t>(rank)],
                    " of its part, which waits for ", waits_[task], " others");
    };
    throw PlanError(concat(
        "simulate: plan '", job_.name, "': no end, after ", ended_, " of ", job_.tasks.size(),
        " tasks: a message of ", of.bytes, " bytes never goes: ", end(of.send, of.from, "its send"),
        ", and ", end(of.receive, of.to, "its receive"), "; messages wait for each other"));
  }

  JobTasks const& job_;
  ClusterModel const& cluster_;
  JobSimulation result_;
  std::vector<double> seconds_;       // of bodies, by class
  std::vector<std::uint32_t> waits_;  // predecessors that have not ended, by task
  std::vector<std::uint8_t> posted_;  // ends, by message
  std::vector<Rank> ranks_;
  std::vector<Link> links_;             // of ranks, then of nodes
  std::vector<std::uint32_t> touched_;  // ranks that may start something
  NextQueue<Event> events_;
  std::size_t ended_ = 0;
  double now_ = 0;
};

}  // namespace detail

/// Runs a job on a cluster. A worker that is free takes a transfer of its rank that it can begin or
/// end, else the task of the highest priority among those that are ready, of these the one that has
/// been ready longest. The bytes of a message go when a worker has begun its send and the slot of
/// its receive is free: with n bytes, over links of bandwidth B and latency L, the sender's link
/// is taken for n / B, the receiver's for n / B from L later at the earliest; each link takes its
/// messages one after another as they come, between are queues without bounds. A send ends when its
/// bytes have left, a receive when a worker has taken them. So the lower bounds hold (the work of a
/// rank over its workers, the bytes of a link over its bandwidth, the longest path), and alike
/// inputs give alike results; but a faster link may lengthen a run, as any shorter task may where
/// lists are scheduled (Graham, 1969). `timed` keeps the time of each task, 24 bytes.
///
/// Throws ValueError (a negative latency, no worker, a task without end ...), PlanError where
/// messages wait for each other. Cost: 0.1 to 1 us a task, which grows with the ranks; 5 bytes for
/// each.
inline JobSimulation simulate(JobTasks const& job, ClusterModel const& cluster,
                              bool timed = false) {
  return detail::JobRun(job, cluster, timed).run();
}
/// The same of parts: those of all ranks, by rank.
inline JobSimulation simulate(std::span<Plan const> parts, ClusterModel const& cluster,
                              bool timed = false) {
  return simulate(job_tasks(parts), cluster, timed);
}

}  // namespace nntile
