// SPDX-License-Identifier: BSD-3-Clause
// recursion LEVELS WORKERS: as many levels of tasks of tasks, for recursion.py, which limits their
// memory.

#include <cstdio>
#include <cstdlib>

#include "nntile/runtime/ring/nest.hh"

using namespace nntile;

namespace {

using Handle = Ring::Handle;

constexpr Codelet put{"put",
                      +[](KernelCall const& call) noexcept -> Status {
                        *static_cast<long*>(call.buffers[0]) =
                            *static_cast<long const*>(call.arguments);
                        return {};
                      },
                      nullptr, nullptr};
/// Goes down as many levels, waits on none, and writes how many it went.
struct Depth {
  long left;
  long gone;
  Handle result;
  void operator()(nested_t<Ring>& nested) const {
    Use<Handle> const out{result, Access::write};
    if (left == 0)
      nested.submit({&put, std::span(&out, 1), std::as_bytes(std::span(&gone, 1)), {}, {}});
    else
      nested.orchestrate(Depth{left - 1, gone + 1, result}, out);
  }
};

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: recursion LEVELS WORKERS\n");
    return 2;
  }
  Ring ring({.workers = std::atoi(words[2])});
  Handle const result = ring.allocate(sizeof(long));
  ring.orchestrate(Depth{std::atol(words[1]), 0, result}, Use<Handle>{result, Access::write});
  std::printf("%ld\n", *reinterpret_cast<long const*>(ring.lock(result, Access::read).data()));
}
