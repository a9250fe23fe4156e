// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs an op over dtypes, instruction sets, runtimes and tilings, against its own reference in
// fp64. The definitions are in tests/ops/op_driver.cc.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nntile/ops/kernel.hh"
#include "nntile/ops/walk.hh"
#include "nntile/testing/array.hh"

namespace nntile::test {

using testing::Array;

/// Sizes of the tiles along one axis, named by its letter, and its place within a group: "v", "i1".
/// Others stay whole.
struct Cut {
  std::string axis;
  std::vector<Index> sizes;
};
using Cuts = std::vector<Cut>;

/// Canonical groups of axes, named as in Cut.
using Groups = std::vector<AxisGroups>;

/// One call of an op and what is expected of it.
struct OpCase {
  OpInfo const* op = nullptr;
  std::vector<std::byte> attrs;
  /// Of the operands that a caller sees.
  std::vector<Shape> shapes;
  /// Sets what must not be random: labels, statistics. Operands hold uniform numbers in [-1, 1) of
  /// their dtype.
  std::function<void(std::vector<Array>&)> prepare;
  /// Tolerance: 4 sqrt(terms) u_acc scale max|result| + u_out |result|. `scale` is (|A||B|) over
  /// the largest result, or counts the roundings of functions on the way.
  double terms = 1;
  double scale = 1;
  /// Each must give the bits of the uncut call.
  std::vector<Cuts> canonical;
  /// Each must give results within the tolerance.
  std::vector<Cuts> other;
  /// Whether whole numbers as data give exact results.
  bool whole_numbers = false;
  /// The dtype of operands of Kind::second; null: the usual one. `check_op` tries all.
  std::optional<DType> second = {};
  Groups groups = {};

  ElementTypes types(DType element) const {
    ElementTypes types = usual_types(*op, element);
    if (second) types.second = *second;
    return types;
  }
};

template <OpStruct Op> OpCase op_case(typename Op::Attrs const& attrs, std::vector<Shape> shapes) {
  OpCase result;
  result.op = &op_info<Op>;
  auto const* const bytes = reinterpret_cast<std::byte const*>(&attrs);
  result.attrs.assign(bytes, bytes + sizeof attrs);
  result.shapes = std::move(shapes);
  return result;
}

/// How a call is run.
struct Execution {
  Cuts cuts = {};
  Isa isa = Isa::best;
  std::string runtime = "cramped";  // what kernels are promised, and no more
  int workers = 1;
  Mode mode = Mode::exact;
};

/// Operands of dtype `element` for a case: random numbers from a fixed seed, which is printed with
/// every failure, then `prepare`.
constexpr std::uint64_t operands_seed = 20250611;
std::vector<Array> make_operands(OpCase const& c, DType element, bool whole_numbers = false);

/// Runs the op's kernel on copies of the operands, cut into tiles, and returns all of them. What
/// the op overwrites is NaN before an uncut call, and never written before a cut one. Throws what
/// the runtime does.
std::vector<Array> run_kernel(OpCase const& c, DType element, std::vector<Array> operands,
                              Execution const& how = {});

/// Runs the op's reference on copies of the operands, widened to fp64 where it has such a
/// reference.
std::vector<Array> run_reference(OpCase const& c, DType element,
                                 std::vector<Array> const& operands);

/// Operands that a caller sees.
Operands visible(OpCase const& c);

/// The groups of the case as an eager call has them: "k" for "k0" where the letter is one
/// dimension.
std::vector<AxisGroups> eager_groups(OpCase const& c);

/// The axes of the case's call. Throws ShapeError, ValueError.
AxisTable axes_of(OpCase const& c);

/// The first element of a result that is too far from the reference, in words; empty where none is.
std::string deviation(OpCase const& c, DType element, std::vector<Array> const& got,
                      std::vector<Array> const& exact);

/// The first result whose bits differ, in words; empty where none does. NaNs of a dtype are one.
std::string difference(OpCase const& c, std::vector<Array> const& a, std::vector<Array> const& b);

/// What the tile tasks of a call cost together.
Cost total_cost(OpCase const& c, Cuts const& cuts = {}, DType element = DType::fp32);

/// Instruction sets that this build and CPU have, the best last.
std::vector<Isa> instruction_sets();

/// CHECKs a case for every dtype of the op: close to the reference on every instruction set, equal
/// bits with AVX2 and AVX-512, with every canonical tiling, on every runtime.
void check_op(OpCase const& c);

}  // namespace nntile::test
