#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Random regions, and their bytes with a flag each.

#include <bitset>
#include <cstddef>
#include <random>

#include "nntile/core/region.hh"

namespace nntile::test {

using Bytes = std::bitset<512>;
inline Bytes bytes_of(Region const& region) {
  Bytes bytes;
  each_run(region, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) bytes.set(b);
  });
  return bytes;
}

/// Of up to three steps, within 512 bytes; strides are few, so that equal ones meet.
inline Region draw(std::minstd_rand& random) {
  Region region{random() % 40, random() % 12, {}};
  std::size_t const strides[] = {0, 3, 7, 16, 16, 32, 32, 96};
  for (std::size_t s = random() % 4; s > 0; --s)
    region.steps.push_back({random() % 5, strides[random() % 8]});
  if (region.offset + span_of(region) > 512) return draw(random);
  return region;
}

}  // namespace nntile::test
