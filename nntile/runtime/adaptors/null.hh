#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A runtime that accepts everything and runs nothing: what the layers above cost, and what they ask
// for.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/driving_thread.hh"

namespace nntile {

/// Counts of a Null's calls. Bytes are those of operands, each counted once for every task that
/// names it.
struct NullCosts {
  std::uint64_t tasks = 0;
  std::uint64_t replays = 0;  // their tasks are counted too
  std::uint64_t operands = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t allocations = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_bytes = 0;  // the largest value of live_bytes

  bool operator==(NullCosts const&) const = default;
};

/// Has every member of a runtime and no promise of the law but `release`, once: events are done,
/// buffers are zeros, no thread is refused. Cost of a submission: a look at each operand.
/// Allocates: for a buffer that is locked.
class Null {
 public:
  struct Handle {
    std::uint32_t number = 0;
    bool operator==(Handle const&) const = default;
  };
  /// The accesses of all tasks, added up.
  struct Program {
    std::uint64_t tasks = 0;
    std::vector<Use<Binding>> uses;
  };
  static constexpr std::string_view runtime_name = "null";
  static constexpr bool heeds_hints = true;

  explicit Null(RuntimeOptions const& options = {}) : workers_(options.workers.value_or(1)) {}
  Null(Null const&) = delete;
  Null& operator=(Null const&) = delete;
  ~Null() {
    for (Buffer& buffer : buffers_) end(buffer);
  }

  NullCosts const& costs() const { return costs_; }

  Handle allocate(std::size_t bytes, Place = host, Lifetime lifetime = Lifetime::persistent) {
    auto const inside = thread_.enter("allocate");
    Handle const handle = add({bytes, nullptr, {}, true, nullptr});
    for (std::size_t s = scopes_.size(); s-- > 0;)
      if (scopes_[s].lifetime == lifetime) {
        scopes_[s].buffers.push_back(handle);
        break;
      }
    ++costs_.allocations;
    costs_.live_bytes += bytes;
    costs_.peak_bytes = std::max(costs_.peak_bytes, costs_.live_bytes);
    return handle;
  }
  Handle adopt(std::span<std::byte> bytes, Place = host, Release release = {}) {
    auto const inside = thread_.enter("adopt");
    return add({bytes.size(), bytes.data(), release, false, nullptr});
  }
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {}) {
    return adopt(std::span(const_cast<std::byte*>(bytes.data()), bytes.size()), place, release);
  }
  void retire(Handle handle) {
    auto const inside = thread_.enter("retire");
    end(buffers_[handle.number]);
  }

  Event submit(Task<Handle> const& task) {
    auto const inside = thread_.enter("submit");
    for (auto const& use : task.uses) count(use.handle, use.access);
    ++costs_.tasks;
    return {this, ++submitted_};
  }
  void wait(Event) {}
  bool done(Event) { return true; }
  void wait_all() {}

  std::span<std::byte> lock(Handle handle, Access) {
    auto const inside = thread_.enter("lock");
    Buffer& buffer = buffers_[handle.number];
    if (buffer.data == nullptr) {
      buffer.storage = std::make_unique<Line[]>(buffer.bytes / sizeof(Line) + 1);
      buffer.data = buffer.storage[0].bytes;
    }
    return {buffer.data, buffer.bytes};
  }
  void unlock(Handle) {}
  auto drive(char const* call) { return thread_.enter(call); }
  Workers workers() const { return {.cpu = workers_}; }
  std::size_t workspace_bytes() const { return max_workspace_bytes; }  // no body runs

  void open_scope(Lifetime lifetime) {
    auto const inside = thread_.enter("open_scope");
    scopes_.push_back({lifetime, {}});
  }
  void close_scope(Lifetime lifetime) {
    auto const inside = thread_.enter("close_scope");
    for (std::size_t s = scopes_.size(); s-- > 0;)
      if (scopes_[s].lifetime == lifetime) {
        for (Handle const handle : scopes_[s].buffers) retire(handle);
        scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(s));
        return;
      }
  }

  Program record(std::span<ProgramTask const> tasks, std::uint32_t,
                 std::span<ProgramParameter const>) {
    Program program{tasks.size(), {}};
    for (ProgramTask const& task : tasks)
      program.uses.insert(program.uses.end(), task.uses.begin(), task.uses.end());
    return program;
  }
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const>) {
    auto const inside = thread_.enter("replay");
    for (Use<Binding> const& use : program.uses) count(bindings[use.handle], use.access);
    costs_.tasks += program.tasks;
    ++costs_.replays;
    return {this, ++submitted_};
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  struct Buffer {
    std::size_t bytes;
    std::byte* data;
    Release release;
    bool counted;  // in live_bytes
    std::unique_ptr<Line[]> storage;
  };
  struct Scope {
    Lifetime lifetime;
    std::vector<Handle> buffers;
  };

  Handle add(Buffer buffer) {
    buffers_.push_back(std::move(buffer));
    return {static_cast<std::uint32_t>(buffers_.size() - 1)};
  }
  void count(Handle handle, Access access) {
    std::size_t const bytes = buffers_[handle.number].bytes;
    ++costs_.operands;
    if (reads(access)) costs_.bytes_read += bytes;
    if (writes(access)) costs_.bytes_written += bytes;
  }
  /// A second time, through a scope or the destructor, does nothing.
  void end(Buffer& buffer) {
    if (buffer.counted) costs_.live_bytes -= buffer.bytes;
    buffer.release();
    buffer = {buffer.bytes, nullptr, {}, false, nullptr};
  }

  support::DrivingThread thread_;
  int const workers_;
  std::uint64_t submitted_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<Scope> scopes_;
  NullCosts costs_;
};
static_assert(ScopedRuntime<Null> && HintedRuntime<Null> && ReplayingRuntime<Null>);

}  // namespace nntile
