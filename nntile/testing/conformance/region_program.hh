#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks over regions of a few buffers, and the law executed byte by byte.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/core/region.hh"
#include "nntile/testing/conformance/activity.hh"
#include "nntile/testing/conformance/subject.hh"
#include "nntile/testing/conformance/trial.hh"

namespace nntile::testing {

/// Bytes of a buffer, by its number.
struct Named {
  std::size_t buffer;
  Region region;
};
struct RegionOperand {
  Region region;   // its first byte is at offset 0 for a body
  std::size_t at;  // of that byte in the buffer
  Access access;
};
inline constexpr std::size_t most_named = 3;
/// The arguments of a task.
struct RegionTask {
  std::uint64_t salt = 0;
  bool fails = false;
  std::uint8_t pauses = 0;
  std::uint8_t part = 0;  // its disjoint bytes: every disjoint_parts-th of the buffer
  std::uint8_t count = 0;
  std::array<RegionOperand, most_named> operands{};
};

/// Reads all that the task may look at, then writes each byte of what it writes: each depends on
/// all that was read. What it accesses in no order it leaves alone.
inline Status run_region_task(RegionTask const& task, std::byte* const* pointers) {
  detail::ActiveStep const step;
  std::uint64_t hash = task.salt;
  for (std::size_t i = 0; i < task.count; ++i) {
    Access const access = task.operands[i].access;
    if (access != Access::read && access != Access::update) continue;
    each_run(task.operands[i].region, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b)
        hash = mix(hash, static_cast<std::uint64_t>(pointers[i][b]));
    });
  }
  for (int p = 0; p < task.pauses; ++p) std::this_thread::yield();
  for (std::size_t i = 0; i < task.count; ++i) {
    auto const& [region, at, access] = task.operands[i];
    if (!writes(access) || access == Access::unordered) continue;
    bool const in_part = access == Access::write_disjoint;
    bool const adds = access == Access::accumulate;
    each_run(region, [&, start = at](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b) {
        if (in_part && (start + b) % disjoint_parts != task.part) continue;
        auto const value = static_cast<unsigned char>(mix(hash, i * 4096 + b));
        auto const old = static_cast<unsigned char>(pointers[i][b]);
        pointers[i][b] = std::byte{static_cast<unsigned char>(adds ? old + value : value)};
      }
    });
  }
  return task.fails ? Status{failure_text} : Status{};
}
inline RegionTask region_task_of(void const* arguments) {
  RegionTask task;
  std::memcpy(static_cast<void*>(&task), arguments, sizeof task);
  return task;
}
inline constexpr Codelet region_codelet{"region",
                                        +[](KernelCall const& call) noexcept -> Status {
                                          return run_region_task(
                                              region_task_of(call.arguments),
                                              reinterpret_cast<std::byte* const*>(call.buffers));
                                        },
                                        nullptr, nullptr};
/// The same, at the third look of a poll.
struct PolledRegionTask {
  RegionTask task;
  std::vector<std::byte*> pointers;
  int looks = 0;
  static bool poll(void* state, Completion token) {
    auto* const self = static_cast<PolledRegionTask*>(state);
    if (++self->looks < 3) return false;
    Status const status = run_region_task(self->task, self->pointers.data());
    delete self;
    token.complete(status);
    return true;
  }
};
inline constexpr Codelet late_region_codelet{
    "late region", nullptr, nullptr,
    +[](KernelCall const& call, Completion token) noexcept -> Status {
      auto* const polled = new PolledRegionTask{region_task_of(call.arguments), {}};
      for (std::size_t i = 0; i < polled->task.count; ++i)
        polled->pointers.push_back(static_cast<std::byte*>(call.buffers[i]));
      token.poll(PolledRegionTask::poll, polled);
      return {};
    }};

/// The law, byte by byte.
struct ByteModel {
  struct Byte {
    std::byte value{};
    bool written = false;
    bool marked = false;
    bool taken = false;  // by a task of the group that writes disjoint bytes now
  };
  std::vector<std::vector<Byte>> buffers;

  template <class Visit> void each(Named const& named, Visit visit) {
    each_run(named.region, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b) visit(buffers[named.buffer][b], b);
    });
  }
  bool any_unwritten(Named const& named) {
    bool any = false;
    each(named, [&](Byte const& byte, std::size_t) { any |= !byte.written; });
    return any;
  }
  bool any_marked(Named const& named) {
    bool any = false;
    each(named, [&](Byte const& byte, std::size_t) { any |= byte.marked; });
    return any;
  }
  /// Whether a task of the present groups writes a byte of that part.
  bool any_taken(Named const& named, std::size_t part) {
    bool any = false;
    each(named,
         [&](Byte const& byte, std::size_t b) { any |= byte.taken && b % disjoint_parts == part; });
    return any;
  }

  Outcome run(RegionTask const& task, std::span<Named const> named) {
    bool cancelled = false;
    for (std::size_t i = 0; i < named.size(); ++i) {
      Access const access = task.operands[i].access;
      if (reads(access) && any_unwritten(named[i])) return Outcome::refused;
      if (access == Access::read || access == Access::update) cancelled |= any_marked(named[i]);
    }
    if (!cancelled) write(task, named);
    bool const marks = cancelled || task.fails;
    for (std::size_t i = 0; i < named.size(); ++i) {
      Access const access = task.operands[i].access;
      each(named[i], [&](Byte& byte, std::size_t b) {
        byte.written |= writes(access);
        if (access == Access::unordered) return;
        byte.taken =
            access == Access::write_disjoint && (byte.taken || b % disjoint_parts == task.part);
        if (!writes(access)) return;
        if (marks)
          byte.marked = true;
        else if (access == Access::write)
          byte.marked = false;
      });
    }
    return cancelled ? Outcome::cancelled : task.fails ? Outcome::fails : Outcome::succeeds;
  }

 private:
  void write(RegionTask const& task, std::span<Named const> named) {
    std::vector<std::vector<std::byte>> memory;
    for (auto const& buffer : buffers) {
      auto& copy = memory.emplace_back();
      for (Byte const& byte : buffer) copy.push_back(byte.value);
    }
    std::vector<std::byte*> pointers;
    for (Named const& one : named)
      pointers.push_back(memory[one.buffer].data() + one.region.offset);
    (void)run_region_task(task, pointers.data());
    for (std::size_t b = 0; b < buffers.size(); ++b)
      for (std::size_t i = 0; i < buffers[b].size(); ++i) buffers[b][i].value = memory[b][i];
  }
};

/// Calls on buffers and their regions, each compared with the model. Every other buffer is adopted;
/// the others are persistent or of a step, whose scope is open.
class RegionCalls {
 public:
  using Handle = Subject::Handle;
  explicit RegionCalls(Subject& runtime) : runtime_(runtime) {}
  RegionCalls(RegionCalls const&) = delete;
  RegionCalls& operator=(RegionCalls const&) = delete;
  ~RegionCalls() {
    try {  // behind a broken law tasks may still use memory that ends here
      runtime_.wait_all();
    } catch (std::exception const&) {
    }
  }

  Subject& runtime() { return runtime_; }
  ByteModel& model() { return model_; }
  std::size_t buffers() const { return handles_.size(); }
  Handle handle(std::size_t buffer) const { return handles_[buffer]; }
  Named whole(std::size_t buffer) const { return {buffer, {0, model_.buffers[buffer].size(), {}}}; }

  std::size_t add_buffer(std::size_t bytes) {
    model_.buffers.emplace_back(bytes);
    memory_.emplace_back(bytes);
    handles_.push_back({});
    bind(handles_.size() - 1);
    return handles_.size() - 1;
  }
  /// The buffer ends, and another one takes its number.
  void renew(std::size_t buffer) {
    runtime_.retire(handles_[buffer]);
    if (buffer % 2 != 0) wait_all();  // its memory is to be adopted again
    bind(buffer);
  }

  /// Submits a task on those handles, or sees it refused; operands of `task` need an access alone.
  std::pair<Event, Outcome> submit(RegionTask task, std::span<Named const> named,
                                   std::span<Handle const> handles, bool late = false) {
    std::vector<Use<Handle>> uses;
    for (std::size_t i = 0; i < named.size(); ++i) {
      task.operands[i].region = named[i].region;
      task.operands[i].region.offset = 0;
      task.operands[i].at = named[i].region.offset;
      uses.push_back({handles[i], task.operands[i].access});
    }
    task.count = static_cast<std::uint8_t>(named.size());
    Codelet const& codelet = late ? late_region_codelet : region_codelet;
    auto const bytes = std::as_bytes(std::span(&task, 1));
    Outcome const outcome = model_.run(task, named);
    auto const call = [&] { return runtime_.submit({&codelet, uses, bytes, {}, {}}); };
    if (outcome == Outcome::refused) {
      require_throws<LifetimeError>(call, "a task that reads unwritten bytes of a region");
      return {{}, outcome};
    }
    failures_ += outcome != Outcome::succeeds;
    return {call(), outcome};
  }
  /// Submits one with regions made for it.
  std::pair<Event, Outcome> submit(RegionTask const& task, std::span<Named const> named,
                                   bool late = false) {
    std::vector<Handle> handles;
    for (Named const& one : named) handles.push_back(region(one));
    return submit(task, named, handles, late);
  }
  Handle region(Named const& named) {
    return runtime_.region(handles_[named.buffer], named.region);
  }

  void wait(std::pair<Event, Outcome> const& submitted) {
    auto const call = [&] { runtime_.wait(submitted.first); };
    if (submitted.second == Outcome::succeeds)
      call();
    else if (submitted.second != Outcome::refused)
      require_throws<TaskError>(call, "wait for a task that failed or was cancelled");
  }
  void wait_all() {
    auto const call = [&] { runtime_.wait_all(); };
    if (failures_ == 0)
      call();
    else
      require_throws<TaskError>(call, "wait_all behind a failure");
    failures_ = 0;
  }

  /// Overwrites what the handle names under a lock.
  void lock(Named const& named, Handle handle) {
    auto const bytes = runtime_.lock(handle, Access::write);
    require(bytes.size() == span_of(named.region), not_whole);
    Region at_start = named.region;
    at_start.offset = 0;
    each_run(at_start, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) bytes[i] = std::byte{99};
    });
    runtime_.unlock(handle);
    model_.each(named, [&](ByteModel::Byte& byte, std::size_t) {
      byte = {std::byte{99}, true, false, false};
    });
  }
  void compare(Named const& named, Handle handle) {
    auto const call = [&] { return runtime_.lock(handle, Access::read); };
    if (model_.any_unwritten(named))
      return require_throws<LifetimeError>(call, "a lock to read unwritten bytes of a region");
    if (model_.any_marked(named))
      return require_throws<TaskError>(call, "a lock to read marked bytes of a region");
    auto const bytes = call();
    require(bytes.size() == span_of(named.region), not_whole);
    std::size_t wrong = 0;
    model_.each(named, [&](ByteModel::Byte& byte, std::size_t b) {
      wrong += bytes[b - named.region.offset] != byte.value;
      byte.taken = false;
    });
    runtime_.unlock(handle);
    require(wrong == 0, concat(wrong, " bytes of buffer ", named.buffer,
                               " are not what one task at a time leaves"));
  }
  void compare(std::size_t buffer) { compare(whole(buffer), handles_[buffer]); }

 private:
  static constexpr char not_whole[] = "a lock of a region is not from its first byte to its last";

  void bind(std::size_t b) {
    for (auto& byte : model_.buffers[b]) byte = {};
    if (b % 2 == 0) {
      Lifetime const lifetime = b % 4 == 0 ? Lifetime::persistent : Lifetime::step;
      handles_[b] = runtime_.allocate(memory_[b].size(), host, lifetime);
      return;
    }
    memory_[b].assign(memory_[b].size(), std::byte{7});
    for (auto& byte : model_.buffers[b]) byte = {std::byte{7}, true, false, false};
    handles_[b] = runtime_.adopt(memory_[b], host, {});
  }

  Subject& runtime_;
  ByteModel model_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Handle> handles_;
  int failures_ = 0;
};

}  // namespace nntile::testing
