// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Programs on tasks that others end: their records and tokens.

#include <cstdint>

#include "nntile/runtime/support/tokens.hh"
#include "tests/runtime/model/items.hh"

namespace nntile::test::model {

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

}  // namespace nntile::test::model
