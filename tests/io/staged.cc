// SPDX-License-Identifier: BSD-3-Clause
// A runtime that lends a copy of a tile to be written, as one with devices may: what a lock for
// writing does not fill is lost.
#include "nntile/io/store.hh"

#include <algorithm>
#include <numeric>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

class Staging : public Serial {
 public:
  std::span<std::byte> lock(Handle handle, Access access) {
    auto const real = Serial::lock(handle, access);
    if (access != Access::write) return real;
    staged_.push_back({handle, real, std::vector<std::byte>(real.size(), std::byte{0xEE})});
    return staged_.back().copy;
  }
  void unlock(Handle handle) {
    auto const at = std::find_if(staged_.begin(), staged_.end(),
                                 [&](Staged const& staged) { return staged.handle == handle; });
    if (at != staged_.end()) {
      std::copy(at->copy.begin(), at->copy.end(), at->real.begin());
      staged_.erase(at);
    }
    Serial::unlock(handle);
  }

 private:
  struct Staged {
    Handle handle;
    std::span<std::byte> real;
    std::vector<std::byte> copy;
  };
  std::vector<Staged> staged_;
};
static_assert(Runtime<Staging>);

}  // namespace

TEST_CASE("a tile is locked for writing once, from its first byte to its last", "[io][staged]") {
  Scratch const scratch;
  std::vector<float> values(20 * 30);
  std::iota(values.begin(), values.end(), 1.0f);
  std::string const path = scratch.path() + "/x.safetensors";
  TensorSource const source =
      source_of("x", DType::fp32, {20, 30}, std::as_bytes(std::span(values)));
  (void)save_tensors(path, std::span(&source, 1));

  LogicalGraph graph;
  gelutanh(graph.parameter({.shape = {20, 30}, .axes = "m n"}, "x")).mark_output();
  Staging runtime;
  TensorStore<Staging> store(runtime);
  auto const run = compile(graph, store, {.cuts = {{"m", {7}}, {"n", {8}}}});
  SafetensorsFile const file = SafetensorsFile::open(path);
  load_tensors(file, targets_of(store, is_parameter), Extra::refused, 3 * 20 * sizeof(float));
  CHECK(store.read<float>("x") == values);
}
