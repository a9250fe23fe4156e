// SPDX-License-Identifier: BSD-3-Clause
// What an op's struct states: operands by name, fields of attributes, arguments of kernels.
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "nntile/ops/all.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/message.hh"
#include "tests/support/one_to_one.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Attributes with their defaults.
template <class Op> void check_fields() {
  INFO(Op::name);
  typename Op::Attrs attrs{};
  std::set<std::string> names;
  for (Field const& field : Op::fields) {
    INFO(field.name);
    CHECK(names.insert(field.name).second);
    FieldValue value = field.get(&attrs);
    CHECK(value.kind == field.kind);
    switch (field.kind) {
      case FieldKind::real:
        value.real = 0.625;
        break;
      case FieldKind::natural:
        value.natural = ~std::uint64_t{0};
        break;
      case FieldKind::integer:
      case FieldKind::boolean:
        value.integer = field.kind == FieldKind::boolean ? 1 : 5;
        break;
    }
    CHECK(field.set(&attrs, value));
    CHECK(field.get(&attrs).natural == value.natural);
  }
  // A member that has no name: one that a set of all fields leaves at its default.
  typename Op::Attrs const defaults{};
  std::size_t changed = 0;
  for (Field const& field : Op::fields)
    changed += field.get(&attrs).natural != field.get(&defaults).natural ? 1 : 0;
  CHECK(changed == Op::fields.size());
}
template <class... Ops> void check_fields(OpList<Ops...>) { (check_fields<Ops>(), ...); }

/// An op of fp32 alone, whose reference compiles for nothing else.
struct Halve : OneToOne {
  static constexpr char const* name = "halve";
  static constexpr DType dtypes[] = {DType::fp32};
  template <class T> static void reference(Args const& args, Buffers<Halve> const& buffers) {
    static_assert(std::same_as<T, float>);
    for (Index i = 0; i < args.n; ++i)
      buffers.template at<T>(Operand::y)[i] = buffers.template at<T>(Operand::x)[i] / 2;
  }
};

/// An op whose axes have capital letters.
struct Capitals : OneToOne {
  static constexpr char const* name = "capitals";
  static constexpr Operands operands{{"x", "K I..."}, {"y", "K I...", Access::write}};
  static constexpr Hooks<Attrs> hooks{
      .ranks = [](Attrs const&) -> GroupRanks { return {{'I', 2, "two"}}; }};
  static Args args(Attrs const&, TileRange const& range) { return {range.extent('I')}; }
  template <class T> static void reference(Args const&, Buffers<Capitals> const&) {}
};

/// An op whose reference throws: no exception for no elements, else words, one letter fewer than
/// there are elements.
struct Throwing : OneToOne {
  static constexpr char const* name = "throwing";
  static constexpr DType dtypes[] = {DType::fp32};
  template <class T> static void reference(Args const& args, Buffers<Throwing> const&) {
    if (args.n == 0) throw 7;
    throw ValueError(std::string(static_cast<std::size_t>(args.n - 1), 'x'));
  }
};

/// How many members the struct has: the longest list of values that initialises it.
struct Anything {
  template <class T> operator T() const;
};
template <class T, std::size_t... i> consteval bool takes(std::index_sequence<i...>) {
  return requires { T{(void(i), Anything{})...}; };
}
template <class T, std::size_t n = 0> consteval std::size_t member_count() {
  if constexpr (takes<T>(std::make_index_sequence<n + 1>{}))
    return member_count<T, n + 1>();
  else
    return n;
}
template <class... Ops> void check_count(OpList<Ops...>) {
  auto const check = [](char const* name, std::size_t members, std::size_t fields) {
    INFO(name);
    CHECK(members == fields);
  };
  (check(Ops::name, member_count<typename Ops::Attrs>(), Ops::fields.size()), ...);
}

/// ":int64/int32", ":own/fp32" where it may be the element type, ":any" for all there are.
std::string seconds_text(OpInfo const& op) {
  std::string text, own;
  std::set<DType> seconds;
  for (ElementTypes const& types : op.types)
    if (types.second == types.element)
      own = "/own";
    else if (seconds.insert(types.second).second)
      text += concat("/", name_of(types.second));
  return seconds.size() == dtype_count ? ":any" : concat(":", (own + text).substr(1));
}

std::string text_of(OpInfo const& op, Kind kind) {
  switch (kind) {
    case Kind::element:
      return "";
    case Kind::second:
      return seconds_text(op);
    case Kind::accumulator:
      return ":acc";
    case Kind::fp32:
      return ":fp32";
    case Kind::fp64:
      return ":fp64";
    case Kind::int64:
      return ":int64";
    case Kind::boolean:
      return ":bool";
  }
  return "?";
}

/// `x[e i...] gamma[e] y[e i...]=`: what a caller passes, in its order; results are marked.
std::string operands_text(OpInfo const& op) {
  std::string text;
  for (OperandInfo const& operand : *op.table)
    if (operand.carry == Carry::none)
      text += concat(text.empty() ? "" : " ", operand.name, "[", operand.axes, "]",
                     text_of(op, operand.kind),
                     operand.access == Access::write    ? "="
                     : operand.access == Access::update ? "+="
                                                        : "");
  return text;
}

std::string fields_text(OpInfo const& op) {
  std::string text;
  for (Field const& field : *op.fields) text += concat(text.empty() ? "" : ", ", field.name);
  return text;
}

/// The table of nntile/ops/README.md.
std::string table() {
  std::string text = "| op | operands | attributes | gradient |\n| --- | --- | --- | --- |\n";
  for (OpInfo const* const op : all_ops)
    text += concat("| ", op->name, " | `", operands_text(*op), "` | ", fields_text(*op), " | ",
                   op->no_gradient == nullptr ? "yes" : concat("no: ", op->no_gradient), " |\n");
  return text;
}

template <class... Lists> void for_every_list(std::tuple<Lists...>*, auto visit) {
  (visit(Lists{}), ...);
}

}  // namespace

TEST_CASE("fields name every member of an op's attributes, once", "[ops][op_struct]") {
  for_every_list(static_cast<EveryOp*>(nullptr), [](auto list) {
    check_fields(list);
    check_count(list);
  });
}

TEST_CASE("a field refuses what its member cannot hold", "[ops][op_struct]") {
  ops::Gemm::Attrs attrs{.ndim = 3};
  auto const field = [](std::string_view name) {
    for (Field const& f : ops::Gemm::fields)
      if (name == f.name) return f;
    return Field{};
  };
  FieldValue value;
  value.kind = FieldKind::integer;
  value.integer = std::int64_t{1} << 40;
  CHECK_FALSE(field("ndim").set(&attrs, value));
  CHECK_FALSE(field("alpha").set(&attrs, value));
  CHECK_FALSE(field("trans_a").set(&attrs, value));
  value.kind = FieldKind::boolean;
  value.integer = 2;
  CHECK_FALSE(field("trans_a").set(&attrs, value));
  CHECK(attrs.ndim == 3);
  CHECK(attrs.alpha == 1);
  CHECK_FALSE(attrs.trans_a);
}

TEST_CASE("a field of fp32 refuses numbers beyond it", "[ops][op_struct]") {
  struct Single {
    float factor = 1;
  } attrs;
  Field const factor = field<&Single::factor>("factor");
  FieldValue value;
  value.kind = FieldKind::real;
  value.real = -1e300;
  CHECK_FALSE(factor.set(&attrs, value));
  CHECK(attrs.factor == 1);
  value.real = 0.1;
  CHECK(factor.set(&attrs, value));
  CHECK(attrs.factor == 0.1f);
  value.real = -HUGE_VAL;
  CHECK(factor.set(&attrs, value));
  CHECK(attrs.factor == -HUGE_VALF);
}

TEST_CASE("operands go by name whichever of them a call has", "[ops][op_struct]") {
  using Operand = ops::Gemm::Operand;
  ops::Gemm::Attrs const plain{}, biased{.bias = true};
  OperandSet const without = op_info<ops::Gemm>.present(&plain);
  OperandSet const with = op_info<ops::Gemm>.present(&biased);
  CHECK_FALSE(without.has(Operand::bias));
  CHECK(with.has(Operand::bias));
  CHECK(without.rank(Operand::c) == 2);
  CHECK(with.rank(Operand::c) == 3);
  CHECK(without.at(2) == OperandIndex(Operand::c));
  CHECK(op_info<ops::Gemm>.operands(&plain).size() == 4);
  CHECK(std::string(op_info<ops::Gemm>.operands(&biased)[2].name) == "bias");
  ops::Gemm::Attrs const transposed{.trans_a = true};
  CHECK(std::string(op_info<ops::Gemm>.operands(&transposed)[0].axes) == "k... m... b...");
}

TEST_CASE("a kernel finds its buffers by name, and null where the task lacks one",
          "[ops][op_struct]") {
  using Operand = ops::Gemm::Operand;
  float a = 0, b = 0, c = 0, carry = 0;
  Arguments<ops::Gemm> const arguments{{}, {Operand::a, Operand::b, Operand::c, Operand::carry}};
  void* const pointers[] = {&a, &b, &c, &carry};
  Buffers<ops::Gemm> const buffers({pointers, &arguments, nullptr});
  CHECK(buffers.at<float>(Operand::a) == &a);
  CHECK(buffers.at<float>(Operand::bias) == nullptr);
  CHECK(buffers.at<float>(Operand::c) == &c);
  CHECK(buffers.at<float>(Operand::carry) == &carry);
}

TEST_CASE("a reference is compiled for the dtypes that its op lists alone", "[ops][op_struct]") {
  for (DType const dtype : all_dtypes)
    CHECK((op_info<Halve>.reference({dtype, dtype}) != nullptr) == (dtype == DType::fp32));
}

TEST_CASE("whatever a reference throws is a failure in words that fit", "[ops][op_struct]") {
  auto const failure = [](Index n) {
    std::string text(2 * status_text_bytes, 'z');
    Throwing::Args const args{n};
    auto const* const codelet = op_info<Throwing>.reference({DType::fp32, DType::fp32});
    Status const status = codelet->cpu({nullptr, &args, text.data()});
    return std::string(status.ok() ? "" : status.error);
  };
  CHECK(failure(0) == "its reference threw what is no std::exception");
  CHECK(failure(1) == "its reference threw");
  CHECK(failure(4) == "xxx");
  CHECK(failure(2 * status_text_bytes) == std::string(status_text_bytes - 1, 'x'));
}

TEST_CASE("ops are found by name", "[ops][op_struct]") {
  CHECK(find_op("gemm") == &op_info<ops::Gemm>);
  CHECK(find_op("gem") == nullptr);
  std::set<std::string> names;
  for (OpInfo const* const op : all_ops) CHECK(names.insert(op->name).second);
  std::size_t listed = 0;
  for_every_list(static_cast<EveryOp*>(nullptr),
                 [&](auto list) { listed += names_of(list).size(); });
  CHECK(names.size() == listed);
}

TEST_CASE("equal arguments have equal bytes", "[ops][op_struct]") {
  for (OpCase const& c : every_op()) {
    INFO(c.op->name);
    AxisTable const table = axes_of(c);
    TileRange range(table);
    for (std::size_t id = 0; id < table.axes.size(); ++id)
      range.axis(id) = {0, 0, table.axes[id].extent, 0, table.axes[id].extent};
    alignas(16) std::array<std::byte, max_args_bytes> one, other;
    one.fill(std::byte{0xff});
    other.fill(std::byte{0x55});
    c.op->args(c.attrs.data(), range, one.data());
    c.op->args(c.attrs.data(), range, other.data());
    CHECK(
        std::equal(one.begin(), one.begin() + static_cast<long>(c.op->args_bytes), other.begin()));
  }
}

TEST_CASE("the table of ops in their README is that of their structs", "[ops][op_struct]") {
  char const* const root = std::getenv("NNTILE_SOURCE_ROOT");
  if (root == nullptr) return skip("NNTILE_SOURCE_ROOT is not set: run this test through Meson");
  std::ifstream file(std::string(root) + "/nntile/ops/README.md");
  std::string const text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string const expected = table();
  INFO("nntile/ops/README.md should end with\n" << expected);
  REQUIRE(text.size() > expected.size());
  CHECK(text.substr(text.size() - expected.size()) == expected);
}

namespace {

/// Bytes of a call in one task.
template <class Op>
Index bytes_of(typename Op::Attrs const& attrs, std::vector<Shape> shapes, DType element) {
  struct Sum final : TileVisitor {
    TiledCall const& call;
    Index bytes = 0;
    explicit Sum(TiledCall const& of) : call(of) {}
    void visit(TileTask const& task) override { bytes += cost_of(call, task).bytes; }
  };
  OpCase const c = op_case<Op>(attrs, std::move(shapes));
  AxisTable const table = axes_of(c);
  std::vector<AxisTiling> tilings;
  for (Axis const& axis : table.axes) tilings.push_back(AxisTiling::whole(axis.extent));
  TiledCall call{
      c.op, c.attrs.data(), element, c.types(element).second, c.op->operands(c.attrs.data()), table,
      {}};
  for (AxisTiling const& tiling : tilings) call.tilings.push_back(&tiling);
  Sum sum(call);
  walk(call, sum);
  return sum.bytes;
}

}  // namespace

TEST_CASE("bytes of a task follow from accesses, extents and dtypes", "[ops][op_struct]") {
  std::vector<Shape> const square{{5, 7}, {5, 7}};
  CHECK(bytes_of<ops::Scale>({}, square, DType::fp32) == 2 * 35 * 4);
  CHECK(bytes_of<ops::Scale>({.beta = 1}, square, DType::fp32) == 3 * 35 * 4);
  CHECK(bytes_of<ops::Scale>({.beta = 1}, square, DType::bf16) == 3 * 35 * 2);
  CHECK(bytes_of<ops::Scale>({.beta = 1}, square, DType::fp64) == 3 * 35 * 8);
  CHECK(bytes_of<ops::SumSquares>({}, {{6, 3}, {3}}, DType::bf16) == 18 * 2 + 3 * 8);
  CHECK(bytes_of<ops::Gemm>({.bias = true}, {{5, 7}, {7, 6}, {5}, {5, 6}}, DType::fp32) ==
        4 * (35 + 42 + 5 + 30));
  // Of the table, as many rows as there are tokens.
  CHECK(bytes_of<ops::Embedding>({}, {{2}, {4, 100}, {4, 2}}, DType::fp32) ==
        2 * 8 + 4 * (4 * 2 + 4 * 2));
  Index const n = Index{1} << 33, rows = Index{1} << 31;
  for (Index const most : {rows, 4 * n})
    CHECK(bytes_of<ops::Embedding>({}, {{n}, {1, most}, {1, n}}, DType::fp32) ==
          n * 8 + 4 * (n + n));
}

TEST_CASE("what an op accumulates into is updated, in canonical order", "[ops][op_struct]") {
  struct Accesses final : TileVisitor {
    std::vector<Access> seen;
    void visit(TileTask const& task) override { seen.push_back(task.uses.back().access); }
  };
  OpCase const c = op_case<ops::Gemm>({.beta = 1}, {{4, 6}, {6, 4}, {4, 4}});
  AxisTable const table = axes_of(c);
  std::vector<AxisTiling> tilings;
  for (Axis const& axis : table.axes)
    tilings.push_back(axis.extent == 6 ? AxisTiling::uniform(6, 2) : AxisTiling::whole(4));
  TiledCall call{
      c.op, c.attrs.data(), DType::fp32, DType::fp32, c.op->operands(c.attrs.data()), table, {}};
  for (AxisTiling const& tiling : tilings) call.tilings.push_back(&tiling);
  for (Access const declared : {Access::update, Access::accumulate}) {
    for (std::size_t o = 0; o < call.operands.size(); ++o)
      if (call.operands[o].access == Access::update) call.operands[o].access = declared;
    Accesses accesses;
    walk(call, accesses);
    CHECK(accesses.seen == std::vector(3, Access::update));
  }
}

TEST_CASE("sums of a chain are in its result where that is stored as they are",
          "[ops][op_struct]") {
  OpCase const c = op_case<ops::Gemm>({}, {{4, 6}, {6, 4}, {4, 4}});
  AxisTable const table = axes_of(c);
  std::vector<AxisTiling> tilings;
  for (Axis const& axis : table.axes) tilings.push_back(AxisTiling::uniform(axis.extent, 2));
  for (DType const element : c.op->dtypes) {
    INFO(name_of(element));
    TiledCall call{c.op, c.attrs.data(), element, element, c.op->operands(c.attrs.data()), table,
                   {}};
    for (AxisTiling const& tiling : tilings) call.tilings.push_back(&tiling);
    CHECK((carries_of(call) != 0) == (size_of(element) == 2));
  }
}

TEST_CASE("an operand that would have more dimensions than a tensor has is named",
          "[ops][op_struct]") {
  auto const refused = [](OpCase const& c) {
    return message_of<ShapeError>([&] { (void)axes_of(c); });
  };
  Shape const four(4, 2), five(5, 2), eight(8, 1);
  CHECK(refused(op_case<ops::Gemm>({.ndim = 0}, {four, four, Shape(8, 2)})) ==
        "(nothing was thrown)");
  CHECK(
      refused(op_case<ops::Gemm>({.ndim = 0}, {five, five, eight})) ==
      "gemm: operand c would have 10 dimensions, axes \"m... n... b...\"; a tensor has at most 8; "
      "the call has ndim=0");
  CHECK(refused(op_case<ops::Embedding>({}, {eight, Shape{2, 3}, eight})) ==
        "embedding: operand out would have 9 dimensions, axes \"e i...\"; a tensor has at most 8");
}

TEST_CASE("a cost that no integer holds is the largest that one does", "[ops][op_struct]") {
  Index const side = Index{1} << 21, most = INT64_MAX;
  auto const product = op_case<ops::Gemm>({}, {{side, side}, {side, side}, {side, side}});
  CHECK(total_cost(product).flops == most);
  CHECK(total_cost(product).bytes == 12 * side * side);
  CHECK(total_cost(product, {{"m", {side - 1, 1}}}).flops == most);  // and their sum
  Shape const q{side, 1, side};
  CHECK(total_cost(op_case<ops::Attention>({}, {q, q, q, q, {side, 1}, {side, 1}})).flops == most);
  Shape const causal{1, 1, Index{1} << 32}, rows{causal[2], 1};
  CHECK(total_cost(
            op_case<ops::Attention>({.causal = true}, {causal, causal, causal, causal, rows, rows}))
            .flops == most);
  Cost sum{most, 1};
  CHECK((sum += Cost{1, most}) == Cost{most, most});
  CHECK(saturated_product({most, 2, 0}) == 0);
}

TEST_CASE("an axis that no operand of the call gives an extent is named", "[ops][op_struct]") {
  Shape const shape{3};
  auto const error = [&](OperandInfo const& second) {
    return message_of<ShapeError>([&] {
      (void)resolve_axes("op", Operands{{"x", "i"}, second}, {},
                         {{&shape, "x", nullptr}, {nullptr, "result", nullptr}});
    });
  };
  CHECK(error({"sums", "i k", Access::update, Kind::accumulator, Carry::phases}) ==
        "op: the extent of axis 'k' of hidden operand sums follows from no operand; add it to the "
        "axes of a visible one");
  CHECK(error({"y", "i k", Access::write}) ==
        "op: the extent of axis 'k' of operand y follows from no operand; declare it and pass it");
}

TEST_CASE("letters of axes may be capitals", "[ops][op_struct]") {
  Shape const shape{2, 3, 5};
  AxisTable const table = axes_of(op_case<Capitals>({}, {shape, shape}));
  CHECK(table.axes.size() == 3);
  CHECK(table.whole('K') == 2);
  CHECK(table.whole('I') == 15);
}

TEST_CASE("a letter that no operand of an op has is refused", "[ops][op_struct]") {
  AxisTable table;
  table.axes.push_back({'i', 0, false, 4});
  TileRange const range(table);
  CHECK(range.axis_of('i') == 0);
  CHECK(message_of<ShapeError>([&] { (void)range.rest('z'); }) ==
        "an op's args ask for axis 'z', which no operand has");
}
