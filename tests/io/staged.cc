// SPDX-License-Identifier: BSD-3-Clause
// A runtime that lends a copy of a tile to be written, as one with devices may: what a lock for
// writing does not fill is lost.
#include "nntile/io/store.hh"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <optional>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/io/checkpoint.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/device.hh"
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

/// A file with a tensor of 20 by 30, and a store that has it in tiles.
struct Loaded {
  static constexpr std::uint64_t piece = 3 * 20 * sizeof(float);

  Scratch scratch;
  std::string path = scratch / "x.safetensors";
  std::vector<float> values = std::vector<float>(20 * 30);
  Staging runtime;
  TensorStore<Staging> store{runtime};

  Loaded() {
    std::iota(values.begin(), values.end(), 1.0f);
    TensorSource const source =
        source_of("x", DType::fp32, {20, 30}, std::as_bytes(std::span(values)));
    (void)save_tensors(path, std::span(&source, 1));
    LogicalGraph graph;
    gelutanh(graph.parameter({.shape = {20, 30}, .axes = "m n"}, "x")).mark_output();
    (void)compile(graph, store, {.cuts = {{"m", {7}}, {"n", {8}}}});
  }
  void load(std::span<TensorTarget const> targets, Fault const* fault = nullptr) const {
    load_tensors(SafetensorsFile::open(path, Reading::lenient, fault), targets, Extra::refused,
                 piece);
  }
};

/// Reads of a file of which the fifth fails: two are of the header.
Fault fifth_read_fails() {
  return {[reads = 0](FileStep step, std::string const&, std::size_t&) mutable {
    return step == FileStep::read && ++reads == 5 ? EIO : 0;
  }};
}

/// Counts the buffers of the host: a tensor on a device is read through copies there.
class CountingCopies : public BasicSerial<testing::EmulatedDevice> {
  using Base = BasicSerial<testing::EmulatedDevice>;

 public:
  CountingCopies() : Base(RuntimeOptions{.workers = 1}, testing::EmulatedOptions{.devices = 1}) {}
  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    Handle const handle = Base::allocate(bytes, place, lifetime);
    if (place == host) host_.push_back(handle);
    if (place == host) ++copies;
    return handle;
  }
  void retire(Handle handle) {
    std::erase(host_, handle);
    Base::retire(handle);
  }
  /// Those that are there now.
  std::size_t held() const { return host_.size(); }

  int copies = 0;

 private:
  std::vector<Handle> host_;
};
static_assert(Runtime<CountingCopies>);

/// A tensor of 20 times 30 numbers on a device, in 3 times 4 tiles.
struct OnDevice {
  CountingCopies runtime;
  TensorStore<CountingCopies> store{runtime};
  std::vector<float> values = std::vector<float>(20 * 30);
  std::optional<CompiledGraph<CountingCopies>> run;

  OnDevice() {
    LogicalGraph graph;
    gelutanh(graph.parameter({.shape = {20, 30}, .axes = "m n"}, "x")).mark_output();
    PlanOptions options{.cuts = {{"m", {7}}, {"n", {8}}}};
    options.place = {{.role = Role::parameter, .place = device(0)}};
    run.emplace(compile(graph, store, options));
    std::iota(values.begin(), values.end(), 1.0f);
    write();
  }
  void write() {
    store.write<float>("x", values);
    held = runtime.held();
    runtime.copies = 0;
  }
  /// Reads rows [first, last) of the file, three of them at a time.
  void read(TensorSource const& source, std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; row += 3)
      source.read(80 * row, std::as_writable_bytes(std::span(found).subspan(20 * row, 60)));
  }

  std::vector<float> found = std::vector<float>(20 * 30);
  std::size_t held = 0;  // buffers of the host before a read
};

}  // namespace

TEST_CASE("a tile is locked for writing once, from its first byte to its last", "[io][staged]") {
  Loaded of;
  of.load(targets_of(of.store, is_parameter));
  CHECK(of.store.read<float>("x") == of.values);
}

TEST_CASE("a load that failed leaves no tile locked", "[io][staged]") {
  Loaded of;
  auto const targets = targets_of(of.store, is_parameter);
  Fault const fault = fifth_read_fails();
  CHECK_THROWS_AS(of.load(targets, &fault), Error);
  CHECK_NOTHROW(of.store.write<float>("x", of.values));
  CHECK(of.store.read<float>("x") == of.values);
}

TEST_CASE("a load after one that failed fills the same targets", "[io][staged]") {
  Loaded of;
  auto const targets = targets_of(of.store, is_parameter);
  Fault const fault = fifth_read_fails();
  CHECK_THROWS_AS(of.load(targets, &fault), Error);
  of.load(targets);
  CHECK(of.store.read<float>("x") == of.values);
}

TEST_CASE("bytes from the first on begin a tensor anew", "[io][staged]") {
  Loaded of;
  auto const targets = targets_of(of.store, is_parameter);
  auto const bytes = std::as_bytes(std::span(of.values));
  targets[0].write(0, bytes.first(of.piece));
  for (std::uint64_t at = 0; at < bytes.size(); at += of.piece)
    targets[0].write(at, bytes.subspan(at, of.piece));
  CHECK(of.store.read<float>("x") == of.values);
}

TEST_CASE("a checkpoint whose disk fails while it is delivered leaves no tile locked",
          "[io][staged]") {
  Loaded of;
  CheckpointDirectory directory(of.scratch / "run");
  TensorSource const source =
      source_of("x", DType::fp32, {20, 30}, std::as_bytes(std::span(of.values)));
  std::string const path = directory.save(Json::object(), {}, std::span(&source, 1)).path;
  auto const targets = targets_of(of.store, is_parameter);
  std::vector<TensorTarget> broken{targets};
  broken[0].write = [&](std::uint64_t offset, std::span<std::byte const> bytes) {
    targets[0].write(offset, bytes.first(of.piece));
    throw Error("the disk failed");
  };
  CHECK_THROWS_AS(Checkpoint::open(path).load(broken), Error);
  CHECK_NOTHROW(of.store.write<float>("x", of.values));
}

TEST_CASE("a tile that the host does not reach is copied there once in a pass", "[io][staged]") {
  OnDevice on;
  auto const sources = sources_of(on.store, is_parameter);
  on.read(sources.at(0), 0, 15);
  CHECK(on.runtime.copies == 6);
  CHECK(on.runtime.held() == on.held + 3);  // of the second column of tiles
  on.read(sources[0], 15, 30);
  CHECK(on.found == on.values);
  CHECK(on.runtime.copies == 12);
  CHECK(on.runtime.held() == on.held);
  auto const tile = io::detail::tile_source(on.store, on.store.at("x"), 4);
  std::vector<float> found(7 * 8);
  for (std::size_t column = 0; column < 8; ++column)
    tile.read(28 * column, std::as_writable_bytes(std::span(found).subspan(7 * column, 7)));
  CHECK(found == on.store.read_tile<float>("x", 4));
  CHECK(on.runtime.copies == 14);  // one of them by read_tile
  CHECK(on.store.gather<float>("x") == on.values);
  CHECK(on.runtime.copies == 26);
  CHECK(on.runtime.held() == on.held);
}

TEST_CASE("a pass that was broken off leaves no values to the next one", "[io][staged]") {
  OnDevice on;
  auto const sources = sources_of(on.store, is_parameter);
  for (std::size_t const again : {0u, 12u}) {
    on.read(sources.at(0), again, 6 + again);
    for (float& value : on.values) value = -value;
    on.write();
    on.read(sources[0], again == 0 ? 0 : 3, 30);
    CHECK(std::equal(on.values.begin() + 60, on.values.end(), on.found.begin() + 60));
  }
}

TEST_CASE("a source that is read in part may outlive the runtime", "[io][staged]") {
  std::vector<TensorSource> sources;
  {
    OnDevice on;
    sources = sources_of(on.store, is_parameter);
    on.read(sources.at(0), 0, 3);
  }
  sources.clear();
}
