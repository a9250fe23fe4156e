// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/runtime/scope.hh"

#include <thread>
#include <utility>
#include <vector>

#include "nntile/runtime/adaptors/check.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/dynamic/dynamic.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/runtime/models.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

template class nntile::Scope<RuntimeArchetype>;  // asks for no more than the concept

namespace {

/// Serial without its scopes.
class Unscoped {
 public:
  using Handle = DataHandle;
  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    return serial_.allocate(bytes, place, lifetime);
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) {
    return serial_.adopt(bytes, place, release);
  }
  void retire(Handle handle) { serial_.retire(handle); }
  Event submit(Task<Handle> const& task) { return serial_.submit(task); }
  void wait(Event event) { serial_.wait(event); }
  bool done(Event event) { return serial_.done(event); }
  void wait_all() { serial_.wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) { return serial_.lock(handle, access); }
  void unlock(Handle handle) { serial_.unlock(handle); }
  Workers workers() const { return serial_.workers(); }

 private:
  Serial serial_;
};
static_assert(Runtime<Unscoped> && !ScopedRuntime<Unscoped>);

/// The same, which tells threads apart; whether it was used outside of that.
class Driven : public Unscoped {
 public:
  class Inside {
   public:
    explicit Inside(int& depth) : depth_(depth) { ++depth_; }
    ~Inside() { --depth_; }
    Inside(Inside const&) = delete;
    Inside& operator=(Inside const&) = delete;

   private:
    int& depth_;
  };
  Inside drive(char const*) { return Inside(depth_); }
  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    outside = outside || depth_ == 0;
    return Unscoped::allocate(bytes, place, lifetime);
  }
  void retire(Handle handle) {
    outside = outside || depth_ == 0;
    Unscoped::retire(handle);
  }
  bool outside = false;

 private:
  int depth_ = 0;
};
static_assert(DrivenRuntime<Driven> && !ScopedRuntime<Driven>);

bool is_void(auto& runtime, DataHandle handle) {
  return contains(
      message_of<LifetimeError>([&] { submit(runtime, put_codelet, {{handle, Access::write}}); }),
      "retired");
}

}  // namespace

TEST_CASE("a scope of a runtime without scopes keeps other threads out of its list",
          "[runtime][scope]") {
  Driven runtime;
  auto step = scope(runtime, Lifetime::step);
  step.allocate(64);
  step.close();
  CHECK_FALSE(runtime.outside);
}

TEMPLATE_TEST_CASE("closing a scope retires what was allocated in it, and nothing else",
                   "[runtime][scope]", Unscoped, NNTILE_TEST_MODELS) {
  TestType runtime;
  auto const outside = cell(runtime, 1);
  auto step = scope(runtime, Lifetime::step);
  auto const inside = step.allocate(sizeof(long));
  submit(runtime, copy_cell_codelet, {{inside, Access::write}, {outside, Access::read}}, 2L);
  CHECK(read(runtime, inside) == 3);
  step.close();
  CHECK(is_void(runtime, inside));
  CHECK(read(runtime, outside) == 1);
}

TEMPLATE_TEST_CASE("a scope closes when it dies, and once", "[runtime][scope]", Unscoped,
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  DataHandle handle;
  {
    auto first = scope(runtime, Lifetime::scratch);
    handle = first.allocate(8);
    auto second = std::move(first);
    second.close();
    second.close();
  }
  CHECK(is_void(runtime, handle));
}

TEMPLATE_TEST_CASE("closing a scope does not wait for the tasks in it", "[runtime][scope]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  TokenKeeper keeper;
  auto const out = cell(runtime, 1);
  {
    auto step = scope(runtime, Lifetime::step);
    auto const inside = step.allocate(sizeof(long));
    submit(runtime, put_codelet, {{inside, Access::write}}, 5L);
    submit(runtime, keep_codelet, {{inside, Access::update}}, &keeper);
    submit(runtime, copy_cell_codelet, {{out, Access::write}, {inside, Access::read}}, 1L);
  }  // would hang here if it waited
  std::thread completer([&] { keeper.at(0).complete(); });
  CHECK(read(runtime, out) == 6);
  completer.join();
}

TEMPLATE_TEST_CASE("an allocation belongs to the innermost open scope of its lifetime",
                   "[runtime][scope]", NNTILE_TEST_MODELS) {
  TestType runtime;
  auto outer = scope(runtime, Lifetime::step);
  auto other = scope(runtime, Lifetime::scratch);
  auto inner = scope(runtime, Lifetime::step);
  auto const in_inner = runtime.allocate(8, host, Lifetime::step);
  auto const in_other = runtime.allocate(8, host, Lifetime::scratch);
  inner.close();
  CHECK(is_void(runtime, in_inner));
  auto const in_outer = runtime.allocate(8, host, Lifetime::step);
  CHECK_FALSE(is_void(runtime, in_other));
  CHECK_FALSE(is_void(runtime, in_outer));
}

TEMPLATE_TEST_CASE("without an open scope of the lifetime allocate throws", "[runtime][scope]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto step = scope(runtime, Lifetime::step);
  CHECK(contains(message_of<LifetimeError>([&] { runtime.allocate(8, host, Lifetime::scratch); }),
                 "scratch"));
  step.close();
  CHECK_THROWS_AS(runtime.allocate(8, host, Lifetime::step), LifetimeError);
  CHECK_THROWS_AS(runtime.close_scope(Lifetime::step), LifetimeError);
}

TEMPLATE_TEST_CASE("a scope of persistent buffers throws", "[runtime][scope]", Unscoped,
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  CHECK_THROWS_AS(Scope(runtime, Lifetime::persistent), LifetimeError);
}

TEMPLATE_TEST_CASE("closing a scope with a locked buffer throws and can be repeated",
                   "[runtime][scope]", Unscoped, NNTILE_TEST_MODELS) {
  TestType runtime;
  auto step = scope(runtime, Lifetime::step);
  auto const handle = step.allocate(8);
  (void)runtime.lock(handle, Access::write);
  CHECK_THROWS_AS(step.close(), LifetimeError);
  runtime.unlock(handle);
  step.close();
  CHECK(is_void(runtime, handle));
}

TEMPLATE_TEST_CASE("a buffer may be retired before its scope closes", "[runtime][scope]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto step = scope(runtime, Lifetime::step);
  std::vector<DataHandle> handles;
  for (int i = 0; i < 5; ++i) handles.push_back(step.allocate(8));
  for (std::size_t const i : {0u, 4u, 2u}) runtime.retire(handles[i]);
  step.close();
  for (DataHandle const handle : handles) CHECK(is_void(runtime, handle));
}

TEMPLATE_TEST_CASE("many buffers come and go in one scope", "[runtime][scope]",
                   NNTILE_TEST_MODELS) {
  TestType runtime;
  auto step = scope(runtime, Lifetime::step);
  for (int i = 0; i < 3000; ++i) {
    auto const kept = step.allocate(64), gone = step.allocate(64);
    submit(runtime, put_codelet, {{gone, Access::write}});
    runtime.retire(i % 3 == 0 ? kept : gone);
  }
  step.close();
  runtime.wait_all();
}

TEMPLATE_TEST_CASE("a scope that is closed before one inside it is named with its line",
                   "[runtime][scope]", NNTILE_TEST_MODELS) {
  if constexpr (ScopedRuntime<TestType>) {
    TestType runtime;
    bool const same = GENERATE(true, false);
    Lifetime const lifetime = same ? Lifetime::step : Lifetime::scratch;
    auto const line = static_cast<int>(__LINE__);
    auto outer = scope(runtime, Lifetime::step);
    auto inner = scope(runtime, lifetime);
    auto const handle = inner.allocate(sizeof(long));
    std::string const text = message_of<LifetimeError>([&] { outer.close(); });
    for (int const opened : {line + 1, line + 2})
      CHECK(contains(text, concat("scope.cc:", opened)));
    CHECK(contains(text, "reverse order"));
    submit(runtime, put_codelet, {{handle, Access::write}}, 1L);  // nothing has ended
    CHECK(read(runtime, handle) == 1);
    inner.close();
    CHECK(is_void(runtime, handle));
    CHECK_NOTHROW(outer.close());
  }
}

TEST_CASE("a scope of many buffers seldom takes memory to list them", "[runtime][scope]") {
  if (!allocations_are_counted()) return skip("a sanitizer brings its own malloc");
  RuntimeArchetype runtime;
  auto all = scope(runtime, Lifetime::step);
  AllocationCount const count;
  for (int buffers = 0; buffers < 1'000; ++buffers) (void)all.allocate(8);
  CHECK(count.calls() <= 10);
}

TEST_CASE("a scope closes in the order of names, and once by its name", "[runtime][scope]") {
  Ring ring({.workers = 1});
  ScopeName const outer = ring.open_scope(Lifetime::step), inner = ring.open_scope(Lifetime::step);
  CHECK_THROWS_AS(ring.close_scope(Lifetime::step, outer), LifetimeError);
  ring.close_scope(Lifetime::step, inner);
  CHECK(contains(message_of<LifetimeError>([&] { ring.close_scope(Lifetime::step, inner); }),
                 "closed before"));
  ring.close_scope(Lifetime::step, outer);
}

TEST_CASE("adaptors and runtimes chosen by name keep the names of scopes", "[runtime][scope]") {
  auto const refuses = [](auto& runtime) {
    auto outer = scope(runtime, Lifetime::step);
    auto inner = scope(runtime, Lifetime::step);
    CHECK(contains(message_of<LifetimeError>([&] { outer.close(); }), "scope.cc:"));
    CHECK_NOTHROW(inner.close());
    CHECK_NOTHROW(outer.close());
  };
  Transcribe<Ring> transcribed;
  Check<Serial> checked;
  Dynamic<Serial, Ring> chosen("ring");
  refuses(transcribed);
  refuses(checked);
  refuses(chosen);
}
