#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: every call refuses a foreign or retired handle or event, and a refused call changes
// nothing.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline Status do_nothing(KernelCall const&) noexcept { return {}; }
inline constexpr Codelet idle_codelet{"idle", do_nothing, nullptr, nullptr};

/// Every call that takes a handle must refuse this one. `good` is a written buffer of the runtime.
inline void require_void(Scene& scene, Subject::Handle handle, std::uint32_t good,
                         std::string const& which) {
  Subject& runtime = scene.runtime();
  for (Access const access : {write, read}) {
    Use<Subject::Handle> const uses[] = {{scene.handle(good), read}, {handle, access}};
    require_throws<LifetimeError>(
        [&] { runtime.submit({&idle_codelet, std::span(uses).last(1), {}, {}, {}}); },
        concat("a task that is to ", name_of(access), " ", which));
    require_throws<LifetimeError>([&] { runtime.submit({&idle_codelet, uses, {}, {}, {}}); },
                                  concat("a task whose second operand is ", which));
    require_throws<LifetimeError>([&] { runtime.lock(handle, access); },
                                  concat("a lock to ", name_of(access), " ", which));
  }
  require_throws<LifetimeError>([&] { runtime.unlock(handle); }, concat("unlocking ", which));
  require_throws<LifetimeError>([&] { runtime.retire(handle); }, concat("retiring ", which));
  if (!runtime.replays()) return;
  Use<Binding> const use{0, write};
  ProgramTask const task{&idle_codelet, {&use, 1}, {}, {}, {}};
  auto const program = runtime.record({&task, 1}, 1, {});
  require_throws<LifetimeError>([&] { runtime.replay(program, {&handle, 1}, {}); },
                                concat("a replay bound to ", which));
}

inline void foreign_handles(Trial const& trial) {
  Scene here(trial);
  Scene there(trial);
  std::uint32_t const mine = here.allocate();
  here.task({{mine, write}});
  auto const before = here.words(mine);
  for (int i = 0; i < 3; ++i) {
    std::uint32_t const theirs = there.allocate();
    there.task({{theirs, write}});
    auto const kept = there.words(theirs);
    require_void(here, here.runtime().borrow(there.runtime(), there.handle(theirs)), mine,
                 "a buffer of another runtime");
    require(there.words(theirs) == kept && here.words(mine) == before,
            "a refused handle of another runtime changed a buffer");
  }
  here.task({{mine, update}});
  here.destroy();
  there.destroy();
}

inline void retired_handles(Trial const& trial) {
  Adopted memory(4);
  Scene scene(trial);
  std::uint32_t const good = scene.allocate();
  scene.task({{good, write}});
  for (int i = 0; i < 2 * trial.rounds; ++i) {
    std::uint32_t const old = scene.allocate();
    scene.task({{old, write}}, {.pauses = nap});
    scene.task({{old, read}}, {.pauses = nap});
    scene.retire(old);
    require_void(scene, scene.handle(old), good, "a retired buffer that is still in use");
    scene.runtime().wait_all();
    require_void(scene, scene.handle(old), good, "a retired buffer");
    std::uint32_t const next = scene.allocate();  // likely at the old one's address
    scene.task({{next, write}});
    auto const before = scene.words(next);
    require_void(scene, scene.handle(old), good, "a retired buffer whose storage is in use again");
    require(scene.words(next) == before, "a retired handle changed another buffer");
    scene.retire(next);
  }
  std::uint32_t const adopted = scene.adopt(memory);
  scene.retire(adopted);
  require_void(scene, scene.handle(adopted), good, "retired memory that was adopted");
  scene.task({{good, update}});
  scene.destroy();
  require(memory.released == 1, concat("memory that was retired, and then again, was released ",
                                       memory.released.load(), " times"));
}

/// A scope of `one` that is closed too early, in every way, and then in time; `other` is inside.
inline void closed_scopes_of(Trial const& trial, Lifetime one, Lifetime other) {
  Scene scene(trial);
  Subject& runtime = scene.runtime();
  require_throws<LifetimeError>([&] { runtime.close_scope(one); },
                                "closing a scope that is not open");
  require_throws<LifetimeError>([&] { runtime.open_scope(Lifetime::persistent); },
                                "opening a scope of persistent buffers");
  std::uint32_t const good = scene.allocate();
  scene.task({{good, write}});
  runtime.open_scope(one);
  std::uint32_t const inner = scene.allocate(4, one);
  scene.task({{inner, write}});
  require_throws<LifetimeError>([&] { runtime.close_scope(other); },
                                "closing a scope of a lifetime that is not open");
  (void)runtime.lock(scene.handle(inner), read);
  require_throws<LifetimeError>([&] { runtime.close_scope(one); },
                                "closing a scope while a buffer of it is locked");
  runtime.unlock(scene.handle(inner));
  runtime.open_scope(other);
  require_throws<LifetimeError>([&] { runtime.close_scope(one); },
                                "closing a scope before one that was opened inside it");
  scene.task({{inner, update}});
  runtime.close_scope(other);
  scene.task({{inner, update}});
  runtime.close_scope(one);
  require_void(scene, scene.handle(inner), good, "a buffer whose scope has closed");
  scene.destroy();
}

inline void closed_scopes(Trial const& trial) {
  if (!trial.scopes) throw LeftOut{"the runtime has no scopes of its own"};
  for_each_scoped_pair([&](Lifetime one, Lifetime other) { closed_scopes_of(trial, one, other); });
}

inline void stray_unlocks(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  auto const unlock = [&] { scene.runtime().unlock(scene.handle(buffer)); };
  require_throws<LifetimeError>(unlock, "unlocking an unwritten buffer that is not locked");
  require_throws<LifetimeError>([&] { scene.task({{buffer, read}}); },
                                "reading an unwritten buffer after a stray unlock");
  scene.task({{buffer, write}});
  require_throws<LifetimeError>(unlock, "unlocking a buffer that is not locked");
  for (Access const access : {read, write, update}) {
    (void)scene.runtime().lock(scene.handle(buffer), access);
    unlock();
    require_throws<LifetimeError>(unlock, "unlocking a buffer twice");
  }
  scene.task({{buffer, update}});
  scene.runtime().wait_all();
}

inline void locked_twice(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}});
  for (Access const first : {read, write, update})
    for (Access const second : {read, write, update}) {
      (void)scene.runtime().lock(scene.handle(buffer), first);
      require_throws<LifetimeError>(
          [&] { scene.runtime().lock(scene.handle(buffer), second); },
          concat("a lock to ", name_of(second), " what is locked to ", name_of(first)));
      scene.runtime().unlock(scene.handle(buffer));
    }
  scene.runtime().wait_all();
}

inline void foreign_events(Trial const& trial) {
  Scene here(trial);
  Scene there(trial);
  std::uint32_t const buffer = there.allocate();
  for (int i = 0; i < 3; ++i) {
    Event const event = there.task({{buffer, i == 0 ? write : update}});
    require_throws<LifetimeError>([&] { here.runtime().wait(event); },
                                  "waiting for a task of another runtime");
    require_throws<LifetimeError>([&] { (void)here.runtime().done(event); },
                                  "asking whether a task of another runtime is done");
    there.runtime().wait(event);
    require_throws<LifetimeError>([&] { here.runtime().wait(event); },
                                  "waiting for a task of another runtime that has ended");
  }
}

inline void invented_events(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  auto const refuses = [&](Event event) {
    require_throws<LifetimeError>([&] { scene.runtime().wait(event); },
                                  "waiting for an event that was never given");
    require_throws<LifetimeError>([&] { (void)scene.runtime().done(event); },
                                  "asking whether an event that was never given is done");
  };
  for (int i = 0; i < 3; ++i) {
    Event const event = scene.task({{buffer, i == 0 ? write : update}});
    for (std::uint64_t const later : {1u, 4097u, 1u << 31})
      refuses({event.runtime, event.sequence + later});
    scene.runtime().wait(event);
    refuses({event.runtime, event.sequence + 1});
  }
}

inline void impossible_places(Trial const& trial) {
  Adopted memory(4);
  Scene scene(trial);
  for (Place const place : {Place{Place::Kind::device, 1000000}, Place{Place::Kind::device, -1},
                            Place{Place::Kind::disk, 1000000}}) {
    require_throws<ValueError>([&] { scene.runtime().allocate(32, place, Lifetime::persistent); },
                               concat("allocating on device ", place.device));
    require_throws<ValueError>(
        [&] { scene.runtime().adopt(memory.bytes(), place, memory.release()); },
        concat("adopting memory of device ", place.device));
    require(memory.released == 0, "memory whose adoption was refused was released");
  }
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}});
  scene.runtime().wait_all();
}

inline void impossible_codelets(Trial const& trial) {
  static constexpr Codelet empty{"empty", nullptr, nullptr, nullptr};
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  Use<Subject::Handle> const use{scene.handle(buffer), write};
  for (Codelet const* const codelet : {static_cast<Codelet const*>(nullptr), &empty})
    require_throws<ValueError>(
        [&] { scene.runtime().submit({codelet, {&use, 1}, {}, {}, {}}); },
        codelet == nullptr ? "a task without a codelet" : "a task whose codelet has no entry");
  require_throws<LifetimeError>([&] { scene.task({{buffer, read}}); },
                                "reading a buffer whose only writer was refused");
  scene.task({{buffer, write}});
  scene.runtime().wait_all();
}

/// The bytes of address space that this process has; 0 if unavailable.
inline std::size_t address_space() {
  std::size_t pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%zu", &pages) != 1) pages = 0;
  std::fclose(file);
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// 2 GiB pass through, of which 1 GiB may be left: allocators and threads keep some.
inline void storage_goes(Trial const& trial) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  throw LeftOut{"a sanitizer keeps what is freed"};
#endif
  if (address_space() == 0) throw LeftOut{"this system does not tell how much memory is in use"};
  auto touch = [](KernelCall const& call) {
    *static_cast<std::uint64_t*>(call.buffers[0]) = 1;
    return Status{};
  };
  std::uint32_t const words = 1 << 19;  // 4 MiB
  std::size_t before = 0;
  auto const require_freed = [&](char const* what) {
    std::size_t const now = address_space();
    require(now < before + (std::size_t{1} << 30),
            concat(what, " ", (now - before) >> 20, " of 2048 MiB are still there"));
  };
  {
    Scene scene(trial);
    for (int i = 0; i < 520; ++i) {
      if (i == 8) before = address_space();
      std::uint32_t const buffer = scene.allocate(words);
      scene.call({{buffer, write}}, touch);
      scene.retire(buffer);
      if (i % 8 == 7) scene.runtime().wait_all();
    }
    require_freed("after buffers were retired and their tasks had ended,");
  }
  for (int i = 0; i < 5; ++i) {
    if (i == 1) before = address_space();
    Scene scene(trial);
    for (int b = 0; b < 128; ++b) (void)scene.allocate(words);
  }
  require_freed("after runtimes were destroyed,");
}

inline std::vector<NamedCheck> lifetimes() {
  return {
      {"the handle of another runtime is refused in every call", foreign_handles},
      {"a retired handle is refused in every call, and so is retiring it again", retired_handles},
      {"a handle is refused once its scope has closed, and so are scopes that are not open",
       closed_scopes},
      {"an unlock without a lock is refused", stray_unlocks},
      {"a second lock of a handle is refused", locked_twice},
      {"the event of another runtime is refused", foreign_events},
      {"an event that the runtime never gave is refused", invented_events},
      {"a place that the runtime has not is refused", impossible_places},
      {"a task without an entry that can run is refused", impossible_codelets},
      {"storage is freed behind a retired buffer's last task, and with the runtime", storage_goes,
       true}};
}

}  // namespace nntile::testing::checks
