#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The umbrella: graphs, plans, tensors, tiles, ops, and the runtimes serial and ring. What
// differentiates or plans a graph (graph/gradient.hh, graph/compile.hh), other runtimes, io and nn
// are included by name.

#include "nntile/graph/apply.hh"
#include "nntile/graph/compiled.hh"
#include "nntile/ops.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/scope.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tensor/tensor.hh"
