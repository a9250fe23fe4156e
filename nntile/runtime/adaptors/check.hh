#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// An adaptor that watches every task: a race detector, and a spy on what bodies touch.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "nntile/runtime/adaptors/checked_body.hh"
#include "nntile/runtime/adaptors/checked_flight.hh"
#include "nntile/runtime/adaptors/forward.hh"
#include "nntile/runtime/archetype.hh"

namespace nntile {

/// Runs what an R runs and verifies, for every task with a CPU or asynchronous entry:
///   it runs after the writers before it, and before the writers after it;
///   a task that writes a buffer excludes all others from it;
///   a buffer holds what its last writer left: no task wrote it without naming it;
///   a buffer that is only read stays as it was;
///   no task reads an unwritten buffer or names a retired one, even where R lets it pass.
/// A violating task fails with a message that names the violation, kept in `problems`. R knows all
/// tasks as "checked"; the name of a task's codelet precedes the cause. Does not replay, so that
/// every task is seen. Cost: two sums over each operand.
template <Runtime R> class Check {
 public:
  struct Handle {
    typename R::Handle inner;
    detail::WatchedBuffer* buffer = nullptr;
  };

  /// Builds the runtime from the arguments.
  template <class... Arguments>
  requires std::constructible_from<R, Arguments...>
  explicit Check(Arguments&&... arguments) : runtime_(static_cast<Arguments&&>(arguments)...) {}
  Check(Check const&) = delete;
  Check& operator=(Check const&) = delete;

  R& inner() noexcept { return runtime_; }
  /// The first hundred problems found so far, in words.
  std::vector<std::string> problems() const { return problems_.texts(); }

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "allocate");
    return watch(bytes, [&] { return runtime_.allocate(bytes, place, lifetime); });
  }
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    return adopt_any(bytes, place, release);
  }
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {})
  requires ReadOnlyRuntime<R> {
    return adopt_any(std::span<std::byte const>(bytes), place, release);
  }
  void retire(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "retire");
    detail::WatchedBuffer& buffer = watched(handle, "retire");
    runtime_.retire(handle.inner);
    buffer.retired = true;
  }

  void wait_and_retire(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "wait_and_retire");
    detail::WatchedBuffer& buffer = watched(handle, "wait_and_retire");
    detail::wait_and_retire(runtime_, handle.inner);
    buffer.retired = true;
  }

  Event submit(Task<Handle> const& task) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "submit");
    std::vector<Use<typename R::Handle>> uses;
    for (auto const& use : task.uses) {
      check_lifetime(task, use);
      uses.push_back({use.handle.inner, use.access});
    }
    bool const here = task.codelet != nullptr && task.codelet->cpu != nullptr;
    bool const late = task.codelet != nullptr && task.codelet->async != nullptr;
    std::vector<detail::VersionedUse> const united = unite(task.uses);
    for (auto const& use : task.uses)
      if (use.access == Access::unordered) use.handle.buffer->unordered = true;
    std::vector<std::byte> const arguments = wrap(task, united);
    bool const fits = task.codelet == nullptr || task.codelet->workspace <= max_workspace_bytes;
    Event const event = (here || late) && fits
                            ? runtime_.submit({&detail::checked_codelet_for(*task.codelet), uses,
                                               arguments, task.hints, task.label, task.cost})
                            : runtime_.submit({task.codelet, uses, task.arguments, task.hints,
                                               task.label, task.cost});
    for (detail::VersionedUse const& use : united) {
      if (use.handle == nullptr || !writes(use.access)) continue;
      use.handle->written = true;
      if (use.access != Access::unordered) ++use.handle->issued;
    }
    return event;
  }
  void wait(Event event) { runtime_.wait(event); }
  bool done(Event event) { return runtime_.done(event); }
  void wait_all() { runtime_.wait_all(); }

  std::span<std::byte> lock(Handle handle, Access access) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "lock");
    detail::WatchedBuffer& buffer = watched(handle, "lock");
    auto const bytes = runtime_.lock(handle.inner, access);
    if (access != Access::write && buffer.is_summed() && buffer.sum.load() != sum_of(bytes))
      problems_.add(concat("lock: buffer ", buffer.number,
                           " changed though no task or lock that names it wrote"));
    buffer.held = true;
    buffer.locked = access;
    buffer.view = bytes;
    return bytes;
  }
  void unlock(Handle handle) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "unlock");
    detail::WatchedBuffer& buffer = watched(handle, "unlock");
    if (!buffer.held) return runtime_.unlock(handle.inner);  // a stray one: its view is gone
    buffer.held = false;
    std::uint64_t const sum = sum_of(buffer.view);
    if (writes(buffer.locked)) {
      buffer.version = ++buffer.issued;
      buffer.sum = sum;
      buffer.summed = buffer.written = true;
    } else if (buffer.is_summed() && buffer.sum.load() != sum) {
      problems_.add(concat("unlock: buffer ", buffer.number, " changed under a lock for reading"));
    }
    runtime_.unlock(handle.inner);
  }
  void discard(Handle handle)
  requires DiscardingRuntime<R> {
    runtime_.discard(handle.inner);
    handle.buffer->written = handle.buffer->read_only;
  }
  auto drive(char const* call)
  requires DrivenRuntime<R> {
    return runtime_.drive(call);
  }
  Workers workers() const { return runtime_.workers(); }
  std::size_t workspace_bytes() const
  requires LendingRuntime<R> {
    return runtime_.workspace_bytes();
  }

  auto& device() noexcept
  requires requires(R& inner) { inner.device(); } {
    return runtime_.device();
  }

  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here())
  requires ScopedRuntime<R> {
    return detail::open_scope(runtime_, lifetime, site);
  }
  void close_scope(Lifetime lifetime, ScopeName name = {})
  requires ScopedRuntime<R> {
    detail::close_scope(runtime_, lifetime, name);
  }
  static constexpr bool heeds_hints = HintedRuntime<R>;
  static constexpr bool reads_costs = CostedRuntime<R>;

 private:
  static std::uint64_t sum_of(std::span<std::byte const> bytes) {
    return detail::checksum(bytes.data(), bytes.size());
  }

  template <class Byte> Handle adopt_any(std::span<Byte> bytes, Place place, Release release) {
    [[maybe_unused]] auto const inside = detail::drive(runtime_, "adopt");
    Handle const handle =
        watch(bytes.size(), [&] { return runtime_.adopt(bytes, place, release); });
    handle.buffer->written = true;
    handle.buffer->read_only = std::is_const_v<Byte>;
    if (!host_reaches(place)) return handle;  // nor does anything here follow it
    handle.buffer->sum = sum_of(bytes);
    handle.buffer->summed = true;
    return handle;
  }

  /// Watches the buffer that make() makes: its record first, so that none is lost for want of it.
  template <class Make> Handle watch(std::size_t bytes, Make make) {
    detail::WatchedBuffer& buffer = buffers_.emplace_back();
    buffer.number = static_cast<std::uint32_t>(buffers_.size() - 1);
    buffer.bytes = bytes;
    try {
      return {make(), &buffer};
    } catch (...) {
      buffers_.pop_back();
      throw;
    }
  }

  /// Throws LifetimeError for a handle that no call here has made.
  static detail::WatchedBuffer& watched(Handle const& handle, char const* call) {
    if (handle.buffer == nullptr)
      throw LifetimeError(concat("check: ", call, ": the handle is empty: it was never allocated"));
    return *handle.buffer;
  }
  void check_lifetime(Task<Handle> const& task, Use<Handle> const& use) {
    detail::WatchedBuffer const& buffer = watched(use.handle, "submit");
    char const* const name = detail::name_of_task(task.codelet);
    if (buffer.retired)
      throw LifetimeError(
          concat("check: ", name, " names buffer ", buffer.number, ", which was retired"));
    if (reads(use.access) && !buffer.written)
      throw LifetimeError(concat("check: ", name, " is to ", name_of(use.access), " buffer ",
                                 buffer.number, ", which nothing has written"));
  }

  static std::vector<detail::VersionedUse> unite(std::span<Use<Handle> const> uses) {
    std::vector<detail::VersionedUse> united;
    for (auto const& use : uses) {
      detail::WatchedBuffer* buffer = use.handle.buffer;
      for (auto& earlier : united) {
        if (buffer == nullptr || earlier.handle != buffer) continue;
        if (earlier.access == Access::unordered)
          earlier.access = use.access;
        else if (earlier.access != use.access && use.access != Access::unordered)
          earlier.access = Access::update;
        buffer = nullptr;
      }
      united.push_back({{buffer, use.access}, buffer != nullptr ? buffer->issued : 0});
    }
    return united;
  }

  /// Header, uses and the task's own arguments, each aligned for every type.
  std::vector<std::byte> wrap(Task<Handle> const& task,
                              std::vector<detail::VersionedUse> const& uses) {
    std::size_t const use_bytes = uses.size() * sizeof(detail::VersionedUse);
    std::size_t const own_at = (sizeof(detail::CheckedHeader) + use_bytes + 15) / 16 * 16;
    std::vector<std::byte> bytes(own_at + task.arguments.size());
    detail::CheckedHeader const header{&problems_, &flights_, task.codelet,
                                       static_cast<std::uint32_t>(uses.size()),
                                       static_cast<std::uint32_t>(own_at)};
    std::memcpy(bytes.data(), &header, sizeof header);
    if (!uses.empty()) std::memcpy(bytes.data() + sizeof header, uses.data(), use_bytes);
    if (!task.arguments.empty())
      std::memcpy(bytes.data() + own_at, task.arguments.data(), task.arguments.size());
    return bytes;
  }

  detail::Problems problems_;
  detail::CheckedFlights flights_;
  std::deque<detail::WatchedBuffer> buffers_;
  R runtime_;  // last: its destructor waits for tasks that use the rest
};
static_assert(Runtime<Check<RuntimeArchetype>>);

}  // namespace nntile
