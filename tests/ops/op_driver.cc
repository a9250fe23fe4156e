// SPDX-License-Identifier: BSD-3-Clause
// The generic driver of tests of ops, and what it must notice.
#include "tests/support/op_driver.hh"

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>

#include "nntile/core/box.hh"
#include "nntile/ops/sum_slice.hh"
#include "nntile/runtime/dynamic/dynamic.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif
#include "nntile/tile/submit.hh"
#include "tests/support/catch.hh"
#include "tests/support/cramped.hh"
#include "tests/support/simt/runtime.hh"

namespace nntile::test {
namespace {

#ifdef NNTILE_HAVE_STARPU
using AnyRuntime = Dynamic<Cramped, Simt, Serial, Ring, StarPU>;
char const* const parallel_runtimes[] = {"ring", "starpu"};
#else
using AnyRuntime = Dynamic<Cramped, Simt, Serial, Ring>;
char const* const parallel_runtimes[] = {"ring"};
#endif

bool overwritten(OpCase const& c, Operands const& operands, std::size_t o) {
  if (!writes(operands[o].access)) return false;
  return operands[o].access == Access::write ||
         c.op->overwrites(c.attrs.data(), static_cast<int>(o));
}

/// The tiling of each axis of the op.
std::vector<AxisTiling> tilings_of(AxisTable const& table, Cuts const& cuts) {
  std::vector<AxisTiling> result;
  for (Axis const& axis : table.axes) {
    AxisTiling tiling = AxisTiling::whole(axis.extent);
    for (Cut const& cut : cuts) {
      int const within = cut.axis.size() > 1 ? cut.axis[1] - '0' : 0;
      if (cut.axis[0] == axis.group && within == axis.within) tiling = AxisTiling::sizes(cut.sizes);
    }
    result.push_back(tiling);
  }
  return result;
}

/// Tiles of one operand on a runtime.
struct TiledArray {
  Tiling tiling;
  std::vector<AnyRuntime::Handle> handles;
};

TiledArray place(AnyRuntime& runtime, Array const& array, std::vector<AxisTiling> axes,
                 bool write) {
  TiledArray result{Tiling(std::move(axes)), {}};
  std::size_t const bytes = size_of(array.dtype);
  for (Index tile = 0; tile < result.tiling.tile_count(); ++tile) {
    TileBox const box = result.tiling.box(tile);
    auto const handle =
        runtime.allocate(static_cast<std::size_t>(element_count(box.extent)) * bytes);
    result.handles.push_back(handle);
    if (!write) continue;
    copy_to_tile(runtime.lock(handle, Access::write).data(), box, array.bytes.data(), array.shape,
                 bytes);
    runtime.unlock(handle);
  }
  return result;
}

std::string describe(OpCase const& c, DType element, Execution const& how) {
  std::string text =
      concat(c.op->name, " ", name_of(element), " ", name_of(c.types(element).second), " ",
             name_of(how.isa), " ", how.runtime, " seed ", operands_seed, " shapes");
  for (Shape const& shape : c.shapes) text += concat(" ", to_string(shape));
  for (Cut const& cut : how.cuts) {
    text += concat(" cut ", cut.axis, ":");
    for (Index const size : cut.sizes) text += concat(" ", size);
  }
  for (AxisGroups const& each : c.groups) text += concat(" groups ", each.axis, "=", each.groups);
  return text;
}

bool takes(OpCase const& c, DType element) {
  for (DType const dtype : c.op->dtypes)
    if (dtype == element) return true;
  return false;
}

void check_dtype(OpCase const& c, DType element) {
  auto const operands = make_operands(c, element);
  auto const exact = run_reference(c, element, operands);
  std::vector<Array> best, avx2;
  for (Isa const isa : instruction_sets()) {
    Execution const how{.isa = isa};
    INFO(describe(c, element, how));
    REQUIRE(kernels::find(c.op->name, element, c.types(element).second, Mode::exact, isa) !=
            nullptr);
    best = run_kernel(c, element, operands, how);
    CHECK(deviation(c, element, best, exact) == "");
    if (isa == Isa::v3) avx2 = best;
    if (isa == Isa::v4 && !avx2.empty()) CHECK(difference(c, best, avx2) == "");
  }
  auto const check_cut = [&](Execution const& how, bool equal) {
    INFO(describe(c, element, how));
    auto const got = run_kernel(c, element, operands, how);
    CHECK(deviation(c, element, got, exact) == "");
    if (equal) CHECK(difference(c, got, best) == "");
  };
  bool const device =
      !avx2.empty() && on_device(c.op->name, element, c.types(element).second) != nullptr;
  // The emulator takes microseconds for a thread: large cases are left out, of others narrower
  // types run the cut that cuts the most.
  Index const flops = total_cost(c).flops;
  bool const small = flops < 2'000'000;
  if (device && (small || (element == DType::fp32 && flops < 12'000'000)))
    check_cut({.isa = Isa::v3, .runtime = "simt"}, true);
  for (Cuts const& cuts : c.canonical)
    if (device && small && (element == DType::fp32 || &cuts == &c.canonical.back()))
      check_cut({.cuts = cuts, .isa = Isa::v3, .runtime = "simt"}, true);
  for (Cuts const& cuts : c.canonical) check_cut({.cuts = cuts}, true);
  for (Cuts const& cuts : c.other) check_cut({.cuts = cuts}, false);
  // Which kernel runs does not depend on the runtime: one dtype and one tiling each will do.
  if (element == DType::fp32 && !c.canonical.empty())
    for (char const* const runtime : parallel_runtimes)
      check_cut({.cuts = c.canonical.back(), .runtime = runtime, .workers = 2}, true);
}

void check_whole_numbers(OpCase const& c, DType element) {
  auto const operands = make_operands(c, element, true);
  auto const exact = run_reference(c, element, operands);
  Operands const declared = visible(c);
  auto check = [&](Execution const& how) {
    INFO("whole numbers: " << describe(c, element, how));
    auto const got = run_kernel(c, element, operands, how);
    for (std::size_t o = 0; o < got.size(); ++o)
      if (writes(declared[o].access)) CHECK(got[o].bytes == exact[o].as(got[o].dtype).bytes);
  };
  for (Isa const isa : instruction_sets()) check({.isa = isa});
  for (Cuts const& cuts : c.canonical) check({.cuts = cuts});
  for (Cuts const& cuts : c.other) check({.cuts = cuts});
}

}  // namespace

std::vector<AxisGroups> eager_groups(OpCase const& c) {
  std::vector<AxisGroups> result = c.groups;
  AxisTable const table = axes_of(c);
  for (AxisGroups& each : result) {
    int dimensions = 0;
    for (Axis const& axis : table.axes) dimensions += axis.group == each.axis[0] ? 1 : 0;
    if (dimensions == 1) each.axis.resize(1);
  }
  return result;
}

std::string deviation(OpCase const& c, DType element, std::vector<Array> const& got,
                      std::vector<Array> const& exact) {
  Operands const operands = visible(c);
  auto const unit = [](DType dtype) {
    switch (dtype) {
      case DType::fp64:
        return 0x1p-53;
      case DType::bf16:
        return 0x1p-8;
      case DType::fp16:
        return 0x1p-11;
      default:
        return 0x1p-24;
    }
  };
  for (std::size_t o = 0; o < got.size(); ++o) {
    if (!writes(operands[o].access)) continue;
    double largest = 0;
    for (Index i = 0; i < exact[o].count(); ++i)
      if (std::isfinite(exact[o].get(i))) largest = std::max(largest, std::fabs(exact[o].get(i)));
    for (Index i = 0; i < got[o].count(); ++i) {
      double const want = exact[o].get(i);
      double const have = got[o].get(i);
      double bound = 4 * std::sqrt(c.terms) * unit(accumulator_of(element)) * c.scale * largest +
                     unit(got[o].dtype) * std::fabs(want);
      if (got[o].dtype == DType::fp16)
        bound += 0x1p-25;  // its subnormals are that far apart, halved
      if (!std::isfinite(want)) bound = 0;
      if (want == have || (std::isnan(want) && std::isnan(have)) || std::fabs(want - have) <= bound)
        continue;
      return concat(operands[o].name, "[", i, "] = ", have, ", expected ", want, " within ", bound);
    }
  }
  return {};
}

std::string difference(OpCase const& c, std::vector<Array> const& a, std::vector<Array> const& b) {
  Operands const operands = visible(c);
  for (std::size_t o = 0; o < a.size(); ++o)
    for (Index i = 0; i < a[o].count(); ++i)
      if (a[o].word(i) != b[o].word(i))
        return concat(operands[o].name, "[", i, "] = ", a[o].get(i), " but ", b[o].get(i));
  return {};
}

std::vector<Array> run_kernel(OpCase const& c, DType element, std::vector<Array> operands,
                              Execution const& how) {
  AnyRuntime runtime(how.runtime, {.workers = how.workers});
  Operands const declared = visible(c);
  AxisTable const table = axes_of(c);
  auto const tilings = tilings_of(table, how.cuts);
  std::vector<TiledArray> tiled;
  inplace_vector<TiledOperand<AnyRuntime>, max_operands> given;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    bool const fresh = overwritten(c, declared, o);
    if (fresh && is_float(operands[o].dtype))
      for (Index i = 0; i < operands[o].count(); ++i)
        operands[o].set(i, std::numeric_limits<double>::quiet_NaN());
    std::vector<AxisTiling> axes;
    for (auto const axis : table.operands[o]) axes.push_back(tilings[axis]);
    tiled.push_back(place(runtime, operands[o], std::move(axes), !fresh || how.cuts.empty()));
  }
  for (std::size_t o = 0; o < operands.size(); ++o)
    given.push_back(
        {&runtime, operands[o].dtype, &tiled[o].tiling, tiled[o].handles.data(), declared[o].name});
  submit_op<AnyRuntime>(*c.op, c.attrs.data(), given, [](Event) {},
                        {.mode = how.mode, .isa = how.isa, .groups = eager_groups(c)});
  (void)element;
  runtime.wait_all();
  for (std::size_t o = 0; o < operands.size(); ++o)
    for (Index tile = 0; tile < tiled[o].tiling.tile_count(); ++tile) {
      auto const handle = tiled[o].handles[static_cast<std::size_t>(tile)];
      copy_from_tile(runtime.lock(handle, Access::read).data(), tiled[o].tiling.box(tile),
                     operands[o].bytes.data(), operands[o].shape, size_of(operands[o].dtype));
      runtime.unlock(handle);
    }
  return operands;
}

Cost total_cost(OpCase const& c, Cuts const& cuts, DType element) {
  struct Sum final : TileVisitor {
    TiledCall const& call;
    Cost cost;
    explicit Sum(TiledCall const& of) : call(of) {}
    void visit(TileTask const& task) override { cost += cost_of(call, task); }
  };
  auto const table = axes_of(c);
  auto const tilings = tilings_of(table, cuts);
  TiledCall call{
      c.op, c.attrs.data(), element, c.types(element).second, c.op->operands(c.attrs.data()), table,
      {}};
  for (AxisTiling const& tiling : tilings) call.tilings.push_back(&tiling);
  Sum sum(call);
  walk(call, sum);
  return sum.cost;
}

std::vector<Isa> instruction_sets() {
  std::vector<Isa> result;
  for (Isa const isa : {Isa::plain, Isa::v2, Isa::v3, Isa::v4})
    if (kernels::available(isa)) result.push_back(isa);
  return result;
}

void check_op(OpCase const& c) {
  for (DType const element :
       {DType::fp64, DType::fp32, DType::bf16, DType::fp16, DType::fp32_fast_tf32}) {
    if (!takes(c, element)) continue;
    check_dtype(c, element);
    for (ElementTypes const& types : c.op->types) {
      if (types.element != element || types == c.types(element)) continue;
      OpCase other = c;
      other.second = types.second;
      check_dtype(other, element);
    }
    if (c.whole_numbers) check_whole_numbers(c, element);
  }
}

}  // namespace nntile::test

namespace {

using namespace nntile;

TEST_CASE("the driver writes nothing into what an op overwrites, and the op writes all of it",
          "[ops][driver]") {
  auto c = test::op_case<ops::SumSlice>({.axis = 0}, {Shape{64, 3}, Shape{3}});
  auto const operands = test::make_operands(c, DType::fp32);
  for (auto const& cuts : {test::Cuts{}, test::Cuts{{"j", {1, 2}}}}) {
    auto const got = test::run_kernel(c, DType::fp32, operands, {.cuts = cuts});
    for (Index i = 0; i < 3; ++i) CHECK(std::isfinite(got[1].get(i)));
  }
}

TEST_CASE("an infinity is near to itself alone", "[ops][driver]") {
  auto const c = test::op_case<ops::SumSlice>({.axis = 0}, {Shape{64, 2}, Shape{2}});
  auto const operands = test::make_operands(c, DType::fp32);
  auto exact = test::run_reference(c, DType::fp32, operands), got = exact;
  exact[1].set(1, HUGE_VAL);
  CHECK(test::deviation(c, DType::fp32, exact, exact) == "");
  CHECK(test::deviation(c, DType::fp32, got, exact) != "");
  got[1].set(1, -HUGE_VAL);
  CHECK(test::deviation(c, DType::fp32, got, exact) != "");
}

}  // namespace
