// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Programs on a heap of two lines, whose memory goes from buffer to buffer while tasks run.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nntile/runtime/ring/allocate.hh"
#include "tests/runtime/model/stage.hh"

namespace nntile::test::model {

/// A stage with heaps, and in place of their memory words that notice races.
template <class Policy> class HeapStage {
 public:
  explicit HeapStage(RuntimeOptions const& options) : stage_(options) {}

  void open_scope() { allocator_.open_scope(stage_.machine.table.open_scope(Lifetime::step, {})); }
  void close_scope() {
    auto& table = stage_.machine.table;
    support::Scope& scope = table.check_close(Lifetime::step, {});
    allocator_.check_close(scope);
    allocator_.close_scope(scope);
    table.end_scope(scope, [](DataHandle) {});
  }
  /// One of the two lines.
  DataHandle allocate() {
    support::Buffer* buffer = allocator_.take(64, Lifetime::step);
    if (buffer == nullptr) buffer = allocator_.take_again(64, Lifetime::step);
    if (buffer == nullptr) buffer = &allocator_.take_slowly(64, Lifetime::step, [] {});
    if (first_ == nullptr) first_ = static_cast<std::byte*>(buffer->pointer);
    return stage_.machine.table.handle_of(*buffer);
  }
  void retire(DataHandle handle) {
    (void)nntile::detail::ring::Allocator<Policy>::end(stage_.machine.table.begin_retire(handle));
  }
  /// A task that writes the value, or finds it.
  void write(DataHandle handle, std::uint64_t value) {
    submit(handle, Access::write, value, plain);
  }
  void read(DataHandle handle, std::uint64_t value) { submit(handle, Access::read, value, plain); }
  /// The same, which another thread ends.
  void read_later(DataHandle handle, std::uint64_t value) {
    submit(handle, Access::read, value, later);
  }
  void wait() { stage_.root.wait_for_everything(); }
  void check_run(std::uint64_t tasks) {
    Exploration::current->check(run_.load(std::memory_order_relaxed) == tasks,
                                "a task has not run as often as submitted");
  }

  /// A thread besides the ring's that ends one task.
  class Ender {
   public:
    explicit Ender(HeapStage& stage) {
      stage.ender_ = this;
      (void)thread_.start([this] {
        while (!given_.load(std::memory_order_acquire)) Exploration::current->yield();
        arguments_.run(word_);
        token_.complete({});
      });
    }
    ~Ender() { thread_.join(); }

   private:
    friend class HeapStage;
    struct Arguments {
      HeapStage* stage;
      std::uint64_t value;
      bool writes;
      void run(std::size_t word) const {
        auto& memory = stage->words_[word];
        if (writes)
          memory = value;
        else
          Exploration::current->check(memory == value, "a buffer holds what another one should");
        stage->run_.fetch_add(1, std::memory_order_relaxed);
      }
    };
    Arguments arguments_{};
    std::size_t word_ = 0;
    Completion token_;
    Atomic<bool> given_{false};
    Thread thread_;
  };

 private:
  using Arguments = typename Ender::Arguments;

  static Arguments arguments_of(KernelCall const& call) {
    Arguments arguments;
    std::memcpy(&arguments, call.arguments, sizeof arguments);
    return arguments;
  }
  static std::size_t word_of(KernelCall const& call, HeapStage const& stage) {
    return static_cast<std::size_t>(static_cast<std::byte*>(call.buffers[0]) - stage.first_) / 64;
  }
  static constexpr Codelet plain{"plain", +[](KernelCall const& call) noexcept -> Status {
                                   Arguments const arguments = arguments_of(call);
                                   arguments.run(word_of(call, *arguments.stage));
                                   return {};
                                 }};
  static constexpr Codelet later{"later", nullptr, nullptr,
                                 +[](KernelCall const& call, Completion token) noexcept -> Status {
                                   Arguments const arguments = arguments_of(call);
                                   Ender& ender = *arguments.stage->ender_;
                                   ender.arguments_ = arguments;
                                   ender.word_ = word_of(call, *arguments.stage);
                                   ender.token_ = token;
                                   ender.given_.store(true, std::memory_order_release);
                                   return {};
                                 }};
  void submit(DataHandle handle, Access access, std::uint64_t value, Codelet const& codelet) {
    Arguments const arguments{this, value, access == Access::write};
    Use<DataHandle> const uses[] = {{handle, access}};
    (void)stage_.root.submitter.submit(
        {&codelet, uses, std::as_bytes(std::span(&arguments, 1)), {}, {}});
  }
  static RingCapacities capacities() {
    RingCapacities result;
    result.step = {128, OnFull::wait};
    result.records = 2;
    return result;
  }

  Plain<std::uint64_t> words_[2];
  Atomic<std::uint64_t> run_{0};
  std::byte* first_ = nullptr;
  Ender* ender_ = nullptr;
  Stage<Policy> stage_;
  nntile::detail::ring::Allocator<Policy> allocator_{capacities(), stage_.root.domain,
                                                     stage_.root.driver};
};

/// Retires a buffer that a task reads, and allocates two more: the second waits for its memory.
template <class Policy> void retire_and_allocate(RuntimeOptions const& options) {
  HeapStage<Policy> stage(options);
  stage.open_scope();
  DataHandle const first = stage.allocate();
  stage.write(first, 1);
  stage.read(first, 1);
  stage.retire(first);
  for (std::uint64_t value = 2; value <= 3; ++value) stage.write(stage.allocate(), value);
  stage.wait();
  stage.check_run(4);
  stage.close_scope();
}

/// Closes a scope while a task reads its buffer, and takes all memory in another.
template <class Policy> void close_amid_a_reader(RuntimeOptions const& options) {
  HeapStage<Policy> stage(options);
  stage.open_scope();
  DataHandle const first = stage.allocate();
  stage.write(first, 1);
  stage.read(first, 1);
  stage.close_scope();
  stage.open_scope();
  for (std::uint64_t value = 2; value <= 3; ++value) stage.write(stage.allocate(), value);
  stage.close_scope();
  stage.wait();
  stage.check_run(4);
}

/// The same with a reader that another thread ends.
template <class Policy> void close_amid_a_token(RuntimeOptions const& options) {
  HeapStage<Policy> stage(options);
  {
    typename HeapStage<Policy>::Ender const ender(stage);
    stage.open_scope();
    DataHandle const first = stage.allocate();
    stage.write(first, 1);
    stage.read_later(first, 1);
    stage.close_scope();
    stage.open_scope();
    for (std::uint64_t value = 2; value <= 3; ++value) stage.write(stage.allocate(), value);
    stage.close_scope();
    stage.wait();
  }
  stage.check_run(4);
}

}  // namespace nntile::test::model
