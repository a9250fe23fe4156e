// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Programs on the tasks that are in progress: the slots of a window, and those pending in a table.

#include <cstdint>

#include "nntile/runtime/ring/pending.hh"
#include "nntile/runtime/ring/window.hh"
#include "tests/runtime/model/items.hh"

namespace nntile::test::model {

/// One producer whose end meets the wiring of two consumers.
inline void link_and_complete() {
  using Window = nntile::detail::ring::Window<Policy<4>>;
  struct Sink {
    Items& items;
    std::uint32_t first;
    void ended(nntile::detail::ring::Reference) {}
    void ready(Window::Hot& slot) { items.take(slot.id - first); }
  };
  Window window(4, 1);
  Items items(3);
  auto const first = static_cast<std::uint32_t>(window.head());
  Sink sink{items, first};
  auto& producer = window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
  items.make(0), items.take(0);
  together([&] { window.complete(producer, sink); },
           [&] {
             for (std::uint64_t i : {1u, 2u}) {
               auto& consumer = window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
               items.make(i);
               window.expect(consumer, 1);
               std::uint32_t const missing = window.link(producer.consumers, consumer, 0) ? 0 : 1;
               if (window.publish(consumer, missing)) sink.ready(consumer);
             }
             while (!window.finished(window.watermark())) Exploration::current->yield();
             window.advance([](std::uint64_t) {});
             (void)window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
             (void)window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
           });
  items.check_all();
}

/// A slot whose task another thread ends, and which the submitter opens and ends again.
inline void open_again() {
  using Window = nntile::detail::ring::Window<Policy<2>>;
  struct Sink {
    void ended(nntile::detail::ring::Reference) {}
    void ready(Window::Hot&) {}
  };
  Window window(2, 1);
  Sink sink;
  auto const open = [&]() -> auto& {
    return window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
  };
  auto& first = open();
  together([&] { window.complete(first, sink); },
           [&] {
             while (!window.finished(window.watermark())) Exploration::current->yield();
             window.advance([](std::uint64_t) {});
             for (int i = 0; i < 2; ++i) window.complete(open(), sink);
             Exploration::current->check(window.finished(window.head() - 1),
                                         "a task that has ended is not finished");
           });
}

/// Two producers whose ends meet the wiring of their consumer, which takes what both have made.
inline void link_to_two() {
  using Window = nntile::detail::ring::Window<Policy<4>>;
  struct Sink {
    Items& items;
    void ended(nntile::detail::ring::Reference) {}
    void ready(Window::Hot&) {
      for (std::uint64_t i : {0u, 1u, 2u}) items.take(i);
    }
  };
  Window window(4, 1);
  Items items(3);
  Sink sink{items};
  auto& first = window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
  auto& second = window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
  auto const end = [&](Window::Hot& producer, std::uint64_t item) {
    items.make(item);
    window.complete(producer, sink);
  };
  together([&] { end(first, 0); }, [&] { end(second, 1); },
           [&] {
             auto& consumer = window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
             items.make(2);
             std::uint32_t edges = 0;
             window.expect(consumer, 2);
             for (auto* const producer : {&first, &second})
               if (window.link(producer->consumers, consumer, edges)) ++edges;
             if (window.publish(consumer, 2 - edges)) sink.ready(consumer);
           });
  items.check_all();
}

/// A thread asks whether a pending task has ended, which another ends, and which the submitter
/// takes back for a later one, having moved the others together, or taken more room for them.
template <std::uint32_t opened> void ask_pending() {
  nntile::detail::ring::PendingTable<Policy<2>> table;
  Plain<int> written;
  auto& first = table.take(0, 0);
  table.open(first, 1);
  for (std::uint64_t i = 2; i <= opened; ++i) table.open(table.take(0, 0), i);
  together(
      [&] {
        written = 1;
        (void)table.close(first);
        table.ended(first);
      },
      [&] {
        table.open(table.take(0, 0), opened + 1);
        table.collect([](auto&) {});
        table.open(table.take(0, 0), opened + 2);
        for (std::uint64_t i = opened + 1; i <= opened + 2; ++i)
          Exploration::current->check(table.is_open(i), "a pending task counts as ended");
      },
      [&] {
        while (table.is_open(1)) Exploration::current->yield();
        Exploration::current->check(written == 1, "a task that is over has not run");
        if (opened > 1)
          Exploration::current->check(table.is_open(2), "a pending task counts as ended");
      });
}

/// A thread asks for a pending task whose entry the submitter moves, and takes the place of.
inline void ask_amid_moves() {
  nntile::detail::ring::PendingTable<Policy<2>> table;
  std::uint64_t sequence = 0;
  auto const open = [&]() -> auto& {
    auto& task = table.take(0, 0);
    table.open(task, ++sequence);
    return task;
  };
  for (int i = 1; i <= 6; ++i) {
    auto& task = open();
    if (i > 2 && i != 5) continue;
    (void)table.close(task);
    table.ended(task);
  }
  together(
      [&] {
        table.collect([](auto&) {});
        (void)open(), (void)open();
      },
      [&] { Exploration::current->check(table.is_open(3), "a pending task counts as ended"); });
}

/// The end of a task of a domain beside the root; one that is ready takes what all have made.
struct SinkBesideRoot {
  using BesideRoot = void;
  Items& items;
  void ended(nntile::detail::ring::Reference) {}
  void ready(nntile::detail::ring::HotSlot<Policy<2>>&) {
    for (std::uint64_t i : {0u, 1u, 2u}) items.take(i);
  }
};
/// A window that is full and goes on in a larger one, while another thread ends its tasks and a
/// third asks for the end of the first; then what waits for both.
inline void grow_window() {
  using Window = nntile::detail::ring::Window<Policy<2>>;
  Window window(2, 1), larger(4, 1);
  Items items(3);
  SinkBesideRoot sink{items};
  auto const open = [&]() -> auto& {
    return window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
  };
  auto const ticket = window.head();
  Window::Hot* const producers[] = {&open(), &open()};
  together(
      [&] {
        for (std::uint64_t i : {0u, 1u}) {
          items.make(i);
          window.complete(*producers[i], sink);
        }
      },
      [&] {
        bool const over = window.ended(1);
        Exploration::current->check(!over || window.ended(1), "a task that has ended is not over");
      },
      [&] {
        window.grow(larger, [](Window::Hot const&, Window::Hot const&) {});
        auto& consumer = open();
        items.make(2);
        std::uint32_t edges = 0;
        window.expect(consumer, 2);
        for (std::uint32_t i : {0u, 1u}) {
          auto& producer = window.hot(static_cast<std::uint32_t>(ticket + i));
          if (window.link(producer.consumers, consumer, edges)) ++edges;
        }
        if (window.publish(consumer, 2 - edges)) sink.ready(consumer);
      });
  items.check_all();
  window.complete(window.hot(static_cast<std::uint32_t>(ticket + 2)), sink);
  window.advance([](std::uint64_t) {});
  Exploration::current->check(window.watermark() == window.head(),
                              "a task that has ended is not finished");
  window.shrink();
  Exploration::current->check(window.ended(1) && window.ended(3),
                              "a task that has ended is not over");
  window.complete(open(), sink);
  Exploration::current->check(window.finished(window.head() - 1),
                              "a task that has ended is not finished");
}

/// A window that goes back to its own slots, and once more on in the same larger one, while another
/// thread asks for the end of a task that has long ended.
inline void grow_again() {
  using Window = nntile::detail::ring::Window<Policy<2>>;
  Window window(2, 1), larger(4, 1);
  Items items(0);
  SinkBesideRoot sink{items};
  auto const grow_full = [&] {
    for (int i = 0; i < 2; ++i) (void)window.open(nntile::detail::ring::SlotKind::task, 0, -1, 1);
    window.grow(larger, [](Window::Hot const&, Window::Hot const&) {});
  };
  grow_full();
  for (std::uint32_t i : {0u, 1u})
    window.complete(window.at(window.own_slot_of(static_cast<std::uint32_t>(window.head()) + i)),
                    sink);
  window.advance([](std::uint64_t) {});
  together(
      [&] { Exploration::current->check(window.ended(1), "a task that has ended is not over"); },
      [&] {
        window.shrink();
        grow_full();
        Exploration::current->check(!window.ended(3), "a task is over that has not ended");
      });
}

}  // namespace nntile::test::model
