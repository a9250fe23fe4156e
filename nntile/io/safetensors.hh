#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Safetensors files: header, reader, writer.

#include "nntile/io/safetensors_reader.hh"
#include "nntile/io/safetensors_writer.hh"
