#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The two-layer perceptron of a transformer block.

#include "nntile/nn/linear.hh"

namespace nntile::nn {

/// y = c_proj(gelutanh(c_fc(x))): `width` to `hidden` and back. Throws GraphError for an empty
/// name.
class Mlp {
 public:
  Mlp(ParameterList& parameters, std::string const& name, Index width, Index hidden,
      BranchOptions const& options = {})
      : layers_(parameters.all_or_nothing([&] {
          check_name("mlp", name);
          Group const inner{{hidden}, "hidden"}, outer{{width}, "embed"};
          return Layers{Linear(parameters, name + ".c_fc", inner, outer, options.linear),
                        Linear(parameters, name + ".c_proj", outer, inner, options.projection())};
        })) {}

  Node operator()(Node const& x) const {
    return layers_.fc.weight().graph().all_or_nothing(
        [&] { return layers_.projection(gelutanh(layers_.fc(x))); });
  }
  /// The activation is fused into the product: the same bits, but of bf16 and fp16, which are not
  /// rounded in between. It cannot be differentiated.
  Node inference(Node const& x) const {
    return layers_.fc.weight().graph().all_or_nothing(
        [&] { return layers_.projection(layers_.fc(x, Activation::gelu_tanh)); });
  }

 private:
  struct Layers {
    Linear fc;
    Linear projection;
  };
  Layers layers_;
};

}  // namespace nntile::nn
