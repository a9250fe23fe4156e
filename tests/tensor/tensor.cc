// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/tensor/tensor.hh"

#include <cstring>
#include <numeric>

#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

}  // namespace

TEST_CASE("what is written into tiles comes out of them", "[tensor][tensor]") {
  Serial runtime;
  auto const tile =
      GENERATE(Shape{7, 5, 3}, Shape{2, 2, 2}, Shape{3, 5, 1}, Shape{1, 1, 1}, Shape{4, 3, 3});
  Tensor<float, Serial> const tensor(runtime, Tiling({7, 5, 3}, tile));
  tensor.write(ramp(105));
  CHECK(tensor.read() == ramp(105));
}

TEST_CASE("a tile holds its box, dimension 0 fastest", "[tensor][tensor]") {
  Serial runtime;
  Tensor<float, Serial> const tensor(runtime, Tiling({4, 3}, {2, 2}));
  tensor.write(ramp(12));
  auto const view = tensor.lock<Access::read>(3);  // rows 2 and 3, column 2
  CHECK(std::vector<float>(view.span().begin(), view.span().end()) == std::vector<float>{10, 11});
}

TEST_CASE("a scalar tensor has one tile", "[tensor][tensor]") {
  Serial runtime;
  Tensor<double, Serial> const tensor(runtime, Tiling(Shape{}));
  tensor.write(std::vector<double>{3});
  CHECK(tensor.read() == std::vector<double>{3});
}

TEST_CASE("products of any tiling have the untiled product's bits", "[tensor][tensor]") {
  Ring runtime({.workers = 2});
  bool const trans = GENERATE(false, true);
  auto const product = [&](Index m, Index n, Index k) {
    Tensor<float, Ring> const a(runtime,
                                trans ? Tiling({70, 90}, {k, m}) : Tiling({90, 70}, {m, k}));
    Tensor<float, Ring> const b(runtime, Tiling({70, 50}, {k, n})),
        c(runtime, Tiling({90, 50}, {m, n}));
    auto values = ramp(6300);
    for (float& value : values) value = 1 / (value + 1);
    a.write(values);
    b.write(std::span(values).first(3500));
    gemm({.trans_a = trans}, a, b, c);
    return c.read();
  };
  auto const whole = product(90, 50, 70), tiled = product(17, 23, 29);
  CHECK(std::memcmp(whole.data(), tiled.data(), whole.size() * sizeof(float)) == 0);
}

TEST_CASE("an op over a cut axis runs its phases over the tiles", "[tensor][tensor]") {
  Serial runtime;
  auto const normalised = [&](Index tile) {
    Tiling const rows({128, 6}, {tile, 4}), weights({128}, {tile}), columns({6}, {4});
    Tensor<float, Serial> const x(runtime, rows), gamma(runtime, weights), beta(runtime, weights),
        y(runtime, rows), mean(runtime, columns), rstd(runtime, columns);
    x.write(ramp(768));
    gamma.write(std::vector<float>(128, 2));
    beta.write(std::vector<float>(128, 1));
    layer_norm(x, gamma, beta, y, mean, rstd);
    return y.read();
  };
  CHECK(normalised(128) == normalised(64));
}

TEST_CASE("narrow results of a cut sum are rounded once", "[tensor][tensor]") {
  Serial runtime;
  auto const product = [&](Index tile) {
    Tensor<bf16_t, Serial> const a(runtime, Tiling({8, 96}, {8, tile})),
        b(runtime, Tiling({96, 8}, {tile, 8})), c(runtime, Tiling({8, 8}, {8, 8}));
    std::vector<bf16_t> values;
    for (int i = 0; i < 768; ++i) values.push_back(bf16_t(1.0f / static_cast<float>(i + 3)));
    a.write(values);
    b.write(values);
    gemm(a, b, c);
    return c.read();
  };
  auto const whole = product(96), tiled = product(32);
  CHECK(std::memcmp(whole.data(), tiled.data(), whole.size() * sizeof(bf16_t)) == 0);
}

TEST_CASE("hidden tiles of a call take scratch memory for its time", "[tensor][tensor]") {
  RingCapacities heaps;
  heaps.scratch = {2 * 8 * 8 * sizeof(float), OnFull::wait};  // of two calls
  Ring runtime({2, false, false}, heaps);
  Tensor<bf16_t, Ring> const a(runtime, Tiling({8, 96}, {8, 32})),
      b(runtime, Tiling({96, 8}, {32, 8})), c(runtime, Tiling({8, 8}, {8, 8}));
  a.write(std::vector<bf16_t>(768, bf16_t(1.0f)));
  b.write(std::vector<bf16_t>(768, bf16_t(1.0f)));
  std::vector<TaskGroup<Ring>> calls;
  for (int i = 0; i < 10; ++i)
    calls.push_back(apply_async(ops::Gemm{}, ops::Gemm::Attrs{}, a, b, c));
  runtime.wait_all();
  CHECK(static_cast<float>(c.read()[0]) == 96);
  CHECK(runtime.stats().scratch.peak == 2 * 8 * 8 * sizeof(float));
  CHECK(runtime.stats().scratch.growths == 0);
  auto const scope_of_all = scope(runtime, Lifetime::scratch);
  CHECK_NOTHROW(runtime.allocate(512, host, Lifetime::scratch));  // all of it has come back
}

TEST_CASE("tensors that are cut differently are refused", "[tensor][tensor]") {
  Serial runtime;
  Tensor<float, Serial> const x(runtime, Tiling({8}, {4}), "x"), y(runtime, Tiling({8}, {2}), "y");
  CHECK(contains(message_of<ShapeError>([&] { gelutanh(x, y); }),
                 "'x') and y ('y') are cut differently along axis 'i'"));
}

TEST_CASE("a tile that a tensor has not is refused", "[tensor][tensor]") {
  Serial runtime;
  Tensor<float, Serial> const x(runtime, Tiling({8}, {4}), "x");
  std::string const text = "tensor 'x': there is no tile 2, it has 2 (0 to 1)";
  CHECK(message_of<ShapeError>([&] { (void)x.handle(2); }) == text);
  CHECK(message_of<ShapeError>([&] { (void)x.lock<Access::write>(2); }) == text);
  CHECK_THROWS_AS(x.handle(-1), ShapeError);
}

TEST_CASE("a tensor of more tiles than have numbers is refused", "[tensor][tensor]") {
  Serial runtime;
  Index const side = Index{1} << 20;
  CHECK(message_of<ShapeError>([&] {
          Tensor<bool, Serial>(runtime, Tiling({side, side}, {1, 1}), "x");
        }) == "tensor 'x': 1099511627776 tiles where 4294967294 are possible; use larger tiles");
  Index const large = side << 10;  // more than a vector has room for, and not an element
  CHECK_THROWS_AS((Tensor<bool, Serial>(runtime, Tiling({0, large, large}, {1, 1, 1}))),
                  ShapeError);
}

TEST_CASE("an empty tensor is legal, and what an op gives it can be read", "[tensor][tensor]") {
  Serial runtime;
  Tensor<float, Serial> const x(runtime, Tiling(Shape{0, 3})), y(runtime, Tiling(Shape{0, 3}));
  x.write(std::vector<float>{});
  gelutanh(x, y);
  CHECK(y.read().empty());
}

TEST_CASE("a product may not be cut over an operand that it still reads", "[tensor][tensor]") {
  Serial runtime;
  Tensor<float, Serial> const a(runtime, Tiling({4, 4}, {2, 2}), "a"),
      b(runtime, Tiling({4, 4}, {2, 2}), "b");
  a.write(ramp(16));
  b.write(ramp(16));
  CHECK(contains(message_of<ValueError>([&] { gemm(a, b, b); }),
                 "gemm: its result c ('b') is also its operand b ('b')"));
  CHECK(b.read() == ramp(16));
  gelutanh(a, a);
  CHECK(a.read()[0] == 0);
}
