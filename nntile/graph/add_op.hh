#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// How an op joins a graph: dtypes, shapes, results.

#include "nntile/graph/logical.hh"
#include "nntile/ops/walk.hh"

namespace nntile {
namespace detail {

/// Dtypes of the op's element and source operands, from the tensors given. Throws TypeError on a
/// mixture.
struct CallTypes {
  DType element;
  DType source;
};
inline CallTypes call_types(OpInfo const& info, Operands const& operands, LogicalGraph const& graph,
                            std::span<Node const> given) {
  Node const* first[2] = {nullptr, nullptr};  // element, source
  char const* operand[2] = {"", ""};
  for (std::size_t i = 0; i < given.size(); ++i) {
    bool const element = operands[i].kind == Kind::element;
    if (!element && operands[i].kind != Kind::source) continue;
    int const which = element ? 0 : 1;
    DType const dtype = graph.tensor_of(given[i]).spec.dtype;
    if (first[which] == nullptr) {
      first[which] = &given[i];
      operand[which] = operands[i].name;
    } else if (first[which]->dtype() != dtype) {
      throw TypeError(concat(info.name, ": ", operand[which], " ('", first[which]->name(), "') is ",
                             name_of(first[which]->dtype()), " but ", operands[i].name, " ('",
                             given[i].name(), "') is ", name_of(dtype), "; insert a cast"));
    }
  }
  DType const element = first[0] != nullptr ? first[0]->dtype() : DType::fp32;
  bool known = info.dtypes.empty();
  for (DType const dtype : info.dtypes) known |= dtype == element;
  if (!known) {
    std::string list;
    for (DType const dtype : info.dtypes) list += concat(list.empty() ? "" : ", ", name_of(dtype));
    throw TypeError(concat(info.name, ": no kernel for ", name_of(element), " ('",
                           first[0] ? first[0]->name() : "", "'); it takes ", list));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    DType const wanted =
        dtype_of_kind(operands[i].kind, element, first[1] != nullptr ? first[1]->dtype() : element);
    if (given[i].dtype() != wanted)
      throw TypeError(concat(info.name, ": ", operands[i].name, " ('", given[i].name(), "') is ",
                             name_of(given[i].dtype()), " but must be ", name_of(wanted)));
  }
  return {element, first[1] != nullptr ? first[1]->dtype() : element};
}

template <class Op> constexpr auto gradient_of() -> void (*)(GradientBuilder&) {
  if constexpr (requires(GradientBuilder & builder) { Op::gradient(builder); })
    return &Op::gradient;
  else
    return nullptr;
}

}  // namespace detail

inline std::vector<std::uint32_t> const& LogicalGraph::add_op(OpInfo const& info, void const* attrs,
                                                              void (*gradient)(GradientBuilder&),
                                                              std::span<Node const> given) {
  Operands const operands = info.operands(attrs);
  std::size_t visible = 0;
  while (visible < operands.size() && operands[visible].carry == Carry::none) ++visible;
  std::size_t needed = 0;
  for (std::size_t i = 0; i < visible; ++i)
    if (operands[i].access == Access::read) needed = i + 1;
  if (given.size() < needed || given.size() > visible)
    throw GraphError(concat(info.name, ": ", given.size(), " operands given, but it takes ", needed,
                            " to ", visible));

  auto const types = detail::call_types(info, operands, *this, given);
  inplace_vector<GivenOperand, max_operands> shapes;
  for (std::size_t i = 0; i < operands.size(); ++i)
    shapes.push_back(i < given.size()
                         ? GivenOperand{&tensor_of(given[i]).spec.shape, given[i].name()}
                         : GivenOperand{nullptr, "result"});
  AxisTable const table =
      resolve_axes(info.name, operands, info.ranks(attrs), {shapes.data(), shapes.size()});

  OpNode op;
  op.info = &info;
  op.gradient = gradient;
  std::memcpy(op.attrs.data(), attrs, info.attrs_bytes);
  op.element = types.element;
  op.source = types.source;
  op.phase = phase_;
  for (std::size_t i = 0; i < visible; ++i) {
    if (i < given.size()) {
      op.operands.push_back(given[i].id());
      continue;
    }
    TensorSpec const spec{.shape = table.shape(i),
                          .dtype = dtype_of_kind(operands[i].kind, types.element, types.source)};
    std::size_t results = 0;
    for (std::size_t j = 0; j < visible; ++j) results += writes(operands[j].access) ? 1 : 0;
    op.operands.push_back(
        tensor(spec, unique(results == 1 ? std::string(info.name)
                                         : concat(info.name, ".", operands[i].name)))
            .id());
  }
  ops_.push_back(std::move(op));
  return ops_.back().operands;
}

inline std::int64_t LogicalGraph::estimate_flops() const {
  std::int64_t flops = 0;
  for (OpNode const& op : ops_) {
    Operands const operands = op.info->operands(op.attrs.data());
    inplace_vector<GivenOperand, max_operands> shapes;
    for (std::size_t i = 0; i < operands.size(); ++i)
      shapes.push_back(i < op.operands.size()
                           ? GivenOperand{&tensors_[op.operands[i]].spec.shape, ""}
                           : GivenOperand{});
    AxisTable const table = resolve_axes(op.info->name, operands, op.info->ranks(op.attrs.data()),
                                         {shapes.data(), shapes.size()});
    TileRange range(table);
    for (std::size_t id = 0; id < table.axes.size(); ++id)
      range.axis(id) = {0, 0, table.axes[id].extent, 0, table.axes[id].extent};
    flops += op.info->cost(op.attrs.data(), range).flops;
  }
  return flops;
}

}  // namespace nntile
