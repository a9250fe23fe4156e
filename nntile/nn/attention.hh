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
      : attn_(parameters, name + ".c_attn",
              {{head_dim(width, heads), heads, 3}, "head_dim head qkv"}, {{width}, "embed"},
              options.linear),
        projection_(parameters, name + ".c_proj", {{width}, "embed"},
                    {{head_dim(width, heads), heads}, "head_dim head"}, options.projection()) {}

  /// x[embed, seq, batch] to the same shape.
  Node operator()(Node const& x) const {
    Node const qkv = attn_(x);  // [head_dim, head, 3, seq, batch]
    LogicalGraph& graph = x.graph();
    Node const q = graph.slice(qkv, 2, 0, "q");
    Node const k = graph.slice(qkv, 2, 1, "k");
    Node const v = graph.slice(qkv, 2, 2, "v");
    return projection_(nntile::attention({.causal = true}, q, k, v));
  }

 private:
  static Index head_dim(Index width, Index heads) {
    if (heads < 1 || width % heads != 0)
      throw ShapeError(concat("attention: width ", width, " is not divided by ", heads, " heads"));
    return width / heads;
  }

  Linear attn_;
  Linear projection_;
};

}  // namespace nntile::nn
