// SPDX-License-Identifier: BSD-3-Clause
// The order that accesses to one buffer impose on tasks.
#include "nntile/core/last_users.hh"

#include <vector>

#include "tests/support/catch.hh"

namespace {

using namespace nntile;

constexpr int none = -1;

std::vector<int> before(LastUsers<int> const& users, Access access) {
  std::vector<int> tasks;
  users.each_before(access, [&](int task) { tasks.push_back(task); });
  return tasks;
}

}  // namespace

TEST_CASE("readers follow the last writer and not each other", "[core][last_users]") {
  LastUsers<int> users{none, {}};
  CHECK(before(users, Access::read) == std::vector{none});
  users.enter(Access::write, 1);
  users.enter(Access::read, 2);
  CHECK(before(users, Access::read) == std::vector{1});
}

TEST_CASE("a writer follows the readers since the last one, or else that one",
          "[core][last_users]") {
  LastUsers<int> users{1, {}};
  for (Access const access : {Access::write, Access::update, Access::accumulate}) {
    users.readers.clear();
    CHECK(before(users, access) == std::vector{1});
    users.enter(Access::read, 2);
    users.enter(Access::read, 3);
    CHECK(before(users, access) == std::vector{2, 3});
  }
}

TEST_CASE("a writer takes the place of writer and readers", "[core][last_users]") {
  LastUsers<int> users{1, {2, 3}};
  users.enter(Access::update, 4);
  CHECK(users.writer == 4);
  CHECK(users.readers.empty());
}

TEST_CASE("a task that reads a buffer twice is one reader", "[core][last_users]") {
  LastUsers<int> users{none, {}};
  users.enter(Access::read, 1);
  users.enter(Access::read, 1);
  CHECK(users.readers == DynamicArray{1});
}
