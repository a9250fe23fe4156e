#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transcripts run again, on any runtime.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/io/hash.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/regions.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/runtime/transcript.hh"
#include "nntile/testing/waits.hh"

namespace nntile::testing {

/// The hash of what each operand held that a task wrote, in the order of its uses; 0 where the task
/// failed or was cancelled, and for an access in no order. Inside a body also 0 where the task
/// submits or writes disjoint bytes; what it accumulates into is hashed even if it failed.
struct TaskResult {
  std::vector<std::uint64_t> hashes;
  bool operator==(TaskResult const&) const = default;
};

namespace detail {

struct HashInto {
  std::uint64_t* hash;
  Region const* region;  // of the operand, from its first byte on
};
inline Status hash_operand(KernelCall const& call) noexcept {
  HashInto into;
  std::memcpy(&into, call.arguments, sizeof into);
  auto const* const begin = static_cast<std::byte const*>(call.buffers[0]);
  std::uint64_t hash = 0;
  bool first = into.region->bytes != 0;
  if (!first) hash = io::hash64({begin, 0});
  each_run(*into.region, [&](std::size_t from, std::size_t end) {
    std::uint64_t const of_run = io::hash64({begin + from, end - from});
    hash = first ? of_run : hash * 0x9e3779b97f4a7c15u + of_run;
    first = false;
  });
  *into.hash = hash == 0 ? 1 : hash;
  return {};
}
inline constexpr Codelet hash_codelet{"hash", &hash_operand};

/// Makes the calls of a transcript, once. Bodies make theirs on their own threads: each has places
/// of its own among buffers, events and results.
template <ScopedRuntime R> class RepeatedRun {
  using Call = TranscribedCall;
  using Kind = Call::Kind;
  using Outcome = Call::Outcome;
  using Handle = typename R::Handle;

 public:
  /// `patience_ns`: how long a release may come behind the last task that has the memory.
  RepeatedRun(Transcript const& transcript, R& runtime,
              std::int64_t patience_ns = 300'000'000'000)  // as the battery's
      : calls_(transcript.calls),
        runtime_(runtime),
        patience_ns_(patience_ns),
        partner_(nntile::detail::transcribed_bodies(transcript)),
        parts_(nntile::detail::transcribed_parts(transcript)),
        buffers_(parts_.size()) {
    for (Call const& call : calls_) {
      tasks_.push_back(results_.size());
      if (!call.is_task()) continue;
      auto& hashes = results_.emplace_back().hashes;
      for (auto const& use : call.uses)
        if (writes(use.access)) hashes.push_back(0);
      if (call.kind == Kind::orchestrate && !NestingRuntime<R>)
        throw ValueError("transcript: it has tasks that submit, and those of this runtime do not");
    }
    events_.resize(results_.size());
  }

  std::vector<TaskResult> operator()() {
    waiting([&] { check_waits(runtime_); });
    try {
      make(runtime_, 0, calls_.size(), nullptr);
    } catch (...) {
      finish();  // tasks may still use the memory
      throw;
    }
    finish();
    if (error_ != nullptr) std::rethrow_exception(error_);
    return std::move(results_);
  }

 private:
  /// Memory that is adopted: this run's until it ends, and the runtime's until it is released; the
  /// later of the two frees it.
  struct Lent {
    explicit Lent(std::vector<std::byte> const& contents)
        : bytes(contents.size()), memory(new std::byte[bytes + 1]) {
      if (bytes != 0) std::memcpy(memory.get(), contents.data(), bytes);
    }
    std::size_t const bytes;
    std::unique_ptr<std::byte[]> const memory;
    std::atomic<bool> of_one{false};

    static void let_go(void* lent) noexcept {
      auto* const self = static_cast<Lent*>(lent);
      if (self->of_one.exchange(true, std::memory_order_acq_rel)) delete self;
    }
  };
  struct LetGo {
    void operator()(Lent* lent) const noexcept { Lent::let_go(lent); }
  };
  struct Buffer {
    std::optional<Handle> handle;
    Region region{};  // from its first byte on
    std::unique_ptr<Lent, LetGo> lent;
    bool alive = false;
  };

  /// Makes the calls from `begin` to `end`, on the runtime or in the body of `outer`.
  template <class Target>
  void make(Target& target, std::size_t begin, std::size_t end, Call const* outer) {
    for (std::size_t c = begin; c < end; ++c) {
      Call const& call = calls_[c];
      switch (call.kind) {
        case Kind::retire:
          target.retire(handle(call.buffer));
          end_buffer(call.buffer);
          break;
        case Kind::submit:
          submit(target, c, outer);
          break;
        case Kind::orchestrate:
          orchestrate(target, c);
          c = partner_[c];
          break;
        case Kind::read:
          waiting([&] {
            (void)target.lock(handle(call.buffer), Access::read);
            target.unlock(handle(call.buffer));
          });
          break;
        case Kind::write:
          write(target, call);
          break;
        case Kind::wait:
          waiting([&] { target.wait(events_[call.task]); });
          break;
        case Kind::wait_all:
          waiting([&] { target.wait_all(); });
          break;
        case Kind::allocate:
          begin_buffer(call, target.allocate(call.bytes, host, call.lifetime), call.bytes);
          break;
        default:
          if constexpr (is_root<Target>)
            make_outside(call);
          else if (call.kind == Kind::open_scope)
            target.open_scope(call.lifetime);
          else if (call.kind == Kind::close_scope)
            target.close_scope(call.lifetime);
          else
            throw ValueError(concat("transcript: call ", c, " is none of a body"));
      }
    }
  }
  template <class Target> static constexpr bool is_root = std::is_same_v<Target, R>;

  /// Those that bodies do not make.
  void make_outside(Call const& call) {
    switch (call.kind) {
      case Kind::adopt: {
        auto lent = std::make_unique<Lent>(call.contents);
        begin_buffer(
            call,
            runtime_.adopt({lent->memory.get(), lent->bytes}, host, {&Lent::let_go, lent.get()}),
            lent->bytes);
        buffers_[call.buffer].lent.reset(lent.release());
        break;
      }
      case Kind::region:
        if constexpr (RegionRuntime<R>) {
          begin_buffer(call, runtime_.region(handle(call.of), call.region), 0);
          buffers_[call.buffer].region = normalize({0, call.region.bytes, call.region.steps});
        } else {
          throw ValueError("transcript: it has regions, and this runtime has none");
        }
        break;
      case Kind::open_scope:
        runtime_.open_scope(call.lifetime);
        scopes_.push_back(call.lifetime);
        break;
      case Kind::close_scope:
        runtime_.close_scope(call.lifetime);
        for (auto scope = scopes_.size(); scope-- > 0;)
          if (scopes_[scope] == call.lifetime) {
            scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(scope));
            break;
          }
        break;
      default:
        break;
    }
  }

  void begin_buffer(Call const& call, Handle handle, std::size_t bytes) {
    Buffer& buffer = buffers_[call.buffer];
    buffer.handle = handle;
    buffer.region = {0, bytes, {}};
    buffer.alive = true;
  }
  /// A region that is all of a buffer is that buffer.
  void end_buffer(std::uint32_t number) {
    auto const& [root, region] = parts_[number];
    buffers_[number].alive = false;
    bool const empty = buffers_[root].region.bytes == 0;  // it has no other region
    if (empty || region == parts_[root].region) buffers_[root].alive = false;
  }
  Handle handle(std::uint32_t number) const {
    if (number >= buffers_.size() || !buffers_[number].handle)
      throw ValueError(concat("transcript: buffer ", number, " is used before it is made"));
    return *buffers_[number].handle;
  }
  std::vector<Use<Handle>> uses_of(Call const& call) const {
    std::vector<Use<Handle>> uses;
    for (auto const& use : call.uses) uses.push_back({handle(use.handle), use.access});
    return uses;
  }
  static TaskLabel label_of(Call const& call) {
    return {call.tensor.empty() ? nullptr : call.tensor.c_str(), call.tile};
  }

  template <class Target> void submit(Target& target, std::size_t c, Call const* outer) {
    Call const& call = calls_[c];
    auto const uses = uses_of(call);
    events_[tasks_[c]] =
        target.submit({call.codelet, uses, call.arguments, call.hints, label_of(call)});
    hash(target, c, [&](Access access) -> std::optional<Access> {
      if (access == Access::unordered) return std::nullopt;
      if (outer == nullptr || access < Access::accumulate) return Access::read;
      // Marks that a task has left and its body was told of do not cancel what only accumulates,
      // so that the body does not fail for the look.
      return access == Access::accumulate ? std::optional(access) : std::nullopt;
    });
  }
  template <class Target> void orchestrate(Target& target, std::size_t c) {
    if constexpr (!is_root<Target> || NestingRuntime<R>) {
      Call const& call = calls_[c];
      auto const uses = uses_of(call);
      events_[tasks_[c]] =
          target.submit_nesting([this, c](auto& nested) -> void { this->run_body(nested, c); },
                                std::span<Use<Handle> const>(uses), call.hints, label_of(call));
      hash(target, c, [](Access access) {
        bool const looks = is_root<Target> && access != Access::unordered;
        return looks ? std::optional(Access::read) : std::nullopt;
      });
    }
  }
  template <class N> void run_body(N& nested, std::size_t c) {
    Call const& end = calls_[partner_[c]];
    if (end.outcome == Outcome::none) throw Error("its body did not run when it was written down");
    try {
      make(nested, c + 1, partner_[c], &calls_[c]);
    } catch (...) {
      nntile::detail::Lock const guard(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
      throw;
    }
    if (end.outcome == Outcome::threw) throw Error(end.cause);
  }
  /// Hashes what a task has written before the next task that writes it; look(access) is how.
  template <class Target, class Look> void hash(Target& target, std::size_t c, Look look) {
    std::uint64_t* hash = results_[tasks_[c]].hashes.data();
    for (auto const& use : calls_[c].uses) {
      if (!writes(use.access)) continue;
      HashInto const into{hash++, &buffers_[use.handle].region};
      std::optional<Access> const access = look(use.access);
      if (!access) continue;
      Use<Handle> const hashed[] = {{handle(use.handle), *access}};
      target.submit({&hash_codelet, hashed, std::as_bytes(std::span(&into, 1)), {}, {}});
    }
  }

  template <class Target> void write(Target& target, Call const& call) {
    Region const& region = buffers_[call.buffer].region;
    auto const bytes = target.lock(handle(call.buffer), Access::write);
    std::size_t size = 0;
    each_run(region, [&](std::size_t begin, std::size_t end) { size += end - begin; });
    bool const fits = size == call.contents.size();
    std::byte const* from = call.contents.data();
    if (fits)
      each_run(region, [&](std::size_t begin, std::size_t end) {
        std::memcpy(bytes.data() + begin, from, end - begin);
        from += end - begin;
      });
    target.unlock(handle(call.buffer));
    if (!fits)
      throw ValueError(concat("transcript: ", call.contents.size(), " bytes are written to buffer ",
                              call.buffer, ", which has ", size));
  }

  template <class Wait> static void waiting(Wait wait) {
    try {
      wait();
    } catch (TaskError const&) {
    }
  }
  void finish() {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      runtime_.close_scope(*scope);
    scopes_.clear();
    waiting([&] { runtime_.wait_all(); });
    for (Buffer& buffer : buffers_)
      if (buffer.alive && buffer.lent != nullptr) runtime_.retire(*buffer.handle);
    // The last release may come behind the wait that has seen the last task.
    std::int64_t const last = nntile::detail::monotonic_ns() + patience_ns_;
    for (std::size_t b = 0;; nntile::detail::yield_core()) {
      waiting([&] { runtime_.wait_all(); });
      while (b < buffers_.size() && is_released(buffers_[b])) ++b;
      if (b == buffers_.size()) return;
      if (nntile::detail::monotonic_ns() > last)
        throw Error(concat("transcript: buffer ", b, ", which it adopts, was retired, and its ",
                           "runtime has not released it in ", patience_ns_ / 1'000'000,
                           " ms behind the last task"));
    }
  }
  static bool is_released(Buffer const& buffer) noexcept {
    return buffer.lent == nullptr || buffer.lent->of_one.load(std::memory_order_acquire);
  }

  std::vector<Call> const& calls_;
  R& runtime_;
  std::int64_t const patience_ns_;
  std::vector<std::size_t> const partner_;
  std::vector<nntile::detail::TranscribedPart> const parts_;
  std::vector<std::size_t> tasks_;  // by position, the number of the next task
  std::vector<Buffer> buffers_;     // tasks hold the regions' addresses
  std::vector<Event> events_;
  std::vector<Lifetime> scopes_;
  std::vector<TaskResult> results_;
  nntile::detail::Mutex mutex_;
  std::exception_ptr error_;  // the first of a body's calls
};

}  // namespace detail

/// Makes the calls of a transcript on a runtime that has scopes, and returns the results of its
/// tasks. Between a task and the next that writes, each buffer that it wrote is hashed by a task of
/// its own. Failures of tasks show in their results and are not thrown. Throws what the calls do,
/// those of bodies included; ValueError for regions, or tasks that submit, on a runtime that has
/// none, and for a call that is out of place; LifetimeError, before the first call, where a handle
/// of the runtime is locked, or it is paused; Error where it has not released what was adopted five
/// minutes behind the last task. One of a user's that nests includes its nest.hh.
template <ScopedRuntime R> std::vector<TaskResult> run(Transcript const& transcript, R& runtime) {
  nntile::detail::check_transcript(transcript);
  return detail::RepeatedRun<R>(transcript, runtime)();
}

}  // namespace nntile::testing
