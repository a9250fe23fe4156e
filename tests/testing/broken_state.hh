#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The state of the runtime in broken.hh: memory blocks, buffers, scopes, tasks, endings.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::test {

class Broken;

namespace broken {

struct alignas(64) Line {
  std::byte bytes[64];
};

struct Block {
  std::unique_ptr<Line[]> lines;
  std::size_t bytes = 0;
};

/// Memory of buffers. A block freed a moment ago comes back first, as from any allocator.
class Blocks {
 public:
  /// Throws OutOfMemory.
  Block take(std::size_t bytes) {
    auto const found =
        std::find_if(free_.begin(), free_.end(), [&](auto& block) { return block.bytes == bytes; });
    if (found == free_.end()) try {
        return {std::make_unique_for_overwrite<Line[]>(bytes / sizeof(Line) + 2), bytes};
      } catch (std::bad_alloc const&) {
        throw OutOfMemory(concat("broken: no ", bytes, " bytes"));
      }
    Block block = std::move(*found);
    free_.erase(found);
    return block;
  }
  void give_back(Block block) { free_.push_back(std::move(block)); }
  /// Keeps the free blocks to the end of the program: a leak that leak checkers do not report.
  void leak() {
    static std::vector<std::unique_ptr<Line[]>> leaked;
    for (Block& block : free_) leaked.push_back(std::move(block.lines));
    free_.clear();
  }

 private:
  std::vector<Block> free_;
};

struct Handle {
  std::uint32_t number = 0;
  Broken const* owner = nullptr;
};

struct Buffer {
  Block block;  // none: adopted memory
  std::span<std::byte> bytes;
  std::span<std::byte> adopted;
  Release release;
  std::uint64_t writer = 0;             // the last submitted, or the last accumulate
  std::vector<std::uint64_t> readers;   // submitted after it
  std::vector<std::uint64_t> group;     // accumulates since the last other access
  std::vector<std::uint64_t> disjoint;  // writers of disjoint bytes since the last other writer
  std::uint64_t mark = 0;               // the task that left it
  int users = 0;                        // unfinished uses
  int unordered = 0;                    // of which are in no order
  bool written = false;
  bool retired = false;
  bool gone = false;
  bool locked = false;
  Access lock_access = Access::read;
};

struct Scope {
  Lifetime lifetime;
  std::vector<Handle> buffers;
};

/// A task passes from left to right.
enum class State : std::uint8_t { queued, pending, succeeded, failed, cancelled };

struct Record {
  Codelet const* codelet = nullptr;
  std::vector<Use<Handle>> uses;
  std::vector<Line> arguments;
  std::vector<std::uint64_t> successors;
  std::string name;
  std::string cause;
  std::size_t missing = 0;
  State state = State::queued;
  bool reported = false;
  bool on_mark = false;  // runs, and is cancelled all the same
  bool finished() const { return state > State::pending; }
};

/// Marks what runs inside the runtime, while it lives.
struct Executing {
  explicit Executing(bool& mark, bool marks = true) : mark_(mark), before_(mark) {
    mark = marks || before_;
  }
  Executing(Executing const&) = delete;
  ~Executing() { mark_ = before_; }

 private:
  bool& mark_;
  bool const before_;
};

struct Poll {
  Completion::Poll function;
  void* state;
  Completion token;
};

struct Ending {
  std::uint64_t id;
  bool failed;
  std::string cause;
};

}  // namespace broken
}  // namespace nntile::test
