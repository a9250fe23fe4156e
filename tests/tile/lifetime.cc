// SPDX-License-Identifier: BSD-3-Clause
// Tiles, views and tasks whose runtime, memory or thread is not what it was.

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "nntile/ops/add.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/runtime/scope.hh"
#include "nntile/tensor/tensor.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

template <class R> Tile<float, R> filled(R& runtime, char const* name = "tile") {
  Tile<float, R> tile(runtime, {4, 4}, name);
  tile.write(std::vector<float>(16, 1));
  return tile;
}

/// Counts the releases of a tile over `memory`.
struct Counted {
  std::atomic<int> released{0};
  Release release() {
    return {[](void* self) noexcept { ++static_cast<Counted*>(self)->released; }, this};
  }
};

/// A task that ends when its test says so.
struct Gate {
  std::atomic<bool> started{false};
  Completion token;
  Event event;

  static Status start(KernelCall const& call, Completion token) noexcept {
    Gate* gate = nullptr;
    std::memcpy(&gate, call.arguments, sizeof gate);
    gate->token = token;
    gate->started = true;
    return {};
  }
  static constexpr Codelet codelet{"gate", nullptr, nullptr, &start};

  template <class R> void submit_on(R& runtime, typename R::Handle handle) {
    Use<typename R::Handle> const writes[] = {{handle, Access::write}};
    Gate* const self = this;
    event = runtime.submit({&codelet, writes, std::as_bytes(std::span(&self, 1)), {}, {}});
  }
  template <class R> void open(R& runtime) {
    while (!started) (void)runtime.done(event);
    token.complete();
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("a tile that was moved from says so in every use", "[tile][lifetime]",
                        AllRuntimes) {
  TestType runtime;
  auto a = filled(runtime, "a");
  auto const b = std::move(a);
  char const* const text = "tile was moved from: it has no buffer and no runtime any more";
  CHECK(message_of<LifetimeError>([&] { gelutanh(a, b); }) == text);
  CHECK(message_of<LifetimeError>([&] { (void)a.read(); }) == text);
  CHECK(message_of<LifetimeError>([&] { a.write(std::vector<float>(16)); }) == text);
  CHECK(message_of<LifetimeError>([&] { (void)a.name(); }) == text);
  CHECK(message_of<LifetimeError>([&] { (void)a.shape(); }) == text);
  CHECK(message_of<LifetimeError>([&] { (void)a.handle(); }) == text);
  CHECK(message_of<LifetimeError>([&] { (void)a.template lock<Access::write>(); }) == text);
}

TEST_CASE("a tile that is moved to itself stays, and one that was moved from takes another",
          "[tile][lifetime]") {
  Serial runtime;
  auto a = filled(runtime, "a");
  auto& same = a;
  a = std::move(same);
  CHECK(a.read()[0] == 1);
  auto const b = std::move(a);
  a = filled(runtime, "c");
  CHECK(a.name() == "c");
}

TEST_CASE("a tile that takes another ends what it was", "[tile][lifetime]") {
  Serial runtime;
  auto a = filled(runtime, "a"), b = filled(runtime, "b");
  auto const was = a.handle();
  a = std::move(b);
  CHECK(a.name() == "b");
  CHECK_THROWS_AS(b.read(), LifetimeError);
  CHECK_THROWS_AS(runtime.lock(was, Access::read), LifetimeError);
}

TEST_CASE("a tensor that was moved from says so", "[tile][lifetime]") {
  Serial runtime;
  Tensor<float, Serial> a(runtime, Tiling({4, 4}, {2, 2}), "a");
  auto const b = std::move(a);
  CHECK(contains(message_of<LifetimeError>([&] { (void)a.read(); }), "tensor was moved from"));
  CHECK_THROWS_AS(a.name(), LifetimeError);
  CHECK_THROWS_AS(a.tiling(), LifetimeError);
  CHECK_THROWS_AS(gelutanh(a, b), LifetimeError);
}

TEMPLATE_LIST_TEST_CASE("what outlives its runtime throws when used, and ends in silence",
                        "[tile][lifetime]", AllRuntimes) {
  auto runtime = std::make_unique<TestType>();
  auto const tile = filled(*runtime, "a"), other = filled(*runtime, "b");
  Tensor<float, TestType> const tensor(*runtime, Tiling({4, 4}, {2, 2}), "t");
  auto const view =
      std::make_unique<HostView<float, TestType, Access::read>>(*runtime, tile.handle());
  Scope<TestType> const scope(*runtime, Lifetime::step);
  TaskHandle<TestType> task(*runtime, Event{});
  runtime.reset();
  CHECK(contains(message_of<LifetimeError>([&] { (void)tile.read(); }),
                 "tile 'a': its runtime has ended"));
  CHECK_THROWS_AS(gelutanh(tile, other), LifetimeError);
  CHECK(contains(message_of<LifetimeError>([&] { (void)tensor.read(); }),
                 "tensor 't': its runtime has ended"));
  CHECK_THROWS_AS((*view)[0], LifetimeError);
  CHECK(task.is_complete());
  CHECK(contains(message_of<LifetimeError>([&] { task.wait(); }), "task: its runtime has ended"));
}

TEMPLATE_LIST_TEST_CASE("a view outlives its tile, whose buffer ends with it", "[tile][lifetime]",
                        AllRuntimes) {
  TestType runtime;
  Counted counted;
  std::vector<float> memory(16, 3);
  std::optional<HostView<float, TestType, Access::read>> view;
  {
    Tile<float, TestType> const tile(runtime, {4, 4}, memory, counted.release());
    view.emplace(runtime, tile.handle());
  }
  Tile<float, TestType> const other(runtime, {4, 4});
  CHECK((*view)[15] == 3);
  CHECK(counted.released == 0);
  view.reset();
  runtime.wait_all();
  while (counted.released == 0) std::this_thread::yield();  // StarPU's workers
  CHECK(counted.released == 1);
}

TEMPLATE_LIST_TEST_CASE("a task that fails after the end of its tile names it", "[tile][lifetime]",
                        AllRuntimes) {
  static constexpr Codelet fails{
      "fails", [](KernelCall const&) noexcept -> Status { return {.error = "broken"}; }};
  using Handle = typename TestType::Handle;
  TestType runtime;
  Tile<float, TestType> const held(runtime, {4});
  for (bool const elsewhere : {false, true}) {  // ends on another thread
    Gate gate;
    gate.submit_on(runtime, held.handle());
    auto tile = std::make_unique<Tile<float, TestType>>(runtime, Shape{4}, "a name of some length");
    Use<Handle> const uses[] = {{held.handle(), Access::read}, {tile->handle(), Access::write}};
    runtime.submit({&fails, uses, {}, {}, {tile->operand().name, 0}});
    if (elsewhere)
      std::thread([&] { tile.reset(); }).join();
    else
      tile.reset();
    gate.open(runtime);
    std::string const message = message_of<TaskError>([&] { runtime.wait_all(); });
    CHECK(contains(message, "fails of tensor 'a name of some length', tile 0"));
  }
}

TEST_CASE("a view for reading gives elements that are const", "[tile][lifetime]") {
  Serial runtime;
  auto const tile = filled(runtime);
  {
    auto const view = tile.lock<Access::read>();
    STATIC_REQUIRE(std::is_same_v<decltype(view[0]), float const&>);
    STATIC_REQUIRE(std::is_same_v<decltype(view.span()), std::span<float const>>);
  }
  {
    tile.lock<Access::update>()[2] = 5;
  }
  CHECK(tile.read()[2] == 5);
}

TEMPLATE_LIST_TEST_CASE("a tile ends on any thread while another one drives", "[tile][lifetime]",
                        AllRuntimes) {
  TestType runtime;
  auto const a = filled(runtime), b = filled(runtime);
  constexpr int tiles = 200;
  Counted counted;
  std::vector<float> memory(16 * tiles);
  std::vector<Tile<float, TestType>> scratch;
  for (std::size_t i = 0; i < tiles; ++i)
    scratch.emplace_back(runtime, Shape{4, 4}, std::span(memory).subspan(16 * i, 16),
                         counted.release());
  std::thread pool([&] {
    while (!scratch.empty()) scratch.pop_back();
  });
  for (int i = 0; i < 100; ++i) gelutanh(a, b);
  pool.join();
  runtime.wait_all();
  while (counted.released != tiles) runtime.wait_all();
  CHECK(counted.released == tiles);
}

TEST_CASE("what another thread let go of last is released with the runtime", "[tile][lifetime]") {
  Counted counted;
  std::vector<float> memory(16);
  {
    Ring runtime({.workers = 2});
    std::optional<Tile<float, Ring>> tile(std::in_place, runtime, Shape{4, 4}, memory,
                                          counted.release());
    std::thread([&] { tile.reset(); }).join();
    CHECK(counted.released == 0);
  }
  CHECK(counted.released == 1);
}

TEST_CASE("a view ends on another thread: the driver's next call unlocks", "[tile][lifetime]") {
  Ring runtime({.workers = 2});
  auto const a = filled(runtime), b = filled(runtime);
  std::optional<HostView<float, Ring, Access::read>> view(std::in_place, runtime, a.handle());
  std::thread([&] { view.reset(); }).join();
  gelutanh(a, b);
  CHECK(b.read()[0] > 0);
}

TEST_CASE("the end of a tile inside a task is no error", "[tile][lifetime]") {
  Serial runtime;
  auto const a = filled(runtime);
  auto tile = std::make_unique<Tile<float, Serial>>(runtime, Shape{4, 4});
  static constexpr Codelet end{"end",
                               +[](KernelCall const& call) noexcept -> Status {
                                 using Held = std::unique_ptr<Tile<float, Serial>>;
                                 (*static_cast<Held* const*>(call.arguments))->reset();
                                 return {};
                               },
                               nullptr, nullptr};
  auto* const held = &tile;
  Use<Serial::Handle> const use[] = {{a.handle(), Access::update}};
  submit(runtime, Task<Serial::Handle>{&end, use, std::as_bytes(std::span(&held, 1)), {}, {}});
  CHECK(tile == nullptr);
  runtime.wait_all();
}

TEMPLATE_LIST_TEST_CASE("a tile over memory without a release ends after its tasks",
                        "[tile][lifetime]", AllRuntimes) {
  TestType runtime;
  constexpr Index n = 128;
  Tile<float, TestType> const out(runtime, {n, n}, "out"), b(runtime, {n, n}, "b");
  b.write(std::vector<float>(n * n, 1)), out.write(std::vector<float>(n * n, 0));
  for (int i = 0; i < 20; ++i) gemm.async({.beta = 1}, b, b, out).detach();
  {
    std::vector<float> mine(n * n, 1);
    Tile<float, TestType> const a(runtime, {n, n}, mine);
    gemm.async(a, b, out).detach();
  }
  std::vector<float> const others(n * n, 7);
  CHECK(out.read()[500] == n);
}

TEST_CASE("a tile over memory ends on another thread after its tasks, too", "[tile][lifetime]") {
  Ring runtime({.workers = 2, .own_driver = true});
  std::atomic<bool> open{false}, ended{false};
  static constexpr Codelet gate{"gate", [](KernelCall const& call) noexcept -> Status {
                                  while (!**static_cast<std::atomic<bool>* const*>(call.arguments))
                                    std::this_thread::yield();
                                  return {};
                                }};
  std::vector<float> memory(16);
  auto tile = std::make_unique<Tile<float, Ring>>(runtime, Shape{4, 4}, memory);
  auto* const flag = &open;
  Use<Ring::Handle> const use[] = {{tile->handle(), Access::read}};
  submit(runtime, Task<Ring::Handle>{&gate, use, std::as_bytes(std::span(&flag, 1)), {}, {}});
  std::thread ending([&] { tile.reset(), ended = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(ended);
  open = true;
  ending.join();
  runtime.wait_all();
}

TEST_CASE("tiles and their runtime end on two threads at once", "[tile][lifetime]") {
  for (int i = 0; i < 200; ++i) {
    auto runtime = std::make_unique<Ring>(RuntimeOptions{.workers = 1});
    std::vector<float> memory(16);
    std::vector<Tile<float, Ring>> tiles;
    for (int t = 0; t < 4; ++t) tiles.push_back(filled(*runtime));
    tiles.emplace_back(*runtime, Shape{4, 4}, memory);
    std::thread pool([&] { tiles.clear(); });
    runtime.reset();
    pool.join();
  }
}

TEMPLATE_LIST_TEST_CASE("tiles over one array of constants overlap, and nothing writes them",
                        "[tile][lifetime]", AllRuntimes) {
  TestType runtime;
  std::vector<float> const tokens{1, 2, 3, 4, 5};
  Tile<float, TestType> const inputs(runtime, {4}, std::span(tokens).first(4), {}, "inputs"),
      labels(runtime, {4}, std::span(tokens).last(4), {}, "labels"), sum(runtime, {4});
  add(inputs, labels, sum);
  CHECK(sum.read() == std::vector<float>{3, 5, 7, 9});
  CHECK_THROWS_AS(gelutanh(sum, labels), ValueError);
  CHECK_THROWS_AS(labels.write(std::vector<float>(4)), ValueError);
}

TEMPLATE_LIST_TEST_CASE("one array is lent to tile after tile", "[tile][lifetime]", AllRuntimes) {
  TestType runtime;
  std::vector<float> values(16, 1);
  auto const out = filled(runtime);
  for (int i = 0; i < 10; ++i) {
    Tile<float, TestType> const tile(runtime, {4, 4}, values);
    gelutanh.async(tile, out).detach();
  }
  Tile<float, TestType> const tile(runtime, {4, 4}, values);
  CHECK_THROWS_AS((Tile<float, TestType>(runtime, {4, 4}, values)), ValueError);
}

TEMPLATE_LIST_TEST_CASE("tiles of a scope end with it, and say so from then on", "[tile][lifetime]",
                        AllRuntimes) {
  if constexpr (ScopedRuntime<TestType>) {
    TestType runtime;
    Tile<float, TestType> const kept = filled(runtime, "kept");
    auto step = scope(runtime, Lifetime::step);
    Tile<float, TestType> const tile(runtime, {4, 4}, Lifetime::step, "tile");
    Tensor<float, TestType> const tensor(runtime, Tiling({4, 4}, {2, 2}), Lifetime::step, "tensor");
    add(kept, kept, tile);
    tensor.write(tile.read());
    CHECK(tensor.read() == std::vector<float>(16, 2));
    gelutanh.async(tile, tile).wait();
    auto const pending = gelutanh.async(kept, tile);  // the end of the scope does not wait for it
    step.close();
    CHECK_THROWS_AS(tile.read(), LifetimeError);
    CHECK_THROWS_AS(tensor.read(), LifetimeError);
    CHECK_THROWS_AS(add.async(kept, kept, tile), LifetimeError);
    runtime.wait_all();
    CHECK(kept.read()[0] == 1);
    CHECK_THROWS_AS((Tile<float, TestType>(runtime, {4}, Lifetime::step)), LifetimeError);
    auto const other = scope(runtime, Lifetime::step);
    std::optional<Tile<float, TestType>> later(std::in_place, runtime, Shape{4}, Lifetime::step);
    later->write(std::vector<float>(4, 3));
    later.reset();  // before its scope
  }
}

TEST_CASE("eager steps live in a heap of a step's size", "[tile][lifetime]") {
  Ring ring(RuntimeOptions{.workers = 2}, RingCapacities{.step = {4096, OnFull::wait}});
  Tile<float, Ring> const kept = filled(ring, "kept"), sum = filled(ring, "sum");
  for (int step = 0; step < 100; ++step) {
    auto const open = scope(ring, Lifetime::step);
    Tensor<float, Ring> const x(ring, Tiling({16, 16}, {8, 8}), Lifetime::step, "x");
    Tile<float, Ring> const y(ring, {4, 4}, Lifetime::step, "y");
    x.write(std::vector<float>(256, 1));
    add.async(kept, sum, y).wait();
    add.async({.alpha = 1, .beta = 0}, y, y, sum).wait();
  }
  CHECK(sum.read() == std::vector<float>(16, 101));
  CHECK(ring.stats().step.growths == 0);
  CHECK(ring.stats().step.peak <= 4096);
}

TEMPLATE_LIST_TEST_CASE("an op on tensors that is refused amid its tiles waits for none of them",
                        "[tile][lifetime]", AllRuntimes) {
  TestType runtime;
  Tensor<float, TestType> const x(runtime, Tiling({8}, {4}), "x"), y(runtime, Tiling({8}, {4}));
  x.write(std::vector<float>(8, 1));
  Gate gate;
  gate.submit_on(runtime, x.handle(0));
  while (!gate.started) (void)runtime.done(gate.event);
  std::atomic<bool> refused{false}, waited{false};
  std::thread other([&] {  // ends the wait, if there is one
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!refused && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    waited = !refused;
    gate.token.complete();
  });
  {
    auto const view = x.template lock<Access::write>(1);
    CHECK_THROWS_AS(gelutanh.async(x, y), LifetimeError);
    refused = true;
  }
  other.join();
  CHECK_FALSE(waited);
}
