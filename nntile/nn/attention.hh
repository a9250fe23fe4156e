#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Causal multi-head self-attention.

#include "nntile/nn/linear.hh"
#include "nntile/ops/attention.hh"

namespace nntile::nn {

/// y = c_proj(attention(q, k, v)), q, k, v = c_attn(x), each of `heads` heads. c_attn's outputs are
/// {head_dim, head, 3}: the three are cut apart by every plan, so that q, k and v are views and
/// nothing is copied.
class CausalSelfAttention {
 public:
  /// Throws ShapeError where the heads do not divide the width.
  CausalSelfAttention(ParameterList& parameters, std::string const& name, Index width, Index heads,
                      BranchOptions const& options = {})
      : layers_(parameters.all_or_nothing([&] {
          Index const head = head_dim(width, heads);
          Group const all{{width}, "embed"};
          return Layers{Linear(parameters, name + ".c_attn",
                               {{head, heads, 3}, "head_dim head qkv"}, all, options.linear),
                        Linear(parameters, name + ".c_proj", all, {{head, heads}, "head_dim head"},
                               options.projection())};
        })) {}

  /// x[embed, seq, batch] to the same shape.
  Node operator()(Node const& x) const {
    Node const qkv = layers_.attn(x);  // [head_dim, head, 3, seq, batch]
    LogicalGraph& graph = x.graph();
    Node const q = graph.slice(qkv, 2, 0, "q");
    Node const k = graph.slice(qkv, 2, 1, "k");
    Node const v = graph.slice(qkv, 2, 2, "v");
    return layers_.projection(nntile::attention({.causal = true}, q, k, v));
  }

 private:
  static Index head_dim(Index width, Index heads) {
    if (heads < 1 || width % heads != 0)
      throw ShapeError(concat("attention: width ", width, " is not divided by ", heads, " heads"));
    return width / heads;
  }

  struct Layers {
    Linear attn;
    Linear projection;
  };
  Layers layers_;
};

}  // namespace nntile::nn
