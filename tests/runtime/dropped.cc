// SPDX-License-Identifier: BSD-3-Clause
// Handles that other threads drop, and their settlement by the driving thread.
#include "nntile/runtime/support/dropped.hh"

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hh"

namespace {

using namespace nntile;
using Index = std::uint32_t;

/// Three buffers, dropped in order.
struct Dropped {
  support::Failures failures;
  support::BufferTable buffers{failures};
  support::LinkRef<DataHandle> link = support::LinkRef<DataHandle>::make();
  DataHandle handles[3];

  Dropped() {
    for (DataHandle& handle : handles) {
      handle = buffers.add(8, host, Lifetime::persistent);
      link->drop(handle, false);
    }
  }
  /// The indices of what retire() is called with, until it throws at `last`.
  template <class Thrown> std::vector<Index> settle(Index last, Thrown thrown) {
    std::vector<Index> retired;
    auto const retire = [&](DataHandle handle) {
      retired.push_back(handle.index);
      if (handle.index == last) throw Thrown(thrown);
    };
    try {
      support::settle_dropped(link, buffers, [](DataHandle) {}, retire);
    } catch (std::bad_alloc const&) {
    }
    return retired;
  }
};

}  // namespace

TEST_CASE("without memory for one dropped handle it and the later ones stay dropped",
          "[runtime][dropped]") {
  Dropped dropped;
  CHECK(dropped.settle(1, std::bad_alloc()) == std::vector<Index>{0, 1});
  REQUIRE(dropped.link->any_dropped());
  CHECK(dropped.settle(3, std::bad_alloc()) == std::vector<Index>{1, 2});
  CHECK(!dropped.link->any_dropped());
}

TEST_CASE("a dropped handle that has ended meanwhile does not hold the others up",
          "[runtime][dropped]") {
  Dropped dropped;
  CHECK(dropped.settle(1, LifetimeError("retired")) == std::vector<Index>{0, 1, 2});
  CHECK(!dropped.link->any_dropped());
}

TEST_CASE("a locked handle that is dropped waits for its unlock", "[runtime][dropped]") {
  Dropped dropped;
  auto& buffer = dropped.buffers.check_lock(dropped.handles[1], Access::write);
  (void)dropped.buffers.begin_lock(buffer, Access::write);
  CHECK(dropped.settle(3, std::bad_alloc()) == std::vector<Index>{0, 2});
  CHECK(dropped.buffers.end_lock(dropped.handles[1]).is(support::Buffer::dropped));
}

TEST_CASE("names that were kept stay until they are forgotten", "[runtime][link]") {
  auto const link = support::LinkRef<DataHandle>::make();
  support::NameText first("first");
  support::NameText moved(std::move(first));
  char const* const text = moved.c_str();
  CHECK(first.c_str() == nullptr);
  CHECK(std::string(text) == "first");
  link->keep(std::move(first));  // none
  link->keep(std::move(moved));
  CHECK(moved.c_str() == nullptr);
  for (int i = 0; i < 1000; ++i) link->keep(support::NameText(concat("name ", i)));
  CHECK(std::string(text) == "first");
  link->forget_names();
  link->forget_names();
  link->keep(support::NameText("the link's end frees this"));
}
