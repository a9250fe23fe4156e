#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks and messages of every rank of a job, as lists, and parts made of these with what slots need
// alone.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/graph/passes/lifetime.hh"
#include "nntile/graph/passes/rank_walk.hh"

namespace nntile::passes {

/// Lists the tasks and transfers of every rank in one walk, in the order of their parts. Cost:
/// linear in the tasks of all ranks; four bytes for each.
class PartLists {
 public:
  /// One step of a rank: a task of the job, or one end of a message.
  struct Entry {
    bool moves;
    std::uint32_t number;  // of the task, or of the message
  };

  /// The plan, the mesh and the homes of all buffers outlive it.
  PartLists(PlanData const& plan, MeshShape const& mesh, std::vector<TileHome> const& homes,
            std::uint32_t keep_received)
      : plan_(plan),
        mesh_(mesh),
        homes_(homes),
        lists_(static_cast<std::size_t>(mesh.ranks())),
        now_(plan.buffers.size()),
        number_(plan.buffers.size()) {
    for (std::uint32_t b = 0; b < now_.size(); ++b) now_[b] = b;
    RankWalk(plan, mesh, homes, keep_received).run(*this);
  }

  /// In the common order.
  std::span<RankWalk::Message const> messages() const { return messages_; }
  std::size_t size(int rank) const { return lists_[static_cast<std::size_t>(rank)].size(); }
  Entry entry(int rank, std::size_t at) const {
    std::uint32_t const code = lists_[static_cast<std::size_t>(rank)][at];
    return {(code & transfer) != 0, code & ~transfer};
  }
  /// Whether a tile has a home, rather than a slot of the arena.
  bool stored(std::uint32_t buffer) const {
    return plan_.tensors[plan_.buffers[buffer].tensor].storage != Storage::arena;
  }

  /// The tasks of a rank with their uses, slots and memory; nothing else of it is made.
  PlanData part(int rank) {
    PlanData part;
    part.rank = rank;
    part.tensors.resize(2);  // one for what is in the arena, one for what is not
    part.tensors[1].storage = Storage::stored;
    part.tasks.reserve(size(rank));
    again_.clear();
    for (std::size_t i = 0; i < size(rank); ++i) {
      auto const [moves, number] = entry(rank, i);
      PlannedTask own;
      Use<BufferId> moved{};
      if (moves && messages_[number].again && messages_[number].to == rank) {
        now_[messages_[number].buffer] =
            static_cast<std::uint32_t>(plan_.buffers.size() + again_.size());
        again_.push_back(messages_[number].buffer);
      }
      if (moves)
        moved = {messages_[number].buffer,
                 messages_[number].from == rank ? Access::read : Access::write};
      else
        own = plan_.tasks[number];
      auto const uses = moves ? std::span(&std::as_const(moved), 1) : plan_.uses_of(own);
      own.first_use = static_cast<std::uint32_t>(part.uses.size());
      own.use_count = static_cast<std::uint8_t>(uses.size());
      for (Use<BufferId> const& use : uses) part.uses.push_back({now_[use.handle], use.access});
      part.tasks.push_back(own);
    }
    for (std::uint32_t const b : again_) now_[b] = b;
    add_buffers(part);
    return lifetime(std::move(part));
  }
  /// Frees the list of a rank.
  void drop(int rank) { lists_[static_cast<std::size_t>(rank)] = {}; }

  /// Called by the walk.
  void task(PlannedTask const& task, RankBox const& box) {
    auto const number = static_cast<std::uint32_t>(&task - plan_.tasks.data());
    mesh_.each(box, [&](int rank) { lists_[static_cast<std::size_t>(rank)].push_back(number); });
  }
  void end_phase() {}
  void message(RankWalk::Message const& message) {
    auto const number = static_cast<std::uint32_t>(messages_.size()) | transfer;
    for (int const rank : {message.from, message.to})
      lists_[static_cast<std::size_t>(rank)].push_back(number);
    messages_.push_back(message);
  }

 private:
  static constexpr std::uint32_t transfer = 1u << 31;

  /// Numbers the buffers that are used in ascending order.
  void add_buffers(PlanData& part) {
    std::size_t const own = plan_.buffers.size();
    number_.resize(std::max(number_.size(), own + again_.size()));
    std::vector<std::uint32_t> used;
    for (Use<BufferId> const& use : part.uses)
      if (std::exchange(number_[use.handle], 1u) == 0) used.push_back(use.handle);
    std::sort(used.begin(), used.end());
    for (std::uint32_t const b : used) {
      number_[b] = static_cast<std::uint32_t>(part.buffers.size());
      bool const here = b < own && stored(b) && mesh_.contains(homes_[b].box, part.rank);
      part.buffers.push_back({.tensor = here ? 1u : 0u,
                              .location = {part.rank, {}},
                              .bytes = plan_.buffers[b < own ? b : again_[b - own]].bytes});
    }
    for (Use<BufferId>& use : part.uses) use.handle = number_[use.handle];
    for (std::uint32_t const b : used) number_[b] = 0;
  }

  PlanData const& plan_;
  MeshShape const& mesh_;
  std::vector<TileHome> const& homes_;
  std::vector<std::vector<std::uint32_t>> lists_;  // tasks, and messages with the bit, by rank
  std::vector<RankWalk::Message> messages_;
  std::vector<std::uint32_t> now_;     // the buffer that has a tile in a part, by that of the job
  std::vector<std::uint32_t> again_;   // those of tiles that are sent again, behind the job's
  std::vector<std::uint32_t> number_;  // of a buffer in a part, plus what marks it
};

}  // namespace nntile::passes
