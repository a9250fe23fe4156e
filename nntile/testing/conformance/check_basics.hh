#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: one call of each kind. Where these fail, so does all that follows.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

inline void nothing_to_do(Trial const& trial) {
  auto const runtime = trial.make();
  runtime->wait_all();
  require(runtime->workers().cpu == trial.workers(),
          concat("workers() says ", runtime->workers().cpu));
}

inline void no_operands(Trial const& trial) {
  std::atomic<int> count{0};
  auto body = [&](KernelCall const&) {
    ++count;
    return Status{};
  };
  Scene scene(trial);
  for (int i = 0; i < 100; ++i) scene.call({}, body);
  scene.runtime().wait(scene.call({}, body));
  scene.runtime().wait_all();
  require(count == 101, concat("of 101 tasks without operands ", count.load(), " ran"));
}

inline void waiting_for_one(Trial const& trial) {
  std::atomic<int> ended{0};
  auto body = [&](KernelCall const&) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ++ended;
    return Status{};
  };
  Scene scene(trial);
  for (int i = 1; i <= 5; ++i) {
    Event const event = scene.call({}, body);
    scene.runtime().wait(event);
    require(ended == i, "wait returned before its task had ended");
    require(scene.runtime().done(event), "a task that was waited for is not done");
  }
}

inline void allocate_and_retire(Trial const& trial) {
  Scene scene(trial);
  for (int i = 0; i < 10; ++i) scene.retire(scene.allocate());
  std::uint32_t const kept = scene.allocate();
  for (int i = 0; i < 10; ++i) scene.retire(scene.allocate());
  scene.retire(kept);
}

/// A task that writes one word, and one that looks at it.
inline void a_buffer_of_tasks(Trial const& trial) {
  std::atomic<std::uint64_t> seen{0};
  auto put = [](KernelCall const& call) {
    *static_cast<std::uint64_t*>(call.buffers[0]) = 4711;
    return Status{};
  };
  auto get = [&](KernelCall const& call) {
    seen = *static_cast<std::uint64_t const*>(call.buffers[0]);
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate(1);
  scene.runtime().wait(scene.call({{buffer, write}}, put));
  scene.runtime().wait(scene.call({{buffer, read}}, get));
  require(seen == 4711, concat("a task that was to read 4711 read ", seen.load()));
  scene.runtime().wait_all();
}

inline void a_lock_shows(Trial const& trial) {
  auto put = [](KernelCall const& call) {
    *static_cast<std::uint64_t*>(call.buffers[0]) = 4711;
    return Status{};
  };
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate(1);
  scene.runtime().wait(scene.call({{buffer, write}}, put));
  std::uint64_t const word = scene.words(buffer).at(0);
  require(word == 4711, concat("a lock shows ", word, " where a task wrote 4711"));
}

inline void adopt_and_release(Trial const& trial) {
  Adopted memory(1);
  auto put = [](KernelCall const& call) {
    *static_cast<std::uint64_t*>(call.buffers[0]) = 4711;
    return Status{};
  };
  {
    Scene scene(trial);
    std::uint32_t const buffer = scene.adopt(memory);
    scene.runtime().wait(scene.call({{buffer, write}}, put));
    require(memory.released == 0, "adopted memory was released before it was retired");
    scene.retire(buffer);
  }
  std::uint64_t const expected[] = {4711};
  require(memory.released == 1,
          concat("retired memory was released ", memory.released.load(), " times"));
  require(memory.hash_at_release == hash_words(expected),
          "adopted memory was released without what a task wrote into it");
}

/// Says what it saw of its arguments: bytes that count upwards from the first.
struct SizedNote {
  Journal* journal;
  std::uint64_t size;
  std::byte first;
};

inline Status look_at_arguments(KernelCall const& call) noexcept {
  SizedNote note;
  std::memcpy(&note, call.arguments, sizeof note);
  auto const* const bytes = static_cast<std::byte const*>(call.arguments);
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(std::max_align_t) != 0)
    note.journal->complain("arguments are not aligned for every type");
  for (std::uint64_t i = sizeof note; i < note.size; ++i)
    if (bytes[i] != std::byte(static_cast<unsigned char>(static_cast<unsigned>(note.first) + i)))
      note.journal->complain(
          concat("byte ", i, " of ", note.size, " bytes of arguments has changed"));
  return {};
}

inline constexpr Codelet look_codelet{"look_at_arguments", look_at_arguments, nullptr, nullptr};

/// Of tasks that run some time after their submission.
inline void arguments_behind(Trial const& trial, Finish finish) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}}, {.finish = finish, .pauses = nap});
  std::size_t const header = sizeof(SizedNote);
  int number = 0;
  for (int round = 0; round < 4 * trial.rounds; ++round)
    for (std::size_t const size :
         {header, header + 1, std::size_t{63}, std::size_t{64}, std::size_t{120}, std::size_t{121},
          std::size_t{129}, std::size_t{1000}, std::size_t{4096}}) {
      std::vector<std::byte> bytes(size);
      SizedNote const note{&scene.journal(), size, std::byte(static_cast<unsigned char>(++number))};
      for (std::size_t i = 0; i < size; ++i)
        bytes[i] = std::byte(static_cast<unsigned char>(static_cast<unsigned>(note.first) + i));
      std::memcpy(bytes.data(), &note, header);
      scene.submit(look_codelet, {{buffer, number % 5 == 0 ? update : read}}, bytes);
    }
  scene.runtime().wait_all();
  scene.journal().require_quiet();
}
inline void arguments(Trial const& trial) { arguments_behind(trial, Finish::returns); }

inline std::vector<NamedCheck> basics() {
  return {{"a runtime that is given nothing to do ends", nothing_to_do},
          {"a task may have no operand, and runs once", no_operands},
          {"wait returns when its task has ended", waiting_for_one},
          {"what allocate gives, retire takes", allocate_and_retire},
          {"a task reads what an earlier one wrote that was waited for", a_buffer_of_tasks},
          {"a lock shows what a task wrote that was waited for", a_lock_shows},
          {"retired memory that was adopted is released once, after its task", adopt_and_release},
          {"arguments are copied whole, up to 4 KiB", arguments}};
}

}  // namespace nntile::testing::checks
