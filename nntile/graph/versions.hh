#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Versions of tensors: the values that ops read and write, and which of them a later op overwrites.

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "nntile/graph/logical.hh"

namespace nntile {
namespace detail {

inline std::uint32_t root_of(TensorNode const& node, std::uint32_t id) {
  return node.base == no_id ? id : node.base;
}

/// Whether two tensors of one root share elements: views along different dimensions do.
inline bool overlap(TensorNode const& a, TensorNode const& b) {
  if (a.base == no_id || b.base == no_id || a.view_axis != b.view_axis) return true;
  return a.view_index == b.view_index;
}

/// Whether tensor a of the same root has every element of b.
inline bool covers(TensorNode const& a, TensorNode const& b) {
  if (a.base == no_id) return true;
  return b.base != no_id && a.view_axis == b.view_axis && a.view_index == b.view_index;
}

/// Whether the tensor has a value before a run; its gradient is by that value.
inline bool given(TensorNode const& node) {
  return node.attributes.persistent || node.attributes.external;
}

}  // namespace detail

inline constexpr std::size_t no_op = ~std::size_t{0};

/// Version v of a tensor is what v writes of it, or of views of it, leave. Noted for each op: the
/// versions that it reads and writes, and which of the values that it reads vary: depend on a
/// tensor that requires a gradient, or are its own. A view shares the versions of its base; writes
/// of other parts do not touch its value. Cost: operands + writes of one tensor for each of its
/// reads.
class TensorVersions {
 public:
  explicit TensorVersions(LogicalGraph const& graph) : graph_(graph), count_(graph.op_count()) {
    for (std::uint32_t id = 0; id < graph.tensor_count(); ++id) {
      TensorNode const& node = graph.tensor_at(id);
      if (!node.attributes.requires_grad) continue;
      std::uint32_t const root = detail::root_of(node, id);
      histories_[root].varies = true;
      histories_[root].computed = !detail::given(graph.tensor_at(root));
    }
    notes_.resize(count_);
    for (std::size_t op = 0; op < count_; ++op) note(op);
  }

  /// The ops that were noted; later ones are no part of what is differentiated.
  std::size_t count() const { return count_; }

  /// Whether op reads the value of operand i, and the value depends on a tensor that requires a
  /// gradient.
  bool varies(std::size_t op, std::size_t i) const { return (notes_[op].varies >> i & 1u) != 0; }
  /// The same of a tensor's last value.
  bool varies(std::uint32_t id) const {
    auto const at = histories_.find(root(id));
    return at != histories_.end() && varies(at->second, id, at->second.writes.size());
  }

  /// The first op that overwrites the value that `op` reads of operand i, or that it writes there;
  /// no_op where that value is the last.
  std::size_t overwriter(std::size_t op, std::size_t i) const {
    std::uint32_t const id = graph_.op_at(op).operands[i];
    auto const at = histories_.find(root(id));
    if (at == histories_.end()) return no_op;
    auto const& writes = at->second.writes;
    for (std::size_t v = notes_[op].versions[i]; v < writes.size(); ++v)
      if (detail::overlap(graph_.tensor_at(writes[v].tensor), graph_.tensor_at(id)))
        return writes[v].op;
    return no_op;
  }

  /// Whether the tensor has its first version when `op` begins.
  bool first(std::uint32_t id, std::size_t op) const {
    auto const at = histories_.find(root(id));
    return at == histories_.end() || at->second.writes.empty() || at->second.writes[0].op >= op;
  }

 private:
  struct Write {
    std::size_t op;
    std::uint32_t tensor;  // the root or a view of it
    bool varies;
  };
  struct History {
    bool varies = false;    // version 0
    bool computed = false;  // requires a gradient of whatever is written
    std::vector<Write> writes;
  };
  struct Notes {
    std::uint32_t varies = 0;  // bits of operands
    std::vector<std::uint32_t> versions;
  };

  std::uint32_t root(std::uint32_t id) const { return detail::root_of(graph_.tensor_at(id), id); }

  bool varies(History const& history, std::uint32_t id, std::size_t version) const {
    TensorNode const& node = graph_.tensor_at(id);
    if (!is_float(node.spec.dtype)) return false;
    for (std::size_t v = version; v-- > 0;) {
      Write const& write = history.writes[v];
      TensorNode const& written = graph_.tensor_at(write.tensor);
      if (write.varies && detail::overlap(written, node)) return true;
      if (detail::covers(written, node)) return false;
    }
    return history.varies;
  }

  void note(std::size_t index) {
    OpNode const& op = graph_.op_at(index);
    Notes& notes = notes_[index];
    Operands const declared = op.info->operands(op.attrs.data());
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      History const& history = histories_[root(op.operands[i])];
      notes.versions.push_back(static_cast<std::uint32_t>(history.writes.size()));
      bool const reads_it =
          reads(declared[i].access) && !(writes(declared[i].access) &&
                                         op.info->overwrites(op.attrs.data(), static_cast<int>(i)));
      if (reads_it && varies(history, op.operands[i], history.writes.size()))
        notes.varies |= 1u << i;
    }
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (!writes(declared[i].access)) continue;
      History& history = histories_[root(op.operands[i])];
      history.writes.push_back({index, op.operands[i], notes.varies != 0 || history.computed});
      notes.versions[i] = static_cast<std::uint32_t>(history.writes.size());
    }
  }

  LogicalGraph const& graph_;
  std::size_t count_;
  std::unordered_map<std::uint32_t, History> histories_;  // by root
  std::vector<Notes> notes_;                              // by op
};

}  // namespace nntile
