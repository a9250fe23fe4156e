#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Linear: y = W x + b over groups of dimensions.

#include <optional>
#include <string>

#include "nntile/nn/module.hh"
#include "nntile/ops/gemm.hh"

namespace nntile::nn {

/// A group of dimensions with their names, or without any: {{64, 12}, "head_dim head"}.
struct Group {
  Shape shape;
  std::string axes = {};

  /// The names, of which a blank parts two, where there are none as well.
  std::string names() const {
    return axes.empty() && shape.size() > 1 ? std::string(shape.size() - 1, ' ') : axes;
  }
};

struct LinearOptions {
  double stddev = 0.02;       // of the weight's first values
  bool bias = true;           // begins as 0
  DType dtype = DType::fp32;  // of what weight and bias are applied to, and theirs, unless:
  /// Dtype in which weight and bias are kept and trained; each call casts them to `dtype`.
  std::optional<DType> kept = {};
  /// W is stored {in.., out..}, the bytes of a row-major file of shape [out, in], as
  /// torch.nn.Linear's; otherwise {out.., in..}, those of [in, out], as GPT-2's Conv1D.
  bool transposed = false;
};

/// Options of a module whose last linear layer, `c_proj`, adds to a residual stream: it may begin
/// smaller than the others.
struct BranchOptions {
  LinearOptions linear = {};  // of all of its layers
  double projection_stddev = 0.02;

  LinearOptions projection() const {
    LinearOptions options = linear;
    options.stddev = projection_stddev;
    return options;
  }
};

/// y[out.., n..] = sum_in W[out.., in..] x[in.., n..] + bias[out..]. Parameters `<name>.weight` ~
/// N(0, stddev), `<name>.bias`. Throws GraphError for an empty name, ShapeError for a group with an
/// extent below 0, and names for some of its dimensions.
class Linear {
 public:
  Linear(ParameterList& parameters, std::string const& name, Group const& out, Group const& in,
         LinearOptions const& options = {})
      : in_rank_(static_cast<int>(in.shape.size())),
        transposed_(options.transposed),
        dtype_(options.dtype) {
    check_name("linear", name);
    check(name, "out", out);
    check(name, "in", in);
    DType const kept = options.kept.value_or(options.dtype);
    Group const& inner = transposed_ ? in : out;
    Group const& outer = transposed_ ? out : in;
    bool const both = !inner.shape.empty() && !outer.shape.empty();
    TensorSpec weight{.shape = inner.shape,
                      .dtype = kept,
                      .axes = inner.names() + (both ? " " : "") + outer.names()};
    for (Index const extent : outer.shape) weight.shape.push_back(extent);
    weight.file_shape = {element_count(outer.shape), element_count(inner.shape)};
    TensorSpec const bias{out.shape, kept, out.axes, {element_count(out.shape)}};
    parameters.all_or_nothing([&] {
      weight_ = parameters.add(weight, name + ".weight", 0, options.stddev, true);
      if (options.bias) bias_ = parameters.add(bias, name + ".bias", 0, 0, false);
    });
  }

  /// Adds the product to the graph. Throws ShapeError where x does not begin with the `in` group;
  /// the graph is then as it was.
  Node operator()(Node const& x, Activation activation = Activation::none) const {
    ops::Gemm::Attrs attrs{.trans_a = transposed_, .activation = activation, .ndim = in_rank_};
    return weight_.graph().all_or_nothing([&] {
      Node const weight = in_dtype(weight_, dtype_);
      if (!bias_) return gemm(attrs, weight, x);
      attrs.bias = true;
      return gemm(attrs, weight, x, in_dtype(bias_, dtype_));
    });
  }

  Node const& weight() const { return weight_; }
  /// Empty without one.
  Node const& bias() const { return bias_; }

 private:
  /// Names of one group that count as those of the other would fit in number alone.
  static void check(std::string const& name, char const* which, Group const& group) {
    for (Index const extent : group.shape)
      if (extent < 0)
        throw ShapeError(concat("linear '", name, "': its group ", which, " has shape ",
                                to_string(group.shape), "; an extent is 0 or more"));
    std::size_t const names = axis_names({.shape = group.shape, .axes = group.axes}).size();
    if (names != 0 && names != group.shape.size())
      throw ShapeError(
          concat("linear '", name, "': its group ", which, " of shape ", to_string(group.shape),
                 " has axes \"", group.axes, "\", ", names,
                 " names; give each dimension one, with a blank between two, or none"));
  }

  int in_rank_;
  bool transposed_;
  DType dtype_;
  Node weight_;
  Node bias_;
};

}  // namespace nntile::nn
