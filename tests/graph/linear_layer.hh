// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A layer whose parts tests plan.

#include "nntile/nn/linear.hh"
#include "nntile/ops.hh"

namespace nntile::test {

/// y = gelutanh(x w + b), of 256 by 512.
struct LinearLayer {
  LogicalGraph graph{"layer"};
  nn::ParameterList parameters{graph};
  nn::Linear linear{parameters, "linear", {{512}, "out"}, {{256}, "in"}};
  Node x = graph.input({.shape = {256, 64}, .axes = "in batch"}, "x");
  Node y = gelutanh(linear(x)).named("y").mark_output();
};

}  // namespace nntile::test
