// SPDX-License-Identifier: BSD-3-Clause
// What a user of the headers alone compiles: nothing to link.
#include <nntile/core/shape.hh>

int main() { return 0; }
