// SPDX-License-Identifier: BSD-3-Clause
// The policy Cuda over a runtime library of the tests: programs, marks, staging, and errors.
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/cuda/lists.hh"
#include "nntile/graph/graph.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/runtime/engine/nest.hh"
#include "nntile/runtime/ring/cuda.hh"
#include "nntile/runtime/serial/nest.hh"
#include "tests/cuda/fake.hh"
#include "tests/runtime/thread_executor.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"
#include "tests/testing/device_programs.hh"

using namespace nntile;
using namespace nntile::test;

// Kernels are the CPU's: that of GELU stands for one with a workspace, which OnFake does not call.
namespace nntile::kernels::cuda {
namespace {
constexpr std::uint32_t gelu_workspace = 1 << 20;
constexpr Computation gelu{"gelutanh"};
constexpr Codelet gelu_codelet{"gelutanh", nullptr, &fake::run, nullptr,
                               0,          &gelu,   false,      gelu_workspace};
constexpr KernelList gelu_list{&gelu_codelet, 1};
}  // namespace
std::span<KernelList const* const> lists() noexcept {
  static constexpr KernelList const* all[] = {&gelu_list};
  return all;
}
KernelList fast_kernels() { return {}; }
std::string fast_products() { return "exact kernels: those of a test"; }
std::shared_ptr<void const> keep_products() { return nullptr; }
}  // namespace nntile::kernels::cuda

namespace {

using FakeRuntimes = std::tuple<fake::OnFake<BasicSerial<Cuda>>,
                                fake::OnFake<Engine<ThreadExecutor, Cuda>>, fake::OnFake<CudaRing>>;

std::string refusal(CudaOptions const& options = {}) {
  return message_of<Error>([&] { Cuda const devices(options); });
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("random programs through the policy leave what the host alone leaves",
                        "[cuda][on_fake]", FakeRuntimes) {
  int losses = 0;
  for (std::uint64_t seed = 1; seed <= (sanitized ? 10 : 40); ++seed) {
    int const devices = 1 << (seed % 3);
    bool const fails = seed % 4 == 3;
    CAPTURE(devices, seed);
    fake::reset({.devices = devices}, seed, fails ? static_cast<int>(seed * 7 % 100) + 1 : 0);
    std::vector<Place> places{host, pinned};
    for (int i = 0; i < devices; ++i) places.push_back(device(i));
    // Kernels reach no memory of the host beside that of a device: copies alone name both.
    auto const steps = draw_steps(seed, devices + 2, 0);
    Outcome got;
    {
      DeviceLog log;
      TestType runtime(RuntimeOptions{}, CudaOptions{.log = seed % 2 == 0 ? &log : nullptr});
      got = run_steps(runtime, steps, places);
    }
    Serial oracle;
    CHECK(got == run_steps(oracle, steps, std::vector<Place>(places.size(), host), got));
    losses += static_cast<int>(std::count(got.tasks.begin(), got.tasks.end(), failed) != 0);
    if (!fails)
      CHECK(std::count(got.tasks.begin(), got.tasks.end(), ended) == std::ssize(got.tasks));
    CHECK(fake::unpinned_copies() == 0);
    CHECK(fake::live_bytes() == 0);
    CHECK(fake::live_objects() == 0);
  }
  CHECK(losses >= (sanitized ? 2 : 8));
}

TEST_CASE("a log has the times of kernels and copies, by events", "[cuda][on_fake]") {
  fake::reset({.devices = 2}, 3);
  DeviceLog log;
  std::int64_t const before = detail::monotonic_ns();
  {
    fake::OnFake<CudaRing> runtime(RuntimeOptions{}, CudaOptions{.log = &log});
    auto const here = runtime.allocate(sizeof(long), pinned);
    auto const there = runtime.allocate(sizeof(long), device(1));
    submit(runtime, put_codelet, {{here, Access::write}}, 5L);
    for (int round = 0; round < 20; ++round) {
      submit(runtime, copy_codelet, {{here, Access::read}, {there, Access::write}},
             std::int64_t{sizeof(long)});
      submit(runtime, step_codelet, {{there, Access::update}}, 3L);
      submit(runtime, copy_codelet, {{there, Access::read}, {here, Access::write}},
             std::int64_t{sizeof(long)});
    }
    runtime.wait_all();
  }
  std::int64_t const after = detail::monotonic_ns();
  auto const jobs = log.jobs();
  REQUIRE(jobs.size() == 60);
  std::int64_t last = before, last_of[2] = {before, before};
  constexpr std::int64_t rounding = 200;  // ns, of milliseconds in fp32
  // Each stream has its origin when the host wakes up from a wait for it, sooner or later.
  constexpr std::int64_t between_streams = 10'000'000;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CHECK(jobs[i].stream == Stream{1, i % 3 == 1 ? 0 : 1});
    CHECK(jobs[i].begin >= last - between_streams);
    std::int64_t& own = last_of[jobs[i].stream.lane];
    CHECK(jobs[i].begin >= own - rounding);
    last = own = jobs[i].end;
    CHECK(last >= jobs[i].begin);
    CHECK(jobs[i].copied.has_value() == (i % 3 != 1));
    if (!jobs[i].copied) continue;
    CHECK(*jobs[i].copied == sizeof(long));
    CHECK((jobs[i].from == host) == (i % 3 == 0));
    CHECK((i % 3 == 0 ? jobs[i].to : jobs[i].from) == device(1));
  }
  CHECK(last <= after + between_streams);
  std::vector<std::int64_t> counted;
  for (LoggedBytes const& of : log.memory())
    if (of.place == device(1)) counted.push_back(of.bytes);
  CHECK(counted == std::vector<std::int64_t>{sizeof(long), 0});
  CHECK(fake::live_objects() == 0);
}

TEST_CASE("what the machine lacks is said in one line", "[cuda][on_fake]") {
  fake::reset({.driver = 0, .devices = 0});
  CHECK(refusal() ==
        "Cuda: this machine has no CUDA driver; install NVIDIA's, or keep tensors on the host");
  fake::reset({.driver = 12040});
  CHECK(refusal() ==
        "Cuda: the driver of this machine knows CUDA 12.4, and nntile_cuda needs 13.0: install a "
        "newer driver");
  fake::reset({.library = 12040});
  CHECK(contains(refusal(), "is 12.4: they must be of one major version"));
  fake::reset({.devices = 0});
  CHECK(contains(refusal(), "Cuda: no device is there: no CUDA-capable device is detected"));
  fake::reset({.devices = 2});
  CHECK(refusal({.devices = 3}) == "Cuda: 3 devices were asked for, and there are 2");
  CHECK(refusal({.lanes = 0}) == "Cuda: 0 lanes; there must be at least 1");
  fake::reset({.major = 7, .minor = 5});
  CHECK(contains(refusal(), "Cuda: device 0 (Fake) has sm_75, and nntile_cuda has code for sm_90"));
  fake::reset();
  CHECK(refusal() == "(nothing was thrown)");
  CHECK(fake::live_objects() == 0);
}

TEST_CASE("devices that memory does not suffice for leave no stream behind", "[cuda][on_fake]") {
  fake::reset();
  bool refused = true;
  for (long passes = 0; refused; ++passes) {
    fail_new_after(passes);
    try {
      Cuda const devices;
      refused = false;
    } catch (std::bad_alloc const&) {
    }
    fail_new_after(-1);
    CHECK(fake::live_objects() == 0);
  }
}

TEST_CASE("memory is given to a capacity, and its end says so", "[cuda][on_fake]") {
  fake::reset();
  Cuda devices;
  fake::current_device() = 2;
  void* const most = devices.allocate(std::size_t{1} << 26, device(1));
  CHECK(most != nullptr);
  CHECK(contains(message_of<OutOfMemory>([&] { devices.allocate(1, device(1)); }),
                 "allocate: 1 bytes on device 1, where 0 of 67108864 bytes are free"));
  void* const empty = devices.allocate(0, device(0));
  CHECK(empty != nullptr);
  devices.free(most, std::size_t{1} << 26, device(1));
  devices.free(empty, 0, device(0));
  CHECK(fake::current_device() == 2);
  CHECK(fake::live_bytes() == 0);
  fake::current_device() = 0;
}

TEST_CASE("a stream that waits for a mark of another begins behind it", "[cuda][on_fake]") {
  fake::reset({.devices = 2}, 3);
  Cuda devices;
  auto* const numbers = static_cast<long*>(devices.allocate(3 * sizeof(long), pinned));
  void* const there = devices.allocate(sizeof(long), device(0));
  std::int64_t const bytes = sizeof(long);
  char text[status_text_bytes] = {};
  auto const copy = [&](Stream stream, void* from, void* to) {
    void* const buffers[] = {from, to};
    REQUIRE(devices.launch(stream, {copy_codelet, buffers, &bytes}, text).ok());
    return devices.mark(stream);
  };
  constexpr Stream first{0, 0}, second{1, 1};
  for (long round = 1; round <= 100; ++round) {
    numbers[0] = -round, numbers[1] = round, numbers[2] = 0;
    copy(first, &numbers[0], there);
    devices.wait(second, first, copy(first, &numbers[1], there));
    std::uint64_t const mark = copy(second, there, &numbers[2]);
    while (devices.query(second, mark, text) == StreamProgress::running) {
    }
    REQUIRE(numbers[2] == round);
    REQUIRE(devices.query(first, 2 * static_cast<std::uint64_t>(round), text) ==
            StreamProgress::ended);
  }
  devices.free(numbers, 3 * sizeof(long), pinned);
  devices.free(there, sizeof(long), device(0));
}

TEST_CASE("a kernel beside memory of the host is refused", "[cuda][on_fake]") {
  fake::reset();
  fake::OnFake<CudaRing> runtime(RuntimeOptions{}, CudaOptions{});
  auto const here = cell(runtime, 1), there = runtime.allocate(sizeof(long), device(0)),
             between = runtime.allocate(sizeof(long), pinned);
  CHECK(contains(message_of<ValueError>([&] {
                   submit(runtime, copy_cell_codelet,
                          {{there, Access::write}, {here, Access::read}}, 0L);
                 }),
                 "names memory of the host and of device 0"));
  submit(runtime, put_codelet, {{between, Access::write}}, 5L);
  submit(runtime, copy_cell_codelet, {{there, Access::write}, {between, Access::read}}, 2L);
  submit(runtime, copy_codelet, {{there, Access::read}, {here, Access::write}},
         std::int64_t{sizeof(long)});
  runtime.wait_all();
  CHECK(read(runtime, here) == 7);
}

TEST_CASE("an error that lasts ends the runtime with a sentence", "[cuda][on_fake]") {
  fake::reset({}, 0, 2);
  fake::OnFake<CudaRing> runtime(RuntimeOptions{}, CudaOptions{});
  auto const there = runtime.allocate(sizeof(long), device(0));
  submit(runtime, put_codelet, {{there, Access::write}}, 5L);
  runtime.wait_all();
  submit(runtime, step_codelet, {{there, Access::update}}, 5L);
  std::string const text = message_of<TaskError>([&] { runtime.wait_all(); });
  CHECK(contains(text,
                 "the devices are lost: an illegal memory access was encountered "
                 "(cudaErrorIllegalAddress)"));
  submit(runtime, put_codelet, {{there, Access::write}}, 5L);
  CHECK(contains(message_of<TaskError>([&] { runtime.wait_all(); }), "the devices are lost"));
  CHECK(contains(message_of<DeviceError>([&] { runtime.allocate(8, device(1)); }),
                 "the devices are lost"));
}

TEST_CASE("once the devices are lost, no copy that was being launched writes", "[cuda][on_fake]") {
  fake::reset({}, 0, 2);
  constexpr Codelet broken{"broken", nullptr, [](KernelCall const&, void* stream) noexcept {
                             constexpr static fake::Head head{&fail_codelet, 0};
                             return fake::run({nullptr, &head, nullptr, nullptr}, stream);
                           }};
  long target = 1;
  {
    Cuda devices;
    void* const there = devices.allocate(sizeof(long), device(0));
    void* const buffers[] = {there, &target};
    std::int64_t const bytes = sizeof(long);
    fake::hold_a_function();
    std::thread copies([&] {
      char text[status_text_bytes] = {};
      (void)devices.launch({0, 1}, {copy_codelet, buffers, &bytes}, text);
    });
    while (!fake::holds_a_function()) std::this_thread::yield();
    char text[status_text_bytes] = {};
    REQUIRE(devices.launch({0, 0}, {broken, {}, nullptr}, text).ok());
    std::uint64_t const mark = devices.mark({0, 0});
    StreamProgress progress;
    while ((progress = devices.query({0, 0}, mark, text)) == StreamProgress::running) {
    }
    CHECK(progress == StreamProgress::failed);
    target = 7;
    copies.join();
    CHECK(contains(text, "the devices are lost"));
    devices.free(there, sizeof(long), device(0));
  }
  CHECK(target == 7);
}

namespace {

std::vector<void*> lent;  // to the kernels below
Status note_workspace(KernelCall const& call, void*) noexcept {
  lent.push_back(call.workspace);
  return {};
}

}  // namespace

TEST_CASE("kernels of a stream are lent one block, as large as one asks for", "[cuda][on_fake]") {
  constexpr Codelet plain{"plain", nullptr, &note_workspace};
  constexpr Codelet small{"small", nullptr, &note_workspace, nullptr, 0, nullptr, false, 100};
  constexpr Codelet large{"large", nullptr, &note_workspace, nullptr, 0, nullptr, false, 5000};
  constexpr Codelet most{"most", nullptr, &note_workspace, nullptr, 0, nullptr, false, 1u << 27};
  fake::reset({.devices = 2});
  lent.clear();
  std::string text(status_text_bytes, 0);
  {
    Cuda devices;
    auto const launch = [&](Codelet const& codelet, Stream stream) {
      Status const status = devices.launch(stream, {codelet, {}, nullptr}, text.data());
      return status.ok() ? std::string() : status.error;
    };
    CHECK(launch(plain, {0, 0}) == "");
    CHECK(fake::live_bytes() == 0);
    for (Codelet const* const each : {&small, &small, &large, &small})
      CHECK(launch(*each, {0, 0}) == "");
    CHECK(launch(small, {1, 0}) == "");
    CHECK(lent[0] == nullptr);
    CHECK(lent[1] != nullptr);
    CHECK(lent[2] == lent[1]);
    CHECK(lent[3] != nullptr);
    CHECK(lent[4] == lent[3]);
    CHECK(lent[5] != lent[3]);
    CHECK(fake::live_bytes() == 5100);
    CHECK(launch(most, {0, 0}) ==
          "most: 134217728 bytes of workspace on device 0 beside what is allocated: out of memory");
    CHECK(lent.size() == 6);
    CHECK(launch(small, {0, 0}) == "");
    CHECK(fake::live_bytes() == 200);
    CHECK(Cuda::fast_products() == "exact kernels: those of a test");
  }
  CHECK(fake::live_bytes() == 0);
  CHECK(fake::live_objects() == 0);
}

TEST_CASE("a device lends its kernels a workspace beforehand", "[cuda][on_fake]") {
  constexpr Codelet small{"small", nullptr, &note_workspace, nullptr, 0, nullptr, false, 100};
  fake::reset({.devices = 2});
  lent.clear();
  std::string text(status_text_bytes, 0);
  DeviceLog log;
  {
    Cuda devices(CudaOptions{.log = &log});
    devices.lend(1, 0);
    CHECK(fake::live_bytes() == 0);
    devices.lend(1, 3000);
    devices.lend(1, 2000);
    CHECK(fake::live_bytes() == 3000);
    for (int i = 0; i < 2; ++i) CHECK(devices.launch({1, 0}, {small, {}, nullptr}, &text[0]).ok());
    CHECK(fake::live_bytes() == 3000);
    CHECK(lent[0] != nullptr);
    CHECK(lent[1] == lent[0]);
    CHECK(contains(message_of<OutOfMemory>([&] { devices.lend(1, 1u << 27); }),
                   "lend: 134217728 bytes of workspace on device 1 beside what is allocated: out"));
    CHECK(fake::live_bytes() == 0);
    devices.lend(1, 4000);
    CHECK(fake::current_device() == 0);
  }
  CHECK(fake::live_bytes() == 0);
  std::vector<std::int64_t> held;
  for (LoggedBytes const& each : log.memory()) {
    CHECK(each.place == device(1));
    held.push_back(each.bytes);
  }
  CHECK(held == std::vector<std::int64_t>{3000, 0, 4000, 0});
}

TEST_CASE("binding a graph takes the workspace of its kernels", "[cuda][on_fake]") {
  using kernels::cuda::gelu_workspace;
  fake::reset({.devices = 2});
  fake::OnFake<CudaRing> runtime;
  auto const plan = [](Index rows, Place place) {
    LogicalGraph graph;
    Node const x = graph.input({.shape = {rows}}, "x");
    gelutanh(x).named("y").mark_output();
    return std::make_shared<Plan const>(graph, PlanOptions{.place = {{.place = place}}});
  };
  {
    TensorStore store(runtime);
    CompiledGraph there(plan(100, device(1)), store, {.replay = false});
    MemoryReport const memory = there.stats().memory.at(0);
    CHECK(memory.location.place == device(1));
    CHECK(memory.workspace == gelu_workspace);
    CHECK(there.plan().memory(memory.location).workspace == 0);
    CHECK(memory.total() == there.plan().memory(memory.location).total() + gelu_workspace);
    std::int64_t const first = fake::live_bytes();
    CHECK(first == memory.total());
    CompiledGraph again(plan(100, device(1)), store, {.replay = false});
    CHECK(fake::live_bytes() == first + again.plan().memory(memory.location).arena);
  }
  {
    TensorStore store(runtime);
    CompiledGraph here(plan(100, host), store, {.replay = false});
    CHECK(here.stats().memory.at(0).workspace == 0);
  }
  // 64 MiB have room for x, y and no workspace beside them.
  TensorStore store(runtime);
  std::string const text = message_of<OutOfMemory>(
      [&] { CompiledGraph(plan((1 << 23) - 1000, device(0)), store, {.replay = false}); });
  CHECK(contains(text, "at device 0: lend: 1048576 bytes of workspace on device 0 beside"));
  CHECK(contains(text, "PlanOptions::capacity"));
}

TEST_CASE("memory of the host is not adopted as a device's, nor the reverse", "[cuda][on_fake]") {
  fake::reset({.devices = 2});
  BasicSerial<Cuda> runtime;
  auto& device = runtime.device();
  auto const bytes_at = [&](Place place) {
    return std::span(static_cast<std::byte*>(device.allocate(64, place)), 64);
  };
  auto const there = bytes_at(nntile::device(1)), locked = bytes_at(pinned);
  std::vector<std::byte> own(64);
  auto const refused = [&](std::span<std::byte> bytes, Place place) {
    return message_of<ValueError>([&] { (void)runtime.adopt(bytes, place); });
  };
  CHECK(contains(refused(own, nntile::device(0)), "of device 0, and they are memory of the host"));
  CHECK(contains(refused(own, pinned), "of the host, pinned, and they are memory of the host"));
  CHECK(contains(refused(there, host), "of the host, and they are memory of device 1"));
  CHECK(contains(refused(there, nntile::device(0)), "and they are memory of device 1"));
  for (auto const handle :
       {runtime.adopt(own), runtime.adopt(locked, pinned), runtime.adopt(there, nntile::device(1))})
    runtime.retire(handle);
  runtime.wait_all();
  runtime.retire(runtime.adopt(locked));
  runtime.wait_all();
  device.free(there.data(), 64, nntile::device(1));
  device.free(locked.data(), 64, pinned);
}
