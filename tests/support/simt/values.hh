// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What one thread computes of two values, by the functions that all kernels share.

#include <array>
#include <vector>

namespace nntile::test {

/// max, min, a / b, sqrt(a), fma(a, b, a), abs(a), a with the sign of b, a - b.
template <class T> using Values = std::array<T, 8>;

/// Of each pair, by threads of the emulator; T is float or double. Throws std::string.
template <class T> std::vector<Values<T>> values_on_device(std::vector<std::array<T, 2>> const& x);
extern template std::vector<Values<float>> values_on_device(
    std::vector<std::array<float, 2>> const& x);
extern template std::vector<Values<double>> values_on_device(
    std::vector<std::array<double, 2>> const& x);

}  // namespace nntile::test
