#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of a plan that a picture shows, their waits, and the memory that is live with them.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/last_users.hh"
#include "nntile/graph/dump.hh"
#include "nntile/graph/plan.hh"

namespace nntile {

/// The tasks that a picture of a plan shows: of those from `begin` up to `end` whose kernel, or a
/// tensor of which, has `name` in its own, the first `limit`. It says how many are left out.
struct DrawnTasks {
  std::size_t begin = 0;
  std::size_t end = ~std::size_t{0};
  std::string name = {};
  std::size_t limit = 400;
};

namespace detail {

/// A task that waits for another: for a tile that it wrote, or only until it has done with memory.
struct DrawnWait {
  std::uint32_t earlier, task;
  std::uint32_t buffer = no_id;  // that goes from one to the other
};

/// The part of a plan that a picture shows.
struct DrawnPlan {
  Plan const& plan;
  std::vector<std::uint32_t> tasks;     // ascending
  std::vector<DrawnWait> waits;         // between these, each pair once
  std::vector<std::uint32_t> left_out;  // of each task, how many others it waits for

  KernelKind kind(std::uint32_t task) const {
    return plan.kernels()[plan.tasks()[task].kernel].kind;
  }
  PlannedBuffer const& buffer(std::uint32_t task, std::size_t use) const {
    return plan.buffers()[plan.uses(plan.tasks()[task])[use].handle];
  }
  /// "w[3]".
  std::string tile(PlannedBuffer const& of) const {
    return concat(plan.tensors()[of.tensor].name, "[", of.tile, "]");
  }
  /// "gemm", "copy", "send".
  std::string const& name(std::uint32_t task) const {
    return plan.kernels()[plan.tasks()[task].kernel].name;
  }
  /// The tile that a task makes or moves: "h[2]".
  std::string subject(std::uint32_t task) const {
    if (kind(task) != KernelKind::op) return tile(buffer(task, 0));
    PlannedTask const& of = plan.tasks()[task];
    return concat(plan.tensors()[of.tensor].name, "[", of.tile, "]");
  }
  TransferArgs transfer(std::uint32_t task) const {
    TransferArgs args;
    std::memcpy(&args, plan.args(plan.tasks()[task]).data(), sizeof args);
    return args;
  }
  /// Between whom a task moves a tile: "host to device 0", "to rank 3"; of an op its place.
  std::string way(std::uint32_t task) const {
    switch (kind(task)) {
      case KernelKind::copy:
        return concat(to_string(buffer(task, 0).location.place), " to ",
                      to_string(buffer(task, 1).location.place));
      case KernelKind::send:
        return concat("to rank ", transfer(task).peer);
      case KernelKind::receive:
        return concat("from rank ", transfer(task).peer);
      case KernelKind::op:
        break;
    }
    return to_string(plan.tasks()[task].location.place);
  }
  /// Bytes that it moves, or that an op reads and writes.
  Index bytes(std::uint32_t task) const {
    return kind(task) == KernelKind::op ? plan.tasks()[task].cost.bytes : buffer(task, 0).payload();
  }
  /// "260 of 300 tasks are not shown: ...", or nothing.
  std::string rest() const {
    std::size_t const all = plan.tasks().size();
    if (tasks.size() == all) return {};
    return concat(all - tasks.size(), " of ", all,
                  " tasks are not shown: begin, end, name and limit choose others");
  }
};

/// Whether a task's kernel or one of its tensors has the piece in its name.
inline bool has_name(Plan const& plan, PlannedTask const& task, std::string_view piece) {
  if (plan.kernels()[task.kernel].name.find(piece) != std::string::npos) return true;
  for (Use<BufferId> const& use : plan.uses(task))
    if (plan.tensors()[plan.buffers()[use.handle].tensor].name.find(piece) != std::string::npos)
      return true;
  return false;
}

/// Finds them. Cost: linear in the tasks of the plan and of their readers.
inline DrawnPlan drawn(Plan const& plan, DrawnTasks const& which) {
  DrawnPlan result{plan, {}, {}, {}};
  std::vector<bool> shown(plan.tasks().size());
  for (std::size_t t = which.begin; t < std::min(which.end, shown.size()); ++t)
    if (result.tasks.size() < which.limit && has_name(plan, plan.tasks()[t], which.name)) {
      shown[t] = true;
      result.tasks.push_back(static_cast<std::uint32_t>(t));
    }
  std::size_t const slots = plan.slots().size();
  std::vector<LastUsers<std::uint32_t>> memories(slots + plan.buffers().size(),
                                                 LastUsers<std::uint32_t>{no_id, {}});
  std::vector<DrawnWait> waits;  // of one task
  for (std::uint32_t t = 0; t < shown.size(); ++t) {
    waits.clear();
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[t])) {
      std::uint32_t const slot = plan.buffers()[use.handle].slot;
      std::size_t const at = slot != no_id ? slot : slots + use.handle;
      memories[at].each_before(use.access, [&](std::uint32_t earlier) {
        if (earlier == no_id || earlier == t) return;
        bool const flows = reads(use.access) && earlier == memories[at].writer;
        waits.push_back({earlier, t, flows ? use.handle : no_id});
      });
      memories[at].enter(use.access, t);
    }
    if (!shown[t]) continue;
    std::sort(waits.begin(), waits.end(), [](DrawnWait const& a, DrawnWait const& b) {
      return a.earlier != b.earlier ? a.earlier < b.earlier : a.buffer < b.buffer;
    });  // buffers that flow come before no_id
    std::uint32_t others = 0, last = no_id;
    for (DrawnWait const& wait : waits) {
      if (wait.earlier == last) continue;
      last = wait.earlier;
      if (shown[last])
        result.waits.push_back(wait);
      else
        ++others;
    }
    result.left_out.push_back(others);
  }
  return result;
}

/// Bytes of tiles in the arena of a location, by task: those that some earlier or this task has
/// written and this or a later one uses. The most of them is the least that an arena could be.
inline std::vector<Index> live_bytes(Plan const& plan, Location const& at) {
  struct Life {
    std::uint32_t first = no_id, last = 0;
  };
  std::vector<Life> lives(plan.buffers().size());
  std::vector<Index> changes(plan.tasks().size() + 1);
  std::vector<BufferId> tenants(plan.slots().size(), no_id);
  for (std::uint32_t t = 0; t < plan.tasks().size(); ++t)
    for (Use<BufferId> const& use : plan.uses(plan.tasks()[t])) {
      Life& life = lives[use.handle];
      if (life.first == no_id) life.first = t;
      life.last = t;
    }
  std::vector<BufferId> order;
  for (BufferId b = 0; b < lives.size(); ++b)
    if (lives[b].first != no_id && plan.buffers()[b].slot != no_id &&
        plan.buffers()[b].location == at)
      order.push_back(b);
  std::sort(order.begin(), order.end(), [&](BufferId a, BufferId b) {
    return lives[a].first != lives[b].first ? lives[a].first < lives[b].first : a < b;
  });
  for (BufferId const b : order) {
    Index const bytes = plan.buffers()[b].bytes;
    BufferId& tenant = tenants[plan.buffers()[b].slot];
    bool const replaces = tenant != no_id && lives[tenant].last == lives[b].first;
    tenant = b;
    // A tile written over another is counted as that one until the task has run.
    changes[lives[b].first + (replaces ? 1 : 0)] += bytes;
    changes[lives[b].last + 1] -= bytes;
  }
  changes.pop_back();
  Index sum = 0;
  for (Index& change : changes) change = sum += change;
  return changes;
}

}  // namespace detail

}  // namespace nntile
