#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// How much of a rank's transfers its tasks hide, from a trace of a run and of its requests.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/core/threads.hh"
#include "nntile/graph/simulate.hh"
#include "nntile/graph/trace.hh"

namespace nntile::bench {

/// When a request was open, in ns of CLOCK_MONOTONIC.
struct RequestTime {
  bool sends = false;
  Message message = {};
  std::int64_t begin = 0, end = 0;
};

/// A communicator that notes when each of its requests was open. Cost: two clock reads a request.
template <Communicator C> class TimedComm {
 public:
  explicit TimedComm(C& comm) : comm_(comm) {}

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  std::int64_t tag_bound() const { return comm_.tag_bound(); }
  ThreadLevel thread_level() const { return comm_.thread_level(); }
  bool on_main_thread() const { return comm_.on_main_thread(); }
  Request send(std::span<std::byte const> bytes, Message message) {
    return note(comm_.send(bytes, message), true, message);
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    return note(comm_.receive(bytes, message), false, message);
  }
  void test(std::vector<EndedRequest>& ended) {
    std::size_t const before = ended.size();
    comm_.test(ended);
    if (ended.size() == before) return;
    std::int64_t const now = nntile::detail::monotonic_ns();
    for (std::size_t i = before; i < ended.size(); ++i)
      times_[position(ended[i].request)].end = now;
  }
  void barrier() { comm_.barrier(); }
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    return comm_.all_gather(bytes);
  }
  PeerTraffic traffic(int peer) const { return comm_.traffic(peer); }

  /// Of the requests since the last call; all have ended.
  std::vector<RequestTime> take_times() {
    first_ += times_.size();
    return std::exchange(times_, {});
  }

 private:
  std::size_t position(Request request) const { return static_cast<std::size_t>(request) - first_; }
  Request note(Request request, bool sends, Message message) {
    times_.resize(std::max(times_.size(), position(request) + 1));
    times_[position(request)] = {sends, message, nntile::detail::monotonic_ns(), 0};
    return request;
  }

  C& comm_;
  std::size_t first_ = 1;  // number of the request that times_ begins with
  std::vector<RequestTime> times_;
};

/// Seconds of a run of this rank's part in which a request was open, and no task ran or could have
/// run: all that it waited for had ended. `order` is the plan's; `times` are those of its run, and
/// `requests` all of them.
inline double idle_seconds(Plan const& plan, TaskOrder const& order,
                           std::span<TaskTime const> times, std::span<RequestTime const> requests) {
  using Key = std::tuple<bool, int, std::int64_t>;
  std::map<Key, std::int64_t> ends;
  std::int64_t bound_first = INT64_MAX, planned_first = INT64_MAX, begin = INT64_MAX;
  for (RequestTime const& one : requests) {
    bound_first = std::min(bound_first, one.message.number);
    begin = std::min(begin, one.begin);
  }
  for (RequestTime const& one : requests)
    ends[{one.sends, one.message.peer, one.message.number - bound_first}] = one.end;
  for (TaskTime const& one : times)
    if (one.end != 0) begin = std::min(begin, one.begin);
  auto const args_of = [&](PlannedTask const& task) {
    TransferArgs args;
    std::memcpy(&args, plan.args(task).data(), sizeof args);
    return args;
  };
  auto const kind_of = [&](PlannedTask const& task) { return plan.kernels()[task.kernel].kind; };
  for (PlannedTask const& task : plan.tasks())
    if (kind_of(task) != KernelKind::op)
      planned_first = std::min(planned_first, std::int64_t{args_of(task).number});

  struct Event {
    std::int64_t at;
    int tasks, open;  // by how much they change
  };
  std::vector<Event> events;
  std::vector<std::int64_t> ready(times.size(), begin);
  for (std::size_t t = 0; t < times.size(); ++t) {  // a task's predecessors stand before it
    PlannedTask const& task = plan.tasks()[t];
    std::int64_t end = times[t].end;
    if (kind_of(task) != KernelKind::op) {
      TransferArgs const args = args_of(task);
      end = ends[{kind_of(task) == KernelKind::send, args.peer, args.number - planned_first}];
    } else if (end != 0) {
      events.push_back({std::min(ready[t], times[t].begin), 1, 0});
      events.push_back({end, -1, 0});
    }
    for (std::uint32_t const follower : order.followers[t])
      ready[follower] = std::max(ready[follower], end);
  }
  for (RequestTime const& one : requests) {
    events.push_back({one.begin, 0, 1});
    events.push_back({one.end, 0, -1});
  }
  std::sort(events.begin(), events.end(), [](auto const& a, auto const& b) { return a.at < b.at; });
  std::int64_t idle = 0, last = begin;
  int tasks = 0, open = 0;
  for (Event const& event : events) {
    if (tasks == 0 && open > 0) idle += event.at - last;
    last = event.at;
    tasks += event.tasks, open += event.open;
  }
  return static_cast<double>(idle) * 1e-9;
}

}  // namespace nntile::bench
