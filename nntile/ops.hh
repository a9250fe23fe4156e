#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The list of ops, one include each. The build compiles kernels for exactly these.

#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
