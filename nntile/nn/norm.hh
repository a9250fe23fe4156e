#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// LayerNorm over the innermost dimension.

#include "nntile/nn/linear.hh"
#include "nntile/ops/layer_norm.hh"

namespace nntile::nn {

/// y = (x - mean) / sqrt(var + eps) * weight + bias over dimension 0. Parameters `<name>.weight` =
/// 1, `<name>.bias` = 0.
class LayerNorm {
 public:
  LayerNorm(ParameterList& parameters, std::string const& name, Index width,
            std::string const& axis, double eps = 1e-5, DType dtype = DType::fp32)
      : eps_(eps),
        weight_(parameters.add({{width}, dtype, axis, {}}, name + ".weight", 1, 0, false)),
        bias_(parameters.add({{width}, dtype, axis, {}}, name + ".bias", 0, 0, false)) {}

  Node operator()(Node const& x) const { return layer_norm({.eps = eps_}, x, weight_, bias_); }

 private:
  double eps_;
  Node weight_;
  Node bias_;
};

}  // namespace nntile::nn
