#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The list of ops, one include each. The build compiles kernels for exactly these.

#include "nntile/ops/adamw_step.hh"
#include "nntile/ops/add.hh"
#include "nntile/ops/add_fiber.hh"
#include "nntile/ops/add_slice.hh"
#include "nntile/ops/argmax.hh"
#include "nntile/ops/attention.hh"
#include "nntile/ops/cast.hh"
#include "nntile/ops/copy.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/embedding.hh"
#include "nntile/ops/fill.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/global_norm.hh"
#include "nntile/ops/layer_norm.hh"
#include "nntile/ops/randn.hh"
#include "nntile/ops/sample.hh"
#include "nntile/ops/scale.hh"
#include "nntile/ops/softmax.hh"
#include "nntile/ops/sum_slice.hh"
