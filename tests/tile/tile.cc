// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/tile/tile.hh"

#include <sys/mman.h>

#include <atomic>

#include "nntile/ops/add.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/softmax.hh"
#include "nntile/tensor/tensor.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/one_to_one.hh"
#include "tests/support/runtimes.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

template <class R> Tile<float, R> filled(R& runtime, float value, char const* name = "tile") {
  Tile<float, R> tile(runtime, {8, 8}, name);
  tile.write(std::vector<float>(64, value));
  return tile;
}

// 0.8411919906082768 = gelutanh(1), by a calculator of 50 digits.
constexpr double gelutanh_of_1 = 0.8411919906082768;

/// y = x where that is 0 or more, of the first tile alone if `first`; `odd`: what it throws
/// otherwise is no std::exception.
struct Picky : OneToOne {
  static constexpr char const* name = "picky";
  struct Attrs {
    bool first = false;
    bool odd = false;
  };
  static constexpr Fields fields{field<&Attrs::first>("first"), field<&Attrs::odd>("odd")};
  static constexpr Hooks<Attrs> hooks{};
  static Args args(Attrs const& attrs, TileRange const& range) {
    if (attrs.first && range.begin('i') > 0) {
      if (attrs.odd) throw 42;
      throw ValueError("picky: not of the first tile");
    }
    return {range.extent('i')};
  }
  template <Element T>
  requires std::same_as<T, float>
  static void reference(Args const& args, Buffers<Picky> buffers) {
    for (Index i = 0; i < args.n; ++i) {
      float const x = buffers.at<float const>(Operand::x)[i];
      if (x < 0) throw ValueError("below 0");
      buffers.at<float>(Operand::y)[i] = x;
    }
  }
};
constexpr Call<Picky> picky{};

/// y = x in the first tile; throws in the place of others: with `odd` what is no std::exception.
struct Listed : OneToOne {
  static constexpr char const* name = "listed";
  struct Attrs {
    bool odd = false;
  };
  static constexpr Fields fields{field<&Attrs::odd>("odd")};
  static void tiles(Attrs const& attrs, TileRange const& all, TileSink& sink) {
    sink.task(all);
    if (attrs.odd) throw 42;
    throw ValueError("listed: no second tile");
  }
  static constexpr Hooks<Attrs> hooks{.tiles = &tiles};
  static Args args(Attrs const&, TileRange const& range) { return {range.extent('i')}; }
  template <Element T>
  requires std::same_as<T, float>
  static void reference(Args const& args, Buffers<Listed> buffers) {
    for (Index i = 0; i < args.n; ++i)
      buffers.at<float>(Operand::y)[i] = buffers.at<float const>(Operand::x)[i];
  }
};
constexpr Call<Listed> listed{};

}  // namespace

TEMPLATE_LIST_TEST_CASE("pattern 1: a detached task runs on, and its result is there",
                        "[tile][tile]", AllRuntimes) {
  TestType runtime;
  auto const x = filled(runtime, 1), y = filled(runtime, 0);
  auto task = gelutanh.async(x, y);
  task.detach();
  CHECK_THAT(double(y.read()[0]), Catch::Matchers::WithinAbs(gelutanh_of_1, 2e-7));
}

TEMPLATE_LIST_TEST_CASE("pattern 2: a call blocks until its task is done", "[tile][tile]",
                        AllRuntimes) {
  TestType runtime;
  auto const x = filled(runtime, 1), y = filled(runtime, 0);
  gelutanh(x, y);
  CHECK_THAT(double(y.read()[63]), Catch::Matchers::WithinAbs(gelutanh_of_1, 2e-7));
}

TEMPLATE_LIST_TEST_CASE("pattern 3: a group of tasks is waited for together", "[tile][tile]",
                        AllRuntimes) {
  TestType runtime;
  std::vector<Tile<float, TestType>> x, y;
  TaskGroup<TestType> group;
  for (int i = 0; i < 8; ++i) {
    x.push_back(filled(runtime, 1));
    y.push_back(filled(runtime, 0));
    group.add(gelutanh.async(x.back(), y.back()));
  }
  group.wait_all();
  for (auto const& tile : y)
    CHECK_THAT(double(tile.read()[5]), Catch::Matchers::WithinAbs(gelutanh_of_1, 2e-7));
}

TEMPLATE_LIST_TEST_CASE("pattern 4: waiting for the end of a chain waits for its beginning",
                        "[tile][tile]", AllRuntimes) {
  TestType runtime;
  auto const a = filled(runtime, 1), b = filled(runtime, 0), c = filled(runtime, 0);
  auto first = add.async(a, a, b);
  auto second = add.async(b, b, c);
  second.wait();
  CHECK(first.is_complete());
  CHECK(c.read()[0] == 4);
}

TEMPLATE_LIST_TEST_CASE("pattern 5: an op on tensors gives the group of its tile tasks",
                        "[tile][tile]", AllRuntimes) {
  TestType runtime;
  Tiling const tiling({20, 20}, {8, 8});
  Tensor<float, TestType> x(runtime, tiling, "x"), y(runtime, tiling, "y");
  x.write(std::vector<float>(400, 3));
  TaskGroup<TestType> tasks = add.async(x, x, y);
  CHECK(tasks.size() == 9);
  tasks.wait_all();
  CHECK(y.read() == std::vector<float>(400, 6));
}

TEST_CASE("a blocking call waits for its task alone", "[tile][tile]") {
  Ring runtime({.workers = 2, .own_driver = true});
  std::atomic<bool> open{false};
  static constexpr Codelet gate{"gate", [](KernelCall const& call) noexcept -> Status {
                                  auto const* const flag =
                                      *static_cast<std::atomic<bool>* const*>(call.arguments);
                                  while (!flag->load()) std::this_thread::yield();
                                  return {};
                                }};
  auto const held = filled(runtime, 0), x = filled(runtime, 1), y = filled(runtime, 0);
  auto* const flag = &open;
  Use<Ring::Handle> const use[] = {{held.handle(), Access::update}};
  Event const blocked =
      submit(runtime, Task<Ring::Handle>{&gate, use, std::as_bytes(std::span(&flag, 1)), {}, {}});
  gelutanh(x, y);  // returns although the gate is shut
  CHECK_FALSE(runtime.done(blocked));
  open.store(true);
  runtime.wait_all();
}

TEST_CASE("a tile names the caller's memory without copying it", "[tile][tile]") {
  std::vector<float> memory(64, 1);
  std::atomic<int> released{0};
  {
    Serial runtime;
    Tile<float, Serial> const tile(
        runtime, {8, 8}, memory,
        {[](void* count) noexcept { ++*static_cast<std::atomic<int>*>(count); }, &released});
    add(tile, tile, tile);
    CHECK(memory[0] == 2);
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

TEST_CASE("a tile of more elements than a kernel counts is refused", "[tile][tile]") {
  constexpr std::size_t many = std::size_t{1} << 32;
  void* const nowhere = ::mmap(nullptr, 2 * many * sizeof(float), PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (nowhere == MAP_FAILED) return skip("there are no 32 GiB of addresses");
  {
    Serial runtime;
    std::span<float> const all(static_cast<float*>(nowhere), 2 * many);
    Tile<float, Serial> const x(runtime, {1, many}, all.first(many)),
        y(runtime, {1, many}, all.last(many));
    CHECK(message_of<ShapeError>([&] { softmax(x, y); }) ==
          "softmax: its kernel counts up to 4294967295 elements of a tile along 'i', and there are "
          "4294967296; use smaller tiles");
  }
  ::munmap(nowhere, 2 * many * sizeof(float));
}

TEST_CASE("tiles of sizes that do not fit are refused by name", "[tile][tile]") {
  Serial runtime;
  Tile<float, Serial> const a(runtime, {4, 3}, "a"), b(runtime, {2, 4}, "b"),
      c(runtime, {4, 4}, "c");
  CHECK(message_of<ShapeError>([&] { gemm(a, b, c); }) == "gemm: a[k]=3 ('a') but b[k]=2 ('b')");
  CHECK(message_of<ShapeError>([&] { a.write(std::vector<float>(5)); }) ==
        "tile 'a': 5 values for shape {4, 3}");
}

TEST_CASE("a call of too few tiles lists those that it takes", "[tile][tile]") {
  Serial runtime;
  Tile<float, Serial> const x(runtime, {2}, "x");
  CHECK(message_of<ShapeError>([&] { gelutanh(x); }) ==
        "gelutanh: 1 operand given, but it takes 2: x, y");
}

TEST_CASE("tiles of two runtime objects do not meet", "[tile][tile]") {
  Serial one, two;
  auto const a = filled(one, 1, "a"), b = filled(two, 1, "b");
  CHECK(contains(message_of<LifetimeError>([&] { gelutanh(a, b); }),
                 "'b' is on another runtime object than 'a'"));
}

TEST_CASE("a tile that nothing wrote cannot be read", "[tile][tile]") {
  Serial runtime;
  Tile<float, Serial> const a(runtime, {2, 2}, "a"), b(runtime, {2, 2}, "b");
  CHECK_THROWS_AS(gelutanh(a, b), LifetimeError);
  CHECK_THROWS_AS(a.read(), LifetimeError);
}

TEST_CASE("a tile moves, and what is left behind retires nothing", "[tile][tile]") {
  Serial runtime;
  auto a = filled(runtime, 7);
  Tile<float, Serial> b(std::move(a));
  CHECK(b.read()[0] == 7);
  b = filled(runtime, 8);
  CHECK(b.read()[0] == 8);
}

TEST_CASE("a result may not overwrite an operand that the op still reads", "[tile][tile]") {
  Serial runtime;
  auto const a = filled(runtime, 1, "a"), b = filled(runtime, 2, "b");
  CHECK(message_of<ValueError>([&] { gemm(a, b, a); }) ==
        "gemm: its result c ('a') is also its operand a ('a'), which it may not overwrite; give c "
        "a tensor of its own");
  CHECK_THROWS_AS(gemm.async({.beta = 1}, a, b, b), ValueError);
  CHECK(a.read() == std::vector<float>(64, 1));
  add(a, a, a);
  gemm(a, a, b);
  CHECK(b.read() == std::vector<float>(64, 32));
}

TEST_CASE("a tile of more bytes than can be counted is refused", "[tile][tile]") {
  Serial runtime;
  using Wide = Tile<double, Serial>;
  CHECK_THROWS_AS(Wide(runtime, {Index{1} << 62}), ShapeError);
  CHECK_THROWS_AS(Wide(runtime, {-1}), ShapeError);
}

TEST_CASE("a tile allocates nothing but its buffer, and the name that it is given",
          "[tile][tile]") {
  if (!allocations_are_counted()) return skip("a sanitizer owns malloc");
  Serial runtime;
  std::vector<Serial::Handle> handles;
  std::vector<Tile<float, Serial>> tiles;
  handles.reserve(64), tiles.reserve(64);
  auto const calls = [&](auto&& make) {
    AllocationCount const count;
    for (int i = 0; i < 64; ++i) make();
    std::size_t const result = count.calls();
    for (auto const handle : handles) runtime.retire(handle);
    handles.clear(), tiles.clear();
    return result;
  };
  auto const allocate = [&] {
    handles.push_back(runtime.allocate(256, host, Lifetime::persistent));
  };
  (void)calls(allocate);  // the runtime's tables grow
  std::size_t const buffers = calls(allocate);
  CHECK(calls([&] { tiles.emplace_back(runtime, Shape{8, 8}); }) == buffers);
  CHECK(calls([&] { tiles.emplace_back(runtime, Shape{8, 8}, "a"); }) == buffers + 64);
}

TEST_CASE("a name stays where tasks in flight read it while its tile moves", "[tile][tile]") {
  Serial runtime;
  auto a = filled(runtime, 1, "a");
  char const* const text = a.operand().name;
  std::vector<Tile<float, Serial>> tiles;
  for (int i = 0; i < 3; ++i) tiles.push_back(i == 0 ? std::move(a) : filled(runtime, 1, "b"));
  CHECK(tiles[0].operand().name == text);
  CHECK(tiles[0].name() == "a");
}

TEST_CASE("a tile that is read or locked too early is missed by its name", "[tile][tile]") {
  Serial runtime;
  Tile<float, Serial> const tile(runtime, Shape{4}, "weights");
  for (auto const& text : {message_of<LifetimeError>([&] { (void)tile.read(); }),
                           message_of<LifetimeError>([&] { (void)tile.lock<Access::read>(); })})
    CHECK(text.starts_with("tile 'weights': lock for read: nothing has written "));
  auto const open = tile.lock<Access::write>();
  CHECK(message_of<LifetimeError>([&] {
          tile.write(std::vector<float>(4));
        }).starts_with("tile 'weights': lock: "));
}

TEST_CASE("a reference that throws fails its task", "[tile][tile]") {
  Serial runtime;
  Tensor<float, Serial> const x(runtime, Tiling({4}, {2}), "x"), y(runtime, Tiling({4}, {2}), "y");
  x.write(std::vector<float>{1, 2, 3, -4});
  CHECK(message_of<TaskError>([&] { picky(x, y); }) ==
        "picky of tensor 'y', tile 1 (task 2) failed: below 0");
  x.write(std::vector<float>{1, 2, 3, 4});
  picky(x, y);
  CHECK(y.read() == x.read());
}

TEST_CASE("a tile whose arguments cannot be made is not read as it was before", "[tile][tile]") {
  Serial runtime;
  Tensor<float, Serial> const x(runtime, Tiling({4}, {2}), "x"), y(runtime, Tiling({4}, {2}), "y");
  x.write(std::vector<float>{1, 2, 3, 4});
  y.write(std::vector<float>(4, 9));
  CHECK(message_of<ValueError>([&] { picky({.first = true}, x, y); }) ==
        "picky: not of the first tile");
  CHECK(y.lock<Access::read>(0)[1] == 2);
  CHECK(contains(message_of<TaskError>([&] { (void)y.lock<Access::read>(1); }),
                 "tile 1 (task 2) failed: picky: not of the first tile"));
}

TEST_CASE("arguments that throw what is no std::exception leave no tile as it was before",
          "[tile][tile]") {
  Serial runtime;
  Tensor<float, Serial> const x(runtime, Tiling({4}, {2}), "x"), y(runtime, Tiling({4}, {2}), "y");
  x.write(std::vector<float>{1, 2, 3, 4});
  y.write(std::vector<float>(4, 9));
  CHECK_THROWS_AS(picky({.first = true, .odd = true}, x, y), int);
  CHECK(y.lock<Access::read>(0)[1] == 2);
  CHECK(contains(message_of<TaskError>([&] { (void)y.lock<Access::read>(1); }),
                 "tile 1 (task 2) failed: its submission threw what is no std::exception"));
}

TEST_CASE("tiles that an op does not list to the end are not read as they were before",
          "[tile][tile]") {
  Serial runtime;
  Tensor<float, Serial> const x(runtime, Tiling({4}, {2}), "x"), y(runtime, Tiling({4}, {2}), "y");
  x.write(std::vector<float>{1, 2, 3, 4});
  y.write(std::vector<float>(4, 9));
  CHECK(message_of<ValueError>([&] { listed(x, y); }) == "listed: no second tile");
  CHECK(contains(message_of<TaskError>([&] { (void)y.lock<Access::read>(1); }),
                 "failed: listed: no second tile"));
  y.write(std::vector<float>(4, 9));
  CHECK_THROWS_AS(listed({.odd = true}, x, y), int);
  CHECK_THROWS_AS(y.lock<Access::read>(1), TaskError);
  picky(x, y);
  CHECK(y.read() == x.read());
}
