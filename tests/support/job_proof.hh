// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Proves the parts of a plan together: that they compute what the plan of one rank does, and that
// no rank can wait for ever.

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/last_users.hh"
#include "nntile/graph/parts.hh"

namespace nntile::test {

/// All parts of one job. Each proof returns the first fault in words, "" where there is none.
class JobProof {
 public:
  /// `whole` is the plan of one rank, of the same graph and tilings.
  JobProof(Plan const& whole, std::vector<Plan> const& parts) : whole_(whole), parts_(parts) {}

  std::string run() {
    try {
      prove_messages();
      prove_values();
      prove_waits(no_window, false);
      prove_waits(1, true);
      return {};
    } catch (Error const& error) {
      return error.what();
    }
  }

 private:
  static constexpr std::size_t no_window = 0;
  static constexpr std::uint32_t none = ~0u;
  using Direction = std::pair<std::size_t, std::size_t>;  // from, to
  using Message = std::pair<Direction, std::int64_t>;

  /// A task, by rank and place in its part.
  struct At {
    std::size_t rank = 0, task = 0;
  };
  struct Pair {
    std::optional<At> send, receive;
  };
  /// A value: of which buffer, left by which task of the whole plan; none: the given one.
  struct Value {
    std::uint32_t buffer = none, writer = none;
    bool operator==(Value const&) const = default;
  };

  template <class... Text> [[noreturn]] static void fail(Text const&... text) {
    throw PlanError(concat(text...));
  }
  PlannedTask const& task(At at) const { return parts_[at.rank].tasks()[at.task]; }
  std::string name(At at) const {
    Plan const& part = parts_[at.rank];
    return concat("rank ", at.rank, ", task ", at.task, ", ", part.kernels()[task(at).kernel].name,
                  " of '", part.tensors()[task(at).tensor].name, "', tile ", task(at).tile);
  }
  static KernelKind kind(Plan const& part, PlannedTask const& task) {
    return part.kernels()[task.kernel].kind;
  }
  template <class Visit> void each_task(Visit visit) const {
    for (std::size_t r = 0; r < parts_.size(); ++r)
      for (std::size_t t = 0; t < parts_[r].tasks().size(); ++t) visit(At{r, t});
  }

  /// The buffer that a tile has of itself; values that are sent again have more.
  BufferId tile_of(Plan const& plan, BufferId buffer) const {
    PlannedBuffer const& its = plan.buffers()[buffer];
    return whole_.buffer_of(its.tensor, its.tile);
  }
  BufferId tile_of(At at, BufferId buffer) const { return tile_of(parts_[at.rank], buffer); }
  /// What a task of an op does, in bytes: the same on every rank that runs it.
  std::string key(Plan const& plan, PlannedTask const& task) const {
    std::string key = concat(task.node, " ", plan.kernels()[task.kernel].name, " ");
    for (Use<BufferId> const& use : plan.uses(task))
      key += concat(tile_of(plan, use.handle), " ", name_of(use.access), " ");
    auto const args = plan.args(task);
    return key.append(reinterpret_cast<char const*>(args.data()), args.size());
  }
  /// Messages from one rank to another are numbered from 0 in the order in which both have them,
  /// each once: no number can be in flight twice.
  void prove_messages() {
    std::map<Direction, std::int64_t> sent, received;
    each_task([&](At at) {
      Plan const& part = parts_[at.rank];
      if (kind(part, task(at)) == KernelKind::op) return;
      TransferArgs args;
      std::memcpy(&args, part.args(task(at)).data(), sizeof args);
      auto const peer = static_cast<std::size_t>(args.peer);
      if (args.peer < 0 || peer >= parts_.size() || peer == at.rank)
        fail(name(at), ": its peer is ", args.peer);
      bool const sends = kind(part, task(at)) == KernelKind::send;
      Direction const to = sends ? Direction{at.rank, peer} : Direction{peer, at.rank};
      std::int64_t& next = (sends ? sent : received)[to];
      if (args.number != next++) fail(name(at), ": its message is ", args.number, " of that peer");
      if (next > part.data().messages) fail(name(at), ": a message more than are reserved");
      Pair& pair = pairs_[{to, args.number}];
      (sends ? pair.send : pair.receive) = at;
    });
    for (auto const& [message, pair] : pairs_) {
      if (!pair.send) fail(name(*pair.receive), ": its message is not sent");
      if (!pair.receive) fail(name(*pair.send), ": its message is not received");
      BufferId const from = used(*pair.send), to = used(*pair.receive);
      if (tile_of(*pair.send, from) != tile_of(*pair.receive, to) ||
          bytes_of(*pair.send) != bytes_of(*pair.receive))
        fail(name(*pair.send), ": it is received as another tile");
    }
  }
  Index bytes_of(At at) const { return parts_[at.rank].buffers()[used(at)].bytes; }
  BufferId used(At at) const { return parts_[at.rank].uses(task(at))[0].handle; }

  /// What holds a buffer of a part: a slot, or memory of its own.
  std::uint32_t holder(std::size_t rank, BufferId buffer) const {
    std::uint32_t const slot = parts_[rank].buffers()[buffer].slot;
    auto const slots = static_cast<std::uint32_t>(parts_[rank].slots().size());
    return slot != no_id ? slot : slots + buffer;
  }
  static bool given(Plan const& plan, BufferId buffer) {
    TensorAttributes const& its = plan.tensors()[plan.buffers()[buffer].tensor].attributes;
    return (its.persistent || its.external) && !plan.data().in_arena(buffer);
  }

  /// Runs the parts in their orders, with values as names. Finds the task of one rank that each is:
  /// one that does the same and reads the same values; each runs somewhere. In the end each rank
  /// that stores a tile has its last value.
  void prove_values() {
    std::vector<std::uint32_t> last(whole_.buffers().size(), none);
    for (std::uint32_t t = 0; t < whole_.tasks().size(); ++t) {
      auto const uses = whole_.uses(whole_.tasks()[t]);
      same_[key(whole_, whole_.tasks()[t])].push_back(t);
      read_.emplace_back();
      for (Use<BufferId> const& use : uses) read_[t].push_back(last[use.handle]);
      for (Use<BufferId> const& use : uses)
        if (writes(use.access)) last[use.handle] = t;
    }
    held_.resize(parts_.size());
    for (std::size_t r = 0; r < parts_.size(); ++r) {
      numbers_.emplace_back(parts_[r].tasks().size(), none);
      for (BufferId b = 0; b < parts_[r].buffers().size(); ++b)
        if (is_home(r, b) && given(parts_[r], b))
          held_[r][holder(r, b)] = {tile_of(parts_[r], b), none};
    }
    std::vector<std::size_t> at(parts_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < parts_.size(); ++r)
        for (; at[r] < parts_[r].tasks().size() && step({r, at[r]}); ++at[r]) moved = true;
    }
    for (std::size_t r = 0; r < parts_.size(); ++r)
      if (at[r] < parts_[r].tasks().size()) fail(name({r, at[r]}), " waits for ever");
    check_results(last);
  }
  void check_results(std::vector<std::uint32_t> const& last) {
    std::vector<bool> runs(whole_.tasks().size());
    for (auto const& list : numbers_)
      for (std::uint32_t const number : list)
        if (number != none) runs[number] = true;
    for (std::size_t t = 0; t < runs.size(); ++t)
      if (!runs[t]) fail("no rank runs task ", t, " of '", whole_.name(), "'");
    for (BufferId b = 0; b < last.size(); ++b) {
      bool const lasts = !whole_.data().in_arena(b) && (last[b] != none || given(whole_, b));
      bool stored = !lasts;
      for (std::size_t r = 0; lasts && r < parts_.size(); ++r) {
        PlannedBuffer const& its = whole_.buffers()[b];
        BufferId const own = parts_[r].buffer_of(its.tensor, its.tile);
        if (own == no_id || !is_home(r, own)) continue;
        stored = true;
        if (!(held_[r][holder(r, own)] == Value{b, last[b]}))
          fail("rank ", r, " has not the last value of buffer ", b, ", which it stores");
      }
      if (!stored) fail("no rank stores buffer ", b);
    }
  }
  bool is_home(std::size_t rank, BufferId buffer) const {
    PlannedBuffer const& its = parts_[rank].buffers()[buffer];
    return its.location.rank == static_cast<int>(rank) && !parts_[rank].data().in_arena(buffer);
  }
  /// Whether the task can run: the message to be received has been sent.
  bool step(At at) {
    auto const uses = parts_[at.rank].uses(task(at));
    Value& first = held_[at.rank][holder(at.rank, uses[0].handle)];
    if (kind(parts_[at.rank], task(at)) == KernelKind::op) {
      std::uint32_t const number = find_in_whole(at);
      numbers_[at.rank][at.task] = number;
      for (Use<BufferId> const& use : uses)
        if (writes(use.access))
          held_[at.rank][holder(at.rank, use.handle)] = {tile_of(at, use.handle), number};
      return true;
    }
    TransferArgs args;
    std::memcpy(&args, parts_[at.rank].args(task(at)).data(), sizeof args);
    auto const peer = static_cast<std::size_t>(args.peer);
    if (kind(parts_[at.rank], task(at)) == KernelKind::send) {
      if (first.buffer != tile_of(at, uses[0].handle)) fail(name(at), " sends another tile");
      mail_[{{at.rank, peer}, args.number}] = first;
      return true;
    }
    auto const message = mail_.find({{peer, at.rank}, args.number});
    if (message == mail_.end()) return false;
    first = message->second;
    return true;
  }
  /// Tasks that do the same to the same buffers, such as additions of partial sums, are told apart
  /// by what they read.
  std::uint32_t find_in_whole(At at) {
    auto const uses = parts_[at.rank].uses(task(at));
    auto const same = same_.find(key(parts_[at.rank], task(at)));
    if (same == same_.end()) fail(name(at), " is no task of one rank");
    std::size_t wrong = uses.size();
    for (std::uint32_t const number : same->second) {
      std::size_t u = 0;
      while (u < uses.size() &&
             (!reads(uses[u].access) || held_[at.rank][holder(at.rank, uses[u].handle)] ==
                                            Value{tile_of(at, uses[u].handle), read_[number][u]}))
        ++u;
      if (u == uses.size()) return number;
      wrong = u;
    }
    fail(name(at), " reads another value of its operand ", wrong, " than on one rank");
  }

  /// That no chain of waits comes back to where it began. Begin and end of each task are points of
  /// time. A task begins when those have ended that it depends on by what holds its buffers, and,
  /// with a window, the task `window` places before it; a transfer ends when its peer's has begun.
  /// With a window of 1 and `replicas`, which meet like the two ends of a message, it proves one
  /// common order, of which each part is a restriction.
  void prove_waits(std::size_t window, bool replicas) {
    first_.clear();
    std::size_t tasks = 0;
    for (Plan const& part : parts_) first_.push_back(tasks), tasks += part.tasks().size();
    later_.assign(2 * tasks, {});
    each_task([&](At at) {
      before(begin(at), end(at));
      if (window != no_window && at.task >= window)
        before(end({at.rank, at.task - window}), begin(at));
    });
    for (std::size_t r = 0; r < parts_.size(); ++r) add_dependences(r);
    for (auto const& [message, pair] : pairs_) meet(*pair.send, *pair.receive);
    if (replicas) {
      std::map<std::uint32_t, At> first;
      each_task([&](At at) {
        std::uint32_t const number = numbers_[at.rank][at.task];
        if (number == none) return;
        auto const [known, is_first] = first.try_emplace(number, at);
        if (!is_first) meet(known->second, at);
      });
    }
    find_cycle();
  }
  std::size_t begin(At at) const { return 2 * (first_[at.rank] + at.task); }
  std::size_t end(At at) const { return begin(at) + 1; }
  void before(std::size_t first, std::size_t then) { later_[first].push_back(then); }
  void meet(At a, At b) {
    before(begin(a), end(b));
    before(begin(b), end(a));
  }
  void add_dependences(std::size_t rank) {
    Plan const& part = parts_[rank];
    LastUsers<std::uint32_t> const nobody{none, {}};
    std::vector<LastUsers<std::uint32_t>> users(part.slots().size() + part.buffers().size(),
                                                nobody);
    for (std::uint32_t t = 0; t < part.tasks().size(); ++t)
      for (Use<BufferId> const& use : part.uses(part.tasks()[t])) {
        auto& its = users[holder(rank, use.handle)];
        its.each_before(use.access, [&](std::uint32_t earlier) {
          if (earlier != none && earlier != t) before(end({rank, earlier}), begin({rank, t}));
        });
        its.enter(use.access, t);
      }
  }
  void find_cycle() const {
    std::vector<std::size_t> waits(later_.size()), free;
    for (auto const& list : later_)
      for (std::size_t const then : list) ++waits[then];
    for (std::size_t point = 0; point < waits.size(); ++point)
      if (waits[point] == 0) free.push_back(point);
    std::size_t reached = 0;
    for (; !free.empty(); ++reached) {
      std::size_t const point = free.back();
      free.pop_back();
      for (std::size_t const then : later_[point])
        if (--waits[then] == 0) free.push_back(then);
    }
    if (reached == waits.size()) return;
    each_task([&](At at) {
      if (waits[begin(at)] != 0) fail(name(at), " is in a cycle of waits, or behind one");
    });
    fail("transfers wait for each other");
  }

  Plan const& whole_;
  std::vector<Plan> const& parts_;
  std::map<std::string, std::vector<std::uint32_t>> same_;  // tasks of the whole plan, by key
  std::vector<std::vector<std::uint32_t>> read_;      // their operands' writers, by task and use
  std::vector<std::vector<std::uint32_t>> numbers_;   // in the whole plan, by rank and task
  std::vector<std::map<std::uint32_t, Value>> held_;  // by rank and holder
  std::map<Message, Pair> pairs_;
  std::map<Message, Value> mail_;
  std::vector<std::size_t> first_;               // task of each rank
  std::vector<std::vector<std::size_t>> later_;  // points that come behind each
};

/// All parts of a plan.
inline std::vector<Plan> parts_of(LogicalGraph const& graph, PlanOptions const& options) {
  std::vector<Plan> parts;
  int ranks = 1;
  for (MeshAxis const& axis : options.mesh) ranks *= axis.size;
  for (int rank = 0; rank < ranks; ++rank) parts.emplace_back(graph, options, rank);
  return parts;
}

/// The first rank whose part differs where it is planned from a thin job, or from one without the
/// arguments of others; "" where there is none.
inline std::string difference_of(LogicalGraph const& graph, PlanOptions const& options) {
  passes::MeshShape const mesh(options.mesh);
  for (detail::PartOf const of : {detail::PartOf::thin_job, detail::PartOf::own_arguments})
    for (int rank = 0; rank < mesh.ranks(); ++rank) try {
        if (!(detail::part_of(graph, options, mesh, rank, of) ==
              detail::part_of(graph, options, mesh, rank, detail::PartOf::whole_job)))
          return concat("rank ", rank, "'s part of a ",
                        of == detail::PartOf::thin_job ? "thin job" : "job of own arguments",
                        " is not that of the whole one");
      } catch (passes::NotThin const&) {
        break;
      }
  return {};
}

/// Plans one rank's job, cut as the parts are, and proves them against it; the first fault.
inline std::string fault_of(LogicalGraph const& graph, PlanOptions options,
                            std::vector<Plan> const& parts) {
  options.mesh.clear();
  options.rules.clear();
  options.owners = {};
  for (PlannedTensor const& tensor : parts[0].tensors().subspan(0, graph.tensor_count()))
    if (tensor.used && tensor.storage != Storage::view)
      options.keep.push_back({tensor.name, tensor.tiling, Storage::stored, tensor.column_unit});
  return JobProof(Plan(graph, options), parts).run();
}
/// The same of parts that are planned here, each proved by `check`, too, and to
/// be alike from thin jobs.
inline std::string fault_of(LogicalGraph const& graph, PlanOptions options) {
  options.check = true;
  std::string const difference = difference_of(graph, options);
  return difference.empty() ? fault_of(graph, options, parts_of(graph, options)) : difference;
}

}  // namespace nntile::test
