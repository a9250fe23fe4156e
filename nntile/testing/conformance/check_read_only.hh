#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Checks: adopted memory that is only read, where the runtime models ReadOnlyRuntime.

#include <cstddef>
#include <span>
#include <vector>

#include "nntile/testing/conformance/scene.hh"

namespace nntile::testing::checks {

/// A runtime that was chosen by name has the call, whether it takes const memory or not.
inline void require_read_only(Scene& scene) {
  static constexpr std::byte byte{};
  try {
    scene.runtime().retire(scene.runtime().adopt_read_only({&byte, 1}, host, {}));
  } catch (ValueError const&) {
    throw LeftOut{"the runtime does not adopt const memory"};
  }
}

/// Each refusal leaves the task's other operand unwritten.
inline void const_memory_is_read(Trial const& trial) {
  Adopted memory(8);
  memory.words = {1, 2, 3, 4, 5, 6, 7, 8};
  auto const before = hash_words(memory.words);
  {
    Scene scene(trial);
    require_read_only(scene);
    std::uint32_t const constant = scene.adopt_const(memory);
    std::uint32_t const other = scene.allocate(), result = scene.allocate();
    scene.task({{constant, read}, {result, write}});
    for (Access const access : {write, update, accumulate, write_disjoint}) {
      require_throws<ValueError>([&] { scene.task({{other, write}, {constant, access}}); },
                                 concat("a task that is to ", name_of(access), " const memory"));
      require_throws<LifetimeError>([&] { scene.task({{other, read}}); },
                                    "reading a buffer whose only writer was refused");
    }
    for (Access const access : {write, update})
      require_throws<ValueError>(
          [&] { (void)scene.runtime().lock(scene.handle(constant), access); },
          concat("a lock to ", name_of(access), " const memory"));
    auto const span = scene.runtime().lock(scene.handle(constant), read);
    scene.runtime().unlock(scene.handle(constant));
    require(span.data() == memory.bytes().data() && span.size() == memory.bytes().size(),
            "const memory is locked elsewhere than where it lies");
    scene.task({{constant, read}, {result, update}});
    scene.destroy();
  }
  require(memory.released == 1, "const memory was not released once");
  require(memory.hash_at_release == before, "const memory was changed");
}

inline void overlapping_memory(Trial const& trial) {
  Adopted memory(8);
  auto const words = std::span(memory.words);
  auto const bytes = [&](std::size_t first, std::size_t count) {
    return std::as_writable_bytes(words.subspan(first, count));
  };
  Scene scene(trial);
  require_read_only(scene);
  Subject& runtime = scene.runtime();
  auto const refused = [&](auto adopt, char const* what) {
    require_throws<ValueError>(adopt, what);
    require(memory.released == 0, "the release of memory was called whose adoption was refused");
  };
  auto const first = runtime.adopt_read_only(bytes(0, 5), host, {});
  auto const second = runtime.adopt_read_only(bytes(3, 5), host, {});
  auto const writable = [&] { (void)runtime.adopt(bytes(4, 1), host, memory.release()); };
  refused(writable, "adopting writable memory that another handle reads");
  runtime.retire(first);
  runtime.wait_all();
  refused(writable, "adopting writable memory that a second handle reads");
  runtime.retire(second);
  runtime.wait_all();
  auto const owner = runtime.adopt(bytes(2, 4), host, {});
  refused(writable, "adopting writable memory twice");
  refused([&] { (void)runtime.adopt_read_only(bytes(5, 3), host, memory.release()); },
          "adopting const memory that another handle may write");
  (void)runtime.adopt(bytes(6, 2), host, {});  // beside it
  runtime.retire(owner);
  runtime.wait_all();
  writable();
}

inline std::vector<NamedCheck> read_only() {
  return {
      {"const memory is read in place, and what would write it is refused", const_memory_is_read},
      {"const memory may overlap, writable memory is of one handle at a time", overlapping_memory}};
}

}  // namespace nntile::testing::checks
