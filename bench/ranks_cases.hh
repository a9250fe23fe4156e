#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The training steps that bench_ranks times, for the program that times them and for the ranks.

#include <string_view>
#include <vector>

#include "nntile/graph/options.hh"
#include "nntile/graph/presets.hh"

namespace nntile::bench {

/// A step of GPT-2's smallest model on two ranks; without a mesh, of one with groups and without.
struct RanksCase {
  char const* name;
  Index batch, seq;
  std::vector<MeshAxis> mesh;
  std::vector<ShardRule> rules;
  std::vector<AxisGroups> groups;  // of one rank, too
  int rounds;
  int quick_rounds;  // 0: not in a quick run
};

inline std::vector<RanksCase> ranks_cases() {
  std::vector<MeshAxis> const data{{"data", 2}};
  return {{"124m_b4_t64_ddp", 4, 64, data, ddp(), {{"batch", 2}}, 15, 2},
          {"124m_b4_t64_fsdp", 4, 64, data, fsdp(), {{"batch", 2}}, 15, 0},
          {"124m_b2_t512_ddp", 2, 512, data, ddp(), {{"batch", 2}}, 7, 0},
          {"124m_b2_t512_fsdp", 2, 512, data, fsdp(), {{"batch", 2}}, 7, 0},
          {"124m_b1_t1024_tensor",
           1,
           1024,
           {{"tensor", 2}},
           tensor_parallel(),
           {{"head", 2}, {"hidden", 2}, {"vocab", 2}},
           7,
           0},
          {"124m_b4_t256_groups", 4, 256, {}, {}, {{"batch", 4}}, 7, 0},
          {"124m_b4_t64_groups", 4, 64, {}, {}, {{"batch", 4}}, 15, 2}};
}

/// The case of that name; null where there is none.
inline RanksCase const* find_ranks_case(std::vector<RanksCase> const& cases,
                                        std::string_view name) {
  for (RanksCase const& each : cases)
    if (name == each.name) return &each;
  return nullptr;
}

}  // namespace nntile::bench
