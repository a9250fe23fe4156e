#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: buffers live until their last task, and adopted memory is released exactly once.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline void retire_in_use(Trial const& trial) {
  Script script(trial.seed, 6, 64);
  for (int i = 0; i < 10 * trial.rounds; ++i) {
    script.task({{0, write}}, nap);
    if (i % 2 == 0) script.wait();  // then only readers are in flight
    script.task({{0, read}, {2, write}}, nap).task({{0, read}, {3, update}}).renew(0);
    script.task({{0, write}}).task({{2, read}, {0, update}, {5, update}}).renew(2);
  }
  script.run(trial);
}

/// The task has begun, so that its token alone holds the buffer.
inline void retire_what_a_token_holds(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const held = scene.allocate(16);
  scene.task({{held, write}});
  {
    Outside::Hold const hold(scene.outside());
    Event const pending = scene.task({{held, read}}, {.finish = Finish::outside});
    while (scene.journal().times_run(1) == 0 && !scene.runtime().done(pending))
      std::this_thread::yield();
    scene.retire(held);
    for (int i = 0; i < 20; ++i) {
      std::uint32_t const other = scene.allocate(16);
      scene.runtime().wait(scene.task({{other, write}}));
      scene.retire(other);
    }
  }
  scene.destroy();
}

inline void retire_in_use_late(Trial const& trial) {
  Script script(trial.seed, 4, 16);
  for (int i = 0; i < 5 * trial.rounds; ++i)
    script.task({{0, write}})
        .late({{0, read}, {1, update}}, Finish::outside, nap)
        .renew(0)
        .task({{0, write}})
        .renew(0)
        .late({{0, write}}, Finish::polled)
        .task({{0, read}, {3, update}});
  script.run(trial);
  retire_what_a_token_holds(trial);
}

/// No dependence holds it, only the task's use: its token is completed once the driver has retired
/// the memory and looked at it.
inline void retire_unordered(Trial const& trial) {
  Adopted memory(64);
  HeldTask held;
  std::atomic<std::uint64_t const*> words{nullptr};
  auto begin = [&](KernelCall const& call, Completion token) {
    words = static_cast<std::uint64_t const*>(call.buffers[0]);
    return HeldTask::start(&held, call, token);
  };
  Scene scene(trial);
  HeldTask::End const end{held};
  std::uint32_t const adopted = scene.adopt(memory);
  std::uint32_t const allocated = scene.allocate(64);
  scene.task({{allocated, write}});
  std::vector<std::uint64_t> const expected = scene.words(allocated);
  Event const pending = scene.start({{allocated, unordered}, {adopted, unordered}}, begin);
  scene.retire(allocated);
  scene.retire(adopted);
  for (int i = 0; i < 20; ++i) {
    std::uint32_t const other = scene.allocate(64);
    fill_words(words_of(scene.runtime().lock(scene.handle(other), write)), 5);
    scene.runtime().unlock(scene.handle(other));
    scene.retire(other);
  }
  while (words == nullptr && !scene.runtime().done(pending)) std::this_thread::yield();
  require(memory.released == 0, "adopted memory was released, though a task used it in no order");
  require(words == nullptr || std::equal(expected.begin(), expected.end(), words.load()),
          "the data of a retired buffer changed while a task used it in no order");
  held.release();
  scene.destroy();
  require(memory.released == 1, "adopted memory was not released once");
}

inline void release_once(Trial const& trial) {
  Script script(trial.seed, 8, 16);
  for (int i = 0; i < 10 * trial.rounds; ++i)
    for (std::uint32_t b = 1; b < 8; b += 2) {
      auto const pauses = static_cast<std::uint8_t>(i % 4 == 0 ? nap : 0);
      script.task({{b, update}}, pauses).task({{b, read}, {0, write}}).renew(b);
      script.task({{b, read}, {2, write}}, pauses).renew(b).renew(b);
    }
  script.run(trial);
}

inline void release_of_many(Trial const& trial) {
  std::vector<std::unique_ptr<Adopted>> memory;
  Scene scene(trial, 2000);
  for (std::size_t i = 0; i < 500; ++i) {
    memory.push_back(std::make_unique<Adopted>(1 + i % 7));
    std::uint32_t const buffer = scene.adopt(*memory.back());
    if (i % 3 == 0) scene.task({{buffer, update}});
    if (i % 3 == 1) scene.task({{buffer, read}});
    if (i % 2 == 0) scene.retire(buffer);
  }
  scene.destroy();
  for (auto const& one : memory)
    require(one->released == 1,
            concat("of 500 adopted buffers one was released ", one->released.load(), " times"));
}

inline void released_while_running(Trial const& trial) {
  Adopted memory(4);
  std::atomic<int> early{0};
  auto body = [&](KernelCall const&) {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::yield();
      early += memory.released;
    }
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const buffer = scene.adopt(memory);
  for (int i = 0; i < 8; ++i) scene.call({{buffer, read}}, body);
  scene.retire(buffer);
  scene.destroy();
  require(early == 0, "adopted memory was released while its last tasks ran");
}

inline void alignment(Trial const& trial) {
  Scene scene(trial);
  for (std::uint32_t words = 1; words < 200; words += 13) {
    std::uint32_t const buffer = scene.allocate(words);
    auto const span = scene.runtime().lock(scene.handle(buffer), write);
    auto const address = reinterpret_cast<std::uintptr_t>(span.data());
    scene.runtime().unlock(scene.handle(buffer));
    require(address % 64 == 0,
            concat("an allocation of ", words * 8, " bytes is not aligned to 64"));
    require(span.size() == words * 8, concat("a lock of ", words * 8, " bytes gave ", span.size()));
  }
  auto body = [](KernelCall const& call) {
    return reinterpret_cast<std::uintptr_t>(call.buffers[0]) % 64 == 0 ? Status{}
                                                                       : Status{"misaligned"};
  };
  for (std::uint32_t words = 1; words < 50; words += 7)
    scene.call({{scene.allocate(words), write}}, body);
  scene.runtime().wait_all();
}

inline void adopted_in_place(Trial const& trial) {
  Adopted memory(16);
  void* seen = nullptr;
  auto body = [&](KernelCall const& call) {
    seen = call.buffers[0];
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const buffer = scene.adopt(memory);
  scene.runtime().wait(scene.call({{buffer, update}}, body));
  auto const span = scene.runtime().lock(scene.handle(buffer), read);
  scene.runtime().unlock(scene.handle(buffer));
  require(span.data() == memory.bytes().data(),
          "adopted memory is locked elsewhere than where it lies");
  require(seen == memory.bytes().data(),
          "a task on the host saw adopted memory elsewhere than where it lies");
}

inline void empty_buffers(Trial const& trial) {
  Adopted nothing(0);
  {
    Scene scene(trial);
    std::uint32_t const empty = scene.allocate(0);
    std::uint32_t const adopted = scene.adopt(nothing);
    scene.task({{empty, write}});
    scene.task({{empty, read}, {adopted, update}});
    require(scene.words(empty).empty(), "a lock of an empty buffer gave bytes");
    scene.retire(empty);
    scene.retire(adopted);
    scene.destroy();
    require(scene.journal().times_run(0) == 1 && scene.journal().times_run(1) == 1,
            "a task on an empty buffer did not run once");
  }
  require(nothing.released == 1, "empty adopted memory was not released once");
}

inline void unwritten(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const fresh = scene.allocate();
  std::uint32_t const other = scene.allocate();
  for (Access const access : {read, update, accumulate}) {
    require_throws<LifetimeError>(
        [&] { scene.task({{fresh, access}}); },
        concat("a task that may only ", name_of(access), " an unwritten buffer"));
    require_throws<LifetimeError>(
        [&] { scene.task({{other, write}, {fresh, access}}); },
        concat("a task whose second operand is to ", name_of(access), " what is unwritten"));
  }
  require_throws<LifetimeError>([&] { scene.runtime().lock(scene.handle(fresh), read); },
                                "a lock to read an unwritten buffer");
  require_throws<LifetimeError>([&] { scene.runtime().lock(scene.handle(fresh), update); },
                                "a lock to update an unwritten buffer");
  require_throws<LifetimeError>([&] { scene.task({{other, read}}); },
                                "reading a buffer whose only writer was refused");
  scene.task({{fresh, write}});
  scene.task({{fresh, read}, {other, write}});
  scene.task({{other, update}});
  scene.runtime().wait_all();
  std::uint32_t const locked = scene.allocate();
  fill_words(words_of(scene.runtime().lock(scene.handle(locked), write)), 5);
  scene.runtime().unlock(scene.handle(locked));
  scene.task({{locked, read}});
  scene.destroy();
}

inline void written_in_parts(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const parts = scene.allocate(), free = scene.allocate();
  auto const wrong = [&] { scene.task({{parts, write_disjoint}, {parts, read}}); };
  require_throws<LifetimeError>(wrong, "a task that also reads what it is to write disjointly");
  scene.task({{parts, write_disjoint}});
  scene.task({{free, unordered}});
  (void)scene.words(parts);
  (void)scene.words(free);
  for (Access const access : {write_disjoint, unordered})
    require_throws<ValueError>([&] { scene.runtime().lock(scene.handle(parts), access); },
                               concat("a lock for ", name_of(access)));
  scene.task({{parts, update}, {free, update}});
  scene.destroy();
  Script script(trial.seed, 2, disjoint_parts);
  for (std::uint32_t part = 0; part < disjoint_parts; ++part) script.task({{0, write_disjoint}});
  script.task({{0, read}, {1, update}});
  script.run(trial);
}

inline void unwritten_and_repeated(Trial const& trial) {
  Script script(trial.seed, 3);
  script.task({{0, write}, {0, read}})
      .task({{0, write}, {0, write}})
      .task({{0, read}, {1, update}});
  script.run(trial);
}

inline void lock_sees_tasks(Trial const& trial) {
  Script script(trial.seed, 4, 32);
  for (int i = 0; i < 5 * trial.rounds; ++i)
    script.task({{1, update}}, nap)
        .lock(1, read)
        .task({{1, read}, {0, write}}, nap)
        .lock(1, update)
        .task({{1, update}, {0, read}})
        .late({{1, update}}, Finish::outside, nap)
        .lock(1, update)
        .task({{1, read}, {3, update}}, nap)
        .lock(1, write)
        .late({{1, update}}, Finish::polled)
        .lock(1, read);
  script.run(trial);
}

inline void locked_handles(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const locked = scene.allocate();
  std::uint32_t const other = scene.allocate();
  scene.task({{locked, write}});
  for (Access const access : {read, write, update}) {
    (void)scene.runtime().lock(scene.handle(locked), access);
    for (Access const named : {read, write, update, accumulate, write_disjoint, unordered})
      require_throws<LifetimeError>(
          [&] { scene.task({{locked, named}, {other, write}}); },
          concat("a task that is to ", name_of(named), " what is locked"));
    require_throws<LifetimeError>([&] { scene.retire(locked); }, "retiring a locked handle");
    require_throws<LifetimeError>([&] { scene.runtime().wait_all(); },
                                  "wait_all while a handle is locked");
    Event const event = scene.task({{other, write}});  // others go on
    scene.runtime().wait(event);
    scene.runtime().unlock(scene.handle(locked));
    scene.task({{locked, read}, {other, write}});
  }
  scene.runtime().wait_all();
}

/// Scopes of `one` around and in a scope of `other`.
inline void scopes_of(Trial const& trial, Lifetime one, Lifetime other) {
  Scene scene(trial);
  Subject& runtime = scene.runtime();
  for (Lifetime const lifetime : scoped_lifetimes)
    require_throws<LifetimeError>(
        [&] { scene.allocate(4, lifetime); },
        concat("allocating for a ", name_of(lifetime), " without an open scope"));
  runtime.open_scope(one);
  require_throws<LifetimeError>(
      [&] { scene.allocate(4, other); },
      concat("a buffer for a ", name_of(other), " in a scope of a mere ", name_of(one)));
  std::uint32_t const outer = scene.allocate(4, one);
  std::uint32_t const kept = scene.allocate(4);
  scene.task({{outer, write}});
  runtime.open_scope(other);
  runtime.open_scope(one);
  std::uint32_t const inner = scene.allocate(4, one);
  std::uint32_t const scratch = scene.allocate(4, other);
  scene.task({{inner, write}, {scratch, write}}, {.pauses = nap});
  scene.task({{inner, read}, {kept, write}}, {.pauses = nap});
  auto const before = scene.words(outer);
  runtime.close_scope(one);  // inner ends, while its tasks may still run
  scene.task({{scene.allocate(4), write}});
  require(scene.words(outer) == before, "a buffer of an outer scope ended with the inner one");
  scene.task({{outer, update}, {scratch, read}});
  scene.retire(scratch);  // earlier than its scope
  runtime.close_scope(other);
  scene.task({{outer, update}, {kept, update}});
  runtime.close_scope(one);
  require_throws<LifetimeError>(
      [&] { scene.allocate(4, one); },
      concat("allocating for a ", name_of(one), " after the last scope closed"));
  scene.task({{kept, update}});
  scene.destroy();
}

inline void scopes(Trial const& trial) {
  if (!trial.scopes) throw LeftOut{"the runtime has no scopes of its own"};
  for_each_scoped_pair([&](Lifetime one, Lifetime other) { scopes_of(trial, one, other); });
}

inline void scopes_do_not_wait(Trial const& trial) {
  if (!trial.scopes) throw LeftOut{"the runtime has no scopes of its own"};
  Scene scene(trial);
  Subject& runtime = scene.runtime();
  Outside::Hold const hold(scene.outside());
  runtime.open_scope(Lifetime::step);
  std::uint32_t const buffer = scene.allocate(4, Lifetime::step);
  scene.task({{buffer, write}}, {.finish = Finish::outside});
  scene.task({{buffer, update}});
  runtime.close_scope(Lifetime::step);  // returns although the buffer is in use
}

inline void too_large(Trial const& trial) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  throw LeftOut{"a sanitizer ends the process at impossible sizes"};
#endif
  Scene scene(trial);
  for (int place = 0; place < 8; ++place)  // a runtime may have its buffers lie in several in turn
    require_throws<OutOfMemory>(
        [&] { scene.runtime().allocate(std::size_t{1} << 60, host, Lifetime::persistent); },
        "allocating 2^60 bytes");
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}});
  scene.destroy();
}

inline std::vector<NamedCheck> storage() {
  return {
      {"allocations are aligned to 64 bytes", alignment},
      {"adopted memory is used in place", adopted_in_place},
      {"a buffer may be empty", empty_buffers},
      {"an unwritten buffer cannot be read", unwritten},
      {"a task that also reads the unwritten buffer it writes is refused", unwritten_and_repeated},
      {"what is written disjointly or in no order counts as written", written_in_parts},
      {"what cannot be allocated throws OutOfMemory", too_large},
      {"a lock sees the tasks before it, and tasks see the lock", lock_sees_tasks},
      {"a locked handle is out of bounds until unlock", locked_handles},
      {"retiring a buffer keeps the data for the tasks before", retire_in_use},
      {"retiring a buffer that an asynchronous task holds keeps the data", retire_in_use_late},
      {"a task holds what it accesses in no order", retire_unordered},
      {"adopted memory is released once, with its contents current", release_once},
      {"adopted memory is not released while a task reads it", released_while_running},
      {"hundreds of adopted buffers are released, retired or not", release_of_many},
      {"scopes retire exactly what was allocated in them", scopes},
      {"closing a scope does not wait", scopes_do_not_wait}};
}

}  // namespace nntile::testing::checks
