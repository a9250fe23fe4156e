// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Programs on what hands tasks to threads, each part alone: the others may hide the mistakes of
// one.

#include <cstdint>
#include <vector>

#include "nntile/runtime/ring/block_ranges.hh"
#include "nntile/runtime/ring/broadcast.hh"
#include "nntile/runtime/ring/deque.hh"
#include "nntile/runtime/ring/lane.hh"
#include "nntile/runtime/ring/offers.hh"
#include "nntile/runtime/ring/parking.hh"
#include "nntile/runtime/ring/pending.hh"
#include "nntile/runtime/ring/queue.hh"
#include "nntile/runtime/ring/slot.hh"
#include "tests/runtime/model/items.hh"

namespace nntile::test::model {

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

}  // namespace nntile::test::model
