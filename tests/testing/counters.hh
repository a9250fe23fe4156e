// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A run of counters, some of which fail, that tests of transcripts write down.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/io/transcript.hh"
#include "tests/support/catch.hh"

namespace nntile::test::counting {

/// Adds 1 to a counter, and to another one; fails where it is 3.
inline Status step(KernelCall const& call) noexcept {
  auto& value = *static_cast<std::uint64_t*>(call.buffers[0]);
  return value == 3 ? Status{"three"} : (++value, Status{});
}
inline Status join(KernelCall const& call) noexcept {
  auto const of = [&](int i) { return *static_cast<std::uint64_t*>(call.buffers[i]); };
  *static_cast<std::uint64_t*>(call.buffers[2]) = 5 * of(0) + of(1) + 1;
  return {};
}
inline constexpr Codelet step_codelet{"step", step}, join_codelet{"join", join};
inline std::vector<io::NamedCodelet> const own{{"a step", &step_codelet}, {"join%", &join_codelet}};

/// Steps a, b and c in turn, and joins a and b into d now and then.
template <class R> Transcript counters(R& runtime) {
  std::array<std::uint64_t, 2> adopted{1, 2};
  auto const a = runtime.adopt(std::as_writable_bytes(std::span(adopted).first(1)));
  auto const b = runtime.adopt(std::as_writable_bytes(std::span(adopted).last(1)));
  runtime.open_scope(Lifetime::step);
  auto const c = runtime.allocate(8, host, Lifetime::step), d = runtime.allocate(8);
  auto const bytes = runtime.lock(c, Access::write);
  std::fill(bytes.begin(), bytes.end(), std::byte{7});
  runtime.unlock(c);
  auto const call = [&](auto... uses) {
    Use<typename R::Handle> const list[] = {uses...};
    Codelet const& codelet = sizeof...(uses) == 1 ? step_codelet : join_codelet;
    return runtime.submit({&codelet, list, {}, {}, {sizeof...(uses) == 1 ? nullptr : "a d", 4}});
  };
  using U = Use<typename R::Handle>;
  call(U{c, Access::update});
  call(U{a, Access::update});  // 2
  call(U{b, Access::update});  // 3
  call(U{a, Access::read}, U{c, Access::read}, U{d, Access::write});
  Event const failed = call(U{b, Access::update});
  call(U{b, Access::read}, U{a, Access::read}, U{d, Access::write});  // cancelled
  CHECK_THROWS_AS(runtime.wait(failed), TaskError);
  call(U{a, Access::read}, U{a, Access::read}, U{d, Access::write});
  runtime.lock(d, Access::read);
  runtime.unlock(d);
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  runtime.close_scope(Lifetime::step);
  runtime.retire(b);
  runtime.wait_all();
  return runtime.transcript();
}

}  // namespace nntile::test::counting
