// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Random programs over regions of a few buffers, and the law executed byte by byte.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "nntile/core/region.hh"
#include "nntile/runtime/regions.hh"
#include "nntile/testing/conformance/journal.hh"
#include "tests/support/catch.hh"

namespace nntile::test {

/// A region of a buffer, by its number.
struct Named {
  std::size_t buffer;
  Region region;
};
struct Operand {
  Region region;  // its first byte is at offset 0 for a body
  Access access;
};
inline constexpr std::size_t most_named = 3;
/// The arguments of a task.
struct RegionTask {
  std::uint64_t salt = 0;
  bool fails = false;
  std::uint8_t pauses = 0;
  std::uint8_t count = 0;
  std::array<Operand, most_named> operands{};
};

/// Reads all that the task may look at, then writes each byte of what it writes: each depends on
/// all that was read.
inline Status run_region_task(RegionTask const& task, std::byte* const* pointers) {
  std::uint64_t hash = task.salt;
  for (std::size_t i = 0; i < task.count; ++i) {
    Access const access = task.operands[i].access;
    if (access != Access::read && access != Access::update) continue;
    each_run(task.operands[i].region, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b)
        hash = testing::mix(hash, static_cast<std::uint64_t>(pointers[i][b]));
    });
  }
  for (int p = 0; p < task.pauses; ++p) std::this_thread::yield();
  for (std::size_t i = 0; i < task.count; ++i) {
    Access const access = task.operands[i].access;
    if (!writes(access)) continue;
    each_run(task.operands[i].region, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b) {
        auto const value = static_cast<unsigned char>(testing::mix(hash, i * 4096 + b));
        auto const old = static_cast<unsigned char>(pointers[i][b]);
        pointers[i][b] = std::byte{
            static_cast<unsigned char>(access == Access::accumulate ? old + value : value)};
      }
    });
  }
  return task.fails ? Status{"asked to fail"} : Status{};
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

/// The mixture of a program, in percent.
struct RegionShape {
  std::size_t buffers = 2;
  std::size_t bytes = 240;
  std::size_t regions = 12;  // a buffer
  int tasks = 80;
  int failing = 0;
  int late = 0;
  int accumulating = 6;
  int unwritten = 0;
};

/// Regions of a matrix of 12 rows of 20 bytes and of a table of other strides, and some at random.
inline Region draw_region(testing::Random& random, std::size_t bytes) {
  for (;;) {
    Region region;
    std::uint32_t const kind = random.below(10);
    if (kind < 5) {  // a box of the matrix
      std::size_t const row = random.below(20), column = random.below(12);
      std::size_t const rows = 1 + random.below(20 - row), columns = 1 + random.below(12 - column);
      region = {row + 20 * column, rows, {{columns, 20}}};
    } else if (kind < 7) {  // every n-th of a box of three dimensions
      region = {random.below(24),
                1 + random.below(4),
                {{1 + random.below(3), 6}, {1 + random.below(2), 30}, {1 + random.below(3), 60}}};
    } else if (kind < 9) {
      region = {random.below(bytes), random.below(40), {}};
    } else {
      region = {random.below(60), 1 + random.below(9), {{1 + random.below(9), random.below(25)}}};
    }
    if (region.offset + span_of(region) <= bytes) return normalize(region);
  }
}

/// The law, byte by byte.
struct ByteModel {
  struct Byte {
    std::byte value{};
    bool written = false;
    bool marked = false;
  };
  std::vector<std::vector<Byte>> buffers;

  template <class Visit> void each(Named const& named, Visit visit) {
    each_run(named.region, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b) visit(buffers[named.buffer][b]);
    });
  }
  bool any_unwritten(Named const& named) {
    bool any = false;
    each(named, [&](Byte const& byte) { any |= !byte.written; });
    return any;
  }
  bool any_marked(Named const& named) {
    bool any = false;
    each(named, [&](Byte const& byte) { any |= byte.marked; });
    return any;
  }

  enum class Outcome { refused, cancelled, failed, ran };
  Outcome run(RegionTask const& task, std::span<Named const> named) {
    bool cancelled = false;
    for (std::size_t i = 0; i < named.size(); ++i) {
      Access const access = task.operands[i].access;
      if (reads(access) && any_unwritten(named[i])) return Outcome::refused;
      if (access == Access::read || access == Access::update) cancelled |= any_marked(named[i]);
    }
    if (!cancelled) {
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
    bool const marks = cancelled || task.fails;
    for (std::size_t i = 0; i < named.size(); ++i) {
      Access const access = task.operands[i].access;
      if (!writes(access)) continue;
      each(named[i], [&](Byte& byte) {
        byte.written = true;
        if (marks)
          byte.marked = true;
        else if (access == Access::write)
          byte.marked = false;
      });
    }
    return cancelled ? Outcome::cancelled : task.fails ? Outcome::failed : Outcome::ran;
  }
};

/// One program on one runtime: every other buffer is adopted; steps lock, retire and name again.
template <RegionRuntime R> class RegionRun {
 public:
  using Handle = typename R::Handle;
  RegionRun(R& runtime, std::uint64_t seed, RegionShape const& shape)
      : runtime_(runtime), random_(seed), shape_(shape) {
    for (std::size_t b = 0; b < shape.buffers; ++b) {
      model_.buffers.emplace_back(shape.bytes);
      memory_.emplace_back(shape.bytes);
      handles_.push_back({});
      regions_.emplace_back();
      names_.emplace_back();
      bind(b);
      for (std::size_t r = 0; r < shape.regions; ++r) {
        regions_[b].push_back(draw_region(random_, shape.bytes));
        names_[b].push_back(std::nullopt);
      }
    }
  }

  void run() {
    for (int t = 0; t < shape_.tasks; ++t) {
      if (random_.chance(12))
        other();
      else
        submit();
    }
    wait_all();
    for (std::size_t b = 0; b < handles_.size(); ++b) {
      compare({b, {0, shape_.bytes, {}}}, handles_[b]);
      for (std::size_t r = 0; r < regions_[b].size(); ++r)
        compare({b, regions_[b][r]}, handle_of({b, regions_[b][r]}, r));
    }
  }

 private:
  void bind(std::size_t b) {
    for (auto& byte : model_.buffers[b]) byte = {};
    for (auto& name : names_[b]) name = std::nullopt;
    if (b % 2 == 0) {
      Lifetime const lifetime = b % 4 == 0 ? Lifetime::persistent : Lifetime::step;
      handles_[b] = runtime_.allocate(shape_.bytes, host, lifetime);
      return;
    }
    memory_[b].assign(shape_.bytes, std::byte{7});
    for (auto& byte : model_.buffers[b]) byte = {std::byte{7}, true, false};
    handles_[b] = runtime_.adopt(memory_[b]);
  }
  Handle handle_of(Named const& named, std::size_t number) {
    auto& name = names_[named.buffer][number];
    if (!name || random_.chance(10)) name = runtime_.region(handles_[named.buffer], named.region);
    return *name;
  }

  void submit() {
    RegionTask task;
    task.salt = random_.bits();
    task.fails = random_.chance(shape_.failing);
    task.pauses = static_cast<std::uint8_t>(random_.below(4));
    task.count = static_cast<std::uint8_t>(1 + random_.below(most_named));
    bool const refused = random_.chance(shape_.unwritten);
    std::vector<Named> named;
    std::vector<Use<Handle>> uses;
    for (std::size_t i = 0; i < task.count; ++i) {
      std::size_t const b = random_.below(handles_.size());
      std::size_t const r = random_.below(regions_[b].size() + 1);
      bool const whole = r == regions_[b].size();
      named.push_back({b, whole ? Region{0, shape_.bytes, {}} : regions_[b][r]});
      std::uint32_t const x = random_.below(100);
      Access access = x < 45 ? Access::read : x < 75 ? Access::write : Access::update;
      if (random_.chance(shape_.accumulating)) access = Access::accumulate;
      if (model_.any_unwritten(named.back()) && !refused) access = Access::write;
      uses.push_back({whole ? handles_[b] : handle_of(named.back(), r), access});
      task.operands[i] = {named.back().region, access};
      task.operands[i].region.offset = 0;
    }
    // The law leaves open what write and accumulate of one byte in one task do to its mark.
    for (std::size_t i = 0; i < task.count; ++i)
      for (std::size_t j = 0; j < task.count; ++j)
        if (uses[i].access == Access::accumulate && uses[j].access == Access::write &&
            named[i].buffer == named[j].buffer)
          task.operands[j].access = uses[j].access = Access::update;
    Codelet const& codelet = random_.chance(shape_.late) ? late_region_codelet : region_codelet;
    auto const bytes = std::as_bytes(std::span(&task, 1));
    ByteModel::Outcome const outcome = model_.run(task, named);
    if (outcome == ByteModel::Outcome::refused) {
      REQUIRE_THROWS_AS(runtime_.submit({&codelet, uses, bytes, {}, {}}), LifetimeError);
      return;
    }
    failures_ += outcome != ByteModel::Outcome::ran;
    Event const event = runtime_.submit({&codelet, uses, bytes, {}, {}});
    if (random_.chance(5)) {
      if (outcome == ByteModel::Outcome::ran)
        runtime_.wait(event);
      else
        REQUIRE_THROWS_AS(runtime_.wait(event), TaskError);
    }
  }

  void other() {
    std::size_t const b = random_.below(handles_.size()), r = random_.below(regions_[b].size());
    Named const named{b, regions_[b][r]};
    std::uint32_t const x = random_.below(100);
    if (x < 30) {
      lock(named, handle_of(named, r));
    } else if (x < 60) {
      if (names_[b][r]) runtime_.retire(handle_of(named, r));
      // The same region may be in the list twice.
      for (std::size_t other = 0; other < regions_[b].size(); ++other)
        if (regions_[b][other] == regions_[b][r]) names_[b][other] = std::nullopt;
    } else if (x < 75) {
      runtime_.retire(handles_[b]);
      if (b % 2 != 0) wait_all();  // its memory is to be adopted again
      bind(b);
    } else if (x < 85) {
      compare(named, handle_of(named, r));
    } else {
      wait_all();
    }
  }

  void lock(Named const& named, Handle handle) {
    auto const bytes = runtime_.lock(handle, Access::write);
    REQUIRE(bytes.size() == span_of(named.region));
    Region at_start = named.region;
    at_start.offset = 0;
    each_run(at_start, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) bytes[i] = std::byte{99};
    });
    runtime_.unlock(handle);
    model_.each(named, [&](ByteModel::Byte& byte) { byte = {std::byte{99}, true, false}; });
  }

  void compare(Named const& named, Handle handle) {
    if (model_.any_unwritten(named)) {
      REQUIRE_THROWS_AS(runtime_.lock(handle, Access::read), LifetimeError);
      return;
    }
    if (model_.any_marked(named)) {
      REQUIRE_THROWS_AS(runtime_.lock(handle, Access::read), TaskError);
      return;
    }
    auto const bytes = runtime_.lock(handle, Access::read);
    std::size_t wrong = 0;
    auto const& model = model_.buffers[named.buffer];
    each_run(named.region, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b)
        wrong += bytes[b - named.region.offset] != model[b].value;
    });
    runtime_.unlock(handle);
    REQUIRE(wrong == 0);
  }

  void wait_all() {
    if (failures_ == 0)
      runtime_.wait_all();
    else
      REQUIRE_THROWS_AS(runtime_.wait_all(), TaskError);
    failures_ = 0;
  }

  R& runtime_;
  testing::Random random_;
  RegionShape const shape_;
  ByteModel model_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Handle> handles_;
  std::vector<std::vector<Region>> regions_;
  std::vector<std::vector<std::optional<Handle>>> names_;
  int failures_ = 0;
};

}  // namespace nntile::test
