#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The part of Wiring that links a task to its producers, and shows the edges to the trace.

#include <cstdint>
#include <span>

#include "nntile/runtime/ring/machine.hh"

namespace nntile::detail::ring {

template <class Policy> class Wiring;

/// A base of Wiring, which befriends it.
template <class Policy> class Edges {
 protected:
  /// Links a task to these producers; true if all have ended, and it is ready now.
  [[gnu::always_inline]] bool link(std::span<Reference const> producers,
                                   HotSlot<Policy>& consumer) {
    auto const live = domain().window.live();  // some may have left while a join waited for room
    std::uint32_t const count = static_cast<std::uint32_t>(producers.size());
    std::uint64_t const name = Policy::Trace::sees_edges ? traced(consumer) : 0;
    std::uint32_t const number = domain().window.number_of(consumer);
    std::uint32_t edges = 0;
    domain().window.expect(consumer, count);
    for (Reference const producer : producers) {
      EdgeList<Policy>* list;
      if (is_pending(producer)) [[unlikely]] {
        auto& pending = domain().pending[producer];
        list = &pending.consumers;
        if (wiring().is_behind(pending)) {
          if (pending.ticket < domain().window.watermark()) continue;
          list = &domain().window.hot(reference_to(pending.ticket)).consumers;
        }
      } else if (live(producer)) [[likely]]
        list = &domain().window.hot(producer).consumers;
      else
        continue;
      if (domain().window.link(*list, consumer, number, edges)) {
        ++edges;
        if constexpr (Policy::Trace::sees_edges) machine().trace.edge(traced(producer), name);
      }
    }
    return domain().window.publish(consumer, count - edges);
  }

  /// The edge to a join that stands for the task alone. If that is a join, both have one name.
  void trace_join([[maybe_unused]] HotSlot<Policy> const& task,
                  [[maybe_unused]] HotSlot<Policy> const& join) {
    if constexpr (Policy::Trace::sees_edges)
      if (task.kind != SlotKind::join) machine().trace.edge(traced(task), traced(join));
  }

 private:
  /// A task as the trace names it.
  static std::uint64_t traced(HotSlot<Policy> const& slot) {
    if (slot.kind == SlotKind::join) return traced_join | slot.id;
    return slot.sequence.load(std::memory_order_relaxed);
  }
  std::uint64_t traced(Reference producer) {
    return is_pending(producer) ? domain().pending[producer].body.sequence
                                : traced(domain().window.hot(producer));
  }

  Wiring<Policy>& wiring() { return static_cast<Wiring<Policy>&>(*this); }
  Machine<Policy>& machine() { return wiring().machine_; }
  Domain<Policy>& domain() { return wiring().domain_; }
};

}  // namespace nntile::detail::ring
