#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// LayerNorm over the innermost dimension.

#include <cmath>
#include <optional>
#include <string>

#include "nntile/nn/module.hh"
#include "nntile/ops/layer_norm.hh"

namespace nntile::nn {

struct NormOptions {
  double eps = 1e-5;
  bool weight = true;  // begins as 1
  bool bias = true;    // begins as 0
  DType dtype = DType::fp32;
  /// Dtype in which parameters are kept and trained, if not in `dtype`; each call casts them.
  std::optional<DType> kept = {};
};

/// y = (x - mean) / sqrt(var + eps) * weight + bias over dimension 0, which is `axis` of `width`.
/// Parameters `<name>.weight` and `<name>.bias`; one that is left out is a tensor of the graph,
/// which each run fills. Throws GraphError for an empty name, ValueError for an eps out of
/// range.
class LayerNorm {
 public:
  LayerNorm(ParameterList& parameters, std::string const& name, Index width,
            std::string const& axis, NormOptions const& options = {})
      : eps_(options.eps), dtype_(options.dtype) {
    check_name("norm", name);
    if (!std::isfinite(eps_) || eps_ < 0)
      throw ValueError(concat("norm '", name, "': an eps of ", eps_, "; 0 or more, such as 1e-5"));
    TensorSpec spec{{width}, options.dtype, axis, {}};
    auto const filled = [&](bool trained, std::string const& full, double value) {
      spec.dtype = trained ? options.kept.value_or(options.dtype) : options.dtype;
      return trained ? parameters.add(spec, full, value, 0, false)
                     : ops::fill({.value = value}, parameters.graph().tensor(spec, full));
    };
    parameters.all_or_nothing([&] {
      weight_ = filled(options.weight, name + ".weight", 1);
      bias_ = filled(options.bias, name + ".bias", 0);
    });
  }

  Node operator()(Node const& x) const {
    return weight_.graph().all_or_nothing([&] {
      Node const weight = in_dtype(weight_, dtype_);
      return layer_norm({.eps = eps_}, x, weight, in_dtype(bias_, dtype_));
    });
  }

  Node const& weight() const { return weight_; }
  Node const& bias() const { return bias_; }

 private:
  double eps_;
  DType dtype_;
  Node weight_;
  Node bias_;
};

}  // namespace nntile::nn
