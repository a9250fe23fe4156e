// SPDX-License-Identifier: BSD-3-Clause
// What plans for several places are tried on.
#pragma once

#include "nntile/graph/apply.hh"
#include "nntile/graph/options.hh"
#include "nntile/ops.hh"

namespace nntile::test {

inline PlaceRule all_on(int number) { return {.place = device(number)}; }

/// y = gelu(W x).
struct PlacedLayer {
  LogicalGraph graph{"layer"};
  Node x = graph.input({.shape = {4, 6}}, "x");
  Node w = graph.parameter({.shape = {8, 4}}, "w");
  Node h = gemm(w, x).named("h");
  Node y = gelutanh(h).named("y").mark_output();
};

}  // namespace nntile::test
