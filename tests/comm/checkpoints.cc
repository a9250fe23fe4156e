// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints of ranks: each writes what it holds, and any number of ranks goes on with the bits of
// one, under any mesh.
#include "nntile/io/checkpoint.hh"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "nntile/comm/transfers.hh"
#include "nntile/io/store.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/comm/saved_training.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/sanitized.hh"

using namespace nntile;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

io::Json const model = io::Json::object({{"model_type", "tiny"}});
using Names = std::vector<std::string>;

Layout const alone{};
Layout const ddp_2{{{"data", 2}}, ddp()};
Layout const fsdp_3{{{"data", 3}}, fsdp()};
Layout const tensor_2{{{"tensor", 2}}, tensor_parallel()};
Layout const both{{{"tensor", 2}, {"data", 2}}, product({tensor_parallel(), fsdp()})};

}  // namespace

TEST_CASE("training goes on under any mesh with the bits of one rank", "[comm][checkpoints]") {
  Scratch const scratch;
  int const half = sanitized ? 1 : 2;  // of the steps
  Names const whole = train_all<Serial>(alone, scratch / "whole", 2 * half);
  int number = 0;
  std::vector<std::pair<Layout, Layout>> const changes{
      {fsdp_3, tensor_2}, {tensor_2, both}, {both, alone}, {ddp_2, fsdp_3}, {alone, both}};
  for (auto const& [first, second] : changes) {
    INFO("change " << number);
    std::string const folder = scratch / concat("run", number++);
    CHECK(train_all<Ring>(first, folder, half).size() == 1);
    CHECK(train_all<Serial>(second, folder, 2 * half) == whole);
  }
}

TEST_CASE("each rank writes files of its own, in plain safetensors", "[comm][checkpoints]") {
  Scratch const scratch;
  REQUIRE(train_all<Serial>(both, scratch.path(), 1).size() == 1);
  std::string const path = scratch / "step-0000000001";
  Names expected{"manifest.json"};
  for (char const* const kind : {"model", "optimizer"})
    for (int rank = 1; rank <= 4; ++rank)
      expected.push_back(concat(kind, "-0000", rank, "-of-00004.safetensors"));
  CHECK(io::list_directory(path) == expected);
  std::uint64_t most = 0, all = 0;
  for (int rank = 1; rank <= 4; ++rank) {
    std::string const name = concat(path, "/optimizer-0000", rank, "-of-00004.safetensors");
    std::uint64_t const bytes = io::File::open(name).size();
    most = std::max(most, bytes);
    all += bytes;
    CHECK(io::SafetensorsFile::open(name, io::Reading::strict).entries().size() > 0);
  }
  CHECK(most < all * 35 / 100);  // all of them write
  CHECK(io::Checkpoint::open(path).tensors().find("wte.weight")->shape == io::FileShape{96, 128});
  CHECK_NOTHROW(io::Checkpoint::open(path).verify());
  REQUIRE(train_all<Serial>(ddp_2, scratch / "ddp", 1).size() == 1);  // both hold all
  for (char const* const name : {"model-00001-of-00002", "model-00002-of-00002"})
    CHECK(io::File::open(scratch / concat("ddp/step-0000000001/", name, ".safetensors")).size() >
          10'000);
}

TEST_CASE("on one rank shares are written as whole tensors are",
          "[comm][checkpoints][single-threaded]") {
  Scratch const scratch;
  Serial runtime;
  TinyGptGraph const of;
  TensorStore<Serial> store(runtime);
  LogicalGraph init("init");
  nn::initialize(init, of.step, 1);
  compile(init, store).execute();
  io::CheckpointDirectory a(scratch / "a"), b(scratch / "b");
  a.save(model, {}, io::sources_of(store, io::is_saved));
  b.save_shares(model, {}, io::shares_of(store, io::is_saved));
  for (char const* const name : {"manifest.json", "model.safetensors", "optimizer.safetensors"})
    CHECK(get(scratch / concat("a/step-0000000000/", name)) ==
          get(scratch / concat("b/step-0000000000/", name)));
  CHECK_THAT(get(scratch / "a/step-0000000000/manifest.json"), Contains("\"version\": 1"));
}

TEST_CASE("a rank that cannot write keeps all from saving, and the last checkpoint stays",
          "[comm][checkpoints]") {
  Scratch const scratch;
  Names const first = train_all<Serial>(fsdp_3, scratch.path(), 1);
  REQUIRE(first.size() == 1);
  io::Fault const full{[](io::FileStep step, std::string const& path, std::size_t&) {
    return step == io::FileStep::write && contains(path, "optimizer") ? ENOSPC : 0;
  }};
  Layout layout = fsdp_3;
  layout.fault = &full;
  Names const thrown = train_all<Serial>(layout, scratch.path(), 2);
  REQUIRE(thrown.size() == 3);
  CHECK_THAT(thrown[1], Contains("optimizer-00002-of-00003.safetensors' at byte 0: No space left"));
  for (std::size_t rank : {0u, 2u})
    CHECK_THAT(thrown[rank],
               Contains("step-0000000002': rank 1: write '") &&
                   Contains("optimizer-00002-of-00003.safetensors' at byte 0: No space left"));
  CHECK(io::list_directory(scratch.path()) == Names{"step-0000000001"});
  CHECK(train_all<Serial>(fsdp_3, scratch.path(), 1) == first);
}

TEST_CASE("a checkpoint that lacks the file of a rank is one clear error", "[comm][checkpoints]") {
  Scratch const scratch;
  REQUIRE(train_all<Serial>(fsdp_3, scratch.path(), 1).size() == 1);
  io::remove_tree(scratch / "step-0000000001/model-00002-of-00003.safetensors");
  for (Layout const& layout : {alone, tensor_2}) {
    std::string text;
    try {
      text = train_all<Serial>(layout, scratch.path(), 2)[0];
    } catch (FormatError const& error) {
      text = error.what();
    }
    CHECK_THAT(text, Contains("step-0000000001/model-00002-of-00003.safetensors' is not there; the "
                              "checkpoint was written by several ranks, 6 files"));
  }
}

TEST_CASE("tensors of several pieces go through ranks, files and other tilings whole",
          "[comm][checkpoints]") {
  constexpr Index rows = 1000, columns = 1500;  // 6 MB, and pieces have 4
  LogicalGraph graph("large");
  Node const x = graph.state({.shape = {rows, columns}, .axes = "row column"}, "x");
  scale({.alpha = 2}, x).named("y").mark_output();
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  auto const bytes = std::as_bytes(std::span(values));
  auto const options = [](int ranks, std::vector<Index> const& row,
                          std::vector<Index> const& column) {
    PlanOptions result{.tile = 64, .cuts = {{"row", row}, {"column", column}}};
    result.pad = {{.tensor = "x"}};
    if (ranks > 1) result.mesh = {{"data", ranks}};
    if (ranks > 1) result.rules = {{.role = Role::state, .mesh = "data"}};
    return result;
  };
  Scratch const scratch;
  LocalWorld world(3);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    Ring runtime({.workers = 1});
    TensorStore<Ring> store(runtime, link_of(transfers));
    auto const step = compile_part(graph, store, options(3, {300, 201}, {700, 13}));
    if (store.at("x").spec.column_unit != 16) throw Error("columns are not padded");
    store.write<float>("x", values);
    io::CheckpointDirectory directory(scratch.path(), {.piece_bytes = 100'000}, store.link());
    directory.save_shares(model, {}, io::shares_of(store, io::is_saved));
    if (store.gather<float>("x") != values) throw Error("gather");
    std::minstd_rand random(7);
    TensorStore<Ring>::Reads from(store.at("x"));
    for (int i = 0; i < 50; ++i) {
      std::size_t const border = 4 * rows * 700;  // of a tile; the first begins before it
      std::size_t const begin = i == 0 ? border - 100 : random() % bytes.size();
      std::vector<std::byte> some(std::min<std::size_t>(bytes.size() - begin, 20'000));
      store.gather_bytes(from, begin, some);
      if (!std::equal(some.begin(), some.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin)))
        throw Error(concat("gather of ", some.size(), " bytes at ", begin));
    }
  });
  CHECK(thrown == Names(3));
  Serial runtime;
  TensorStore<Serial> store(runtime);
  auto const step = compile(graph, store, options(1, {128}, {999}));
  auto const checkpoint = io::Checkpoint::open(*io::latest_checkpoint(scratch.path()));
  checkpoint.load(io::targets_of(store, io::is_saved));
  CHECK(store.read<float>("x") == values);
  std::vector<float> flat(values.size());  // of another shape in the graph
  checkpoint.load(std::vector{
      io::target_of("x", DType::fp32, {rows, columns}, std::as_writable_bytes(std::span(flat)))});
  CHECK(flat == values);
}

TEST_CASE("a changed byte of a tile in a rank's file is found", "[comm][checkpoints]") {
  Scratch const scratch;
  REQUIRE(train_all<Serial>(tensor_2, scratch.path(), 1).size() == 1);
  std::string const path = scratch / "step-0000000001/model-00002-of-00002.safetensors";
  std::string const text = get(path);
  auto const file = io::SafetensorsFile::open(path);
  std::size_t tiles = 0;
  for (io::TensorEntry const entry : file.entries()) {
    if (entry.name.find("#t") == entry.name.npos) continue;
    if (++tiles % 4 != 0) continue;
    std::string changed = text;
    changed[file.data_begin() + entry.begin] ^= 1;
    put(path, changed);
    CHECK_THAT(message_of<FormatError>([&] { io::Checkpoint::open(io::parent_of(path)).verify(); }),
               Contains(concat("tensor '", entry.name, "' was changed")));
  }
  CHECK(tiles > 4);
}

TEST_CASE("a rank reads its part of a checkpoint, and checks a share", "[comm][checkpoints]") {
  Scratch const scratch;
  Names const hash = train_all<Serial>(fsdp_3, scratch.path(), 1);
  std::uint64_t all = 0, read = 0;
  std::string const path = scratch / "step-0000000001";
  for (std::string const& name : io::list_directory(path))
    if (name != "manifest.json") all += io::File::open(path + "/" + name).size();
  io::Fault const counted{[&](io::FileStep step, std::string const& at, std::size_t& bytes) {
    if (step == io::FileStep::read && contains(at, ".safetensors")) read += bytes;
    return 0;
  }};
  Layout layout = fsdp_3;
  layout.fault = &counted;
  CHECK(train_all<Serial>(layout, scratch.path(), 1) == hash);
  CHECK(read > all / 2);
  CHECK(read < all * 3 / 4);  // a third of each, and headers
}

TEST_CASE("what one rank cannot read fails on all", "[comm][checkpoints]") {
  Scratch const scratch;
  REQUIRE(train_all<Serial>(fsdp_3, scratch.path(), 1).size() == 1);
  io::Fault const broken{[&](io::FileStep step, std::string const& at, std::size_t&) {
    return step == io::FileStep::read && contains(at, "optimizer-00002") ? EIO : 0;
  }};
  Layout layout = fsdp_3;
  layout.fault = &broken;
  Names const thrown = train_all<Serial>(layout, scratch.path(), 2);
  REQUIRE(thrown.size() == 3);
  CHECK_THAT(thrown[0], Contains("loading '") && Contains("': rank 1: read '") &&
                            Contains("optimizer-00002-of-00003.safetensors'"));
  CHECK(thrown[2] == thrown[0]);
}

TEST_CASE("a rank that alone is refused a directory, a checkpoint or shares keeps none waiting",
          "[comm][checkpoints]") {
  Scratch const scratch;
  REQUIRE(train_all<Serial>(fsdp_3, scratch / "run", 1).size() == 1);
  std::string const path = scratch / "run/step-0000000001";
  io::Fault const broken{[](io::FileStep step, std::string const& at, std::size_t&) {
    return step == io::FileStep::open && contains(at, "manifest.json") ? EIO : 0;
  }};
  LogicalGraph state("state");
  scale({.alpha = 2}, state.state({.shape = {4}}, "x")).mark_output();
  LocalWorld world(3);
  auto const thrown = on_ranks(world, [&](LocalComm& comm) {
    Transfers transfers(comm);
    bool const odd = comm.rank() == 1;
    std::string const opened = message_of<Error>([&] {
      (void)io::Checkpoint::open(path, odd ? &broken : nullptr, io::Part::all, link_of(transfers));
    });
    if (!contains(opened, odd ? "open '" : "': rank 1: open '")) throw Error(opened);
    std::string const made = message_of<Error>([&] {
      io::CheckpointDirectory(scratch / "new", {.keep = odd ? 0 : 2}, link_of(transfers));
    });
    if (!contains(made, odd ? "keep is 0" : "': rank 1: checkpoints: keep is 0")) throw Error(made);
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    auto const step = compile_part(state, store, {.tile = 2, .mesh = {{"data", 3}}});
    std::string const shared = message_of<Error>([&] {
      (void)io::shares_of(store, [&](StoredSpec const& spec) {
        if (odd) throw ValueError(concat("what is '", spec.name, "'?"));
        return true;
      });
    });
    if (!contains(shared, odd ? "what is 'x'?" : ": rank 1: what is 'x'?")) throw Error(shared);
    comm.barrier();  // where all are, at one time
  });
  CHECK(thrown == Names(3));
}
