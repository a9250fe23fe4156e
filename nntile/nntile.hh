#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The umbrella: graphs, tensors, tiles, ops, and the runtimes serial and ring. What differentiates
// a graph (graph/gradient.hh), plans and runs it (graph/graph.hh, or graph/compile.hh under it),
// other runtimes, io and nn are included by name.

#include "nntile/graph/apply.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/scope.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tensor/tensor.hh"
