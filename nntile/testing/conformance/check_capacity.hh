#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: large, many, and none at all.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

/// Says what it saw of its attributes: bytes that count upwards from the first.
struct SizedNote {
  Journal* journal;
  std::uint64_t size;
  std::byte first;
};

inline Status look_at_attributes(KernelCall const& call) noexcept {
  SizedNote note;
  std::memcpy(&note, call.attributes, sizeof note);
  auto const* const bytes = static_cast<std::byte const*>(call.attributes);
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(std::max_align_t) != 0)
    note.journal->complain("attributes are not aligned for every type");
  for (std::uint64_t i = sizeof note; i < note.size; ++i)
    if (bytes[i] != std::byte(static_cast<unsigned char>(static_cast<unsigned>(note.first) + i)))
      note.journal->complain(
          concat("byte ", i, " of ", note.size, " bytes of attributes has changed"));
  return {};
}

inline constexpr Codelet look_codelet{"look_at_attributes", look_at_attributes, nullptr, nullptr};

inline void attributes(Trial const& trial) {
  Scene scene(trial);
  std::uint32_t const buffer = scene.allocate();
  scene.task({{buffer, write}}, {.finish = Finish::outside, .pauses = nap});
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

inline void many_operands(Trial const& trial) {
  Script script(trial.seed, max_operands, 3);
  for (int i = 0; i < 4 * trial.rounds; ++i) {
    std::vector<Operand> operands;
    for (std::uint32_t b = 0; b < max_operands; ++b) {
      std::uint32_t const kind = (b * 7 + static_cast<std::uint32_t>(i)) % 4;
      operands.push_back({b, i == 0 && b % 2 == 0 ? write
                             : kind == 0          ? write
                             : kind == 1          ? update
                                                  : read});
    }
    script.task(operands, static_cast<std::uint8_t>(i % 2 == 0 ? nap : 0))
        .task({{static_cast<std::uint32_t>(i) % 40, update}});
  }
  script.run(trial);
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

/// The first task sleeps while the others are submitted behind it, until the runtime lets no more
/// in.
inline void back_pressure(Trial const& trial) {
  std::size_t const count = 80000;
  auto sleep = [](KernelCall const& call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    *static_cast<std::uint64_t*>(call.buffers[0]) = 1;
    return Status{};
  };
  Scene scene(trial, count);
  std::vector<std::uint32_t> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(scene.allocate(1));
  scene.call({{buffers[0], write}}, sleep);
  Random random(trial.seed);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t const target = buffers[i % 16];
    if (i < 16)
      scene.task({{buffers[0], read}, {target, i == 0 ? update : write}});
    else
      scene.task({{target, update}, {buffers[random.below(16)], read}});
  }
  scene.runtime().wait_all();
  for (std::size_t i = 0; i < count; ++i)
    require(scene.journal().times_run(i) == 1,
            concat("task ", i, " ran ", scene.journal().times_run(i), " times"));
  scene.journal().require_quiet();
}

inline void many_buffers(Trial const& trial) {
  Scene scene(trial, 20000);
  std::uint32_t previous = scene.allocate(8);
  scene.task({{previous, write}});
  for (int i = 0; i < 2000 * trial.rounds; ++i) {
    std::uint32_t const next = scene.allocate(8);
    scene.task({{previous, read}, {next, write}});
    scene.retire(previous);
    previous = next;
  }
  require(scene.words(previous).size() == 8, "a lock gave another size");
  scene.destroy();
}

inline std::vector<NamedCheck> capacity() {
  return {{"attributes are copied whole, up to 4 KiB", attributes},
          {"a task may have 40 operands", many_operands},
          {"a task may have no operand", no_operands},
          {"eighty thousand tasks pass any window", back_pressure, true},
          {"thousands of buffers come and go", many_buffers}};
}

}  // namespace nntile::testing::checks
