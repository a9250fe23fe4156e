#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Causal multi-head self-attention.

#include "nntile/nn/linear.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/kv_cache_append.hh"

namespace nntile::nn {

/// Keys and values [head_dim, head, slot, batch] of a layer, kept between runs: slots before
/// `start`, an int64 scalar, have those of the tokens so far.
struct KeyValueCache {
  Node keys;
  Node values;
  Node start;
};

/// y = c_proj(attention(q, k, v)), q, k, v = c_attn(x), each of `heads` heads. c_attn's outputs are
/// {head_dim, head, 3}: the three are cut apart by every plan, so that q, k and v are views and
/// nothing is copied.
class CausalSelfAttention {
 public:
  /// Throws GraphError for an empty name, ShapeError where the heads do not divide the width.
  CausalSelfAttention(ParameterList& parameters, std::string const& name, Index width, Index heads,
                      BranchOptions const& options = {})
      : layers_(parameters.all_or_nothing([&] {
          check_name("attention", name);
          Index const head = head_dim(width, heads);
          Group const all{{width}, "embed"};
          return Layers{Linear(parameters, name + ".c_attn",
                               {{head, heads, 3}, "head_dim head qkv"}, all, options.linear),
                        Linear(parameters, name + ".c_proj", all, {{head, heads}, "head_dim head"},
                               options.projection())};
        })) {}

  /// x[embed, seq, batch] to the same shape.
  Node operator()(Node const& x) const {
    return graph().all_or_nothing([&] {
      auto const [q, k, v] = heads(x);
      return layers_.projection(nntile::attention({.causal = true}, q, k, v));
    });
  }

  /// The same of tokens that follow those of the cache, which they join; the bits are those of the
  /// whole sequence.
  Node operator()(Node const& x, KeyValueCache const& cache) const {
    return graph().all_or_nothing([&] {
      auto const [q, k, v] = heads(x);
      kv_cache_append(k, cache.start, cache.keys);
      kv_cache_append(v, cache.start, cache.values);
      return layers_.projection(
          nntile::attention({.cached = true}, q, cache.keys, cache.values, cache.start));
    });
  }

 private:
  LogicalGraph& graph() const { return layers_.attn.weight().graph(); }

  struct Heads {
    Node q, k, v;  // [head_dim, head, seq, batch]
  };
  Heads heads(Node const& x) const {
    Node const qkv = layers_.attn(x);  // [head_dim, head, 3, seq, batch]
    Node const q = graph().slice(qkv, 2, 0, "q");
    Node const k = graph().slice(qkv, 2, 1, "k");
    Node const v = graph().slice(qkv, 2, 2, "v");
    return {q, k, v};
  }

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
