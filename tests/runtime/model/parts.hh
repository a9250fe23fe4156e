// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Programs on the parts of a ring that threads share, each alone: what weakens one may be hidden by
// the others.

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <vector>

#include "nntile/runtime/ring/block_ranges.hh"
#include "nntile/runtime/ring/broadcast.hh"
#include "nntile/runtime/ring/deque.hh"
#include "nntile/runtime/ring/lane.hh"
#include "nntile/runtime/ring/offers.hh"
#include "nntile/runtime/ring/parking.hh"
#include "nntile/runtime/ring/pending.hh"
#include "nntile/runtime/ring/queue.hh"
#include "nntile/runtime/ring/window.hh"
#include "nntile/runtime/support/tokens.hh"
#include "tests/runtime/model/policy.hh"

namespace nntile::test::model {

/// Items that are handed over: each is taken once, and what was written before is then to be seen.
class Items {
 public:
  explicit Items(std::size_t count) : written_(count), taken_(count) {}
  std::uint64_t make(std::uint64_t item) {
    written_[item] = 1;
    return item;
  }
  void take(std::uint64_t item) {
    Exploration::current->check(item < taken_.size() && written_[item] == 1, "an item is none");
    Exploration::current->check(taken_[item].fetch_add(1, std::memory_order_relaxed) == 0,
                                "an item is taken twice");
  }
  bool taken(std::uint64_t item) const { return taken_[item].load(std::memory_order_relaxed) != 0; }
  void check_all() const {
    for (std::uint64_t i = 0; i < taken_.size(); ++i)
      Exploration::current->check(taken(i), "an item is lost");
  }

 private:
  std::deque<Plain<int>> written_;
  std::deque<Atomic<int>> taken_;
};

/// Runs bodies at the same time and waits for them.
template <class... Bodies> void together(Bodies... bodies) {
  Thread threads[sizeof...(Bodies)];
  std::size_t i = 0;
  ((void)threads[i++].start(bodies), ...);
  for (Thread& thread : threads) thread.join();
}

/// An owner that pushes and pops, and two thieves.
inline void share_deque() {
  nntile::detail::ring::Deque<Policy<2>, std::uint64_t> deque;
  Items items(3);
  std::uint64_t item;
  auto const steal = [&] {
    if (std::uint64_t stolen; deque.steal(stolen)) items.take(stolen);
  };
  together(
      [&] {
        std::uint64_t own;
        (void)deque.push(items.make(0));
        (void)deque.push(items.make(1));
        if (deque.pop(own)) items.take(own);
        if (deque.pop(own)) items.take(own);
        if (!deque.push(items.make(2))) items.take(2);
      },
      steal, steal);
  while (!deque.empty())
    if (deque.pop(item)) items.take(item);
  items.check_all();
}

/// An owner that only pushes, and a thief that sleeps where it finds nothing.
inline void steal_or_sleep() {
  nntile::detail::ring::Deque<Policy<2>, std::uint64_t> deque;
  nntile::detail::ring::Parking<Policy<2>> parking;
  Items items(1);
  together(
      [&] {
        (void)deque.push(items.make(0));
        parking.wake(1);
      },
      [&] {
        for (std::uint64_t item; !items.taken(0);) {
          if (deque.steal(item)) items.take(item);
          if (items.taken(0)) return;
          parking.announce();
          if (deque.empty())
            parking.sleep();
          else
            parking.cancel();
        }
      });
  items.check_all();
}

/// Two producers and two that take what is there; the queue is as full as its law allows.
inline void share_queue() {
  nntile::detail::ring::ReadyQueue<Policy<2>> queue(4);
  Items items(3);
  nntile::detail::ring::ReadyTask item;
  queue.push(items.make(0));
  auto const take = [&] {
    if (nntile::detail::ring::ReadyTask popped; queue.pop(popped)) items.take(popped);
  };
  together([&] { queue.push(items.make(1)); }, take,
           [&] {
             queue.push(items.make(2));
             take();
           });
  while (queue.pop(item)) items.take(item);
  Exploration::current->check(queue.empty(), "an item is left");
  items.check_all();
}

/// A producer, and two that take two tasks where two are there, or else one.
inline void take_several() {
  using nntile::detail::ring::ReadyTask;
  nntile::detail::ring::ReadyQueue<Policy<2>> queue(4);
  Items items(3);
  queue.push(items.make(0));
  auto const take = [&] {
    ReadyTask tasks[2];
    if (queue.pop_several(tasks, 2, 2))
      items.take(tasks[0]), items.take(tasks[1]);
    else if (queue.pop(tasks[0]))
      items.take(tasks[0]);
  };
  together(
      [&] {
        queue.push(items.make(1));
        queue.push(items.make(2));
      },
      take, take);
  for (ReadyTask item; queue.pop(item);) items.take(item);
  Exploration::current->check(queue.empty(), "an item is left");
  items.check_all();
}

/// Two bodies that sleep until a task of their own is ready, one for a kind of workers.
inline void offer_to_bodies() {
  using nntile::detail::ring::Offers;
  Offers<Policy<2>> offers[] = {Offers<Policy<2>>(2), Offers<Policy<2>>(2)};
  nntile::detail::ring::Broadcast<Policy<2>> bodies;
  Items items(2);
  auto const body = [&](std::uint64_t self) {
    for (;;) {
      if (offers[self].take() == self) return items.take(self);
      std::uint64_t const round = bodies.announce();
      if (!offers[self].any())
        bodies.sleep(round, -1);
      else
        bodies.cancel();
    }
  };
  together([&] { body(0); }, [&] { body(1); },
           [&] {
             for (std::uint32_t item = 0; item < 2; ++item) {
               items.make(item);
               (void)offers[item].offer(item, item);
               bodies.wake_all();
             }
           });
  items.check_all();
}

/// Two ready tasks, which the threads that pop their slots and a body would take.
inline void take_offers() {
  nntile::detail::ring::Offers<Policy<2>> offers(2);
  Items items(2);
  (void)offers.offer(static_cast<std::uint32_t>(items.make(0)), 0);
  auto const pop = [&](std::uint32_t slot) {
    if (offers.take_popped(slot, 0)) items.take(slot);
  };
  together([&] { pop(0); },
           [&] {
             (void)offers.offer(static_cast<std::uint32_t>(items.make(1)), 0);
             pop(1);
           },
           [&] {
             for (int i = 0; i < 2; ++i)
               if (std::uint32_t const slot = offers.take(); slot < 2) items.take(slot);
           });
  Exploration::current->check(!offers.any(), "a task is left");
  items.check_all();
}

/// A sleeper for each of two pieces of work that come one by one.
inline void park_two() {
  nntile::detail::ring::ReadyQueue<Policy<2>> queue(4);
  nntile::detail::ring::Parking<Policy<2>> parking;
  Items items(2);
  auto const work = [&] {
    for (nntile::detail::ring::ReadyTask item;;) {
      if (queue.pop(item)) return items.take(item);
      parking.announce();
      if (queue.empty()) {
        parking.sleep();
      } else {
        parking.cancel();
        Exploration::current->yield();  // a push may be in progress
      }
    }
  };
  together(work, work, [&] {
    for (std::uint64_t item = 0; item < 2; ++item) {
      queue.push(items.make(item));
      parking.wake(1);
    }
  });
  items.check_all();
}

/// A driver that waits for an end, which another thread announces.
inline void wait_for_end() {
  nntile::detail::ring::Parking<Policy<2>> parking;
  nntile::detail::ring::EdgeList<Policy<2>> list;
  list.open();
  together(
      [&] {
        parking.expect(7);
        if (!list.is_closed()) parking.sleep_driver(false, -1);
        parking.stop_expecting();
      },
      [&] {
        (void)list.close();
        parking.completed(7);
      });
}

/// A lane through two epochs, with a worker that may come late from the first.
inline void share_lane() {
  using Lane = nntile::detail::ring::Lane<Policy<2>>;
  std::vector<Lane::Entry> entries(8 + nntile::detail::ring::lane_batch);
  Lane lane;
  Items items(4);
  lane.set_entries(entries.data());
  auto const take = [&](std::uint32_t most) {
    std::uint32_t tasks[2];
    std::uint32_t const count = lane.pop(tasks, most, 1);
    for (std::uint32_t i = 0; i < count; ++i) items.take(tasks[i]);
  };
  together([&] { take(2); },
           [&] {
             for (std::uint32_t epoch = 1; epoch <= 2; ++epoch) {
               std::uint32_t const first = 2 * (epoch - 1);
               lane.put(epoch, 0, static_cast<std::uint32_t>(items.make(first)));
               lane.begin(epoch, 1);
               lane.open(epoch);
               lane.push(static_cast<std::uint32_t>(items.make(first + 1)));
               while (!items.taken(first) || !items.taken(first + 1)) {
                 take(1);
                 Exploration::current->yield();
               }
             }
           });
  items.check_all();
}

/// Two workers claim the blocks of one task or two, the later of which may be in the range of the
/// other; each task's memory goes with its last block. One that finds nothing sleeps.
template <int tasks_open, std::uint32_t blocks> void claim_blocks() {
  using Ranges = nntile::detail::ring::BlockRanges<Policy<2>>;
  using Task = nntile::detail::ring::Pending<Policy<2>>;
  Ranges ranges;
  nntile::detail::ring::Parking<Policy<2>> parking;
  Items items(tasks_open * blocks);
  Plain<int> held[2];  // what stands for the tasks: written before they open and behind their ends
  Task* const tasks[] = {reinterpret_cast<Task*>(&held[0]), reinterpret_cast<Task*>(&held[1])};
  Atomic<int> over{0};
  auto const work = [&] {
    while (over.load(std::memory_order_acquire) != tasks_open) {
      auto const ready = ranges.claim(0);
      if (ready == nntile::detail::ring::no_task) {
        parking.announce();
        if (!ranges.any(0) && over.load(std::memory_order_seq_cst) != tasks_open)
          parking.sleep();
        else
          parking.cancel();
        continue;
      }
      auto& range = ranges[nntile::detail::ring::range_of(ready)];
      std::size_t const task = range.task == tasks[0] ? 0 : 1;
      Exploration::current->check(held[task] == 1, "a block runs of a task that has ended");
      items.take(task * blocks + nntile::detail::ring::block_of(ready));
      if (!Ranges::end_block(range)) continue;
      held[task] = 2;
      ranges.give_back(range);
      over.fetch_add(1, std::memory_order_seq_cst);
      parking.wake_all();
    }
  };
  together(work, work, [&] {
    for (std::uint32_t task = 0; task < tasks_open; ++task) {
      held[task] = 1;
      for (std::uint32_t i = 0; i < blocks; ++i) items.make(task * blocks + i);
      (void)ranges.open(*tasks[task], blocks, -1, nullptr);
      parking.wake(blocks);
    }
  });
  items.check_all();
}

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

/// Lets go of a record of an asynchronous task and, where that is left to it, ends the task.
template <class Records>
void let_go(Records& records, Items& items, typename Records::Record& record, std::uint64_t id) {
  if (!records.leave(record)) return;
  auto const task = reinterpret_cast<std::uintptr_t>(static_cast<void*>(record.task));
  (void)record.failure();
  records.give_back(record, id);
  items.take(task);
}

/// What another thread does to a task whose entry returns: completes it, though the entry fails or
/// not, or only finds that an entry that failed has ended it.
enum class Entry { returns, fails, fails_alone };

/// The entry of a task, another thread, and a third that holds its record; then a task that may
/// have the same record.
template <Entry entry> void share_record() {
  using Records = support::Outstanding<Policy<2>>;
  Records records;
  Items items(2);
  Atomic<std::uint64_t> token{0};
  auto const open = [&](std::uint64_t task) {
    return records.open(reinterpret_cast<void*>(items.make(task)), {});
  };
  auto const complete = [&](std::uint64_t id) {
    auto* const record = records.claim(id);
    if (record == nullptr) return;
    record->fail("");
    let_go(records, items, *record, id);
  };
  together(
      [&] {
        std::uint64_t const first = open(0);
        token.store(first, std::memory_order_release);
        if (entry != Entry::returns) {
          records[first].fail_entry("");
          records.claim_for_entry(records[first]);
        }
        let_go(records, items, records[first], first);
        std::uint64_t const second = open(1);
        let_go(records, items, records[second], second);
        complete(second);
      },
      [&] {
        std::uint64_t id;
        while ((id = token.load(std::memory_order_acquire)) == 0) Exploration::current->yield();
        if (entry == Entry::fails_alone)
          while (!items.taken(0)) Exploration::current->yield();
        else
          complete(id);
        Exploration::current->check(records.claim(id) == nullptr, "a token is not void");
      },
      [&] {
        std::uint64_t id;
        auto* const record = records.hold_any(0, id);
        if (record == nullptr) return;
        auto const task = reinterpret_cast<std::uintptr_t>(static_cast<void*>(record->task));
        Exploration::current->check(!items.taken(task), "a task that has ended is named");
        let_go(records, items, *record, id);
      });
  items.check_all();
}

/// Two threads complete one task, which ends once.
inline void complete_twice() {
  using Records = support::Outstanding<Policy<2>>;
  Records records;
  Items items(1);
  std::uint64_t const id = records.open(reinterpret_cast<void*>(items.make(0)), {});
  let_go(records, items, records[id], id);
  auto const complete = [&] {
    auto* const record = records.claim(id);
    if (record == nullptr) return;
    record->fail("");
    let_go(records, items, *record, id);
  };
  together(complete, complete);
  items.check_all();
}

/// Two threads open records, of which as many are free, and give some back.
template <std::uint32_t free> void share_free_records() {
  using Records = support::Outstanding<Policy<2>>;
  Records records;
  Plain<int> owned[6];
  auto const open = [&] {
    std::uint64_t const id = records.open(nullptr, {});
    auto& owner = owned[static_cast<std::uint32_t>(id)];
    Exploration::current->check(owner == 0, "a record has 2 tasks");
    owner = 1;
    return id;
  };
  auto const give_back = [&](std::uint64_t id) {
    owned[static_cast<std::uint32_t>(id)] = 0;
    records.give_back(records[id], id);
  };
  std::uint64_t ids[4];
  for (std::uint32_t i = 0; i < free; ++i) ids[i] = open();
  for (std::uint32_t i = 0; i < free; ++i) give_back(ids[i]);
  together(
      [&] {
        std::uint64_t const mine = open();
        (void)open();
        give_back(mine);
      },
      [&] {
        std::uint64_t const mine = open();
        if (free != 0) (void)open();
        give_back(mine);
      });
  for (int i = 0; i < 2; ++i) (void)open();  // what was given back
}

/// The thread that waits for an end goes on to tear down what the thread that completes the task
/// looks at last.
inline void complete_and_quiesce() {
  struct Owner {
    Plain<int> alive{1};
    Atomic<bool> over{false};
    support::BasicTokens<Policy<2>> tokens{this, +[](void* owner, void*, Status) noexcept {
                                             auto& self = *static_cast<Owner*>(owner);
                                             self.over.store(true, std::memory_order_release);
                                             Exploration::current->check(
                                                 self.alive == 1, "torn down amid a completion");
                                           }};
  } owner;
  support::TaskBody const body{};
  Completion const token = owner.tokens.open(nullptr, body);
  (void)owner.tokens.entry_returned(token, {});
  together([&] { token.complete(); },
           [&] {
             while (!owner.over.load(std::memory_order_acquire)) Exploration::current->yield();
             owner.tokens.quiesce();
             owner.alive = 0;
           });
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

}  // namespace nntile::test::model
