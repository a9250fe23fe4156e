// SPDX-License-Identifier: BSD-3-Clause
// Canonical groups: the bits of sums over grouped axes, from nntile/NUMERICS.md alone, over
// tilings, runtimes, eager calls and plans.
#include <cmath>

#include "nntile/core/groups.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/ops/groups_reference.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/planned_op.hh"

namespace {

using namespace nntile;
using namespace nntile::test;
using namespace nntile::test::grouped;

/// c = alpha a b + beta c + bias of contracted axes k0, k1, all column-major; a is k0, k1, m where
/// it is transposed.
template <class V> void multiply(OpCase const& c, std::vector<Array>& x) {
  auto const& attrs = *reinterpret_cast<ops::Gemm::Attrs const*>(c.attrs.data());
  Array& out = x.back();
  Index const m = out.shape[0], k0 = x[1].shape[0], k1 = x[1].shape[1], n = out.shape[1];
  std::vector<GroupedAxis> axes{{k0, 1}, {k1, 1}};
  for (AxisGroups const& each : c.groups) axes[each.axis == "k0" ? 0 : 1].groups = each.groups;
  for (Index j = 0; j < n; ++j)
    for (Index i = 0; i < m; ++i) {
      V sum = by_groups<V>(axes, [&](auto const& begin, auto const& end) {
        V chain = 0;
        for (Index q = begin[1]; q < end[1]; ++q)
          for (Index p = begin[0]; p < end[0]; ++p)
            chain = std::fma(V(attrs.alpha) * V(x[0].get(attrs.trans_a ? p + k0 * (q + k1 * i)
                                                                       : i + m * (p + k0 * q))),
                             V(x[1].get(p + k0 * (q + k1 * j))), chain);
        return chain;
      });
      if (attrs.beta != 0) sum = std::fma(V(attrs.beta), V(out.get(i + m * j)), sum);
      if (attrs.bias) sum += V(x[2].get(i));
      out.set(i + m * j, static_cast<double>(sum));
    }
}

}  // namespace

TEST_CASE("groups are whole units of 64 where they fit, the first ones the longer",
          "[ops][groups]") {
  for (Index const extent : {1, 5, 63, 64, 127, 128, 130, 200, 256, 333, 50257})
    for (Index const count : {1, 2, 3, 4, 5, 7, 8}) {
      if (count > extent) continue;
      INFO(extent << " in " << count);
      GroupCut const cut{extent, count};
      for (Index group = 0; group <= count; ++group)
        CHECK(cut.begin(group) == begin_of(extent, count, group));
      for (Index group = 0; group < count; ++group) CHECK(cut.begin(group) < cut.begin(group + 1));
      CHECK(cut.begin(count) == extent);
    }
}

TEST_CASE("a product is a chain for each group, added by the tree, beta C to its root",
          "[ops][groups][gemm]") {
  std::vector<Cuts> const tilings{{},
                                  {{"k0", {5, 4}}},
                                  {{"k1", {3, 3, 1}}, {"m0", {2, 3}}},
                                  {{"k0", {1, 8}}, {"k1", {2, 5}}, {"n0", {3, 1}}}};
  for (auto const& groups : std::vector<Groups>{{{"k0", 2}},
                                                {{"k0", 9}},
                                                {{"k1", 3}},
                                                {{"k1", 7}},
                                                {{"k0", 3}, {"k1", 2}},
                                                {{"k0", 5}, {"k1", 6}}})
    for (bool const bias : {false, true})
      for (double const beta : {0.0, 1.0, 0.3}) {
        auto c = bias ? op_case<ops::Gemm>({.bias = true, .ndim = 2, .alpha = 1.7, .beta = beta},
                                           {Shape{5, 9, 7}, Shape{9, 7, 4}, Shape{5}, Shape{5, 4}})
                      : op_case<ops::Gemm>({.ndim = 2, .alpha = 1.7, .beta = beta},
                                           {Shape{5, 9, 7}, Shape{9, 7, 4}, Shape{5, 4}});
        c.groups = groups;
        for (DType const element : {DType::fp32, DType::fp64, DType::bf16, DType::fp16})
          check_bits(
              c, element,
              [&](std::vector<Array>& x) {
                element == DType::fp64 ? multiply<double>(c, x) : multiply<float>(c, x);
              },
              tilings);
      }
}

TEST_CASE("a pair of groups that one task multiplies is a sum of two chains",
          "[ops][groups][gemm]") {
  struct Case {
    Index m, k0, k1, n;
    Groups groups;
    Cuts cuts;
  };
  std::vector<Case> const cases{
      {100, 64, 4, 70, {{"k1", 2}}, {{"m0", {33, 67}}, {"n0", {64, 6}}}},
      {17, 3, 5, 9, {{"k1", 2}}, {{"k1", {3, 2}}}},  // 9 and 6 terms; a tile each
      {17, 1, 7, 9, {{"k1", 3}}, {{"k1", {5, 2}}}},  // a pair and a group
      {130, 7, 8, 5, {{"k1", 4}}, {{"k1", {4, 4}}}},
      {96, 512, 1, 33, {{"k0", 2}}, {{"k0", {256, 256}}}},
      {48, 448, 1, 20, {{"k0", 2}}, {{"m0", {20, 28}}}},  // 256 and 192
      {20, 514, 1, 20, {{"k0", 2}}, {}}};                 // 320 and 194: two tasks
  for (Case const& each : cases)
    for (bool const transposed : {false, true})
      for (double const beta : {0.0, 1.0, 0.3}) {
        Shape const a =
            transposed ? Shape{each.k0, each.k1, each.m} : Shape{each.m, each.k0, each.k1};
        bool const bias = transposed && beta == 0.3;
        std::vector<Shape> shapes{a, {each.k0, each.k1, each.n}, {each.m}, {each.m, each.n}};
        if (!bias) shapes.erase(shapes.begin() + 2);
        auto c = op_case<ops::Gemm>({.trans_a = transposed,
                                     .bias = bias,
                                     .ndim = 2,
                                     .alpha = transposed ? 1.7 : 1,
                                     .beta = beta},
                                    shapes);
        c.groups = each.groups;
        for (DType const element : {DType::fp32, DType::fp64, DType::bf16})
          check_bits(c, element,
                     [&](std::vector<Array>& x) {
                       element == DType::fp64 ? multiply<double>(c, x) : multiply<float>(c, x);
                     },
                     {{}, each.cuts});
      }
}

TEST_CASE("groups of a vendor's products are finished without a workspace", "[ops][groups]") {
  auto c = op_case<ops::Gemm>({.bias = true, .activation = Activation::gelu_tanh, .beta = 0.3},
                              {Shape{5, 9}, Shape{9, 4}, Shape{5}, Shape{5, 4}});
  c.groups = {{"k0", 3}};
  c.terms = 9;
  c.scale = 4;
  for (DType const element : c.op->dtypes) {
    INFO(name_of(element));
    auto const operands = make_operands(c, element);
    auto const fast = run_kernel(c, element, operands, {.mode = Mode::fast});
    CHECK(deviation(c, element, fast, run_reference(c, element, operands)) == "");
  }
}

TEST_CASE("pairs of groups are tasks where their terms are one stretch of a tile, and few",
          "[ops][groups]") {
  auto const tasks = [](Index k0, Index k1, Groups groups, Cuts const& cuts = {}) {
    auto c = op_case<ops::Gemm>({.ndim = 2}, {Shape{4, k0, k1}, Shape{k0, k1, 4}, Shape{4, 4}});
    c.groups = groups;
    LogicalGraph graph("product", {.groups = groups});
    build(graph, c, DType::fp32);
    return Plan(graph, {.tile = 0, .cuts = plan_cuts(cuts)}).tasks().size();
  };
  CHECK(tasks(3, 2, {{"k1", 2}}) == 1);
  CHECK(tasks(128, 4, {{"k1", 2}}) == 1);
  CHECK(tasks(129, 4, {{"k1", 2}}) == 2 + 1);    // 258 terms in a group
  CHECK(tasks(3, 2, {{"k0", 2}}) == 2 * 2 + 1);  // each group is two stretches
  CHECK(tasks(4, 1, {{"k0", 2}}) == 1);
  CHECK(tasks(4, 2, {{"k1", 2}}, {{"k0", {2, 2}}}) == 2 * 2 + 1);
  CHECK(tasks(4, 2, {{"k0", 2}, {"k1", 2}}) == 4 * 1 + 3);
  CHECK(tasks(3, 3, {{"k1", 3}}) == 2 + 1);
  CHECK(tasks(3, 8, {{"k1", 8}}) == 4 + 3);
  CHECK(tasks(3, 8, {{"k1", 8}}, {{"k1", {3, 5}}}) == 5 + 4);  // groups 2 and 3 are apart
}

TEST_CASE("sums are blocks of 64 from each group's beginning, or ascend within it",
          "[ops][groups][sum_slice]") {
  for (int const axis : {0, 1})
    for (Index const extent : {5, 130, 300})
      for (int const groups : {2, 3, 4})
        for (double const beta : {0.0, 0.5})
          for (DType const element : floats) {
            Shape const x = axis == 0 ? Shape{extent, 3} : Shape{7, extent, 3};
            Shape const y = axis == 0 ? Shape{3} : Shape{7, 3};
            auto c = op_case<ops::SumSlice>({.axis = axis, .alpha = 1.7, .beta = beta}, {x, y});
            c.groups = {{"k0", groups}};
            auto const reference = [&](std::vector<Array>& of) {
              with_accumulator(element, [&](auto tag) {
                using V = decltype(tag);
                for (Index at = 0; at < of[1].count(); ++at) {
                  Index const m = axis == 0 ? 1 : 7, i = at % m, j = at / m;
                  auto const value = [&](Index k) {
                    return V(of[0].get(i + m * (k + extent * j)));
                  };
                  std::vector<V> sums;
                  for (Index g = 0; g < groups; ++g) {
                    Index const begin = begin_of(extent, groups, g),
                                end = begin_of(extent, groups, g + 1);
                    V sum = 0;
                    if (axis == 0)
                      sum = blocked<V>(begin, end, [&](Index k) { return V(1.7) * value(k); });
                    else
                      for (Index k = begin; k < end; ++k) sum = std::fma(V(1.7), value(k), sum);
                    sums.push_back(sum);
                  }
                  set_updated(of[1], at, beta, tree(sums));
                }
              });
            };
            // Below 64 a group, borders within groups are not canonical along dimension 0.
            Cuts const cuts = extent >= 64 * groups ? Cuts{{"k0", {64, extent - 64}}}
                              : axis == 1           ? Cuts{{"k0", {1, extent - 1}}}
                                                    : Cuts{};
            check_bits(c, element, reference, {cuts, Cuts{{"j0", {1, 2}}}});
          }
}

TEST_CASE("squares of a tensor are added in fp64 by groups", "[ops][groups][global_norm]") {
  for (DType const element : floats)
    for (int const groups : {2, 3, 4}) {
      auto c = op_case<ops::SumSquares>({}, {Shape{300, 3}, Shape{3}});
      c.groups = {{"k0", groups}};
      check_bits(c, element,
                 [&](std::vector<Array>& x) {
                   for (Index j = 0; j < 3; ++j)
                     x[1].set(j, grouped_blocks<double>(300, groups, [&](Index k) {
                                return x[0].get(k + 300 * j) * x[0].get(k + 300 * j);
                              }));
                 },
                 {{{"k0", {128, 172}}}, {{"k0", {64, 64, 172}}, {"j0", {2, 1}}}});
    }
}

TEST_CASE("every op with groups has the same bits eager, cut and planned, or refuses",
          "[ops][groups]") {
  for (OpCase const& plain : every_op())
    for (int const groups : {2, 3}) {
      OpCase const c = with_groups(plain, groups);
      if (c.groups.empty()) continue;
      for (DType const element : floats) {
        INFO(c.op->name << " " << name_of(element) << " in " << groups);
        auto const operands = make_operands(c, element);
        auto const whole = run_kernel(c, element, operands);
        CHECK(deviation(c, element, whole, run_reference(plain, element, operands)) == "");
        Cuts cuts = canonical_cuts(c);
        std::string const letters = c.op->blocked(c.attrs.data());
        if (groups == 3)  // below 64 a group borders are not canonical
          std::erase_if(cuts,
                        [&](Cut const& cut) { return letters.find(cut.axis[0]) != letters.npos; });
        PlanOptions cut{.tile = 0, .cuts = plan_cuts(cuts)};
        for (Isa const isa : instruction_sets())
          if (isa == Isa::v3 || isa == Isa::v4)
            CHECK(difference(c, run_kernel(c, element, operands, {.cuts = cuts, .isa = isa}),
                             whole) == "");
        CHECK(difference(
                  c,
                  run_kernel(c, element, operands, {.cuts = cuts, .runtime = "ring", .workers = 2}),
                  whole) == "");
        CHECK(difference(c, run_planned<Serial>(c, element, operands), whole) == "");
        CHECK(difference(c, run_planned<Ring>(c, element, operands, cut), whole) == "");
        cut.pad = {{}};
        CHECK(difference(c, run_planned<Ring>(c, element, operands, cut), whole) == "");
      }
    }
}

TEST_CASE("an axis that an op sums over otherwise than by groups is refused, what is exact is not",
          "[ops][groups]") {
  auto const refused = [](OpCase c, Groups groups) -> std::string {
    c.groups = std::move(groups);
    auto const operands = make_operands(c, DType::fp32);
    std::string text;
    try {
      run_kernel(c, DType::fp32, operands);
    } catch (ValueError const& error) {
      text = error.what();
    }
    bool planned = false;
    try {
      run_planned<Serial>(c, DType::fp32, operands);
    } catch (Error const&) {  // a GraphError or a PlanError
      planned = true;
    }
    CHECK(planned == !text.empty());
    return text;
  };
  auto const attended = [] {
    Shape const q{8, 2, 6, 2}, rows{6, 2, 2};
    return op_case<ops::Attention>({}, {q, q, q, q, rows, rows});
  };
  CHECK(refused(attended(), {{"d0", 2}}) ==
        "attention: axis 'd' has 2 canonical groups, over which attention cannot sum; give that "
        "axis one group");
  CHECK(refused(attended(), {{"j0", 2}}) == "");
  auto const sum = op_case<ops::SumSlice>({.axis = 0}, {Shape{3, 2}, Shape{2}});
  CHECK(refused(sum, {{"k0", 4}}) ==
        "sum_slice: axis 'k' of 3 elements has 4 canonical groups; at most 3 would do");
  CHECK(refused(sum, {{"k0", 0}}) ==
        "sum_slice: axis 'k' has 0 canonical groups; at least 1 is needed");
  CHECK(refused(sum, {{"k0", 1}, {"k0", 2}}) ==
        "sum_slice: axis 'k' is given groups twice, 1 and 2");
  CHECK(refused(sum, {{"v0", 2}}) ==
        "sum_slice: groups of an axis 'v0', which it does not have; it has k, j");
  CHECK(refused(sum, {{"j0", 2}}) == "");  // kept
  CHECK(refused(op_case<ops::Sample>({}, {Shape{9, 2}, Shape{}, Shape{2}}), {{"v0", 3}}) == "");
  CHECK(refused(op_case<ops::Argmax>({.axis = 0}, {Shape{9, 2}, Shape{2}}), {{"v0", 3}}) == "");
}

TEST_CASE("a tile that several groups of queries write part by part is overwritten once",
          "[ops][groups][attention]") {
  Shape const q{8, 2, 6, 2}, rows{6, 2, 2};
  auto c = op_case<ops::AttentionBackward>({}, {q, q, q, q, rows, rows, q, q, q, q});
  c.groups = {{"i0", 3}};
  LogicalGraph graph("attention", {.groups = c.groups});
  build(graph, c, DType::fp32);
  Plan const plan(graph, {.tile = 0});
  int written = 0, updated = 0;  // dq, which is x7
  for (PlannedTask const& task : plan.tasks())
    for (Use<BufferId> const& use : plan.uses(task)) {
      if (plan.buffers()[use.handle].tensor != plan.tensor("x7")) continue;
      (use.access == Access::write ? written : updated) += 1;
    }
  CHECK(written == 1);
  CHECK(updated == 2);
}
