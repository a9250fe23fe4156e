// SPDX-License-Identifier: BSD-3-Clause
// The five ways to use tasks: forget, wait, wait for a group, chain, collect per tensor.
#include <cstdio>
#include <nntile/nntile.hh>

using namespace nntile;
using R = Ring;

int main() {
  R runtime({.workers = 2});
  std::vector<Tile<float, R>> tiles;
  for (int i = 0; i < 6; ++i) {
    tiles.emplace_back(runtime, Shape{64, 64}, concat("tile", i));
    tiles.back().write(std::vector<float>(64 * 64, static_cast<float>(i)));
  }

  // 1. Fire and forget: the task runs, and nothing here waits for it.
  auto forgotten = gelutanh.async(tiles[0], tiles[1]);
  forgotten.detach();

  // 2. Wait at once: blocks until this task is done, and for no other.
  gelutanh(tiles[2], tiles[3]);

  // 3. Submit many, then wait for the group.
  TaskGroup<R> group;
  for (std::size_t i = 0; i < 4; ++i) group.add(gelutanh.async(tiles[i], tiles[i]));
  group.wait_all();

  // 4. A chain: the second task reads what the first writes, so waiting for it waits for both.
  auto first = gelutanh.async(tiles[0], tiles[4]);
  auto second = gelutanh.async(tiles[4], tiles[5]);
  second.wait();
  std::printf("the first is %s\n", first.is_complete() ? "complete" : "still running");

  // 5. A tensor's op gives the group of its tile tasks.
  Tensor<float, R> x(runtime, Tiling({256, 256}, {64, 64}), "x"),
      y(runtime, Tiling({256, 256}, {64, 64}), "y");
  x.write(std::vector<float>(256 * 256, 1.0f));
  TaskGroup<R> tasks = gelutanh.async(x, y);
  std::printf("%zu tile tasks\n", tasks.size());
  tasks.wait_all();
  std::printf("gelutanh(1) = %.6f\n", static_cast<double>(y.read()[0]));
}
