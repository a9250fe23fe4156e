#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Linear: y = W x + b over groups of dimensions.

#include "nntile/nn/module.hh"
#include "nntile/ops/gemm.hh"

namespace nntile::nn {

/// A group of dimensions with their names: {{64, 12}, "head_dim head"}.
struct Group {
  Shape shape;
  std::string axes;
};

/// y[out.., n..] = sum_in W[out.., in..] x[in.., n..] + bias[out..]. W is stored {out.., in..}: the
/// bytes of a row-major file of shape [in, out], as GPT-2's Conv1D has it. Parameters
/// `<name>.weight` ~ N(0, stddev), `<name>.bias` = 0.
class Linear {
 public:
  Linear(ParameterList& parameters, std::string const& name, Group const& out, Group const& in,
         double stddev = 0.02)
      : in_rank_(static_cast<int>(in.shape.size())) {
    TensorSpec weight{.shape = out.shape, .dtype = DType::fp32, .axes = out.axes + " " + in.axes};
    for (Index const extent : in.shape) weight.shape.push_back(extent);
    weight.file_shape = {element_count(in.shape), element_count(out.shape)};
    weight_ = parameters.add(weight, name + ".weight", 0, stddev, true);
    TensorSpec const bias{out.shape, DType::fp32, out.axes, {element_count(out.shape)}};
    bias_ = parameters.add(bias, name + ".bias", 0, 0, false);
  }

  /// Adds the product to the graph. Throws ShapeError where x does not begin with the `in` group.
  Node operator()(Node const& x, Activation activation = Activation::none) const {
    return gemm({.bias = true, .activation = activation, .ndim = in_rank_}, weight_, x, bias_);
  }

  Node const& weight() const { return weight_; }
  Node const& bias() const { return bias_; }

 private:
  int in_rank_;
  Node weight_;
  Node bias_;
};

}  // namespace nntile::nn
