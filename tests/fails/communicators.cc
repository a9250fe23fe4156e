// error: a communicator needs `std::int64_t tag_bound\(\) const`
// error: a communicator needs `Request send\(std::span<std::byte const>, Message\)`
// SPDX-License-Identifier: BSD-3-Clause
// The battery names what a communicator of one's own lacks.
#include "nntile/comm/self.hh"
#include "nntile/testing/communicator.hh"

using namespace nntile;

struct Mine : SelfComm {
#if NNTILE_FAIL == 1
  int tag_bound() const { return 32'767; }
#elif NNTILE_FAIL == 2
  Request send(std::span<std::byte const> bytes) { return SelfComm::send(bytes, {}); }
#endif
};

int main() {
  Mine mine;
  return testing::communicator_conformance(mine).passed() ? 0 : 1;
}
