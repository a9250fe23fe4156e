// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Small tasks over cells of one long, for tests of single runtimes.

#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <initializer_list>
#include <mutex>
#include <span>
#include <vector>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::test {

inline long& cell_of(KernelCall const& call, int buffer) {
  return *static_cast<long*>(call.buffers[buffer]);
}
inline long value_of(KernelCall const& call) { return *static_cast<long const*>(call.arguments); }
/// x * factor + value, wrapping around.
inline long affine(long x, unsigned long factor, long value) {
  return static_cast<long>(static_cast<unsigned long>(x) * factor +
                           static_cast<unsigned long>(value));
}

/// first = value
inline constexpr Codelet put_codelet{"put",
                                     +[](KernelCall const& call) noexcept -> Status {
                                       cell_of(call, 0) = value_of(call);
                                       return {};
                                     },
                                     nullptr, nullptr};
/// first = first * 3 + value: does not commute
inline constexpr Codelet step_codelet{"step",
                                      +[](KernelCall const& call) noexcept -> Status {
                                        cell_of(call, 0) =
                                            affine(cell_of(call, 0), 3, value_of(call));
                                        return {};
                                      },
                                      nullptr, nullptr};
/// first = second + value
inline constexpr Codelet copy_cell_codelet{"copy",
                                           +[](KernelCall const& call) noexcept -> Status {
                                             cell_of(call, 0) =
                                                 affine(cell_of(call, 1), 1, value_of(call));
                                             return {};
                                           },
                                           nullptr, nullptr};
inline constexpr Codelet fail_codelet{
    "broken", +[](KernelCall const&) noexcept -> Status { return {"it broke"}; }, nullptr, nullptr};

/// Keeps the tokens of asynchronous tasks until the test completes them.
class TokenKeeper {
 public:
  void add(Completion token) {
    {
      std::lock_guard guard(mutex_);
      tokens_.push_back(token);
    }
    changed_.notify_all();
  }
  /// The token of the number-th task that has started; waits for it.
  Completion at(std::size_t number) {
    std::unique_lock lock(mutex_);
    while (tokens_.size() <= number) changed_.wait(lock);
    return tokens_[number];
  }
  std::size_t count() {
    std::lock_guard guard(mutex_);
    return tokens_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Completion> tokens_;
};
/// Hands its token to the TokenKeeper whose address is the argument.
inline constexpr Codelet keep_codelet{
    "keep", nullptr, nullptr, +[](KernelCall const& call, Completion token) noexcept -> Status {
      (*static_cast<TokenKeeper* const*>(call.arguments))->add(token);
      return {};
    }};

template <class R> using Uses = std::initializer_list<Use<typename R::Handle>>;

/// Submits a codelet with one value as its arguments.
template <class R, class Value>
requires(!std::integral<Value>)
Event submit(R& runtime, Codelet const& codelet, Uses<R> uses, Value const& value,
             TaskLabel label = {}) {
  return runtime.submit(
      {&codelet, {uses.begin(), uses.size()}, std::as_bytes(std::span(&value, 1)), {}, label});
}
template <class R>
Event submit(R& runtime, Codelet const& codelet, Uses<R> uses, long value = 0,
             TaskLabel label = {}) {
  return runtime.submit(
      {&codelet, {uses.begin(), uses.size()}, std::as_bytes(std::span(&value, 1)), {}, label});
}
template <class R> typename R::Handle cell(R& runtime) {
  return runtime.allocate(sizeof(long), host, Lifetime::persistent);
}
template <class R> typename R::Handle cell(R& runtime, long value) {
  auto const handle = cell(runtime);
  submit(runtime, put_codelet, {{handle, Access::write}}, value);
  return handle;
}
template <class R> long read(R& runtime, typename R::Handle handle) {
  long const value = *reinterpret_cast<long const*>(runtime.lock(handle, Access::read).data());
  runtime.unlock(handle);
  return value;
}

}  // namespace nntile::test
