#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transfers of whole buffers of longs as tasks, on any runtime.
#include <cstddef>
#include <span>
#include <vector>

#include "nntile/comm/transfers.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::test {

/// One rank's runtime and the engine that it transfers through.
template <class R> struct RankTasks {
  R& runtime;
  TransferQueue& engine;

  using Handle = typename R::Handle;

  /// Unwritten.
  Handle allocate(std::size_t longs) {
    return runtime.allocate(longs * sizeof(long), host, Lifetime::persistent);
  }
  Handle make(std::size_t longs, long value) {
    Handle const handle = allocate(longs);
    for (long& each : longs_of(runtime.lock(handle, Access::write))) each = value;
    runtime.unlock(handle);
    return handle;
  }
  Event send(Handle handle, Message message, std::size_t longs, TaskLabel label = {}) {
    return transfer(send_codelet, {handle, Access::read}, message, longs, label);
  }
  Event receive(Handle handle, Message message, std::size_t longs, TaskLabel label = {}) {
    return transfer(receive_codelet, {handle, Access::write}, message, longs, label);
  }
  /// first += second, of as many longs.
  Event add(Handle first, Handle second, std::size_t longs) {
    Use<Handle> const uses[] = {{first, Access::update}, {second, Access::read}};
    return runtime.submit({&add_codelet, uses, std::as_bytes(std::span(&longs, 1)), {}, {}});
  }
  std::vector<long> read(Handle handle) {
    auto const values = longs_of(runtime.lock(handle, Access::read));
    std::vector<long> copy(values.begin(), values.end());
    runtime.unlock(handle);
    return copy;
  }

  static TransferCall arguments(TransferQueue& engine, Message message, std::size_t longs,
                                TaskLabel label = {}) {
    auto const bytes = static_cast<std::int64_t>(longs * sizeof(long));
    return {&engine, message.number, bytes, message.peer, label.tensor, label.tile};
  }

 private:
  static std::span<long> longs_of(std::span<std::byte> bytes) {
    return {reinterpret_cast<long*>(bytes.data()), bytes.size() / sizeof(long)};
  }
  Event transfer(Codelet const& codelet, Use<Handle> use, Message message, std::size_t longs,
                 TaskLabel label) {
    TransferCall const its = arguments(engine, message, longs, label);
    return runtime.submit(
        {&codelet, std::span(&use, 1), std::as_bytes(std::span(&its, 1)), {}, label});
  }

  static constexpr Codelet add_codelet{"add",
                                       +[](KernelCall const& call) noexcept -> Status {
                                         auto* const to = static_cast<long*>(call.buffers[0]);
                                         auto const* from = static_cast<long*>(call.buffers[1]);
                                         std::size_t longs = 0;
                                         std::memcpy(&longs, call.arguments, sizeof longs);
                                         for (std::size_t i = 0; i < longs; ++i) to[i] += from[i];
                                         return {};
                                       },
                                       nullptr, nullptr};
};
template <class R> RankTasks(R&, TransferQueue&) -> RankTasks<R>;

}  // namespace nntile::test
