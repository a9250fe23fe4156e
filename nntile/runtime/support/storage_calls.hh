#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The calls of a runtime that concern buffers, scopes and locks, over its BufferTable; and what
// every driving call begins with.
//
// clang-format off
// A runtime derives from StorageCalls of itself, befriends it, and has
//   state()                      its thread, failures and table
//   enter(call)                  if it checks more than DrivingThread does
//   make(take)                   calls take(), which makes a record; if it keeps more of a buffer
//   retire_one(handle)           voids the handle, reclaims the buffer behind its tasks
//   wait_for_uses(buffer, access)  until the host may access it so
//   wait_until_unused(buffer)      until all its tasks have ended
//   end_lock(handle)             if it does more than end the table's
//   find_in_heaps(byte)          the buffer that holds it in memory of the runtime's own; check_adopt
//                                (bytes) throws ValueError if some of them are such
//   is_unused(buffer)            whether all tasks that name the record have ended; to make regions
// and hides a call that is not like this there.
// clang-format on

#include <concepts>
#include <cstddef>
#include <span>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/link.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/dropped.hh"
#include "nntile/runtime/support/failures.hh"

namespace nntile {

struct Region;
struct RegionRoom;

}  // namespace nntile

namespace nntile::support {

struct StorageState {
  DrivingThread& thread;
  Failures& failures;
  BufferTable& table;
};

template <class Self> class StorageCalls {
 public:
  using Handle = DataHandle;

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    Inside const inside(self(), "allocate");
    return self().make([&] { return state().table.add(bytes, place, lifetime); });
  }
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    return adopt_any(bytes, place, release);
  }
  /// Adopts read-only memory: tasks and locks that would write it are refused, and it may overlap
  /// other read-only memory.
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {}) {
    return adopt_any(std::span<std::byte const>(bytes), place, release);
  }
  void retire(Handle handle) {
    Inside const inside(self(), "retire");
    self().retire_one(handle);
  }
  /// `site` names the scope in errors.
  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here()) {
    Inside const inside(self(), "open_scope");
    return {state().table.open_scope(lifetime, site).number};
  }
  void close_scope(Lifetime lifetime, ScopeName name = {}) {
    Inside const inside(self(), "close_scope");
    state().table.close_scope(lifetime, name, [this](Handle handle) { self().retire_one(handle); });
  }

  std::span<std::byte> lock(Handle handle, Access access) {
    Inside const inside(self(), "lock");
    Buffer& buffer = state().table.check_lock(handle, access);
    self().wait_for_uses(buffer, access);
    state().failures.check_lock(buffer, access);
    return state().table.begin_lock(buffer, access);
  }
  void unlock(Handle handle) {
    Inside const inside(self(), "unlock");
    self().end_lock(handle);
  }
  /// Lets what the buffer holds count as unwritten, for a task that should have written it and
  /// could not be submitted (mark_unsubmitted); its mark, if any, stays. Throws LifetimeError:
  /// handle.
  void discard(Handle handle) {
    auto const inside = self().enter("discard");
    Buffer& buffer = state().table.find(handle, "discard");
    check_whole(buffer, "discard");
    support::discard(buffer);
  }
  /// See RegionRuntime. Defined in runtime/regions.hh: what includes that pays for it.
  Handle region(Handle handle, Region const& shape);
  Handle find(void const* address);
  Handle region_at(void const* address, Region const& shape);
  /// Makes room, so that within it making and ending regions takes no memory from the system, but
  /// for records of buffers. Throws OutOfMemory, std::bad_alloc.
  void reserve_regions(RegionRoom const& room);
  void wait_and_retire(Handle handle) {
    Inside const inside(self(), "wait_and_retire");
    Buffer& buffer = state().table.find_unlocked(handle, "wait_and_retire");
    self().wait_until_unused(buffer);
    state().table.leave_ranges(buffer);
    self().retire_one(handle);
  }

  /// Notes for other threads that this one is inside `call`, while the result lives.
  auto drive(char const* call) { return self().enter(call); }
  /// See LinkedRuntime.
  LinkRef<Handle> const& link() const noexcept { return link_; }
  std::size_t workspace_bytes() const { return max_workspace_bytes; }

 protected:
  StorageCalls() = default;
  StorageCalls(StorageCalls const&) = delete;
  StorageCalls& operator=(StorageCalls const&) = delete;
  ~StorageCalls() = default;

  /// The first object of every driving call: the thread is inside it while this lives, and what
  /// other threads have dropped is settled.
  class [[nodiscard]] Inside {
   public:
    Inside(Self& self, char const* call) : inside_(self.enter(call)) { self.take_dropped(); }

   private:
    DrivingThread::Inside inside_;
  };

  Buffer* find_in_heaps(void const*) { return nullptr; }
  void check_adopt(std::span<std::byte const>) {}
  auto enter(char const* call) { return state().thread.enter(call); }
  template <class Take> Handle make(Take take) { return take(); }
  void end_lock(Handle handle) {
    if (state().table.end_lock(handle).is(Buffer::dropped)) self().retire_one(handle);
  }
  /// Settles what threads other than the driver have dropped.
  void take_dropped() {
    if (link_->any_dropped()) [[unlikely]]
      settle_all_dropped();
  }
  [[gnu::noinline]] void settle_all_dropped() {
    settle_dropped(
        link_, state().table, [this](Handle handle) { self().end_lock(handle); },
        [this](Handle handle) { self().retire_one(handle); });
  }

  LinkRef<Handle> const link_ = LinkRef<Handle>::make();

 private:
  Handle region_at_slowly(void const* address, std::size_t offset, std::size_t bytes);
  Handle region_at_slowly(void const* address, Region const& shape);
  Self& self() noexcept { return static_cast<Self&>(*this); }
  StorageState state() noexcept { return self().state(); }
  template <class Byte> Handle adopt_any(std::span<Byte> bytes, Place place, Release release) {
    Inside const inside(self(), "adopt");
    self().check_adopt(bytes);
    return self().make([&] { return state().table.adopt(bytes, place, release); });
  }
};

}  // namespace nntile::support
