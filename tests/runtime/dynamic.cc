// SPDX-License-Identifier: BSD-3-Clause
// The runtime that is chosen by name: what it forwards, and what it makes up.
#include "nntile/runtime/dynamic/dynamic.hh"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif
#include "nntile/testing/conformance.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/sanitized.hh"

namespace {

using namespace nntile;
using nntile::test::contains;
using nntile::test::message_of;

/// Serial under another name, with handles of another type.
class Plain {
 public:
  struct Handle {
    std::uint64_t salt = 0;
    DataHandle handle;
  };
  static constexpr char const* runtime_name = "plain";
  static inline std::atomic<int> waits = 0;

  explicit Plain(RuntimeOptions const& options) : serial_(options) {}

  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    return {1, serial_.allocate(bytes, place, lifetime)};
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) {
    return {2, serial_.adopt(bytes, place, release)};
  }
  void retire(Handle handle) { serial_.retire(handle.handle); }
  Event submit(Task<Handle> const& task) {
    std::vector<Use<DataHandle>> uses;
    for (auto const& use : task.uses) uses.push_back({use.handle.handle, use.access});
    return serial_.submit({task.codelet, uses, task.arguments, task.hints, task.label});
  }
  void wait(Event event) {
    ++waits;
    serial_.wait(event);
  }
  bool done(Event event) { return serial_.done(event); }
  void wait_all() { serial_.wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) {
    return serial_.lock(handle.handle, access);
  }
  void unlock(Handle handle) { serial_.unlock(handle.handle); }
  void open_scope(Lifetime lifetime) { serial_.open_scope(lifetime); }
  void close_scope(Lifetime lifetime) { serial_.close_scope(lifetime); }
  Workers workers() const { return serial_.workers(); }

 private:
  Serial serial_;
};

/// Submits a task of its own before each: events of what it is given are two apart.
struct Spaced : Serial {
  static constexpr char const* runtime_name = "spaced";
  using Serial::Serial;
  void replay() = delete;
  Event submit(Task<Handle> const& task) {
    static constexpr Codelet nothing{
        "nothing", +[](KernelCall const&) noexcept { return Status{}; }, nullptr, nullptr};
    Serial::submit({&nothing, {}, {}, {}, {}});
    return Serial::submit(task);
  }
};
static_assert(!ReplayingRuntime<Spaced>);

#ifdef NNTILE_HAVE_STARPU
using Any = Dynamic<Serial, Ring, StarPU>;
constexpr char const* all_names[] = {"serial", "ring", "starpu"};
#else
using Any = Dynamic<Serial, Ring>;
constexpr char const* all_names[] = {"serial", "ring"};
#endif
using Mixed = Dynamic<Serial, Plain>;
static_assert(Runtime<Any> && ScopedRuntime<Any> && ReplayingRuntime<Any> && HintedRuntime<Any>);
static_assert(std::is_same_v<Any::Handle, DataHandle>);
static_assert(ReplayingRuntime<Mixed> && !HintedRuntime<Mixed>);

/// b = a + argument
Status add(KernelCall const& call) noexcept {
  long term;
  std::memcpy(&term, call.arguments, sizeof term);
  long const sum = *static_cast<long const*>(call.buffers[0]) + term;
  if (sum > 1000) return {"more than a thousand"};
  *static_cast<long*>(call.buffers[1]) = sum;
  return {};
}
constexpr Codelet add_codelet{"add", add, nullptr, nullptr};

std::span<std::byte const> bytes_of(long const& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Two tasks over bindings {a, b, c}: b = a + first, c = b + 10; `first` is the parameter.
template <class R> typename R::Program record_sums(R& runtime) {
  static constexpr Use<Binding> first[] = {{0, Access::read}, {1, Access::write}};
  static constexpr Use<Binding> second[] = {{1, Access::read}, {2, Access::write}};
  long const none = 0, ten = 10;
  ProgramTask const tasks[] = {{&add_codelet, first, bytes_of(none), {}, {}},
                               {&add_codelet, second, bytes_of(ten), {}, {}}};
  ProgramParameter const parameters[] = {{0, 0, 8, sizeof(long)}};
  return runtime.record(tasks, 3, parameters);
}

/// The three buffers of that program; a holds 5.
template <class R> std::array<typename R::Handle, 3> make_buffers(R& runtime) {
  std::array<typename R::Handle, 3> buffers;
  for (auto& buffer : buffers) buffer = runtime.allocate(sizeof(long));
  long const five = 5;
  std::memcpy(runtime.lock(buffers[0], Access::write).data(), &five, sizeof five);
  runtime.unlock(buffers[0]);
  return buffers;
}

std::array<long, 2> parameters_of(long first) { return {0, first}; }
std::span<std::byte const> bytes_of(std::array<long, 2> const& values) {
  return std::as_bytes(std::span(values));
}

template <class R> long value_of(R& runtime, typename R::Handle handle) {
  long value;
  std::memcpy(&value, runtime.lock(handle, Access::read).data(), sizeof value);
  runtime.unlock(handle);
  return value;
}

template <class R> testing::Report battery(char const* name, int workers) {
  testing::ConformanceOptions options;
  options.max_workers = workers;
  // What is forwarded does not depend on the kind of driver, so one kind will do.
  options.own_driver = std::string_view(name) == "starpu";
  options.helping_driver = !options.own_driver;
  options.heavy = !test::sanitized;
  options.rounds = 1;
  return testing::conformance([name](RuntimeOptions const& wanted) { return R(name, wanted); },
                              options);
}

}  // namespace

TEST_CASE("a name that no runtime has is an error that lists the names", "[runtime][dynamic]") {
  auto const text = message_of<ValueError>([] { Mixed runtime("pleins"); });
  CHECK(contains(text, "'pleins'"));
  CHECK(contains(text, "serial, plain"));
}

TEST_CASE("a runtime that is chosen by name says which it is", "[runtime][dynamic]") {
  for (char const* const name : all_names) CHECK(Any(name).name() == name);
}

TEST_CASE("options go to the runtime that is chosen", "[runtime][dynamic]") {
  CHECK(Any("ring", {.workers = 3}).workers().cpu == 3);
  CHECK_THROWS_AS(Any("serial", {.workers = 3}), ValueError);
}

TEST_CASE("whatever runtime is chosen keeps the law", "[runtime][dynamic]") {
  for (char const* const name : all_names) {
    auto const report = battery<Any>(name, 2);
    INFO(name << '\n' << to_string(report));
    CHECK(report.passed());
  }
}

TEST_CASE("runtimes with handles of different types keep the law", "[runtime][dynamic]") {
  auto const report = battery<Mixed>("plain", 1);
  INFO(to_string(report));
  CHECK(report.passed());
}

TEST_CASE("a program is replayed with the parameters of each replay", "[runtime][dynamic]") {
  for (char const* const name : all_names) {
    Any runtime(name);
    auto const program = record_sums(runtime);
    auto const buffers = make_buffers(runtime);
    for (long const first : {1, 20, 300}) {
      Event const event = runtime.replay(program, buffers, bytes_of(parameters_of(first)));
      runtime.wait(event);
      CHECK(runtime.done(event));
      CHECK(value_of(runtime, buffers[2]) == 5 + first + 10);
    }
  }
}

TEST_CASE("the event of a program reports a failure of any of its tasks", "[runtime][dynamic]") {
  for (char const* const name : all_names) {
    Any runtime(name);
    auto const program = record_sums(runtime);
    auto const buffers = make_buffers(runtime);
    Event const event = runtime.replay(program, buffers, bytes_of(parameters_of(996)));
    auto const text = message_of<TaskError>([&] { runtime.wait(event); });
    INFO(name);
    CHECK(contains(text, "more than a thousand"));
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
  }
}

TEST_CASE("bindings that alias where the recording was distinct are an error",
          "[runtime][dynamic]") {
  for (char const* const name : all_names) {
    Any runtime(name);
    auto const program = record_sums(runtime);
    auto buffers = make_buffers(runtime);
    buffers[2] = buffers[0];
    INFO(name);
    CHECK_THROWS_AS(runtime.replay(program, buffers, bytes_of(parameters_of(1))), Error);
  }
}

TEST_CASE("bindings that a program leaves out may alias any others", "[runtime][dynamic]") {
  static constexpr Use<Binding> use[] = {{1, Access::update}};
  static constexpr Codelet nothing{"nothing", +[](KernelCall const&) noexcept { return Status{}; }};
  ProgramTask const task[] = {{&nothing, use, {}, {}, {}}};
  auto const check = [&](auto&& runtime) {
    INFO(runtime.name());
    auto const program = runtime.record(task, 4, {});
    auto const buffer = make_buffers(runtime)[0];
    std::array const bindings{buffer, buffer, decltype(buffer){}, decltype(buffer){}};
    CHECK_NOTHROW(runtime.wait(runtime.replay(program, bindings, {})));
  };
  for (char const* const name : all_names) check(Any(name));
  check(Mixed("plain", {.workers = 1}));
}

TEST_CASE("a program over handles of another type is submitted task by task",
          "[runtime][dynamic]") {
  Mixed runtime("plain", {.workers = 1});
  auto const program = record_sums(runtime);
  auto const buffers = make_buffers(runtime);
  runtime.wait(runtime.replay(program, buffers, bytes_of(parameters_of(7))));
  CHECK(value_of(runtime, buffers[2]) == 22);
}

TEST_CASE("all tasks that were submitted one by one are waited for, where the first fails, too",
          "[runtime][dynamic]") {
  Mixed runtime("plain", {.workers = 1});
  auto const program = record_sums(runtime);
  auto const buffers = make_buffers(runtime);
  Event const event = runtime.replay(program, buffers, bytes_of(parameters_of(996)));
  Plain::waits = 0;
  auto const text = message_of<TaskError>([&] { runtime.wait(event); });
  CHECK(contains(text, "more than a thousand"));
  CHECK(Plain::waits == 4);  // for the two that the bindings go through first, too
  CHECK(runtime.done(event));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEST_CASE("the event of a program is that of its last task, whatever the runtime numbers besides",
          "[runtime][dynamic]") {
  static constexpr Use<Binding> use[] = {{0, Access::update}};
  test::TokenKeeper keeper;
  auto* const address = &keeper;
  ProgramTask const tasks[] = {
      {&test::keep_codelet, use, std::as_bytes(std::span(&address, 1)), {}, {}}};
  Dynamic<Spaced> runtime("spaced");
  auto const program = runtime.record(tasks, 1, {});
  DataHandle const bindings[] = {make_buffers(runtime)[0]};
  Event const first = runtime.replay(program, bindings, {});
  CHECK_FALSE(runtime.done(first));
  keeper.at(0).complete({"it broke"});
  CHECK(contains(message_of<TaskError>([&] { runtime.wait(first); }), "it broke"));
  CHECK(runtime.done(first));
  CHECK_THROWS_AS(runtime.wait_all(), TaskError);
}

TEST_CASE("what a replay without memory leaves cannot be read", "[runtime][dynamic]") {
  for (long passes = 0; passes < 16; ++passes) {
    Mixed runtime("plain", {.workers = 1});
    auto const program = record_sums(runtime);
    auto const buffers = make_buffers(runtime);
    bool refused = false;
    test::fail_new_after(passes);
    try {
      (void)runtime.replay(program, buffers, bytes_of(parameters_of(1)));
    } catch (std::bad_alloc const&) {
      refused = true;
    }
    test::fail_new_after(-1);
    INFO(passes);
    if (refused)
      CHECK_THROWS_AS(value_of(runtime, buffers[2]), Error);
    else
      CHECK(value_of(runtime, buffers[2]) == 16);
  }
}

TEST_CASE("a recording with a binding, task or byte that is not there is an error",
          "[runtime][dynamic]") {
  Mixed runtime("plain", {.workers = 1});
  static constexpr Use<Binding> use[] = {{1, Access::write}};
  long const none = 0;
  ProgramTask const task[] = {{&add_codelet, use, bytes_of(none), {}, {}}};
  ProgramParameter const beyond_task[] = {{1, 0, 0, 8}}, beyond_end[] = {{0, 4, 0, 8}};
  CHECK_THROWS_AS(runtime.record(task, 1, {}), ValueError);
  CHECK_THROWS_AS(runtime.record(task, 2, beyond_task), ValueError);
  CHECK_THROWS_AS(runtime.record(task, 2, beyond_end), ValueError);
}

TEST_CASE("a replay with too few bindings or parameter bytes is an error", "[runtime][dynamic]") {
  Mixed runtime("plain", {.workers = 1});
  auto const program = record_sums(runtime);
  auto const buffers = make_buffers(runtime);
  auto const values = parameters_of(1);
  CHECK_THROWS_AS(runtime.replay(program, std::span(buffers).first(2), bytes_of(values)),
                  ValueError);
  CHECK_THROWS_AS(runtime.replay(program, buffers, bytes_of(values).first(12)), ValueError);
}

TEST_CASE("a replay that is refused changes nothing", "[runtime][dynamic]") {
  Mixed runtime("plain", {.workers = 1});
  auto const program = record_sums(runtime);
  auto buffers = make_buffers(runtime);
  buffers[0] = runtime.allocate(sizeof(long));  // unwritten
  CHECK_THROWS_AS(runtime.replay(program, buffers, bytes_of(parameters_of(1))), LifetimeError);
  CHECK_THROWS_AS(runtime.lock(buffers[1], Access::read), LifetimeError);
  CHECK_NOTHROW(runtime.wait_all());
}

TEST_CASE("a replay meets and leaves the marks that its tasks would", "[runtime][dynamic]") {
  static constexpr Codelet nothing{"nothing", +[](KernelCall const&) noexcept { return Status{}; }};
  static constexpr Use<Binding> copied[] = {{0, Access::read}, {1, Access::write}};
  static constexpr Use<Binding> split[] = {{2, Access::write_disjoint}};
  static constexpr Use<Binding> summed[] = {{0, Access::accumulate}};
  ProgramTask const copy_and_split[] = {{&nothing, copied, {}, {}, {}},
                                        {&nothing, split, {}, {}, {}}};
  ProgramTask const sum[] = {{&nothing, summed, {}, {}, {}}};
  static constexpr Use<Binding> updated[] = {{0, Access::update}};
  ProgramTask const update_and_split[] = {{&nothing, updated, {}, {}, {}},
                                          {&nothing, split, {}, {}, {}}};
  for (char const* const name : {"serial", "plain"}) {
    INFO(name);
    Mixed runtime(name, {.workers = 1});
    auto const buffers = make_buffers(runtime);
    for (auto const& buffer : {buffers[1], buffers[2]}) {
      (void)runtime.lock(buffer, Access::write);
      runtime.unlock(buffer);
    }
    mark_unsubmitted(runtime, buffers[0], "a test");
    CHECK_THROWS_AS(runtime.wait_all(), TaskError);
    auto const adding = runtime.record(sum, 1, {});
    for (auto const& tasks : {copy_and_split, update_and_split}) {
      auto const program = runtime.record(std::span(tasks, 2), 3, {});
      CHECK_THROWS_AS(runtime.wait(runtime.replay(program, buffers, {})), TaskError);
      CHECK_THROWS_AS(runtime.wait_all(), TaskError);
      CHECK_NOTHROW(value_of(runtime, buffers[2]));
    }
    CHECK_THROWS_AS(value_of(runtime, buffers[1]), TaskError);
    CHECK_NOTHROW(runtime.wait(runtime.replay(adding, std::span(buffers).first(1), {})));
    CHECK_NOTHROW(runtime.wait_all());
  }
}

TEST_CASE("a replay that would write what is only read changes nothing", "[runtime][dynamic]") {
  static constexpr Use<Binding> last[] = {{2, Access::update}, {1, Access::update}};
  static constexpr Use<Binding> first[] = {{0, Access::read}, {1, Access::write}};
  long const ten = 10;
  static long const constant = 1;
  ProgramTask const tasks[] = {{&add_codelet, first, bytes_of(ten), {}, {}},
                               {&add_codelet, last, bytes_of(ten), {}, {}}};
  for (char const* const name : {"serial", "threads"}) {
    INFO(name);
    Dynamic<Serial, test::Threads> runtime(name, {.workers = 1});
    auto buffers = make_buffers(runtime);
    std::swap(buffers[1], buffers[0]);  // holds 5
    buffers[0] = make_buffers(runtime)[0];
    buffers[2] = runtime.adopt(bytes_of(constant));
    CHECK_THROWS_AS(runtime.replay(runtime.record(tasks, 3, {}), buffers, {}), ValueError);
    CHECK(value_of(runtime, buffers[1]) == 5);
    CHECK_NOTHROW(runtime.wait_all());
  }
}

TEST_CASE("what a program could not submit is marked", "[runtime][dynamic]") {
  Mixed runtime("plain", {.workers = 1});
  static constexpr Codelet nowhere{"nowhere", nullptr, nullptr, nullptr};
  static constexpr Use<Binding> first[] = {{0, Access::read}, {1, Access::write}};
  static constexpr Use<Binding> second[] = {{1, Access::read}, {2, Access::write}};
  long const none = 0;
  ProgramTask const tasks[] = {{&add_codelet, first, bytes_of(none), {}, {}},
                               {&nowhere, second, {}, {}, {}}};
  auto const program = runtime.record(tasks, 3, {});
  auto const buffers = make_buffers(runtime);
  CHECK_THROWS_AS(runtime.replay(program, buffers, {}), ValueError);
  CHECK(value_of(runtime, buffers[1]) == 5);
  CHECK_THROWS_AS(runtime.lock(buffers[2], Access::read), TaskError);
}
