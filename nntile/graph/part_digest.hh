#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Digests by which ranks tell whether they plan the same job.

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "nntile/core/random.hh"
#include "nntile/graph/exchange.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/plan.hh"

namespace nntile::detail {

/// 64 bits of a sequence of numbers and names.
class Digest {
 public:
  Digest& add(std::uint64_t number) {
    state_ = mix_bits(state_ ^ number) + count_++;
    return *this;
  }
  Digest& add(std::string_view name) { return add(name.size()).add(hash_name(name)); }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0, count_ = 0;
};

/// Inputs of planning that all ranks must have alike: the graph, the mesh with its rules and the
/// numbers of open dimensions, how tensors are cut and who holds the tiles, and the order of the
/// ops.
struct PartDigest {
  static constexpr std::array<char const*, 4> names{"graph", "mesh, rules, owners or dims",
                                                    "tilings or homes of tiles", "order of ops"};
  std::array<std::uint64_t, names.size()> values;

  PartDigest(LogicalGraph const& graph, PlanOptions const& options, Plan const& plan)
      : PartDigest(graph, of_options(options, graph, plan), plan) {}
  /// Of a part whose options are known by their digest.
  PartDigest(LogicalGraph const& graph, std::uint64_t options, Plan const& plan)
      : values{of_graph(graph), options, of_tilings(plan), of_order(plan)} {}

  std::vector<std::byte> bytes() const {
    auto const bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }

  /// With what the owners say of the tiles of a part, where there are some: of transients no part
  /// says who has those of others. Cost: a call for each tile.
  static std::uint64_t of_options(PlanOptions const& options, LogicalGraph const& graph,
                                  Plan const& part) {
    if (!options.owners) return of_options(options);
    Digest digest;
    digest.add(of_options(options));
    for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
      PlannedTensor const& tensor = part.tensors()[t];
      Index const tiles =
          tensor.used && tensor.storage != Storage::view ? tensor.tiling.tile_count() : 0;
      for (Index tile = 0; tile < tiles; ++tile)
        digest.add(static_cast<std::uint64_t>(options.owners(tensor.name, tile)));
    }
    return digest.value();
  }
  static std::uint64_t of_options(PlanOptions const& options) {
    Digest digest;
    digest.add(options.keep_received).add(options.by_phase ? 1u : 0u);
    digest.add(static_cast<std::uint64_t>(options.schedule)).add(options.micro_batches);
    for (MeshAxis const& axis : options.mesh)
      digest.add(axis.name).add(static_cast<std::uint64_t>(axis.size));
    for (ShardRule const& rule : options.rules)
      digest.add(rule.tensors)
          .add(static_cast<std::uint64_t>(rule.role))
          .add(rule.axis)
          .add(rule.mesh)
          .add(static_cast<std::uint64_t>(rule.at));
    for (BoundDim const& dim : options.dims)
      digest.add(dim.name).add(static_cast<std::uint64_t>(dim.extent));
    return digest.value();
  }

 private:
  static void add(Digest& digest, TensorAttributes const& its) {
    digest.add((its.requires_grad ? 1u : 0u) | (its.persistent ? 2u : 0u) |
               (its.external ? 4u : 0u) | (its.output ? 8u : 0u));
  }
  static std::uint64_t of_graph(LogicalGraph const& graph) {
    Digest digest;
    digest.add(static_cast<std::uint64_t>(graph.numerics().mode));
    for (AxisGroups const& each : graph.numerics().groups)
      digest.add(each.axis).add(static_cast<std::uint64_t>(each.groups));
    for (std::uint32_t t = 0; t < graph.tensor_count(); ++t) {
      TensorNode const& tensor = graph.tensor_at(t);
      digest.add(tensor.name).add(to_string(tensor.spec.shape)).add(tensor.spec.axes);
      digest.add(static_cast<std::uint64_t>(tensor.spec.dtype));
      add(digest, tensor.attributes);
      digest.add(tensor.base)
          .add(tensor.view_axis)
          .add(static_cast<std::uint64_t>(tensor.view_index));
    }
    for (std::size_t o = 0; o < graph.op_count(); ++o) {
      OpNode const& op = graph.op_at(o);
      digest.add(op.info->name).add(graph.phase_name(op.phase));
      for (Field const& field : *op.info->fields) digest.add(field.get(op.attrs.data()).natural);
      for (std::uint32_t const operand : op.operands) digest.add(operand);
    }
    return digest.value();
  }
  static std::uint64_t of_tilings(Plan const& plan) {
    Digest digest;
    for (PlannedTensor const& tensor : plan.tensors()) {
      digest.add(static_cast<std::uint64_t>(tensor.column_unit));
      for (std::size_t d = 0; d < tensor.tiling.rank(); ++d)
        for (Index tile = 0; tile <= tensor.tiling.axis(d).count(); ++tile)
          digest.add(static_cast<std::uint64_t>(tensor.tiling.axis(d).begin(tile)));
      for (TileHome const& home : tensor.homes) {
        for (std::int16_t const at : home.box.at) digest.add(static_cast<std::uint16_t>(at));
        digest.add(home.cut);
      }
    }
    return digest.value();
  }
  static std::uint64_t of_order(Plan const& plan) {
    Digest digest;
    for (std::size_t const node : plan.data().nodes) digest.add(node);
    return digest.value();
  }
};

/// Throws PlanError, on every rank the same, with a rank that differs, and in what.
inline void check_digests(std::string const& graph,
                          std::vector<std::vector<std::byte>> const& digests) {
  auto const [rank, other] = odd_rank(digests);
  for (std::size_t part = 0; part < PartDigest::names.size(); ++part)
    if (std::memcmp(digests[rank].data() + 8 * part, digests[other].data() + 8 * part, 8) != 0)
      throw PlanError(concat("plan '", graph, "': rank ", rank, " has another ",
                             PartDigest::names[part], " than rank ", other,
                             ": start all ranks with the same options and files"));
}

}  // namespace nntile::detail
