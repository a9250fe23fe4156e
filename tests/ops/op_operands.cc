// SPDX-License-Identifier: BSD-3-Clause
// The operands of a case of an op: which there are, their axes, their values, and
// what the reference makes of them.
#include <cmath>
#include <random>

#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"

namespace nntile::test {

Operands visible(OpCase const& c) {
  Operands result;
  for (OperandInfo const& operand : c.op->operands(c.attrs.data()))
    if (operand.carry == Carry::none) result.push_back(operand);
  return result;
}

AxisTable axes_of(OpCase const& c) {
  Operands const operands = c.op->operands(c.attrs.data());
  GivenOperands given;
  for (std::size_t o = 0; o < operands.size(); ++o)
    given.push_back(o < c.shapes.size() ? GivenOperand{&c.shapes[o], operands[o].name}
                                        : GivenOperand{});
  return axes_of(*c.op, c.attrs.data(), operands, given);
}

std::vector<Array> make_operands(OpCase const& c, DType element, bool whole_numbers) {
  std::mt19937_64 random(operands_seed);
  std::vector<Array> result;
  for (std::size_t o = 0; o < c.shapes.size(); ++o) {
    OperandInfo const operand = visible(c)[o];
    Array array(dtype_of_kind(operand.kind, c.types(element)), c.shapes[o]);
    for (Index i = 0; i < array.count(); ++i) {
      double const value = static_cast<double>(random() >> 11) * 0x1p-52 - 1;  // [-1, 1)
      array.set(i, !is_float(array.dtype) ? 0 : whole_numbers ? std::floor(4 * value) : value);
    }
    result.push_back(std::move(array));
  }
  if (c.prepare) c.prepare(result);
  return result;
}

std::vector<Array> run_reference(OpCase const& c, DType element,
                                 std::vector<Array> const& operands) {
  ElementTypes types = usual_types(*c.op, DType::fp64);
  if (c.op->reference(types) == nullptr) types = c.types(element);
  Operands const declared = visible(c);
  std::vector<Array> result;
  inplace_vector<void*, max_operands> buffers;
  for (std::size_t o = 0; o < operands.size(); ++o)
    result.push_back(operands[o].as(dtype_of_kind(declared[o].kind, types)));
  for (Array& array : result) buffers.push_back(array.bytes.data());
  AxisTable const table = axes_of(c);
  TileRange range(table);
  for (std::size_t id = 0; id < table.axes.size(); ++id)
    range.axis(id) = {0, 0, table.axes[id].extent, 0, table.axes[id].extent};
  range.operands = {};
  for (std::size_t o = 0; o < operands.size(); ++o) range.operands.add(table.present.at(o));
  alignas(16) std::byte args[max_args_bytes];
  c.op->args(c.attrs.data(), range, args);
  char text[status_text_bytes];
  REQUIRE(c.op->reference(types)->cpu({buffers.data(), args, text}).ok());
  return result;
}

}  // namespace nntile::test
