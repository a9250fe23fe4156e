#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The two-layer perceptron of a transformer block.

#include "nntile/nn/linear.hh"

namespace nntile::nn {

/// y = c_proj(gelutanh(c_fc(x))): `width` to `hidden` and back.
class Mlp {
 public:
  Mlp(ParameterList& parameters, std::string const& name, Index width, Index hidden,
      BranchOptions const& options = {})
      : fc_(parameters, name + ".c_fc", {{hidden}, "hidden"}, {{width}, "embed"}, options.linear),
        projection_(parameters, name + ".c_proj", {{width}, "embed"}, {{hidden}, "hidden"},
                    options.projection()) {}

  Node operator()(Node const& x) const { return projection_(gelutanh(fc_(x))); }
  /// The activation is fused into the product: the same bits, but of bf16 and fp16, which are not
  /// rounded in between. It cannot be differentiated.
  Node inference(Node const& x) const { return projection_(fc_(x, Activation::gelu_tanh)); }

 private:
  Linear fc_;
  Linear projection_;
};

}  // namespace nntile::nn
