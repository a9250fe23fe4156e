#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Which products bench/gemm multiplies. Names do not change once released.

#include <string>
#include <vector>

#include "bench/rivals/gemm.hh"

namespace nntile::bench {

/// Cases of one kind have a bar, and a geometric mean, of their own.
enum class Kind {
  large,   // squares from 192 on and GPT-2's products, fp32
  cube,    // extents of 32 to 128, multiples of 16
  ragged,  // extents of 32 to 128, others
  fp64,
  column  // one, of a token behind a cache: GPT-2's products, whose time is that of A's bytes
};
constexpr char const* kind_names[] = {"geomean", "cube_geomean", "ragged_geomean", "fp64_geomean",
                                      "column_geomean"};

struct GemmCase {
  std::string name;
  Kind kind;
  gemm_bench::Shape shape;
};

inline gemm_bench::Shape cube(gemm_bench::Index n) { return {false, false, n, n, n}; }

/// y = W x of `tokens` columns and both its gradients. W lies as {inputs, outputs}, as the
/// checkpoints have it for a row-major reader.
inline void add_layer(std::vector<GemmCase>& cases, std::string const& name,
                      gemm_bench::Index inputs, gemm_bench::Index outputs,
                      gemm_bench::Index tokens) {
  std::string const base = "gpt2_" + std::to_string(tokens) + "_" + name;
  cases.push_back({base + "_fwd", Kind::large, {true, false, outputs, tokens, inputs}});
  cases.push_back({base + "_dx", Kind::large, {false, false, inputs, tokens, outputs}});
  cases.push_back({base + "_dw", Kind::large, {false, true, inputs, outputs, tokens}});
}

/// Every product of GPT-2 124M: four of each block, and the head with its ragged vocabulary.
inline void add_gpt2(std::vector<GemmCase>& cases, gemm_bench::Index tokens, bool head) {
  add_layer(cases, "qkv", 768, 2304, tokens);
  add_layer(cases, "proj", 768, 768, tokens);
  add_layer(cases, "fc", 768, 3072, tokens);
  add_layer(cases, "fc2", 3072, 768, tokens);
  if (head) add_layer(cases, "head", 768, 50257, tokens);
}

/// The same products of one column, weights as nn::Gpt2 has them.
inline void add_columns(std::vector<GemmCase>& cases, bool head) {
  auto const add = [&](char const* name, bool trans_a, gemm_bench::Index outputs,
                       gemm_bench::Index inputs) {
    cases.push_back(
        {std::string("column_") + name, Kind::column, {trans_a, false, outputs, 1, inputs}});
  };
  add("qkv", false, 2304, 768);
  add("proj", false, 768, 768);
  add("fc", false, 3072, 768);
  add("fc2", false, 768, 3072);
  if (head) add("head", true, 50257, 768);
}

inline std::vector<GemmCase> gemm_cases(bool quick) {
  using Extents = std::vector<gemm_bench::Index>;
  std::vector<GemmCase> cases;
  auto const squares = [&](std::string const& name, Kind kind, Extents const& all,
                           Extents const& few) {
    for (auto const n : quick ? few : all)
      cases.push_back({name + "_" + std::to_string(n), kind, cube(n)});
  };
  squares("square", Kind::large, {192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096},
          {256, 512, 1024});
  add_gpt2(cases, 256, !quick);
  if (!quick) add_gpt2(cases, 1024, true);
  squares("cube", Kind::cube, {32, 48, 64, 80, 96, 112, 128}, {32, 64, 128});
  squares("cube", Kind::ragged, {36, 50, 60, 75, 90, 100, 120}, {50, 100});
  add_columns(cases, !quick);
  squares("fp64_square", Kind::fp64, {64, 128, 256, 512, 1024, 2048}, {256, 512});
  return cases;
}

}  // namespace nntile::bench
