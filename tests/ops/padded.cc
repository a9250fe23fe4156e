// SPDX-License-Identifier: BSD-3-Clause
// Every op on tiles whose columns are padded: the same bits as without, and padding is neither read
// nor written.
#include <algorithm>
#include <cstring>
#include <memory>

#include "nntile/core/box.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/message.hh"
#include "tests/support/planned_op.hh"
#include "tests/support/simt/runtime.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// One operand as a tile whose columns begin at multiples of `unit` elements, padding being 0x7f
/// bytes: NaNs as floats, absurd as indices.
struct PaddedTile {
  Array const& array;
  Index unit;
  std::vector<std::byte> bytes;

  PaddedTile(Array const& of, Index column_unit) : array(of), unit(column_unit) {
    Shape extent = of.shape;
    if (extent.size() > 0) extent[0] = leading_dimension(extent, unit);
    bytes.assign(
        static_cast<std::size_t>(std::max<Index>(1, element_count(extent))) * size_of(of.dtype),
        std::byte{0x7f});
    copy_to_tile(bytes.data(), box(), of.bytes.data(), of.shape, size_of(of.dtype), unit);
  }
  TileBox box() const { return Tiling(array.shape).box(0); }
  Array values() const {
    Array result = array;
    copy_from_tile(bytes.data(), box(), result.bytes.data(), array.shape, size_of(array.dtype),
                   unit);
    return result;
  }
  bool padding_is_whole() const { return PaddedTile(values(), unit).bytes == bytes; }
};

/// Runs an entry on one tile of each operand.
struct RunOnTiles final : TileVisitor {
  TiledCall const& call;
  Codelet const& codelet;
  std::vector<PaddedTile>& tiles;
  std::vector<std::byte> workspace = std::vector<std::byte>(max_workspace_bytes + 64);

  RunOnTiles(TiledCall const& of, Codelet const& with, std::vector<PaddedTile>& on)
      : call(of), codelet(with), tiles(on) {}
  void visit(TileTask const& task) override {
    alignas(16) std::byte args[max_args_bytes];
    call.op->args(call.attrs, task.range, args);
    std::vector<void*> buffers;
    for (auto const& use : task.uses) buffers.push_back(tiles[use.handle.operand].bytes.data());
    void* lent = workspace.data();
    std::size_t room = workspace.size();
    std::align(64, max_workspace_bytes, lent, room);
    char text[status_text_bytes];
    KernelCall const lent_call{buffers.data(), args, text, lent};
    CHECK(
        (codelet.cpu != nullptr ? codelet.cpu(lent_call) : codelet.cuda(lent_call, nullptr)).ok());
  }
};

/// All operands after the op, uncut, whose columns begin at multiples of the given units.
std::vector<Array> run_on_tiles(OpCase const& c, DType element, Codelet const& codelet,
                                std::vector<Array> const& operands,
                                std::vector<Index> const& units) {
  auto const table = axes_of(c);
  std::vector<AxisTiling> tilings;
  for (Axis const& axis : table.axes) tilings.push_back(AxisTiling::whole(axis.extent));
  TiledCall call{c.op, c.attrs.data(), element, element, c.op->operands(c.attrs.data()), table, {},
                 {}};
  for (AxisTiling const& tiling : tilings) call.tilings.push_back(&tiling);
  std::vector<PaddedTile> tiles;
  for (std::size_t o = 0; o < call.operands.size(); ++o) {
    call.column_units.push_back(o < units.size() ? units[o] : 1);
    if (o < operands.size()) tiles.emplace_back(operands[o], units[o]);
  }
  RunOnTiles run(call, codelet, tiles);
  walk(call, run);
  std::vector<Array> result;
  for (PaddedTile const& tile : tiles) {
    CHECK(tile.padding_is_whole());
    result.push_back(tile.values());
  }
  return result;
}

/// Whether an operand may be padded, by what the op says.
bool takes_padding(OpCase const& c, std::size_t operand) {
  AxisTable const table = axes_of(c);
  auto const& axes = table.operands[operand];
  if (axes.size() <= 1 || c.op->padding == Padding::any) return true;
  return c.op->padding == Padding::columns &&
         std::count_if(axes.begin(), axes.end(), [&](std::uint8_t axis) {
           return table.axes[axis].group == table.axes[axes[0]].group;
         }) == 1;
}

bool takes(OpCase const& c, DType element) {
  return std::count(c.op->dtypes.begin(), c.op->dtypes.end(), element) > 0;
}

void check_entry(OpCase const& c, DType element, Codelet const& codelet) {
  auto const operands = make_operands(c, element);
  std::vector<Index> units(operands.size(), 1);
  auto const dense = run_on_tiles(c, element, codelet, operands, units);
  auto const check = [&] {
    CHECK(difference(c, run_on_tiles(c, element, codelet, operands, units), dense) == "");
  };
  for (std::size_t o = 0; o < units.size(); ++o) {
    if (!takes_padding(c, o)) continue;
    INFO("operand " << visible(c)[o].name);
    units[o] = 4;
    check();
    units[o] = 1;
  }
  for (std::size_t o = 0; o < units.size(); ++o)
    if (takes_padding(c, o)) units[o] = 16 + static_cast<Index>(o);
  check();
}

}  // namespace

TEST_CASE("kernels and references neither read nor write padding", "[ops][padded]") {
  for (OpCase const& c : every_op())
    for (DType const element : {DType::fp64, DType::fp32, DType::bf16}) {
      if (!takes(c, element)) continue;
      INFO(c.op->name << " " << name_of(element) << " " << to_string(c.shapes[0]));
      for (Isa const isa : instruction_sets()) {
        INFO(name_of(isa));
        check_entry(c, element,
                    *kernels::find(c.op->name, c.types(element).element, c.types(element).second,
                                   Mode::exact, isa));
      }
      if (Codelet const* const reference = c.op->reference(c.types(element))) {
        INFO("reference");
        check_entry(c, element, *reference);
      }
      if (Codelet const* const device = on_device(c.op->name, element, c.types(element).second)) {
        INFO("device");
        check_entry(c, element, *device);
      }
    }
}

TEST_CASE("a planned op has the same bits with padded tiles, cut and whole", "[ops][padded]") {
  for (OpCase const& c : every_op())
    for (DType const element : {DType::fp64, DType::fp32, DType::bf16}) {
      if (!takes(c, element)) continue;
      INFO(c.op->name << " " << name_of(element) << " " << to_string(c.shapes[0]));
      auto const operands = make_operands(c, element);
      auto const whole = run_kernel(c, element, operands);
      PlanOptions options{.tile = 0, .pad = {{"", 64}}};
      CHECK(difference(c, run_planned<Serial>(c, element, operands, options), whole) == "");
      options.cuts = plan_cuts(canonical_cuts(c));
      CHECK(difference(c, run_planned<Serial>(c, element, operands, options), whole) == "");
      CHECK(difference(c, run_planned<Ring>(c, element, operands, options), whole) == "");
      for (std::size_t o = 0; o < operands.size(); ++o) {
        options.pad = {{name_of_operand(o), 64}};
        INFO("padded " << visible(c)[o].name);
        if (takes_padding(c, o))
          CHECK(difference(c, run_planned<Serial>(c, element, operands, options), whole) == "");
        else
          CHECK(message_of<PlanError>([&] {
                  (void)run_planned<Serial>(c, element, operands, options);
                }) == concat("pad: graph '", c.op->name, "': columns of '", name_of_operand(o),
                             "' cannot be padded: ", c.op->name, " takes its operand ",
                             visible(c)[o].name, " ('", name_of_operand(o),
                             "') without padding alone"));
      }
    }
}
