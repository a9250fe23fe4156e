#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transcripts run again, on any runtime, and the first task whose results differ between two runs.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nntile/io/hash.hh"
#include "nntile/io/transcript.hh"
#include "nntile/ops/all.hh"
#include "nntile/ops/kernel.hh"

namespace nntile::testing {

/// The kernels of the companion library, as "gemm/fp32/fp32/exact": op, element types, mode. A file
/// means the best instruction set of the machine that reads it; kernels of each are known. Cost: a
/// few thousand look-ups. In fast mode it loads the vendor's library, where there is one.
inline std::vector<io::NamedCodelet> kernel_codelets(Mode mode = Mode::exact) {
  std::vector<io::NamedCodelet> all;
  for (Isa const isa : {Isa::best, Isa::v4, Isa::v3, Isa::v2, Isa::plain})
    for (OpInfo const* const op : all_ops)
      for (int types = 0; types < dtype_count * dtype_count; ++types) {
        if (isa != Isa::best && !kernels::available(isa)) continue;
        auto const element = static_cast<DType>(types / dtype_count);
        auto const second = static_cast<DType>(types % dtype_count);
        if (Codelet const* const codelet = kernels::find(op->name, element, second, mode, isa))
          all.push_back(
              {concat(op->name, '/', name_of(element), '/', name_of(second), '/', name_of(mode)),
               codelet});
      }
  return all;
}

/// The hash of what each operand held that a task wrote, in the order of its uses; 0 where the task
/// failed or was cancelled.
struct TaskResult {
  std::vector<std::uint64_t> hashes;
  bool operator==(TaskResult const&) const = default;
};

namespace detail {

struct HashInto {
  std::uint64_t* hash;
  std::size_t bytes;
};
inline Status hash_operand(KernelCall const& call) noexcept {
  HashInto into;
  std::memcpy(&into, call.arguments, sizeof into);
  std::uint64_t const hash =
      io::hash64({static_cast<std::byte const*>(call.buffers[0]), into.bytes});
  *into.hash = hash == 0 ? 1 : hash;
  return {};
}
inline constexpr Codelet hash_codelet{"hash", &hash_operand};

}  // namespace detail

/// Makes the calls of a transcript on a runtime that has scopes, and returns the results of its
/// tasks. Between a task and the next that writes, each buffer that it wrote is hashed by a task of
/// its own. Failures of tasks show in their results and are not thrown. Throws what the calls do.
template <ScopedRuntime R> std::vector<TaskResult> run(Transcript const& transcript, R& runtime) {
  using CallKind = TranscribedCall::Kind;
  struct Buffer {
    std::optional<typename R::Handle> handle;
    std::size_t bytes = 0;
    std::unique_ptr<std::byte[]> memory;
    bool alive = false;
  };
  std::vector<Buffer> buffers;
  std::vector<Event> events;
  std::vector<Lifetime> scopes;
  std::vector<TaskResult> results(transcript.tasks());
  auto const at = [&](std::uint32_t number) -> Buffer& {
    if (number >= buffers.size()) buffers.resize(number + 1);
    return buffers[number];
  };
  auto const waiting = [&](auto wait) {
    try {
      wait();
    } catch (TaskError const&) {
    }
  };
  auto const submit = [&](TranscribedCall const& call) {
    std::vector<Use<typename R::Handle>> uses;
    for (auto const& use : call.uses) uses.push_back({*at(use.handle).handle, use.access});
    char const* const tensor = call.tensor.empty() ? nullptr : call.tensor.c_str();
    TaskResult& result = results[events.size()];
    for (auto const& use : call.uses)
      if (writes(use.access)) result.hashes.push_back(0);
    events.push_back(
        runtime.submit({call.codelet, uses, call.arguments, call.hints, {tensor, call.tile}}));
    std::uint64_t* hash = result.hashes.data();
    for (auto const& use : call.uses) {
      if (!writes(use.access)) continue;
      detail::HashInto const into{hash++, at(use.handle).bytes};
      Use<typename R::Handle> const hashed[] = {{*at(use.handle).handle, Access::read}};
      runtime.submit({&detail::hash_codelet, hashed, std::as_bytes(std::span(&into, 1)), {}, {}});
    }
  };
  auto const finish = [&] {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) runtime.close_scope(*scope);
    scopes.clear();
    waiting([&] { runtime.wait_all(); });
    for (Buffer& buffer : buffers)
      if (buffer.alive && buffer.memory != nullptr) runtime.retire(*buffer.handle);
    waiting([&] { runtime.wait_all(); });
  };
  try {
    for (TranscribedCall const& call : transcript.calls) switch (call.kind) {
        case CallKind::allocate: {
          auto const handle = runtime.allocate(call.bytes, host, call.lifetime);
          at(call.buffer) = {handle, call.bytes, nullptr, true};
          break;
        }
        case CallKind::adopt: {
          std::size_t const bytes = call.contents.size();
          auto memory = std::make_unique<std::byte[]>(bytes + 1);
          if (bytes != 0) std::memcpy(memory.get(), call.contents.data(), bytes);
          auto const handle = runtime.adopt({memory.get(), bytes}, host, {});
          at(call.buffer) = {handle, bytes, std::move(memory), true};
          break;
        }
        case CallKind::retire:
          runtime.retire(*at(call.buffer).handle);
          at(call.buffer).alive = false;
          break;
        case CallKind::submit:
          submit(call);
          break;
        case CallKind::read:
          waiting([&] {
            (void)runtime.lock(*at(call.buffer).handle, Access::read);
            runtime.unlock(*at(call.buffer).handle);
          });
          break;
        case CallKind::write: {
          auto const bytes = runtime.lock(*at(call.buffer).handle, Access::write);
          bool const fits = bytes.size() == call.contents.size();
          if (fits && !bytes.empty()) std::memcpy(bytes.data(), call.contents.data(), bytes.size());
          runtime.unlock(*at(call.buffer).handle);
          if (!fits)
            throw ValueError(concat("transcript: ", call.contents.size(),
                                    " bytes are written to buffer ", call.buffer, ", which has ",
                                    bytes.size()));
          break;
        }
        case CallKind::wait:
          waiting([&] { runtime.wait(events[call.task]); });
          break;
        case CallKind::wait_all:
          waiting([&] { runtime.wait_all(); });
          break;
        case CallKind::open_scope:
          runtime.open_scope(call.lifetime);
          scopes.push_back(call.lifetime);
          break;
        case CallKind::close_scope:
          runtime.close_scope(call.lifetime);
          for (auto scope = scopes.size(); scope-- > 0;)
            if (scopes[scope] == call.lifetime) {
              scopes.erase(scopes.begin() + static_cast<std::ptrdiff_t>(scope));
              break;
            }
          break;
      }
  } catch (...) {
    finish();  // tasks may still use the memory
    throw;
  }
  finish();
  return results;
}

/// A task whose results are not the same in two runs.
struct Difference {
  std::size_t task;     // number in the transcript
  std::size_t operand;  // position of its first use whose contents differ
  Transcript reduced;   // that task, the last one, and what it depends on
};

/// "task 6, join of tensor 'sum', tile 2, left other bytes in operand 2".
inline std::string to_string(Difference const& difference) {
  TranscribedCall const& call = difference.reduced.calls.back();
  std::string text = concat("task ", difference.task, ", ", call.codelet->name);
  if (!call.tensor.empty()) text += concat(" of tensor ", io::in_quotes(call.tensor));
  if (call.tile >= 0) text += concat(", tile ", call.tile);
  return text + concat(", left other bytes in operand ", difference.operand);
}

/// The first task, in the order of submission, with different results; none if all are equal. Both
/// have one element a task, as `run` returns them.
inline std::optional<Difference> first_difference(Transcript const& transcript,
                                                  std::vector<TaskResult> const& one,
                                                  std::vector<TaskResult> const& other) {
  std::size_t const tasks = transcript.tasks();
  if (one.size() != tasks || other.size() != tasks)
    throw ValueError(concat("first_difference: results of ", one.size(), " and ", other.size(),
                            " tasks of a transcript with ", tasks));
  std::size_t task = 0;
  for (TranscribedCall const& call : transcript.calls) {
    if (call.kind != TranscribedCall::Kind::submit) continue;
    std::size_t written = 0;
    for (std::size_t operand = 0; operand < call.uses.size(); ++operand) {
      if (!writes(call.uses[operand].access)) continue;
      if (one[task].hashes.at(written) != other[task].hashes.at(written))
        return Difference{task, operand, slice(transcript, task)};
      ++written;
    }
    ++task;
  }
  return std::nullopt;
}

}  // namespace nntile::testing
