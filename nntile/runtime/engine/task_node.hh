#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A submitted task of the engine, and the edges between tasks.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nntile/runtime/device.hh"
#include "nntile/runtime/engine/scratch_array.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/events.hh"
#include "nntile/runtime/support/groups.hh"

namespace nntile::support {

struct TaskNode;

/// A link in the list of a producer's successors. It lives in the consumer.
struct TaskEdge {
  TaskNode* consumer;
  TaskEdge* next;
};

/// A task names a node together with the number that the node had then: nodes are reused.
struct TaskReference {
  TaskNode* node = nullptr;
  std::uint64_t number = 0;
  bool operator==(TaskReference const&) const = default;
};

/// One task that has not ended, or the end of a retired buffer that waits for its last tasks, or,
/// with neither a block nor such a buffer, a join: a task that does nothing after others. The
/// driver writes it and links it; then whichever thread drops `pending` to 0 owns it.
struct alignas(64) TaskNode {
  std::uint64_t number = 0;   // unique among the runtime's nodes; the driver alone looks at it
  std::uint64_t seen_by = 0;  // number of the last consumer that was linked; the driver's
  TaskBody body;
  void* engine = nullptr;
  Buffer* retired = nullptr;  // to be reclaimed; there is no body then
  Events::Block* block = nullptr;
  TaskNode* next_free = nullptr;  // or the next in the queue for a claim
  Groups groups = Groups::none;
  bool claimed = false;          // it holds its claims
  std::uint32_t claim_from = 0;  // the least index of a buffer whose claim it has still to take
  /// Of a task that submits: runs it. Of one that is part of it: ends it with its token (nest.hh).
  void (*start)(TaskNode&) noexcept = nullptr;
  void (*ended)(TaskNode&) noexcept = nullptr;
  void* submits = nullptr;  // the body that `start` runs
  void* nest = nullptr;     // the nest that it is part of
  ScratchArray<Use<Buffer*>, 6> uses;
  ScratchArray<void*, 6> pointers;
  ScratchArray<std::byte, 64> arguments;
  ScratchArray<TaskEdge, 6> edges;  // one a producer

  /// Producers that have not ended, and 1 until the node is linked.
  alignas(64) std::atomic<std::int64_t> pending{0};
  /// Grows by pushes of the driver, and is closed once, by the end of the task.
  std::atomic<TaskEdge*> successors{nullptr};

  /// Marks a list whose task has ended.
  static TaskEdge* closed() noexcept {
    return reinterpret_cast<TaskEdge*>(std::uintptr_t{1});  // no edge has an odd address
  }
};

/// A node of an engine with devices. Tasks of its stream wait for its launch, in a list of their
/// own.
struct DeviceTaskNode : TaskNode {
  Stream stream{-1, 0};  // of no device: it runs on the host, or submits
  std::atomic<TaskEdge*> at_launch{nullptr};
};

/// Whether the task that the reference names has ended; its effects are visible then. The driver
/// only.
inline bool has_ended(TaskReference const& task) noexcept {
  return task.node == nullptr || task.node->number != task.number ||
         task.node->successors.load(std::memory_order_seq_cst) == TaskNode::closed();
}

/// Copies a submission into its node; `uses` and `pointers` are for the caller to fill. Throws
/// std::bad_alloc.
inline void copy_task(TaskNode& node, Task<DataHandle> const& task, std::uint64_t sequence) {
  node.uses.resize(task.uses.size());
  node.pointers.resize(task.uses.size());
  node.arguments.resize(task.arguments.size());
  if (!task.arguments.empty())
    std::memcpy(node.arguments.data(), task.arguments.data(), task.arguments.size());
  node.body = {task.codelet,          sequence,  node.uses, node.pointers.data(),
               node.arguments.data(), task.label};
}

/// Links a filled node, whose edges are sized, behind its producers, each in the list that
/// list_of(producer) says; true if none of them is left and the caller is to run it.
template <class ListOf>
bool link(TaskNode& node, std::span<TaskReference const> producers, ListOf list_of) noexcept {
  node.pending.store(1 + static_cast<std::int64_t>(producers.size()), std::memory_order_relaxed);
  std::int64_t satisfied = 1;
  for (std::size_t i = 0; i < producers.size(); ++i) {
    TaskEdge& edge = node.edges[i];
    std::atomic<TaskEdge*>& list = list_of(*producers[i].node);
    edge.consumer = &node;
    edge.next = list.load(std::memory_order_acquire);
    do {
      if (edge.next == TaskNode::closed()) break;
    } while (!list.compare_exchange_weak(edge.next, &edge, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
    if (edge.next == TaskNode::closed()) ++satisfied;
  }
  return node.pending.fetch_sub(satisfied, std::memory_order_acq_rel) == satisfied;
}

inline bool link(TaskNode& node, std::span<TaskReference const> producers) noexcept {
  return link(node, producers,
              [](TaskNode& producer) -> std::atomic<TaskEdge*>& { return producer.successors; });
}

/// Closes an open list and calls ready(consumer) for each task in it that waits for nothing else.
template <class Ready> void unlink(std::atomic<TaskEdge*>& list, Ready&& ready) noexcept {
  TaskEdge* edge = list.exchange(TaskNode::closed(), std::memory_order_seq_cst);
  while (edge != nullptr) {
    TaskNode& consumer = *edge->consumer;
    edge = edge->next;  // before the count drops: the edge lives in the consumer
    if (consumer.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) ready(consumer);
  }
}
/// The same of all that wait for the end of a node.
template <class Ready> void unlink(TaskNode& node, Ready&& ready) noexcept {
  unlink(node.successors, ready);
}

}  // namespace nntile::support
