#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The buffers that the tasks of one task may name: what that declared, and what its body allocated.
//
// clang-format off
// Use by a runtime, for each body that submits:
//   begin(number, parent, handles)   before the body; its records of the parent's operands are its
//                                    own, so that no two submitters share one
//   the calls of BufferTable         bind, allocate, begin_retire and reclaim, check_lock, scopes ...;
//                                    to commit, BufferTable::commit
//   end(cause)                       behind the body and its last task: settles the parent, ends
//                                    what was allocated
// clang-format on

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/heap_array.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/buffer_state.hh"
#include "nntile/runtime/support/check_codelet.hh"
#include "nntile/runtime/support/failures.hh"
#include "nntile/runtime/support/groups.hh"
#include "nntile/runtime/support/scopes.hh"
#include "nntile/runtime/support/storage_source.hh"

namespace nntile::support {

/// Throws ValueError where two operands of a task that submits share bytes under different handles:
/// its tasks would not be ordered by them.
inline void check_apart(std::span<Use<Buffer*> const> uses) {
  for (std::size_t i = 0; i < uses.size(); ++i)
    for (Overlap const& other : overlaps_of(*uses[i].handle))
      for (std::size_t j = 0; j < i; ++j)
        if (uses[j].handle == other.buffer && share_bytes(*uses[i].handle, other))
          throw ValueError(concat("orchestrate: operands ", j, " and ", i,
                                  " are regions that overlap: name the whole buffer, or regions "
                                  "apart"));
}

/// Text of LifetimeError for an event that is none of a body's own tasks.
inline std::string foreign_event(char const* call) {
  return concat(call, ": the event is not of a task that the calling body has submitted");
}

/// Cost of a look-up: linear in the operands that the parent declared. Not for two threads at a
/// time.
class NestedBuffers {
 public:
  /// `source` checks where tasks may run, as that of a BufferTable does.
  explicit NestedBuffers(Failures& failures, StorageSource const& source = {})
      : failures_(failures), source_(source) {}
  NestedBuffers(NestedBuffers const&) = delete;
  NestedBuffers& operator=(NestedBuffers const&) = delete;
  ~NestedBuffers() { clear(); }

  /// `number` is that of no other body at the same time, below 2^20; `handles` name the parent's
  /// operands. Throws std::bad_alloc.
  void begin(std::uint32_t number, TaskBody const& parent, std::span<DataHandle const> handles) {
    clear();  // of a body that could not begin, for want of memory here or in its runtime
    number_ = number;
    parent_ = parent;
    for (std::size_t i = 0; i < handles.size(); ++i) declare(handles[i], parent.uses[i]);
  }

  /// Records in use; indices are below it.
  std::uint32_t count() const noexcept { return count_; }
  Buffer& operator[](std::uint32_t index) const noexcept { return at(index); }

  /// As BufferTable's. Throws ValueError (codelet; access that the parent did not declare),
  /// LifetimeError (a buffer that it did not declare; locked; unwritten).
  void bind(Task<DataHandle> const& task, Use<Buffer*>* uses, void** pointers) {
    bool const on_host = source_.check_task == nullptr || task.codelet == nullptr;
    if (on_host) check_codelet(task.codelet, task.label);
    bind(task.codelet, task.label, task.uses, uses, pointers);
    if (!on_host)
      source_.check_task(source_.state, task.codelet, task.label, {uses, task.uses.size()});
  }
  void bind(Codelet const* codelet, TaskLabel const& label,
            std::span<Use<DataHandle> const> operands, Use<Buffer*>* uses, void** pointers) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      auto const [handle, access] = operands[i];
      Buffer* const buffer = look_up(handle);
      if (buffer == nullptr || !allowed(*buffer, access) || !is_access(access) ||
          buffer->is(forbidden_states(access))) [[unlikely]]
        fail(concat("submit: ", task_name(codelet, label, 0), ": operand ", i), operands[i],
             buffer);
      uses[i] = {buffer, access};
      pointers[i] = buffer->pointer;
    }
  }

  /// Makes an unwritten buffer, which belongs to the innermost open scope of its lifetime. Throws
  /// ValueError (not on the host), LifetimeError (no open scope of that lifetime), OutOfMemory,
  /// std::bad_alloc.
  Buffer& allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    check_place(place);
    Scope* const scope = scopes_.of(lifetime);
    Buffer& buffer = take_record();
    try {
      buffer.pointer = allocate_aligned(bytes);
    } catch (...) {
      give_back(buffer);
      throw;
    }
    buffer.bytes = bytes;
    buffer.place = host;
    buffer.lifetime = lifetime;
    buffer.scope = 0;
    buffer.state = Buffer::live | Buffer::unwritten;
    if (scope != nullptr) Scopes::join(*scope, buffer, *this);
    return buffer;
  }
  /// Throws ValueError for a place where bodies do not allocate.
  static void check_place(Place place) {
    if (place != host) [[unlikely]]
      throw ValueError(concat("allocate: a body has memory on the host only, and this is ",
                              to_string(place),
                              ": allocate there outside, and declare it for the outer task"));
  }

  /// Opens a scope that owns later allocations of its lifetime. Throws LifetimeError for
  /// `persistent`, std::bad_alloc.
  Scope& open_scope(Lifetime lifetime, CallSite site) {
    if (scopes_.number() >> count_bits != number_) scopes_.number_behind(number_ << count_bits);
    return scopes_.open(lifetime, site);
  }
  /// Closes the innermost open scope, as BufferTable does: calls retire_one(handle) for each buffer
  /// left in it. Throws likewise.
  template <class RetireOne>
  void close_scope(Lifetime lifetime, ScopeName name, RetireOne retire_one) {
    end_scope(check_close(lifetime, name), retire_one);
  }
  /// The same in two steps.
  Scope& check_close(Lifetime lifetime, ScopeName name) {
    Scope& scope = scopes_.closing(lifetime, name);
    if (locked_ != 0) Scopes::each(scope, *this, [](Buffer const& buffer) { check_close(buffer); });
    return scope;
  }
  bool any_locked() const noexcept { return locked_ != 0; }
  Scopes const& scopes() const noexcept { return scopes_; }
  /// Throws LifetimeError: none is open.
  void check_scope(Lifetime lifetime) { (void)scopes_.of(lifetime); }
  static void check_close(Buffer const& buffer) {
    check_not_locked(buffer, handle_of(buffer), "close_scope");
  }
  template <class RetireOne> void end_scope(Scope& scope, RetireOne retire_one) {
    scopes_.end(scope, *this, [&](Buffer& buffer) { retire_one(handle_of(buffer)); });
  }
  /// Of a buffer that was allocated here.
  static DataHandle handle_of(Buffer const& buffer) noexcept {
    return {nested_bit | buffer.index, buffer.generation};
  }
  /// Voids the handle. Throws LifetimeError: not allocated here; locked.
  Buffer& begin_retire(DataHandle handle) {
    Buffer& buffer = find(handle, "retire");
    if (buffer.index < declared_.size())
      throw LifetimeError(concat("retire: ", name_of_buffer(handle), " is an operand of ", parent(),
                                 ", which may retire what it has allocated itself"));
    check_not_locked(buffer, handle, "retire");
    scopes_.leave(buffer, *this);
    next_generation(buffer);
    return buffer;
  }
  /// Frees a retired buffer, once, after its last task.
  void reclaim(Buffer& buffer) noexcept {
    failures_.clear(buffer);
    free_aligned(buffer.pointer);
    give_back(buffer);
  }
  /// A record for buffers in memory of the runtime's own, until give_back(), or the end. Throws
  /// std::bad_alloc.
  Buffer& lend() { return take_record(); }
  void give_back(Buffer& buffer) noexcept {
    buffer.state = 0;
    buffer.next_free = free_;
    free_ = &buffer;
  }
  /// For a lent record that a handle names: from here on the handle is void.
  void end_lent(Buffer& buffer) const noexcept {
    next_generation(buffer);
    buffer.set(Buffer::ended);
  }

  Buffer& check_lock(DataHandle handle, Access access) {
    Buffer& buffer = find(handle, "lock");
    check_lock_access(access);
    if (buffer.is(Buffer::off_host) && !source_.reaches(buffer.place))
      fail_lock_off_host(name_of_buffer(handle), buffer.place);
    std::uint8_t const forbidden =
        reads(access) ? Buffer::locked | Buffer::unwritten : Buffer::locked;
    if (!allowed(buffer, access) || buffer.is(forbidden)) fail("lock", {handle, access}, &buffer);
    return buffer;
  }
  std::span<std::byte> begin_lock(Buffer& buffer, Access access) noexcept {
    buffer.set(Buffer::locked);
    buffer.lock_access = access;
    ++locked_;
    return source_.view(buffer);
  }
  void end_lock(DataHandle handle) {
    Buffer& buffer = find(handle, "unlock");
    if (!buffer.is(Buffer::locked))
      throw LifetimeError(concat("unlock: ", name_of_buffer(handle), " is not locked"));
    buffer.drop(Buffer::locked);
    --locked_;
    if (writes(buffer.lock_access)) buffer.drop(Buffer::unwritten);
    if (buffer.lock_access == Access::write) failures_.clear(buffer);
  }
  void check_nothing_locked() const {
    if (locked_ != 0)
      throw LifetimeError(concat("wait_all: ", locked_, " handles are locked: unlock them first"));
  }

  /// Names of the parent, and of a buffer that was allocated here, in errors.
  std::string parent() const { return task_name(parent_.codelet, parent_.label, parent_.sequence); }
  static std::string describe(Buffer const& buffer) {
    return concat(name_of_buffer(handle_of(buffer)), " (", buffer.bytes, " bytes, ",
                  nntile::name_of(buffer.lifetime), ")");
  }

  /// Settles the parent behind all its tasks: it fails for `cause`, unless that is empty; else
  /// marks that its tasks have left on its operands become the operands' own. Ends all buffers.
  void end(std::string cause) noexcept {
    if (!cause.empty()) {
      shorten(cause);
      failures_.fail(parent_, cause.c_str());
    } else if (failures_.any_marked()) {
      failures_.succeed(parent_);
      for (Use<Buffer*> const& use : parent_.uses)
        for (Declared const& declared : declared_)
          if (declared.buffer == use.handle) failures_.pass(at(declared.index), *use.handle);
    }
    clear();
  }

 private:
  static constexpr std::uint32_t nested_bit = 1u << 31;
  static constexpr unsigned count_bits = 12;  // of generations and scopes, below the body's number
  static constexpr std::uint32_t count_mask = (1u << count_bits) - 1;
  static constexpr unsigned chunk_bits = 2;  // 512 bytes: most bodies have few buffers
  static constexpr std::uint32_t chunk_mask = (1u << chunk_bits) - 1;

  /// An operand of the parent; the record at `index` stands for it here.
  struct Declared {
    DataHandle handle;
    Access access;
    std::uint32_t index;
    Buffer* buffer;  // the parent's
  };

  void declare(DataHandle handle, Use<Buffer*> const& use) {
    for (Declared& declared : declared_)
      if (declared.handle == handle) {
        if (declared.access != use.access) declared.access = Access::update;
        Buffer& same = at(declared.index);
        Buffer::State const where = same.state & Buffer::off_host;
        restrict_to(declared.access, same);
        return same.set(where);
      }
    Buffer& buffer = take_record();
    declared_.push_back({handle, use.access, buffer.index, use.handle});
    buffer.pointer = use.handle->pointer;
    buffer.bytes = use.handle->bytes;
    buffer.place = use.handle->place;
    restrict_to(use.access, buffer);
    if (!host_reaches(buffer.place)) buffer.set(Buffer::off_host);
  }
  static void restrict_to(Access access, Buffer& buffer) {
    buffer.state = access == Access::read    ? Buffer::read_only
                   : access == Access::write ? Buffer::unwritten
                                             : Buffer::State{0};
  }

  Buffer& at(std::uint32_t index) const noexcept {
    return chunks_[index >> chunk_bits][index & chunk_mask];
  }
  Buffer* look_up(DataHandle handle) const noexcept {
    for (Declared const& declared : declared_)
      if (declared.handle == handle) return &at(declared.index);
    std::uint32_t const index = handle.index & ~nested_bit;
    bool const own = index != handle.index && index < count_ &&
                     at(index).generation == handle.generation &&
                     at(index).is(Buffer::live | Buffer::in_use);
    return own ? &at(index) : nullptr;
  }
  Buffer& find(DataHandle handle, char const* call) {
    Buffer* const buffer = look_up(handle);
    if (buffer == nullptr) fail_find(handle, call);
    return *buffer;
  }
  bool allowed(Buffer const& buffer, Access access) const noexcept {
    Access const declared =
        buffer.index < declared_.size() ? declared_[buffer.index].access : Access::update;
    return access == declared || declared == Access::write || declared == Access::update;
  }

  /// Records of the parent's operands come first, so that a record's index is its operand's.
  Buffer& take_record() {
    if (free_ != nullptr) {
      Buffer& buffer = *free_;
      free_ = buffer.next_free;
      return prepare(buffer);
    }
    if (count_ >> chunk_bits >= chunks_.size())
      chunks_.push_back(HeapArray<Buffer>(chunk_mask + 1));
    Buffer& buffer = at(count_);
    buffer.index = count_++;
    if (buffer.generation >> count_bits != number_) buffer.generation = number_ << count_bits;
    return prepare(buffer);
  }
  Buffer& prepare(Buffer& buffer) noexcept {
    buffer.last_use = {};
    buffer.native = nullptr;
    return buffer;
  }
  void next_generation(Buffer& buffer) const noexcept {
    buffer.generation = number_ << count_bits | ((buffer.generation + 1) & count_mask);
  }

  void clear() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i) {
      Buffer& buffer = at(i);
      failures_.clear(buffer);
      if (buffer.is(Buffer::live)) free_aligned(buffer.pointer);
      buffer.state = 0;
      next_generation(buffer);
    }
    declared_.clear();
    scopes_.clear();
    count_ = locked_ = 0;
    free_ = nullptr;
  }

  /// Leaves out the middle, since each of many levels puts its name before the cause.
  static void shorten(std::string& cause) noexcept {
    constexpr std::size_t kept = 256;
    if (cause.size() <= 4 * kept) return;
    cause.replace(kept, cause.size() - 3 * kept, 3, '.');
  }
  static std::string name_of_buffer(DataHandle handle) {
    if ((handle.index & nested_bit) == 0 || handle == DataHandle{})
      return concat("buffer ", handle.index);
    return concat("buffer ", handle.index & ~nested_bit, " of domain ",
                  handle.generation >> count_bits);
  }
  static void check_not_locked(Buffer const& buffer, DataHandle handle, std::string const& who) {
    if (buffer.is(Buffer::locked))
      throw LifetimeError(concat(who, ": ", name_of_buffer(handle), " is locked: unlock it first"));
  }

  [[noreturn, gnu::noinline]] void fail_find(DataHandle handle, std::string const& who) const {
    throw LifetimeError(concat(who, ": ",
                               handle == DataHandle{} ? "an empty handle" : name_of_buffer(handle),
                               " is neither an operand of ", parent(),
                               ", inside which this is called, nor allocated there and not "
                               "retired, nor has its scope closed: declare it when submitting the "
                               "outer task"));
  }
  [[noreturn, gnu::noinline]] void fail(std::string const& call, Use<DataHandle> const& use,
                                        Buffer const* buffer) const {
    std::string const who = concat(call, " (", nntile::name_of(use.access), ")");
    if (buffer == nullptr) fail_find(use.handle, who);
    check_not_locked(*buffer, use.handle, who);
    check_access(use.access, who);
    if (!allowed(*buffer, use.access))
      throw ValueError(concat(who, ": ", name_of_buffer(use.handle), " was declared for ",
                              nntile::name_of(declared_[buffer->index].access), " by ", parent(),
                              ", inside which this is called"));
    throw LifetimeError(concat(who, ": nothing has written ", name_of_buffer(use.handle),
                               " inside ", parent(),
                               ": submit a task that writes it, or declare it for update"));
  }

  Failures& failures_;
  StorageSource const source_;
  std::uint32_t number_ = 0;
  TaskBody parent_;
  DynamicArray<Declared> declared_;
  DynamicArray<HeapArray<Buffer>> chunks_;
  std::uint32_t count_ = 0;
  std::uint32_t locked_ = 0;
  Buffer* free_ = nullptr;
  Scopes scopes_;
};

}  // namespace nntile::support
