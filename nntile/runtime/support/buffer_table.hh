#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The buffers of one runtime: handles, storage, scopes, locks, and every check of their lifetimes.
//
// clang-format off
// Use by a runtime (all on the driving thread, but `reclaim`):
//   allocate   add(bytes, place, lifetime), with storage; or add_without_storage, where the runtime
//              brings its own
//   adopt      adopt(span, place, release)
//   submit     bind(task, uses, pointers): checks everything, changes nothing; then
//              commit(uses, ticket)
//   lock       check_lock(handle, access); wait for the handle's tasks; failures.check_lock;
//              begin_lock
//   unlock     end_lock(handle)
//   retire     begin_retire(handle): from here on the handle is void; then reclaim(buffer), once,
//              after its last task, on any thread: frees or releases the storage and makes the
//              record available again
//   parts      where bind says that a task is unusual and it names_parts (parts.hh): its order follows
//              from overlaps_of each operand, too; commit_parts; regions are made by regions.hh
//   scopes     open_scope(lifetime, site); close_scope(lifetime, name, retire_one)
//   memory of the runtime's own: lend() records, of which it gives handles out; end() of a retired one
//              and, in a scope that closes, of the others; give_back(record)
//   wait_all   check_nothing_locked()
// clang-format on
// The destructor releases what is still alive: wait for all tasks before.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "nntile/core/error.hh"
#include "nntile/runtime/support/adopted_ranges.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/buffer_records.hh"
#include "nntile/runtime/support/buffer_state.hh"
#include "nntile/runtime/support/check_codelet.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/failures.hh"
#include "nntile/runtime/support/groups.hh"
#include "nntile/runtime/support/parts.hh"
#include "nntile/runtime/support/scopes.hh"
#include "nntile/runtime/support/storage_source.hh"

namespace nntile::support {

struct RegionStore;

/// The buffers of one runtime, one record each. Law: above.
class BufferTable {
 public:
  /// `thread`, if any, tracks the thread that runs an owner's release, which counts as a task: the
  /// runtime may be amid a call.
  explicit BufferTable(Failures& failures, StorageSource source = {},
                       DrivingThread* thread = nullptr)
      : failures_(&failures), source_(source), thread_(thread) {}
  BufferTable(BufferTable const&) = delete;
  BufferTable& operator=(BufferTable const&) = delete;
  /// In a child process, owners' memory and a source's are the parent's to release.
  ~BufferTable() {
    if (thread_ == nullptr || !thread_->in_child()) release_all();
    if (region_store_ != nullptr) region_store_calls_->end(region_store_);
  }

  /// Frees or releases what is still alive; before a source of storage dies. Only the destructor
  /// comes after.
  void release_all() noexcept {
    for (std::uint32_t i = 0; i < records_.count(); ++i) {
      if (records_[i].is(Buffer::live)) release_storage(records_[i]);
      if (records_[i].is(Buffer::divided)) end_division(records_[i], nullptr);
      records_[i].state = 0;
    }
  }

  /// Makes an unwritten buffer. Throws ValueError (a place that this runtime lacks), OutOfMemory,
  /// LifetimeError (no open scope of that lifetime).
  DataHandle add(std::size_t bytes, Place place, Lifetime lifetime) {
    check_place("allocate", place);
    Scope* const scope = scopes_.of(lifetime);
    Buffer& buffer = records_.take();
    try {
      buffer.pointer = source_.allocate != nullptr ? source_.allocate(source_.state, bytes, place)
                                                   : allocate_aligned(bytes);
      if (buffer.pointer == nullptr && bytes != 0) [[unlikely]]
        fail_null(bytes, place);
    } catch (...) {
      records_.push(buffer);
      throw;
    }
    fill(buffer, bytes, place, lifetime, scope, Buffer::live | Buffer::unwritten | state_at(place),
         {});
    if (is_found_) [[unlikely]]
      enter_ranges(buffer);
    return handle_of(buffer);
  }

  /// Makes an unwritten buffer whose storage is the runtime's own affair: `pointer` is null,
  /// reclaim frees nothing.
  DataHandle add_without_storage(std::size_t bytes, Place place, Lifetime lifetime) {
    Scope* const scope = scopes_.of(lifetime);
    Buffer& buffer = records_.take();
    buffer.pointer = nullptr;
    return fill(buffer, bytes, place, lifetime, scope, Buffer::unwritten, {});
  }

  /// Names the caller's memory, which counts as written. Reclaiming calls `release`. Memory that is
  /// adopted as const is never written. Throws ValueError (place; memory of another place; null
  /// pointer with bytes; memory that is adopted already, if it may be written here or there).
  template <class Byte> DataHandle adopt(std::span<Byte> bytes, Place place, Release release) {
    constexpr bool writable = !std::is_const_v<Byte>;
    check_place("adopt", place);
    if (bytes.data() == nullptr && !bytes.empty())
      throw ValueError(concat("adopt: a null pointer to ", bytes.size(), " bytes"));
    if (source_.check_memory != nullptr && !bytes.empty())
      source_.check_memory(source_.state, bytes.data(), bytes.size(), place);
    Buffer& buffer = records_.take();
    std::uint32_t other;
    try {
      other = ranges_.add(bytes, writable, buffer.index, buffer.generation);
    } catch (...) {
      records_.push(buffer);
      throw;
    }
    if (other != AdoptedRanges::none) {
      records_.push(buffer);
      fail_adopt(bytes.size(), records_[other]);
    }
    buffer.pointer = const_cast<std::byte*>(bytes.data());  // given to tasks that read
    return fill(buffer, bytes.size(), place, Lifetime::persistent, nullptr,
                Buffer::live | Buffer::adopted | (bytes.empty() ? 0 : Buffer::ranged) |
                    (writable ? 0 : Buffer::read_only) | state_at(place),
                release);
  }
  /// For an adopted buffer whose tasks have ended: its memory may be adopted again. Any thread.
  void leave_ranges(Buffer& buffer) noexcept {
    if (!buffer.is(Buffer::ranged)) return;
    buffer.end(Buffer::ranged);
    ranges_.remove({static_cast<std::byte const*>(buffer.pointer), buffer.bytes},
                   !buffer.is(Buffer::read_only), buffer.index);
  }

  /// The record of a handle. Throws LifetimeError for one that is default, foreign or retired.
  Buffer& find(DataHandle handle, char const* call) {
    Buffer* const buffer = records_.find(handle);
    if (buffer == nullptr) [[unlikely]]
      records_.fail_find(handle, call);
    return *buffer;
  }
  Buffer& operator[](std::uint32_t index) noexcept { return records_[index]; }
  DataHandle handle_of(Buffer const& buffer) const noexcept {
    return {buffer.index, buffer.generation};
  }
  /// Records made so far; indices are below it.
  std::uint32_t count() const noexcept { return records_.count(); }

  /// Checks a submission and writes one Use<Buffer*> and one pointer per use; returns whether it is
  /// usual: it has a CPU entry, and only reads, writes and updates, on the host. Throws ValueError
  /// (no codelet, none of its entries runs on a CPU, or needs more workspace than is lent;
  /// read-only memory that it writes), LifetimeError (handle; a locked buffer; one that is read
  /// before anything wrote it). Changes no buffer.
  bool bind(Task<DataHandle> const& task, Use<Buffer*>* uses, void** pointers) {
    if (!is_usual(task.codelet)) [[unlikely]]
      return bind_unusual(task, uses, pointers);
    UsualOperands const usual = usual_operands();
    for (std::size_t i = 0; i < task.uses.size(); ++i) {
      Buffer* const buffer = usual(task.uses[i]);
      if (buffer == nullptr) [[unlikely]]
        return bind_unusual(task, uses, pointers);
      uses[i] = {buffer, task.uses[i].access};
      pointers[i] = buffer->pointer;
    }
    return true;
  }
  /// The same look at one codelet, and at one operand after the other while no record is made: for
  /// a caller that then does without `bind` where all are usual.
  static bool is_usual(Codelet const* codelet) noexcept {
    return codelet != nullptr && codelet->cpu != nullptr &&
           codelet->workspace <= max_workspace_bytes;
  }
  class UsualOperands {
   public:
    explicit UsualOperands(BufferRecords const& records)
        : records_(records.all()), count_(records.count()) {}
    /// The record; null where only `bind` can say what that is, or what is wrong.
    [[gnu::always_inline]] Buffer* operator()(Use<DataHandle> const& use) const noexcept {
      auto const [handle, access] = use;
      if (handle.index >= count_) [[unlikely]]
        return nullptr;
      Buffer& buffer = records_[handle.index];
      if (buffer.generation != handle.generation || buffer.is(examined_states(access))) [[unlikely]]
        return nullptr;
      return &buffer;
    }

   private:
    BufferRecords::All const records_;
    std::uint32_t const count_;
  };
  UsualOperands usual_operands() const noexcept { return UsualOperands(records_); }

  /// Notes that the task is submitted: what it writes counts as written, and it is the last use.
  static void commit(std::span<Use<Buffer*> const> uses, Ticket task) noexcept {
    for (Use<Buffer*> const& use : uses) commit(use, task);
  }
  static void commit(Use<Buffer*> const& use, Ticket task) noexcept {
    use.handle->last_use = task;
    if (writes(use.access)) use.handle->drop(Buffer::unwritten);
  }

  /// Throws LifetimeError: handle; locked already; unwritten, and the access reads. ValueError:
  /// read-only, and it writes; on a device, or the disk.
  Buffer& check_lock(DataHandle handle, Access access) {
    Buffer& buffer = find(handle, "lock");
    check_whole(buffer, "lock");
    Buffer::State const state = state_of(buffer);
    if ((state & (Buffer::locked | Buffer::off_host)) != 0) [[unlikely]]
      check_unusual_lock(buffer);
    check_lock_access(access);
    if (writes(access) && buffer.is(Buffer::read_only))
      throw ValueError(concat("lock for ", name_of(access), ": ", why_read_only(buffer)));
    if (reads(access) && (state & Buffer::unwritten) != 0)
      throw LifetimeError(concat("lock for ", name_of(access), ": ", why_unwritten(buffer),
                                 ": submit a task that writes it or lock it for write first"));
    return buffer;
  }
  std::span<std::byte> begin_lock(Buffer& buffer, Access access) noexcept {
    buffer.set(Buffer::locked);
    if (buffer.is(Buffer::region)) ++part_of(buffer)->division->locked;
    enter_ranges(whole_of(buffer));  // its address is known from here on
    buffer.lock_access = access;
    ++locked_;
    return source_.view(buffer);
  }
  /// The buffer, unlocked. Throws LifetimeError: handle; locked.
  Buffer& find_unlocked(DataHandle handle, char const* call) {
    Buffer& buffer = find(handle, call);
    check_whole(buffer, call);
    check_unlocked(buffer, call);
    return buffer;
  }
  /// Ends the lock. After a lock for write the buffer is written and unmarked. Throws LifetimeError
  /// if it is not locked.
  Buffer& end_lock(DataHandle handle) {
    Buffer& buffer = find(handle, "unlock");
    if (!buffer.is(Buffer::locked))
      throw LifetimeError(concat("unlock: ", describe(buffer), " is not locked"));
    buffer.drop(Buffer::locked);
    --locked_;
    if (buffer.is(Buffer::region)) --part_of(buffer)->division->locked;
    if (writes(buffer.lock_access)) buffer.drop(Buffer::unwritten);
    if (Part const* const part = part_of(buffer); part != nullptr && writes(buffer.lock_access))
      part->division->calls->note_written(*part);
    if (buffer.lock_access == Access::write) failures_->rewritten(buffer);
    return buffer;
  }
  /// Throws LifetimeError while a handle is locked.
  void check_nothing_locked() const {
    if (locked_ != 0)
      throw LifetimeError(concat("wait_all: ", locked_, " handles are locked: unlock them first"));
  }

  /// For an abandoned handle: if it is locked, notes that the end of the lock is to retire it, and
  /// returns true. Throws LifetimeError: handle.
  bool drop_if_locked(DataHandle handle) {
    Buffer& buffer = find(handle, "retire");
    if (buffer.is(Buffer::locked)) buffer.set(Buffer::dropped);
    return buffer.is(Buffer::locked);
  }
  /// Voids the handle. Throws LifetimeError: handle; retired already; locked.
  Buffer& begin_retire(DataHandle handle) {
    Buffer& buffer = find(handle, "retire");
    if (buffer.is(Buffer::locked | Buffer::divided | Buffer::region)) [[unlikely]]
      begin_retire_parts(buffer);
    scopes_.leave(buffer, records_);
    end(buffer);
    return buffer;
  }

  /// Frees the storage, or calls the owner's release, and recycles the record, and those of its
  /// regions. Once, after the last task; any thread. Of a region the record stays for now: others
  /// overlap it.
  void reclaim(Buffer& buffer) noexcept {
    if (buffer.is(Buffer::region)) return;
    end_parts(buffer);
    failures_->clear(buffer);
    if (buffer.is(Buffer::live)) release_storage(buffer);
    buffer.end();
    records_.push(buffer);
  }
  /// Ends the records of all its regions, once nothing uses them.
  void end_parts(Buffer& buffer) noexcept {
    if (buffer.is(Buffer::divided)) [[unlikely]]
      end_all_parts(buffer);
  }
  /// A record for buffers that the runtime manages itself, in memory of its own; give_back() ends
  /// that. Throws OutOfMemory, std::bad_alloc.
  Buffer& lend() { return records_.take(); }
  void give_back(Buffer& buffer) noexcept {
    buffer.state = 0;
    records_.put_back(buffer);
  }
  /// For a record that a handle names, a lent one, too: from here on the handle is void.
  static void end(Buffer& buffer) noexcept {
    ++buffer.generation;
    buffer.set(Buffer::ended);
  }

  /// Makes `records` records more, before buffers need them. Throws OutOfMemory,
  /// std::bad_alloc.
  void reserve(std::uint32_t records) {
    records_.reserve(records);
    ranges_.reserve(records);
    scopes_.reserve(64);
  }
  /// Times that memory was taken for records, and for the ranges of addresses.
  std::uint64_t growths() const noexcept { return records_.growths() + ranges_.growths(); }
  /// The same for regions, beside their records.
  std::uint64_t region_growths() const noexcept {
    return region_store_ == nullptr ? 0 : region_store_calls_->growths(*region_store_);
  }

  /// Opens a scope that owns later allocations of its lifetime. Throws LifetimeError for
  /// `persistent`.
  Scope& open_scope(Lifetime lifetime, CallSite site = {}) { return scopes_.open(lifetime, site); }
  Scopes const& scopes() const noexcept { return scopes_; }
  /// Throws LifetimeError: none is open.
  void check_scope(Lifetime lifetime) { (void)scopes_.of(lifetime); }

  /// Closes the innermost open scope, which is of that lifetime and of that name, if one is given,
  /// and calls retire_one(handle) for each buffer left in it, the latest first. Throws
  /// LifetimeError, having changed nothing, when no such scope is open, another is open inside it,
  /// or a buffer in it is locked.
  template <class RetireOne>
  void close_scope(Lifetime lifetime, ScopeName name, RetireOne&& retire_one) {
    end_scope(check_close(lifetime, name), retire_one);
  }
  /// The same in two steps.
  Scope& check_close(Lifetime lifetime, ScopeName name) {
    Scope& scope = scopes_.closing(lifetime, name);
    if (locked_ != 0) [[unlikely]]
      Scopes::each(scope, records_, [](Buffer const& buffer) { check_close(buffer); });
    return scope;
  }
  /// For a buffer in a scope that is to close: throws LifetimeError if it is locked.
  static void check_close(Buffer const& buffer) { check_unlocked(buffer, "close_scope"); }
  bool any_locked() const noexcept { return locked_ != 0; }
  template <class RetireOne> void end_scope(Scope& scope, RetireOne&& retire_one) {
    scopes_.end(scope, records_, [&](Buffer& buffer) { retire_one(handle_of(buffer)); });
  }

 private:
  friend class Regions;
  friend class DivisionCalls;

  void check_place(char const* call, Place place) {
    if (source_.allocate == nullptr) return check_host(call, place);
    if (source_.check_place != nullptr) source_.check_place(source_.state, call, place);
  }
  static int state_at(Place place) noexcept {
    return host_reaches(place) ? 0 : int{Buffer::off_host};
  }
  [[gnu::noinline]] void check_unusual_lock(Buffer const& buffer) const {
    Buffer const& locked = locked_part(buffer);
    if (locked.is(Buffer::locked))
      throw LifetimeError(
          concat("lock: ", describe(locked), " is locked already: unlock it first"));
    if (!source_.reaches(buffer.place)) fail_lock_off_host(describe(buffer), buffer.place);
  }

  /// Voids the handles of its regions, if it is no region. Throws as check_unlocked does.
  [[gnu::noinline]] static void begin_retire_parts(Buffer& buffer) {
    check_whole(buffer, "retire");
    check_unlocked(buffer, "retire");
    if (buffer.is(Buffer::region)) part_of(buffer)->ended = true;
    if (!buffer.is(Buffer::divided)) return;
    Division& division = *part_of(buffer)->division;
    division.calls->void_handles(division);
  }
  [[gnu::noinline]] void end_all_parts(Buffer& buffer) noexcept {
    failures_->clear(buffer);
    end_division(buffer, this);
  }
  static void end_division(Buffer& buffer, BufferTable* table) noexcept {
    Division& division = *part_of(buffer)->division;
    buffer.part.store(nullptr, std::memory_order_relaxed);
    buffer.end(Buffer::divided);
    division.calls->end(division, table);
  }

  /// Lets the memory of a buffer be found by address, if the table has it from its source. Without
  /// memory for that it is not found.
  void enter_ranges(Buffer& buffer) noexcept {
    if (!buffer.is(Buffer::ranged) && buffer.is(Buffer::live) && buffer.bytes != 0)
      enter_new_range(buffer);
  }
  [[gnu::noinline]] void enter_new_range(Buffer& buffer) noexcept {
    try {
      std::span<std::byte const> const bytes(static_cast<std::byte*>(buffer.pointer), buffer.bytes);
      if (ranges_.add(bytes, true, buffer.index, buffer.generation) == AdoptedRanges::none)
        buffer.set(Buffer::ranged);
    } catch (std::bad_alloc const&) {
    }
  }
  [[noreturn, gnu::noinline]] static void fail_null(std::size_t bytes, Place place) {
    throw OutOfMemory(concat("allocate: ", bytes, " bytes on ", to_string(place),
                             ": its device or executor gave a null pointer, where it throws "
                             "OutOfMemory"));
  }
  [[noreturn, gnu::noinline]] static void fail_adopt(std::size_t bytes, Buffer const& other) {
    if (!other.is(Buffer::adopted))
      throw ValueError(concat("adopt: the ", bytes, " bytes overlap ", describe(other),
                              ", which this runtime has allocated: name its handle"));
    throw ValueError(
        concat("adopt: the ", bytes, " bytes overlap ", describe(other),
               ": spans may overlap where all are of const bytes, which no task writes; otherwise "
               "retire the other and let its tasks end"));
  }
  DataHandle fill(Buffer& buffer, std::size_t bytes, Place place, Lifetime lifetime, Scope* scope,
                  int state, Release release) noexcept {
    buffer.bytes = bytes;
    buffer.state = static_cast<Buffer::State>(state | Buffer::in_use);
    buffer.lifetime = lifetime;
    buffer.place = place;
    buffer.release = release;
    buffer.last_use = {};
    buffer.scope = 0;
    if (scope != nullptr) scopes_.join(*scope, buffer, records_);
    return handle_of(buffer);
  }
  void release_storage(Buffer& buffer) noexcept {
    leave_ranges(buffer);
    if (buffer.is(Buffer::adopted)) return release(buffer.release);
    if (source_.free != nullptr)
      return source_.free(source_.state, buffer.pointer, buffer.bytes, buffer.place);
    free_aligned(buffer.pointer);
  }

  void release(Release const& owner) noexcept {
    if (owner.call == nullptr) return;
    if (thread_ == nullptr) return owner();
    DrivingThread::InTask const in_task(*thread_);
    owner();
  }

  /// `bind` where something is unusual or wrong.
  [[gnu::noinline]] bool bind_unusual(Task<DataHandle> const& task, Use<Buffer*>* uses,
                                      void** pointers) {
    if (source_.check_task == nullptr || task.codelet == nullptr)
      check_codelet(task.codelet, task.label);
    for (std::size_t i = 0; i < task.uses.size(); ++i) {
      auto const [handle, access] = task.uses[i];
      Buffer* const buffer = records_.find(handle);
      if (buffer == nullptr || has_lost_whole(*buffer) ||
          (state_of(*buffer) & forbidden_states(access)) != 0 || !is_access(access))
        fail_bind(task, i);
      uses[i] = {buffer, access};
      pointers[i] = buffer->pointer;
    }
    if (source_.check_task != nullptr)
      source_.check_task(source_.state, task.codelet, task.label, {uses, task.uses.size()});
    return false;
  }
  [[noreturn]] void fail_bind(Task<DataHandle> const& task, std::size_t operand) {
    auto const& [handle, access] = task.uses[operand];
    std::string const who = concat("submit: ", task_name(task.codelet, task.label, 0), ": operand ",
                                   operand, " (", name_of(access), ")");
    Buffer const* const found = records_.find(handle);
    if (found == nullptr) records_.fail_find(handle, who);
    Buffer const& buffer = *found;
    check_whole(buffer, who);
    fail_access(buffer, access, who);
  }

  Failures* failures_;
  StorageSource source_;
  DrivingThread* thread_;
  BufferRecords records_;
  std::uint32_t locked_ = 0;
  Scopes scopes_;
  AdoptedRanges ranges_;
  bool is_found_ = false;  // by address: new buffers enter `ranges_`
  // Handles by address, and what is kept of regions, once regions.hh has made it.
  RegionStore* region_store_ = nullptr;
  struct RegionStoreCalls {
    void (*end)(RegionStore*) noexcept;
    std::uint64_t (*growths)(RegionStore const&) noexcept;
  };
  RegionStoreCalls const* region_store_calls_ = nullptr;
};

}  // namespace nntile::support
