#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// clang-format off
// Training checkpoints: a directory that appears complete or not at all. Layout of
// `DIR/step-0000000100/`:
//   model.safetensors      parameters under the names they have in the model
//   optimizer.safetensors  "optim.exp_avg/<parameter>", "optim.exp_avg_sq/<parameter>"
//   model-00002-of-00004.safetensors, optimizer-...    where ranks wrote it, instead: what each held;
//                          a tensor that none holds whole is cut, its tiles are "<name>#t<place in the grid>"
//   manifest.json          step, position in the data, random state, model, and checksums of every
//                          file and tensor
// clang-format on

#include "nntile/io/checkpoint_load.hh"
#include "nntile/io/checkpoint_save.hh"
