// SPDX-License-Identifier: BSD-3-Clause
// add, copy, scale, fill, gelutanh.
#include "nntile/ops/add.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/scale.hh"
#include "tests/support/catch.hh"
#include "tests/support/eager_gradient.hh"
#include "tests/support/op_driver.hh"

namespace {

using namespace nntile;
using test::op_case;

test::Cuts const uneven{{"i0", {1, 34}}, {"i1", {5, 4}}};
Shape const wide{35, 9};

/// Of four operands, whose axes have another letter than those of the library's ops.
struct Between : Elementwise<Between, ops::CopyAttrs> {
  static constexpr char const* name = "between";
  enum class Operand : std::uint8_t { x, y, part, z };
  static constexpr Operands operands{
      {"x", "n..."}, {"y", "n..."}, {"part", "n..."}, {"z", "n...", Access::write}};
  static constexpr Fields fields{};
  static constexpr char const* no_gradient = "it is not needed";
  template <class V> static constexpr V apply(Attrs const&, V x, V y, V part) {
    return x + part * (y - x);
  }
};

}  // namespace

TEST_CASE("add is a weighted sum", "[ops][elementwise]") {
  for (double const beta : {0.0, 1.0, -0.5}) {
    auto c = op_case<ops::Add>({.alpha = 2, .beta = beta}, {wide, wide, wide});
    c.canonical = {uneven};
    c.scale = 2;
    c.whole_numbers = true;
    test::check_op(c);
  }
}

TEST_CASE("add with beta 0 leaves its second operand out", "[ops][elementwise]") {
  auto c = op_case<ops::Add>({.alpha = 1, .beta = 0}, {Shape{40}, Shape{40}, Shape{40}});
  c.prepare = [](std::vector<test::Array>& operands) { operands[1].set(3, NAN); };
  auto const got = test::run_kernel(c, DType::fp32, test::make_operands(c, DType::fp32));
  for (Index i = 0; i < 40; ++i) CHECK(got[2].get(i) == got[0].get(i));
}

TEST_CASE("copy of more than 64 KiB, for which a CPU may have an instruction",
          "[ops][elementwise]") {
  auto c = op_case<ops::Copy>({}, {Shape{641, 53}, Shape{641, 53}});
  c.whole_numbers = true;
  test::check_op(c);
}

TEST_CASE("copy and scale", "[ops][elementwise]") {
  auto c = op_case<ops::Copy>({}, {wide, wide});
  c.canonical = {uneven};
  c.whole_numbers = true;
  test::check_op(c);
  for (double const beta : {0.0, 0.5}) {
    auto s = op_case<ops::Scale>({.alpha = -2, .beta = beta}, {wide, wide});
    s.canonical = {uneven};
    s.scale = 2;
    s.whole_numbers = true;
    test::check_op(s);
  }
}

TEST_CASE("fill writes one value everywhere", "[ops][elementwise]") {
  auto c = op_case<ops::Fill>({.value = 0.1}, {wide});
  c.canonical = {uneven};
  test::check_op(c);
}

TEST_CASE("fill rounds its value once", "[ops][elementwise]") {
  auto const c = op_case<ops::Fill>({.value = 1 + 0x1p-8 + 0x1p-40}, {Shape{5}});
  auto const y = test::run_kernel(c, DType::bf16, test::make_operands(c, DType::bf16))[0];
  for (Index i = 0; i < 5; ++i) CHECK(y.get(i) == 1 + 0x1p-7);
}

TEST_CASE("gelutanh and its derivative", "[ops][elementwise]") {
  auto c = op_case<ops::Gelutanh>({}, {wide, wide});
  c.canonical = {uneven};
  c.scale = 4;
  c.prepare = [](std::vector<test::Array>& operands) {
    for (Index i = 0; i < operands[0].count(); ++i) operands[0].set(i, 6 * operands[0].get(i));
  };
  test::check_op(c);
  for (double const beta : {0.0, 1.0}) {
    auto b = op_case<ops::GelutanhBackward>({.beta = beta}, {wide, wide, wide});
    b.canonical = {uneven};
    b.scale = 8;
    test::check_op(b);
  }
}

TEST_CASE("the derivative of gelutanh is 0 or 1 far from 0, up to infinities",
          "[ops][elementwise]") {
  for (DType const element : {DType::fp64, DType::fp32, DType::bf16, DType::fp16})
    for (Isa const isa : test::instruction_sets())
      for (double const x :
           {40.0, 64.0, 65.0, 6e4, 1.2e13, 1e19, 1e20, 1e38, 1e102, 1e155, 1e308, HUGE_VAL}) {
        auto c = op_case<ops::GelutanhBackward>({}, {Shape{40}, Shape{40}, Shape{40}});
        c.prepare = [&](std::vector<test::Array>& operands) {
          for (Index i = 0; i < 40; ++i) operands[0].set(i, i % 2 == 0 ? x : -x);
        };
        auto const operands = test::make_operands(c, element);
        auto const dx = test::run_kernel(c, element, operands, {.isa = isa})[2];
        Index wrong = 0;
        for (Index i = 0; i < 40; ++i)
          wrong += dx.get(i) == (i % 2 == 0 ? operands[1].get(i) : 0) ? 0 : 1;
        INFO(name_of(element) << " " << name_of(isa) << " " << x);
        CHECK(wrong == 0);
      }
}

TEST_CASE("elementwise ops take one element and lengths around a register", "[ops][elementwise]") {
  for (Index const n : {1, 3, 4, 7, 8, 15, 16, 17, 33}) {
    auto c = op_case<ops::Gelutanh>({}, {Shape{n}, Shape{n}});
    c.scale = 4;
    test::check_op(c);
  }
}

TEST_CASE("an elementwise op of four operands computes every element", "[ops][elementwise]") {
  auto const c = op_case<Between>({}, {wide, wide, wide, wide});
  auto const operands = test::make_operands(c, DType::fp32, true);
  for (test::Cuts const& cuts : {test::Cuts{}, test::Cuts{{"n0", {1, 34}}, {"n1", {5, 4}}}}) {
    auto const got = test::run_kernel(c, DType::fp32, operands, {.cuts = cuts});
    for (Index i = 0; i < got[3].count(); ++i) {
      double const x = got[0].get(i), y = got[1].get(i), part = got[2].get(i);
      CHECK(got[3].get(i) == x + part * (y - x));
    }
  }
}

TEST_CASE("elementwise ops have gradients", "[ops][elementwise]") {
  Shape const x{3, 4};
  test::check_gradient<ops::Add>(op_case<ops::Add>({.alpha = 2, .beta = -0.5}, {x, x, x}), 2,
                                 {0, 1});
  test::check_gradient<ops::Add>(op_case<ops::Add>({}, {x, x, x}), 2, {0, 1});
  test::check_gradient<ops::Copy>(op_case<ops::Copy>({}, {x, x}), 1, {0});
  test::check_gradient<ops::Scale>(op_case<ops::Scale>({.alpha = 3}, {x, x}), 1, {0});
  test::check_gradient<ops::Gelutanh>(op_case<ops::Gelutanh>({}, {x, x}), 1, {0});
}
