// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A run whose tasks submit tasks, for tests of transcripts.

#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/testing/transcript.hh"
#include "tests/support/catch.hh"
#include "tests/support/nesting.hh"

namespace nntile::test {

inline std::uint64_t& word(KernelCall const& call, int i) {
  return *static_cast<std::uint64_t*>(call.buffers[i]);
}
inline constexpr Codelet put_word{"put", +[](KernelCall const& call) noexcept -> Status {
                                    word(call, 0) =
                                        *static_cast<std::uint64_t const*>(call.arguments);
                                    return {};
                                  }};
inline constexpr Codelet add_words{"add", +[](KernelCall const& call) noexcept -> Status {
                                     word(call, 2) = word(call, 0) + word(call, 1);
                                     return {};
                                   }};
inline constexpr Codelet step_word{"step", +[](KernelCall const& call) noexcept -> Status {
                                     word(call, 0) = 3 * word(call, 0) + 1;
                                     return {};
                                   }};
inline constexpr Codelet fail_word{
    "fail", +[](KernelCall const&) noexcept -> Status { return Status{"it broke"}; }};
inline std::vector<io::NamedCodelet> const known{
    {"put", &put_word}, {"add", &add_words}, {"step", &step_word}, {"fail", &fail_word}};

template <class T> using handle_t = typename std::remove_reference_t<T>::Handle;

template <class Target, class... Uses>
Event call(Target& target, Codelet const& codelet, std::uint64_t value, Uses... uses) {
  Use<handle_t<Target>> const list[] = {uses...};
  return target.submit({&codelet, list, std::as_bytes(std::span(&value, 1)), {}, {"a tensor", 7}});
}

/// Some bodies of one task, two of which fail, and one of which does not run.
template <class R> Transcript failures_of(R& runtime) {
  using H = typename R::Handle;
  H const a = runtime.allocate(8), b = runtime.allocate(8), c = runtime.allocate(8);
  for (H const& cell : {a, b, c}) call(runtime, put_word, 1, writing(cell));  // 0 to 2
  runtime.orchestrate(                                                        // 3
      [a](auto& nested) {
        call(nested, step_word, 0, updating(a));  // 4
        throw std::runtime_error("out of %\nideas");
      },
      updating(a));
  runtime.orchestrate([a](auto& nested) { call(nested, step_word, 0, updating(a)); },  // 5
                      updating(a));
  runtime.orchestrate(  // 6
      [b](auto& nested) {
        call(nested, fail_word, 0, updating(b));  // 7
        call(nested, step_word, 0, updating(b));  // 8: cancelled
        CHECK_THROWS_AS(nested.wait_all(), TaskError);
        call(nested, put_word, 5, writing(b));  // 9
        Use<H> const more[] = {{b, Access::accumulate}};
        std::uint64_t const none = 0;
        nested.submit({&step_word, more, std::as_bytes(std::span(&none, 1)), {}, {}});  // 10
      },
      updating(b));
  runtime.orchestrate([c](auto& nested) { call(nested, fail_word, 0, updating(c)); },  // 11, 12
                      updating(c));
  call(runtime, step_word, 0, updating(b));  // 13
  call(runtime, step_word, 0, updating(c));  // 14: cancelled
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  return runtime.transcript();
}

}  // namespace nntile::test
