#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Safetensors files: reader, writer, sets of files.

#include "nntile/io/safetensors_reader.hh"
#include "nntile/io/safetensors_set.hh"
#include "nntile/io/safetensors_writer.hh"
