#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The look-up of a replay's bindings in the table of buffers.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/runtime/support/buffer_state.hh"
#include "nntile/runtime/support/buffer_table.hh"
#include "nntile/runtime/support/recording.hh"

namespace nntile::support {

/// The bindings of one replay, looked up as BufferTable::bind does it for a task.
class Bindings {
 public:
  /// Room for that many, so that `bind` allocates nothing. Throws std::bad_alloc.
  void reserve(std::size_t count) {
    buffers_.reserve(count);
    uses_.reserve(count);
  }

  /// The number that there is room for.
  std::size_t capacity() const { return buffers_.capacity(); }

  /// Throws ValueError (there is no program; the wrong number of bindings; too few parameters; two
  /// bindings that name one buffer; one of another size than was recorded), LifetimeError (a
  /// handle; a locked buffer; one that is read before anything wrote it) and std::bad_alloc.
  void bind(BufferTable& table, Recorded const* program, std::span<DataHandle const> handles,
            std::size_t parameter_bytes) {
    check_replay(program, handles.size(), parameter_bytes);
    buffers_.assign(handles.size(), nullptr);
    uses_.clear();
    ++replay_;
    for (Use<Binding> const& use : program->binding_uses) {
      Buffer& buffer = table.find(handles[use.handle], "replay");
      if (buffer.replay == replay_) fail_alias(program->binding_uses, handles, use.handle);
      unsigned const examined = examined_states(use.access) & ~unsigned{Buffer::in_use};
      if (buffer.is(static_cast<Buffer::State>(examined))) [[unlikely]]
        examine(handles, buffer, use);
      buffer.replay = replay_;
      buffers_[use.handle] = &buffer;
      uses_.push_back({&buffer, use.access});
    }
    if (!program->binding_bytes.empty()) check_bytes(*program);
  }

  /// By binding; null for one that is not used.
  DynamicArray<Buffer*> const& buffers() const { return buffers_; }
  /// Of the bindings that are used.
  std::span<Use<Buffer*> const> uses() const { return {uses_.data(), uses_.size()}; }

 private:
  [[gnu::noinline]] void check_bytes(Recorded const& program) const {
    for (Use<Binding> const& use : program.binding_uses)
      if (std::size_t const expected = program.binding_bytes[use.handle];
          buffers_[use.handle]->bytes != expected)
        throw ValueError(concat("replay: binding ", use.handle, " is ",
                                describe(*buffers_[use.handle]), " where ", expected,
                                " bytes were recorded"));
  }
  /// Finds the rarer errors: a state that forbids it, another binding that overlaps.
  [[gnu::noinline]] void examine(std::span<DataHandle const> handles, Buffer& buffer,
                                 Use<Binding> const& use) {
    check_whole(buffer, "replay");
    if ((state_of(buffer) & forbidden_states(use.access)) != 0) fail_state(buffer, use);
    for (Overlap const& other : overlaps_of(buffer))
      for (Binding binding = 0; binding < handles.size(); ++binding)
        if (other.buffer->replay == replay_ && buffers_[binding] == other.buffer &&
            share_bytes(buffer, other))
          fail_aliased(binding, use.handle);
  }
  [[noreturn]] static void fail_alias(DynamicArray<Use<Binding>> const& uses,
                                      std::span<DataHandle const> handles, Binding second) {
    Binding first = second;
    for (Use<Binding> const& use : uses)
      if (use.handle != second && handles[use.handle] == handles[second]) first = use.handle;
    fail_aliased(first, second);
  }
  [[noreturn]] static void fail_state(Buffer const& buffer, Use<Binding> const& use) {
    std::string const name = concat("replay: binding ", use.handle, " (", name_of(use.access), ")");
    fail_access(buffer, use.access, name);
  }

  std::uint64_t replay_ = 0;
  DynamicArray<Buffer*> buffers_;
  DynamicArray<Use<Buffer*>> uses_;
};

}  // namespace nntile::support
