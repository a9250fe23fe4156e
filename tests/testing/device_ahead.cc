// SPDX-License-Identifier: BSD-3-Clause
// Tasks of one stream of a device, which are launched before those that they depend on have ended.
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/threads.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/device_runtimes.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/testing/device_programs.hh"

using namespace nntile;
using namespace nntile::test;
using testing::EmulatedDevice;
using testing::EmulatedOptions;

namespace {

/// Counts what it is given and what the host has seen of it, of kernels.
class WatchedDevice : public EmulatedDevice {
 public:
  using EmulatedDevice::EmulatedDevice;

  Status launch(Stream stream, DeviceJob const& job, char* text) noexcept {
    if (stream.lane == 0) {
      int const flying = launched - seen;
      if (flying == 0) ++trips;
      if (flying + 1 > deepest) deepest = flying + 1;
      ++launched;
    }
    return EmulatedDevice::launch(stream, job, text);
  }
  StreamProgress query(Stream stream, std::uint64_t mark, char* text) noexcept {
    StreamProgress const progress = EmulatedDevice::query(stream, mark, text);
    if (stream.lane == 0 && progress != StreamProgress::running) seen = static_cast<int>(mark);
    return progress;
  }

  std::atomic<int> launched{0}, seen{0}, deepest{0};
  std::atomic<int> trips{0};  // launches behind whose predecessor the host has looked
};

constexpr int few_slots = 8;
struct FewSlots : DevicePolicy<WatchedDevice> {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t window = few_slots;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 100;
  };
};

using Watched = std::tuple<SerialOn<WatchedDevice>, EngineOn<WatchedDevice>, RingOn<WatchedDevice>>;
using Replaying = std::tuple<SerialOn<WatchedDevice>, RingOn<WatchedDevice>>;

/// A job that begins the chain, and ends when that many were launched, or open is set.
struct Gate {
  WatchedDevice* device;
  int awaited;
  std::atomic<bool> open{false}, late{false};
};
constexpr Codelet gate_codelet{
    .name = "gate", .cpu = +[](KernelCall const& call) noexcept -> Status {
      Gate& gate = **static_cast<Gate* const*>(call.arguments);
      for (int i = 0; !gate.open && gate.device->launched < gate.awaited; ++i) {
        nntile::detail::sleep_ns(100'000);
        if (i < 50'000) continue;
        gate.late = true;
        break;
      }
      cell_of(call, 0) = 1;
      return {};
    }};

constexpr Place there_place{Place::Kind::device, 0};
constexpr int links = 40;

long value_of_chain() {
  long value = 1;
  for (int i = 1; i < links; ++i) value = affine(value, 3, 1);
  return value;
}

template <class R> int most_workers() { return std::is_same_v<R, SerialOn<WatchedDevice>> ? 1 : 2; }

template <class R> std::unique_ptr<R> runtime_of(int workers, EmulatedOptions const& options = {}) {
  return std::make_unique<R>(RuntimeOptions{.workers = workers}, options);
}

template <class Value> std::span<std::byte const> bytes_of(Value const& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a chain of tasks on a device takes one look of the host",
                        "[testing][device_ahead]", Watched) {
  for (int workers = 1; workers <= most_workers<TestType>(); ++workers) {
    CAPTURE(workers);
    auto const runtime = runtime_of<TestType>(workers, {.seed = 3});
    auto& device = runtime->device();
    auto const there = runtime->allocate(sizeof(long), there_place), result = cell(*runtime);
    Gate gate{&device, links};
    Gate* const opens = &gate;
    submit(*runtime, gate_codelet, {{there, Access::write}}, opens);
    for (int i = 1; i < links; ++i) submit(*runtime, step_codelet, {{there, Access::update}}, 1L);
    submit(*runtime, copy_codelet, {{there, Access::read}, {result, Access::write}},
           std::int64_t{sizeof(long)});
    CHECK(read(*runtime, result) == value_of_chain());
    CHECK_FALSE(gate.late);
    CHECK(device.deepest == links);
    CHECK(device.trips == 1);
    runtime->retire(there);
    runtime->wait_all();
    CHECK(device.memory().used(0) == 0);
  }
}

TEMPLATE_LIST_TEST_CASE("a chain in a program takes one look of the host",
                        "[testing][device_ahead]", Replaying) {
  for (int workers = 1; workers <= most_workers<TestType>(); ++workers) {
    CAPTURE(workers);
    auto const runtime = runtime_of<TestType>(workers, {.seed = 4});
    auto& device = runtime->device();
    DataHandle const cells[] = {runtime->allocate(sizeof(long), there_place), cell(*runtime)};
    Gate gate{&device, links};
    Gate* const opens = &gate;
    long const one = 1;
    std::int64_t const bytes = sizeof(long);
    Use<Binding> const first[] = {{0, Access::write}}, next[] = {{0, Access::update}},
                       last[] = {{0, Access::read}, {1, Access::write}};
    std::vector<ProgramTask> tasks{{&gate_codelet, first, bytes_of(opens), {}, {}}};
    for (int i = 1; i < links; ++i) tasks.push_back({&step_codelet, next, bytes_of(one), {}, {}});
    tasks.push_back({&copy_codelet, last, bytes_of(bytes), {}, {}});
    auto const program = runtime->record(tasks, 2);
    for (int replay = 1; replay <= 3; ++replay) {
      runtime->replay(program, cells);
      CHECK(read(*runtime, cells[1]) == value_of_chain());
      runtime->wait_all();
      CHECK(device.trips == replay);
      gate.awaited += links;
    }
    CHECK_FALSE(gate.late);
    CHECK(device.deepest == links);
  }
}

TEMPLATE_LIST_TEST_CASE("tasks of another stream, and of the host, wait for the end in a program",
                        "[testing][device_ahead]", Replaying) {
  for (int workers = 1; workers <= most_workers<TestType>(); ++workers) {
    auto const runtime = runtime_of<TestType>(workers, {.seed = 5});
    auto& device = runtime->device();
    DataHandle const cells[] = {runtime->allocate(sizeof(long), there_place), cell(*runtime),
                                cell(*runtime, 5)};
    Gate gate{&device, 1 << 30};
    Gate* const opens = &gate;
    std::atomic<int> stepped{0};
    long const one = 1;
    std::int64_t const bytes = sizeof(long);
    static constexpr Codelet step_on_host{
        .name = "on the host", .cpu = +[](KernelCall const& call) noexcept -> Status {
          ++**static_cast<std::atomic<int>* const*>(call.arguments);
          cell_of(call, 0) += 1;
          return {};
        }};
    std::atomic<int>* const counts = &stepped;
    Use<Binding> const first[] = {{0, Access::write}}, next[] = {{0, Access::update}},
                       down[] = {{0, Access::read}, {1, Access::write}},
                       on_host[] = {{1, Access::update}},
                       both[] = {{1, Access::read}, {0, Access::update}};
    ProgramTask const tasks[] = {{&gate_codelet, first, bytes_of(opens), {}, {}},
                                 {&step_codelet, next, bytes_of(one), {}, {}},
                                 {&copy_codelet, down, bytes_of(bytes), {}, {}},
                                 {&step_on_host, on_host, bytes_of(counts), {}, {}},
                                 {&mix_codelet, both, bytes_of(one), {}, {}}};
    auto const program = runtime->record(tasks, 2);
    Event const event = runtime->replay(program, std::span(cells).first(2));
    while (device.launched != 2) (void)runtime->done(event);
    for (int i = 0; i < 20; ++i) {
      CHECK_FALSE(runtime->done(event));
      nntile::detail::sleep_ns(100'000);
    }
    CHECK(device.launched == 2);
    CHECK(device.marks({0, 1}) == 0);
    CHECK(stepped == 0);
    gate.open = true;
    runtime->wait(event);
    CHECK(read(*runtime, cells[1]) == 5);
    submit(*runtime, copy_codelet, {{cells[0], Access::read}, {cells[1], Access::write}}, bytes);
    CHECK(read(*runtime, cells[1]) == 3 * 4 + 5 + 1);
  }
}

TEMPLATE_LIST_TEST_CASE("a task that cannot be launched ends in its turn",
                        "[testing][device_ahead]", Replaying) {
  for (bool const fails : {true, false}) {
    CAPTURE(fails);
    auto const runtime = runtime_of<TestType>(most_workers<TestType>(), {.devices = 2});
    auto& device = runtime->device();
    DataHandle const cells[] = {runtime->allocate(sizeof(long), {Place::Kind::device, 1}),
                                runtime->allocate(sizeof(long), there_place), cell(*runtime)};
    Gate gate{&device, 1 << 30};
    Gate* const opens = &gate;
    long const one = 1;
    Use<Binding> const first[] = {{1, Access::write}}, next[] = {{1, Access::update}},
                       both[] = {{0, Access::read}, {1, Access::update}};
    // The third names memory of both devices, which is known when it is bound.
    ProgramTask const tasks[] = {
        {&gate_codelet, first, bytes_of(opens), {}, {}},
        {fails ? &fail_codelet : &step_codelet, next, bytes_of(one), {}, {}},
        {&mix_codelet, both, bytes_of(one), {}, {}},
        {&step_codelet, next, bytes_of(one), {}, {}}};
    Use<Binding> const put_there[] = {{0, Access::write}};
    ProgramTask const put[] = {{&put_codelet, put_there, bytes_of(one), {}, {}}};
    runtime->replay(runtime->record(put, 1), std::span(cells).first(1));
    runtime->wait_all();
    auto const program = runtime->record(tasks, 2);
    Event const event = runtime->replay(program, std::span(cells).first(2));
    while (device.launched != 4) (void)runtime->done(event);  // all but the third, and `put`
    gate.open = true;
    std::string const said = message_of<TaskError>([&] { runtime->wait_all(); });
    INFO(said);
    CHECK(contains(said, fails ? "broken" : "mix"));
    CHECK(contains(said, fails ? "it broke" : "names memory of device 1 and of 0"));
    CHECK(
        contains(said, fails ? "0 failed and 2 were cancelled" : "0 failed and 1 were cancelled"));
    submit(*runtime, copy_codelet, {{cells[1], Access::read}, {cells[2], Access::write}},
           std::int64_t{sizeof(long)});
    CHECK_THROWS_AS(read(*runtime, cells[2]), TaskError);
  }
}

TEMPLATE_LIST_TEST_CASE("what stands for many readers waits for their ends",
                        "[testing][device_ahead]", Watched) {
  for (int workers = 1; workers <= most_workers<TestType>(); ++workers) {
    auto const runtime = runtime_of<TestType>(workers);
    auto& device = runtime->device();
    auto const there = runtime->allocate(sizeof(long), there_place), here = cell(*runtime, 7);
    Gate gate{&device, 1 << 30};
    Gate* const opens = &gate;
    submit(*runtime, gate_codelet, {{there, Access::write}}, opens);
    std::vector<DataHandle> read_it;
    for (int i = 0; i < 20; ++i) {
      read_it.push_back(runtime->allocate(sizeof(long), there_place));
      submit(*runtime, copy_cell_codelet, {{read_it.back(), Access::write}, {there, Access::read}},
             long{i});
    }
    Event const over =
        submit(*runtime, copy_codelet, {{here, Access::read}, {there, Access::write}},
               std::int64_t{sizeof(long)});
    while (device.launched != 21) (void)runtime->done(over);
    for (int i = 0; i < 20; ++i) {
      CHECK_FALSE(runtime->done(over));
      nntile::detail::sleep_ns(50'000);
    }
    CHECK(device.marks({0, 1}) == 0);
    gate.open = true;
    for (int i = 0; i < 20; ++i) {
      auto const result = cell(*runtime);
      submit(*runtime, copy_codelet,
             {{read_it[std::size_t(i)], Access::read}, {result, Access::write}},
             std::int64_t{sizeof(long)});
      CHECK(read(*runtime, result) == 1 + i);
    }
    runtime->wait_all();
  }
}

namespace {

/// Tokens of which none is given.
struct NoTokens : support::Tokens {
  using support::Tokens::BasicTokens;
  Completion open(void*, support::TaskBody const&) { throw std::bad_alloc(); }
};

/// Tokens of which the first is completed by another thread, later: as where that reads its name
/// amid the call.
struct HeldTokens : support::Tokens {
  using support::Tokens::BasicTokens;
  ~HeldTokens() { holder.join(); }
  Completion open(void* task, support::TaskBody const& body) {
    Completion token = support::Tokens::open(task, body);
    if (std::exchange(finish_at_once, token.finish) == nullptr)
      token.owner = this, token.finish = &finish_later;
    return token;
  }
  static void finish_later(void* tokens, std::uint64_t id, Status status) noexcept {
    auto& self = *static_cast<HeldTokens*>(tokens);
    self.holder = std::thread([&self, id, text = std::string(status.error)] {
      nntile::detail::sleep_ns(20'000'000);
      self.finish_at_once(static_cast<support::Tokens*>(&self), id, Status{text.c_str()});
    });
  }
  void (*finish_at_once)(void*, std::uint64_t, Status) noexcept = nullptr;
  std::thread holder;
};

}  // namespace

TEST_CASE("a task ends behind those on its stream that another thread ends",
          "[testing][device_ahead]") {
  struct Ends {
    support::Failures failures;
    support::DeviceTasks<WatchedDevice> tasks{EmulatedOptions{}};
    std::vector<std::uint64_t> ended;
  } ends;
  HeldTokens tokens(
      &ends, +[](void* runtime, void* task, Status status) noexcept {
        auto& self = *static_cast<Ends*>(runtime);
        auto const& body = *static_cast<support::TaskBody const*>(task);
        self.ended.push_back(body.sequence);
        self.tasks.settle(self.failures, body, status);
      });
  support::Buffer buffer;
  buffer.place = there_place;
  Use<support::Buffer*> uses[] = {{&buffer, Access::update}};
  void* pointers[] = {ends.tasks.device().allocate(sizeof(long), there_place)};
  long const value = 1;
  support::TaskBody bodies[] = {{&fail_codelet, 1, uses, pointers, &value, {}},
                                {&step_codelet, 2, uses, pointers, &value, {}}};
  for (support::TaskBody& body : bodies)
    CHECK(ends.tasks.run_body(ends.failures, tokens, body, &body, nullptr) ==
          support::Ran::pending);
  while (tokens.outstanding() != 0) (void)tokens.poll(true);
  CHECK(ends.ended == std::vector<std::uint64_t>{1, 2});
  CHECK(ends.tasks.in_flight() == 0);
  CHECK(contains(message_of<TaskError>([&] { ends.failures.throw_if_failed(2); }), "cancelled"));
  ends.tasks.device().free(pointers[0], sizeof(long), there_place);
}

TEST_CASE("a task without memory for its token ends behind those on its stream",
          "[testing][device_ahead]") {
  struct Body {
    support::Buffer buffer;
    Use<support::Buffer*> uses[1] = {{&buffer, Access::update}};
    void* pointers[1];
    support::TaskBody task;
  };
  struct Ends {
    support::Failures failures;
    support::DeviceTasks<WatchedDevice> tasks{EmulatedOptions{}};
    Body body;
    bool ended = false;
  } ends;
  auto const end = +[](void* runtime, void*, Status status) noexcept {
    auto& self = *static_cast<Ends*>(runtime);
    self.tasks.settle(self.failures, self.body.task, status);
    self.ended = true;
  };
  support::Tokens tokens(&ends, end);
  NoTokens none(&ends, end);
  Gate gate{&ends.tasks.device(), 1 << 30};
  Gate* const opens = &gate;
  Body& body = ends.body;
  body.buffer.place = there_place;
  body.pointers[0] = ends.tasks.device().allocate(sizeof(long), there_place);
  body.task = {&gate_codelet, 1, body.uses, body.pointers, &opens, {}};
  CHECK(ends.tasks.run_body(ends.failures, tokens, body.task, &ends, nullptr) ==
        support::Ran::pending);
  support::TaskBody const next{&step_codelet, 2, body.uses, body.pointers, &gate.awaited, {}};
  // One thread polls; another, without memory, waits for what it sees.
  std::atomic<bool> over{false};
  bool first_had_ended = false;
  support::Ran ran{};
  std::thread launches([&] {
    ran = ends.tasks.run_body(ends.failures, none, next, &ends, nullptr);
    first_had_ended = ends.ended;
    over = true;
  });
  nntile::detail::sleep_ns(2'000'000);
  CHECK_FALSE(over);
  gate.open = true;
  while (!over) (void)tokens.poll(true);
  launches.join();
  CHECK(ran == support::Ran::ended);
  CHECK(first_had_ended);
  CHECK(body.buffer.mark != 0);  // of the second: the end of the first has not cleared it
  ends.tasks.device().free(body.pointers[0], sizeof(long), there_place);
}

TEST_CASE("a submitter waits where too many tasks are in flight on a device",
          "[testing][device_ahead]") {
  auto const run = [](auto& runtime, int most) {
    auto& device = runtime.device();
    auto const there = runtime.allocate(sizeof(long), there_place), result = cell(runtime);
    Gate gate{&device, most};
    Gate* const opens = &gate;
    submit(runtime, gate_codelet, {{there, Access::write}}, opens);
    int const all = 4 * most;
    for (int i = 1; i < all; ++i) submit(runtime, put_codelet, {{there, Access::update}}, long{i});
    submit(runtime, copy_codelet, {{there, Access::read}, {result, Access::write}},
           std::int64_t{sizeof(long)});
    CHECK(read(runtime, result) == all - 1);
    CHECK_FALSE(gate.late);
    CHECK(device.deepest >= most);
    return device.deepest.load();
  };
  SerialOn<WatchedDevice> serial;
  int const most = int{SerialOn<WatchedDevice>::most_in_flight};
  CHECK(run(serial, most) == most);
  for (int workers = 1; workers <= 2; ++workers) {
    BasicRing<FewSlots> ring(RuntimeOptions{.workers = workers}, EmulatedOptions{});
    CHECK(run(ring, few_slots) <= 2 * few_slots);  // those in slots are launched all the same
  }
}

namespace {

/// As run_steps, in one program, which is replayed: the values of cells, and what the runtime says
/// of the first task that failed.
template <class R>
Outcome replay_steps(R& runtime, std::vector<Step> const& steps, std::vector<Place> const& at) {
  std::int64_t const bytes = sizeof(long);
  std::vector<std::vector<Use<Binding>>> uses;
  std::vector<ProgramTask> tasks;
  std::vector<DataHandle> bindings;
  for (Place const place : at)
    for (int i = 0; i < cells_at_a_place; ++i) {
      bindings.push_back(runtime.allocate(sizeof(long), place));
      auto const value = cell(runtime, 10L * i + 1);
      submit(runtime, copy_codelet, {{value, Access::read}, {bindings.back(), Access::write}},
             bytes);
    }
  for (Step const& step : steps)
    uses.push_back(
        {{static_cast<Binding>(step.source), Access::read},
         {static_cast<Binding>(step.target), step.copies ? Access::write : Access::update}});
  for (std::size_t i = 0; i < steps.size(); ++i)
    tasks.push_back({steps[i].copies  ? &copy_codelet
                     : steps[i].fails ? &fail_codelet
                                      : &mix_codelet,
                     uses[i],
                     steps[i].copies ? bytes_of(bytes) : bytes_of(steps[i].value),
                     {},
                     {}});
  auto const program = runtime.record(tasks, static_cast<std::uint32_t>(bindings.size()));
  Outcome outcome;
  for (int replay = 0; replay < 3; ++replay) {
    runtime.replay(program, bindings);
    if (replay == 1) continue;  // two at a time
    std::string const said = message_of<TaskError>([&] { runtime.wait_all(); });
    auto const counts = said.find("; of the other tasks");
    for (char const c : counts == std::string::npos ? said : said.substr(counts))
      outcome.tasks.push_back(c);
  }
  for (DataHandle const handle : bindings) {
    auto const result = cell(runtime);
    submit(runtime, copy_codelet, {{handle, Access::read}, {result, Access::write}}, bytes);
    try {
      outcome.values.push_back(read(runtime, result));
    } catch (TaskError const&) {
      outcome.values.push_back(marked);
    }
    runtime.retire(handle);
  }
  try {
    runtime.wait_all();
  } catch (TaskError const&) {
  }
  return outcome;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("random programs replayed on devices leave what the host alone leaves",
                        "[testing][device_ahead]", Replaying) {
  for (std::uint64_t seed = 1; seed <= (sanitized ? 12 : 60); ++seed) {
    int const devices = 1 << (seed % 3);
    CAPTURE(devices, seed);
    std::vector<Place> places{host, pinned};
    for (int i = 0; i < devices; ++i) places.push_back(device(i));
    auto const steps = draw_steps(seed, devices + 2, seed % 2 == 0 ? 5 : 0);
    for (int workers = 1; workers <= most_workers<TestType>(); ++workers) {
      auto const runtime = runtime_of<TestType>(
          workers, {.devices = devices, .seed = seed, .longest_delay_ns = 20'000});
      Serial oracle;
      CHECK(replay_steps(*runtime, steps, places) ==
            replay_steps(oracle, steps, std::vector<Place>(places.size(), host)));
      for (int i = 0; i < devices; ++i) CHECK(runtime->device().memory().used(i) == 0);
    }
  }
}
