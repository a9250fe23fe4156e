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
//   scopes     open_scope(lifetime, site); close_scope(lifetime, retire_one)
//   memory of the runtime's own: add_in(bytes, place, lifetime, take), and recycle(buffer) for reclaim
//   wait_all   check_nothing_locked()
// clang-format on
// The destructor releases what is still alive: wait for all tasks before.

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/heap_array.hh"
#include "nntile/runtime/support/adopted_ranges.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/check_codelet.hh"
#include "nntile/runtime/support/driving_thread.hh"
#include "nntile/runtime/support/failures.hh"
#include "nntile/runtime/support/free_stack.hh"
#include "nntile/runtime/support/scopes.hh"

namespace nntile::support {

/// The source of storage, for a runtime that does not take it from the host's heap.
struct StorageSource {
  void* (*allocate)(void* state, std::size_t bytes, Place place) = nullptr;
  void (*free)(void* state, void* pointer, std::size_t bytes, Place place) noexcept = nullptr;
  void* state = nullptr;
};

/// Records with stable addresses, found by index without a lock. Cost of a look-up: two loads and a
/// comparison.
class BufferTable {
 public:
  /// `thread`, if any, tracks the thread that runs an owner's release, which counts as a task: the
  /// runtime may be amid a call.
  explicit BufferTable(Failures& failures, StorageSource source = {},
                       DrivingThread* thread = nullptr)
      : failures_(&failures), source_(source), thread_(thread), first_generation_(seed()) {}
  BufferTable(BufferTable const&) = delete;
  BufferTable& operator=(BufferTable const&) = delete;
  /// In a child process, owners' memory and a source's are the parent's to release.
  ~BufferTable() {
    if (thread_ == nullptr || !thread_->in_child()) release_all();
  }

  /// Frees or releases what is still alive; before a source of storage dies. Only the destructor
  /// comes after.
  void release_all() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (at(i).is(Buffer::live)) release_storage(at(i));
      at(i).state = 0;
    }
  }

  /// Makes an unwritten buffer. Throws ValueError (a place that this runtime lacks), OutOfMemory,
  /// LifetimeError (no open scope of that lifetime).
  DataHandle add(std::size_t bytes, Place place, Lifetime lifetime) {
    if (source_.allocate == nullptr) check_host("allocate", place);
    Scope* const scope = scopes_.of(lifetime);
    Buffer& buffer = take_record();
    try {
      buffer.pointer = source_.allocate != nullptr ? source_.allocate(source_.state, bytes, place)
                                                   : allocate_aligned(bytes);
    } catch (...) {
      free_.push(buffer);
      throw;
    }
    return fill(buffer, bytes, place, lifetime, scope, Buffer::live | Buffer::unwritten, {});
  }

  /// Makes an unwritten buffer in memory that the runtime manages: take(buffer) returns where, and
  /// may note in buffer.native what it belongs to. Throws what take does, ValueError (a place
  /// that this runtime lacks), LifetimeError (no open scope of that lifetime). Reclaim frees
  /// nothing.
  template <class Take>
  [[gnu::always_inline]] DataHandle add_in(std::size_t bytes, Place place, Lifetime lifetime,
                                           Take const& take) {
    check_host("allocate", place);
    Scope* const scope = scopes_.of(lifetime);
    Buffer& buffer = take_record();
    try {
      buffer.pointer = take(buffer);
    } catch (...) {
      free_.put_back(buffer);
      throw;
    }
    return fill(buffer, bytes, place, lifetime, scope, Buffer::unwritten, {});
  }

  /// Makes an unwritten buffer whose storage is the runtime's own affair: `pointer` is null,
  /// reclaim frees nothing.
  DataHandle add_without_storage(std::size_t bytes, Place place, Lifetime lifetime) {
    Scope* const scope = scopes_.of(lifetime);
    Buffer& buffer = take_record();
    buffer.pointer = nullptr;
    return fill(buffer, bytes, place, lifetime, scope, Buffer::unwritten, {});
  }

  /// Names the caller's memory, which counts as written. Reclaiming calls `release`. Memory that is
  /// adopted as const is never written. Throws ValueError (place; null pointer with bytes; memory
  /// that is adopted already, if it may be written here or there).
  template <class Byte> DataHandle adopt(std::span<Byte> bytes, Place place, Release release) {
    constexpr bool writable = !std::is_const_v<Byte>;
    if (source_.allocate == nullptr) check_host("adopt", place);
    if (bytes.data() == nullptr && !bytes.empty())
      throw ValueError(concat("adopt: a null pointer to ", bytes.size(), " bytes"));
    Buffer& buffer = take_record();
    std::uint32_t other;
    try {
      other = ranges_.add(bytes, writable, buffer.index);
    } catch (...) {
      free_.push(buffer);
      throw;
    }
    if (other != AdoptedRanges::none) {
      free_.push(buffer);
      throw ValueError(
          concat("adopt: the ", bytes.size(), " bytes overlap ", describe(at(other)),
                 ": spans may overlap where all are of const bytes, which nobody writes; otherwise "
                 "retire the other and let its tasks end"));
    }
    buffer.pointer = const_cast<std::byte*>(bytes.data());  // given to tasks that read
    return fill(buffer, bytes.size(), place, Lifetime::persistent, nullptr,
                Buffer::live | Buffer::adopted | (bytes.empty() ? 0 : Buffer::ranged) |
                    (writable ? 0 : Buffer::read_only),
                release);
  }
  /// For an adopted buffer whose tasks have ended: its memory may be adopted again. Any thread.
  void leave_ranges(Buffer& buffer) noexcept {
    if (!buffer.is(Buffer::ranged)) return;
    buffer.drop(Buffer::ranged);
    ranges_.remove({static_cast<std::byte const*>(buffer.pointer), buffer.bytes},
                   !buffer.is(Buffer::read_only), buffer.index);
  }

  /// The record of a handle. Throws LifetimeError for one that is default, foreign or retired.
  Buffer& find(DataHandle handle, char const* call) {
    if (handle.index >= count_ || at(handle.index).generation != handle.generation) [[unlikely]]
      fail_find(handle, call);
    return at(handle.index);
  }
  Buffer& operator[](std::uint32_t index) noexcept { return at(index); }
  DataHandle handle_of(Buffer const& buffer) const noexcept {
    return {buffer.index, buffer.generation};
  }
  /// Records made so far; indices are below it.
  std::uint32_t count() const noexcept { return count_; }

  /// Checks a submission and writes one Use<Buffer*> and one pointer per use; returns whether it is
  /// usual: it has a CPU entry, and accumulates into nothing. Throws ValueError (no
  /// codelet, none of its entries runs on a CPU, or needs more workspace than is lent; read-only
  /// memory that it writes), LifetimeError (handle; a locked buffer; one that is read before
  /// anything wrote it). Changes no buffer.
  bool bind(Task<DataHandle> const& task, Use<Buffer*>* uses, void** pointers) {
    if (task.codelet == nullptr || task.codelet->cpu == nullptr ||
        task.codelet->workspace > max_workspace_bytes) [[unlikely]]
      return bind_unusual(task, uses, pointers);
    HeapArray<Buffer> const* const chunks = chunks_.data();
    std::uint32_t const count = count_;
    for (std::size_t i = 0; i < task.uses.size(); ++i) {
      auto const [handle, access] = task.uses[i];
      if (handle.index >= count) [[unlikely]]
        fail_bind(task, i);
      Buffer& buffer = chunks[handle.index >> chunk_bits][handle.index & chunk_mask];
      if (buffer.generation != handle.generation || buffer.is(examined_states(access))) [[unlikely]]
        return bind_unusual(task, uses, pointers);
      uses[i] = {&buffer, access};
      pointers[i] = buffer.pointer;
    }
    return true;
  }

  /// Notes that the task is submitted: what it writes counts as written, and it is the last use.
  static void commit(std::span<Use<Buffer*> const> uses, Ticket task) noexcept {
    for (Use<Buffer*> const& use : uses) {
      use.handle->last_use = task;
      if (writes(use.access)) use.handle->drop(Buffer::unwritten);
    }
  }

  /// Throws LifetimeError: handle; locked already; unwritten, and the access reads. ValueError:
  /// read-only, and it writes.
  Buffer& check_lock(DataHandle handle, Access access) {
    Buffer& buffer = find(handle, "lock");
    if (buffer.is(Buffer::locked))
      throw LifetimeError(
          concat("lock: ", describe(buffer), " is locked already: unlock it first"));
    if (writes(access) && buffer.is(Buffer::read_only))
      throw ValueError(concat("lock for ", name_of(access), ": ", why_read_only(buffer)));
    if (reads(access) && buffer.is(Buffer::unwritten))
      throw LifetimeError(concat("lock for ", name_of(access), ": nothing has written ",
                                 describe(buffer),
                                 ": submit a task that writes it or lock it for write first"));
    return buffer;
  }
  std::span<std::byte> begin_lock(Buffer& buffer, Access access) noexcept {
    buffer.set(Buffer::locked);
    buffer.lock_access = access;
    ++locked_;
    return {static_cast<std::byte*>(buffer.pointer), buffer.bytes};
  }
  /// The buffer, unlocked. Throws LifetimeError: handle; locked.
  Buffer& check_unlocked(DataHandle handle, char const* call) {
    Buffer& buffer = find(handle, call);
    if (buffer.is(Buffer::locked))
      throw LifetimeError(concat(call, ": ", describe(buffer), " is locked: unlock it first"));
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
    if (writes(buffer.lock_access)) buffer.drop(Buffer::unwritten);
    if (buffer.lock_access == Access::write) failures_->clear(buffer);
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
    Buffer& buffer = check_unlocked(handle, "retire");
    leave_scope(buffer);
    ++buffer.generation;
    return buffer;
  }

  /// Frees the storage, or calls the owner's release, and recycles the record. Once, after the last
  /// task; any thread.
  void reclaim(Buffer& buffer) noexcept {
    failures_->clear(buffer);
    if (buffer.is(Buffer::live)) release_storage(buffer);
    buffer.state = 0;
    free_.push(buffer);
  }
  /// The same for a buffer of add_in, on the driving thread.
  void recycle(Buffer& buffer) noexcept {
    failures_->clear(buffer);
    buffer.state = 0;
    free_.put_back(buffer);
  }

  /// Makes `records` records more, before buffers need them. Throws OutOfMemory,
  /// std::bad_alloc.
  void reserve(std::uint32_t records) {
    for (std::uint32_t i = 0; i < records; ++i) free_.put_back(make_record());
    scopes_.reserve(64);
  }

  /// Opens a scope that owns later allocations of its lifetime. Throws LifetimeError for
  /// `persistent`.
  void open_scope(Lifetime lifetime, CallSite site = {}) { scopes_.open(lifetime, site); }
  /// Where the scope of a buffer was opened; {} if that is not known.
  CallSite site_of_scope(Buffer const& buffer) const noexcept {
    Scope const* const scope = scopes_.find(buffer.scope);
    return scope != nullptr ? scope->site : CallSite{};
  }

  /// Closes the innermost open scope of the lifetime and calls retire_one(handle) for each buffer
  /// left in it, the latest first. Throws LifetimeError, having changed nothing, when no such scope
  /// is open or a buffer in it is locked.
  template <class RetireOne> void close_scope(Lifetime lifetime, RetireOne&& retire_one) {
    Scope* const scope = scopes_.innermost(lifetime);
    if (scope == nullptr)
      throw LifetimeError(concat("close_scope: no open scope of lifetime ", name_of(lifetime)));
    for (std::uint32_t i = scope->last; i != 0; i = at(i - 1).scope_previous)
      if (at(i - 1).is(Buffer::locked))
        throw LifetimeError(
            concat("close_scope: ", describe(at(i - 1)), " is locked: unlock it first"));
    std::uint32_t next = scope->last;
    scopes_.erase(*scope);
    while (next != 0) {
      Buffer& buffer = at(next - 1);
      next = buffer.scope_previous;
      buffer.scope = 0;
      retire_one(handle_of(buffer));
    }
  }

  static std::string why_read_only(Buffer const& buffer) {
    return concat(describe(buffer),
                  " is read-only: it was adopted as const bytes; adopt a std::span<std::byte>");
  }
  /// "buffer 12 (4096 bytes, step)".
  static std::string describe(Buffer const& buffer) {
    return concat("buffer ", buffer.index, " (", buffer.bytes, " bytes, ",
                  buffer.is(Buffer::adopted) ? "adopted" : name_of(buffer.lifetime), ")");
  }

 private:
  static constexpr std::uint32_t chunk_bits = 8;  // 256 records, 32 KiB
  static constexpr std::uint32_t chunk_mask = (1u << chunk_bits) - 1;
  /// Handles up to 1,024 generations old are reported as retired; a foreign handle is misreported
  /// with probability 2^-22.
  static constexpr std::uint32_t remembered = 1u << 10;

  /// The first generation, random for each table, so that handles of another runtime are detected
  /// with high probability.
  std::uint32_t seed() const noexcept {
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    auto mixed = reinterpret_cast<std::uintptr_t>(this) ^
                 (static_cast<std::uint64_t>(now.tv_nsec) << 32) ^
                 static_cast<std::uint64_t>(now.tv_sec);
    mixed =
        (mixed ^ (mixed >> 31)) * 0x9e3779b97f4a7c15u;  // Fibonacci hashing: 2^64 / golden ratio
    return static_cast<std::uint32_t>(mixed >> 32);
  }

  Buffer& at(std::uint32_t index) noexcept {
    return chunks_[index >> chunk_bits][index & chunk_mask];
  }

  static void check_host(char const* call, Place place) {
    if (place != host) [[unlikely]]
      fail_place(call);
  }
  [[noreturn, gnu::noinline]] static void fail_place(char const* call) {
    throw ValueError(concat(call, ": this runtime has memory on the host only"));
  }
  Buffer& take_record() {
    if (Buffer* const buffer = free_.pop()) [[likely]] {
      buffer->native = nullptr;
      return *buffer;
    }
    return make_record();
  }
  [[gnu::noinline]] Buffer& make_record() {
    if ((count_ & chunk_mask) == 0) {
      if (count_ == UINT32_MAX - chunk_mask) throw OutOfMemory("allocate: 2^32 buffers are in use");
      chunks_.push_back(HeapArray<Buffer>(chunk_mask + 1));
    }
    Buffer& buffer = at(count_);
    buffer.index = count_++;
    buffer.generation = first_generation_;
    return buffer;
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
    if (scope != nullptr) join_scope(buffer, *scope);
    return handle_of(buffer);
  }
  void join_scope(Buffer& buffer, Scope& scope) noexcept {
    buffer.scope = scope.number;
    buffer.scope_previous = scope.last;
    buffer.scope_next = 0;
    if (scope.last != 0) at(scope.last - 1).scope_next = buffer.index + 1;
    scope.last = buffer.index + 1;
  }
  void leave_scope(Buffer& buffer) noexcept {
    if (buffer.scope == 0) return;
    if (buffer.scope_previous != 0) at(buffer.scope_previous - 1).scope_next = buffer.scope_next;
    if (buffer.scope_next != 0)
      at(buffer.scope_next - 1).scope_previous = buffer.scope_previous;
    else if (Scope* const scope = scopes_.find(buffer.scope))
      scope->last = buffer.scope_previous;
    buffer.scope = 0;
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

  [[noreturn]] void fail_find(DataHandle handle, std::string const& call) {
    if (handle == DataHandle{})
      throw LifetimeError(concat(call, ": the handle is empty: it was never allocated"));
    bool const retired = handle.index < count_ &&
                         at(handle.index).generation != handle.generation &&
                         at(handle.index).generation - handle.generation < remembered;
    if (retired)
      throw LifetimeError(concat(call, ": buffer ", handle.index,
                                 " was retired, or its scope closed, before this call"));
    throw LifetimeError(
        concat(call, ": the handle belongs to another runtime, or was retired long ago"));
  }
  /// `bind` where something is unusual or wrong.
  [[gnu::noinline]] bool bind_unusual(Task<DataHandle> const& task, Use<Buffer*>* uses,
                                      void** pointers) {
    check_codelet(task);
    for (std::size_t i = 0; i < task.uses.size(); ++i) {
      auto const [handle, access] = task.uses[i];
      bool const known = handle.index < count_ && at(handle.index).generation == handle.generation;
      if (!known || at(handle.index).is(forbidden_states(access))) fail_bind(task, i);
      uses[i] = {&at(handle.index), access};
      pointers[i] = at(handle.index).pointer;
    }
    return false;
  }
  [[noreturn]] void fail_bind(Task<DataHandle> const& task, std::size_t operand) {
    auto const& [handle, access] = task.uses[operand];
    std::string const who = concat("submit: ", task_name(task.codelet, task.label, 0), ": operand ",
                                   operand, " (", name_of(access), ")");
    if (handle.index >= count_ || at(handle.index).generation != handle.generation)
      fail_find(handle, who);
    Buffer const& buffer = at(handle.index);
    if (buffer.is(Buffer::locked))
      throw LifetimeError(concat(who, ": ", describe(buffer), " is locked: unlock it first"));
    if (writes(access) && buffer.is(Buffer::read_only))
      throw ValueError(concat(who, ": ", why_read_only(buffer)));
    throw LifetimeError(
        concat(who, ": nothing has written ", describe(buffer),
               ": submit a task that writes it, lock it for write, or adopt written memory"));
  }

  Failures* failures_;
  StorageSource source_;
  DrivingThread* thread_;
  std::uint32_t first_generation_;
  std::uint32_t count_ = 0;
  std::uint32_t locked_ = 0;
  std::vector<HeapArray<Buffer>> chunks_;
  Scopes scopes_;
  AdoptedRanges ranges_;
  FreeStack<Buffer> free_;
};

}  // namespace nntile::support
