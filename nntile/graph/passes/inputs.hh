#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The storage of tensors: which the store keeps, and which inputs are adopted or double-buffered.

#include <string>
#include <string_view>

#include "nntile/core/dynamic_array.hh"
#include "nntile/graph/bound_dims.hh"
#include "nntile/graph/logical.hh"
#include "nntile/graph/options.hh"
#include "nntile/graph/spelling.hh"

namespace nntile::passes {

/// Whether a store keeps a tensor of a graph.
inline bool is_kept(TensorNode const& node) {
  TensorAttributes const& a = node.attributes;
  return node.base == no_id && (a.persistent || a.external || a.output);
}

/// Storages of a graph's tensors under the options.
class StoragePass {
 public:
  StoragePass(LogicalGraph const& graph, PlanOptions const& options, BoundDims const& dims)
      : graph_(graph), options_(options), dims_(dims) {}

  /// By tensor. Throws PlanError: an option names what is no input, or one input is in both lists.
  DynamicArray<Storage> run() {
    for (std::uint32_t t = 0; t < graph_.tensor_count(); ++t) {
      TensorNode const& node = graph_.tensor_at(t);
      storages_.push_back(is_kept(node)        ? Storage::stored
                          : node.base != no_id ? Storage::view
                                               : Storage::arena);
    }
    for (KeptTiling const& kept : options_.keep) {
      if (kept.storage == Storage::stored || !exists(kept)) continue;
      if (kept.storage == Storage::view || kept.storage == Storage::arena)
        throw PlanError(concat("plan '", graph_.name(), "': PlanOptions::keep has '", kept.tensor,
                               "' as ", name_of(kept.storage), "; a tensor that exists is stored, ",
                               "adopted or double_buffered"));
      set("keep", kept.tensor, kept.storage);
    }
    for (std::string const& name : options_.adopted) set("adopted", name, Storage::adopted);
    for (std::string const& name : options_.double_buffered)
      set("double_buffered", name, Storage::double_buffered);
    return std::move(storages_);
  }

 private:
  bool exists(KeptTiling const& kept) const {
    std::uint32_t const t = graph_.id_of(kept.tensor);
    return t != no_id && kept.tiling.shape() == dims_.shape_of(t);
  }

  void set(char const* option, std::string const& name, Storage storage) {
    std::uint32_t const t = graph_.id_of(name);
    if (t == no_id || !graph_.tensor_at(t).attributes.external) fail_no_input(option, name, t);
    if (storages_[t] != Storage::stored && storages_[t] != storage)
      throw PlanError(concat("plan '", graph_.name(), "': PlanOptions::", option, " names '", name,
                             "', which is ", name_of(storages_[t]), " already; it can be one"));
    storages_[t] = storage;
  }

  [[noreturn]] void fail_no_input(char const* option, std::string const& name,
                                  std::uint32_t t) const {
    std::string const at =
        concat("plan '", graph_.name(), "': PlanOptions::", option, " names '", name, "', which ");
    if (t != no_id) throw PlanError(concat(at, "is no input: declare it by input() or constant()"));
    DynamicArray<std::string_view> inputs;
    std::string list;
    for (std::uint32_t i = 0; i < graph_.tensor_count(); ++i)
      if (graph_.tensor_at(i).attributes.external) {
        inputs.push_back(graph_.tensor_at(i).name);
        list += concat(list.empty() ? "; its inputs are '" : ", '", inputs.back(), "'");
      }
    std::string const near = did_you_mean(name, inputs);
    throw PlanError(concat(at, "the graph does not have", near.empty() ? list : near));
  }

  LogicalGraph const& graph_;
  PlanOptions const& options_;
  BoundDims const& dims_;
  DynamicArray<Storage> storages_;
};

}  // namespace nntile::passes
