// SPDX-License-Identifier: BSD-3-Clause
// Manifests that lie, under a checksum that is right; and folders that are not what they were.
#include "nntile/io/checkpoint.hh"
#include "tests/io/checkpoint_sample.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

/// The manifest with one text in place of another, under its new checksum.
std::string changed(std::string const& manifest, std::string const& from, std::string const& to) {
  std::string body = manifest.substr(io::detail::manifest_opening.size() + 18);
  std::size_t const at = body.find(from);
  REQUIRE(at != body.npos);
  body.replace(at, from.size(), to);
  return concat(io::detail::manifest_opening, to_hex(hash64(body)),
                io::detail::manifest_after_checksum, body);
}

/// Refusals of a checkpoint of step 5 whose manifest was changed.
class Lies {
 public:
  Lies() : directory_(scratch_.path()), path_(save_step(directory_, 5).path) {
    manifest_ = get(path_ + "/manifest.json");
  }
  std::string operator()(std::string const& from, std::string const& to) const {
    put(path_ + "/manifest.json", changed(manifest_, from, to));
    SmallModel model;
    std::string const text =
        thrown<FormatError>([&] { Checkpoint::open(path_).load(model.targets()); });
    CHECK_THAT(text, Contains(path_));
    CHECK(text.find('\n') == text.npos);
    CHECK(model == SmallModel());
    return text;
  }
  std::string const& path() const { return path_; }

 private:
  Scratch scratch_;
  CheckpointDirectory directory_;
  std::string path_;
  std::string manifest_;
};

/// `to` in place of `from` in a manifest, and what the refusal must contain.
struct Lie {
  std::string from, to, message;
};

void check_refused(std::initializer_list<Lie> lies) {
  Lies const refused;
  for (Lie const& lie : lies) CHECK_THAT(refused(lie.from, lie.to), Contains(lie.message));
}

}  // namespace

TEST_CASE("a manifest of another step than its folder's is refused", "[io][manifest]") {
  Lies const refused;
  CHECK_THAT(refused("\"step\": 5", "\"step\": 6"),
             Contains("is of step 6 where its folder is of another; rename that to "
                      "step-0000000006"));
  rename_path(refused.path(), refused.path() + "-best");  // a name that says no step
  CHECK_NOTHROW(Checkpoint::open(refused.path() + "-best"));
}

TEST_CASE("a manifest whose files or tensors are not a checkpoint's is refused", "[io][manifest]") {
  std::string const file =
      R"({"name": "model.safetensors", "bytes": 1, "checksum": ")" + std::string(16, '0') + "\"},";
  check_refused({
      {"\"files\": [", "\"files\": [" + file, "file 'model.safetensors' comes twice"},
      {"\"name\": \"model.safetensors\"", "\"name\": \"../x\"",
       "file '../x' where checkpoints have model.safetensors and"},
      {"\"name\": \"scale\"", "\"name\": \"h.0.bias\"", "tensor 'h.0.bias' comes twice"},
      {"\"name\": \"scale\"", "\"name\": \"scales\"", "has no tensor 'scale'"},
      {"\"name\": \"scale\"", "\"name\": \"optim.scale\"",
       "is in 'model.safetensors' where it belongs into 'optimizer.safetensors'"},
      {"\"F64\"", "\"F65\"", "unknown dtype 'F65'"},
      {"\"shape\": []", "\"shape\": [-1]", "is no list of at most 64"},
  });
}

namespace {

/// A tensor of 4 by 3, of which two ranks wrote two tiles each.
Manifest of_two_ranks() {
  Manifest manifest;
  std::vector<std::vector<std::uint64_t>> const borders{{0, 1, 4}, {0, 2, 3}};
  Tiling const tiling = tiling_of(borders);
  for (int rank = 0; rank < 2; ++rank) {
    std::string const file = rank_file("model.safetensors", rank, 2);
    manifest.files.push_back({file, 7, 8});
    for (Index const tile : {2 * rank, 2 * rank + 1})
      manifest.tensors.push_back(
          {piece_name("w", tiling, tile), FileDType::bf16, piece_shape(tiling, tile), file, 9, {}});
  }
  manifest.cut.push_back({"w", FileDType::bf16, {12}, "", 0, borders});
  return manifest;
}

}  // namespace

TEST_CASE("the manifest of several ranks says how its tensors are cut", "[io][manifest]") {
  std::string const text = manifest_text(of_two_ranks());
  ManifestText const read(text, "manifest");
  CHECK(read.files()[1].name == "model-00002-of-00002.safetensors");
  CHECK(read.size() == 4);
  CHECK(read.cut_size() == 1);
  auto const tensor = read.find("w");
  REQUIRE(tensor.has_value());
  CHECK(tensor->dtype == FileDType::bf16);
  CHECK(tensor->shape == FileShape{12});
  CHECK(tensor->borders == of_two_ranks().cut[0].borders);
  CHECK(read.find("w#t1,0")->shape == FileShape{3, 2});
  CHECK(read.find("w#t1,1")->file == "model-00002-of-00002.safetensors");
  for (std::size_t i = 0; i < 4; ++i) CHECK(read.is_piece(i));
}

TEST_CASE("what a manifest says of tiles is compared with their tensors", "[io][manifest]") {
  auto const refusal = [](auto change) {
    Manifest manifest = of_two_ranks();
    change(manifest);
    return thrown<FormatError>([&] { ManifestText(manifest_text(manifest), "manifest"); });
  };
  auto const borders = [&](Borders const& wrong) {
    return refusal([&](Manifest& manifest) { manifest.cut[0].borders = wrong; });
  };
  std::string const ascend = "cut tensor 'w': its borders do not ascend from 0";
  CHECK_THAT(borders({{0, 4, 4}, {0, 2, 3}}), Contains(ascend));
  CHECK_THAT(borders({{1, 4}, {0, 2, 3}}), Contains(ascend));
  CHECK_THAT(borders({{0}, {0, 2, 3}}), Contains(ascend));
  CHECK_THAT(borders({{}, {0, 2, 3}}), Contains(ascend));
  CHECK_THAT(borders({{0, 1, 4}, {0, 1, 3}}),
             Contains("tensor 'w#t0,0' is BF16 [1, 2] where its tile is BF16 [1, 1]"));
  CHECK_THAT(borders({{0, 1, 5}, {0, 2, 3}}), Contains("are those of [5, 3], its shape is [12]"));
  CHECK_THAT(refusal([](Manifest& m) {
               std::uint64_t const a = std::uint64_t{1} << 47, b = std::uint64_t{1} << 17;
               m.cut[0].shape = {a, b};
               m.cut[0].borders = {{0, 1, a}, {0, 2, b}};
             }),
             Contains("its borders are those of [140737488355328, 131072], which is too large"));
  CHECK_THAT(borders({{0, 1, 2, 3, 4}, {0, 2, 3}}), Contains("more tiles than there are tensors"));
  CHECK_THAT(borders({}), Contains("0 dimensions of borders where 1 to 8"));
  CHECK_THAT(borders(Borders(9, {0, 1})), Contains("9 dimensions of borders"));
  CHECK_THAT(borders({{0, 1, std::uint64_t{1} << 60}, {0, 2, 3}}), Contains(ascend));
  CHECK_THAT(refusal([](Manifest& m) { m.tensors[3].name = "v"; }),
             Contains("there is no tensor 'w#t1,1'"));
  CHECK_THAT(refusal([](Manifest& m) { m.tensors[3].dtype = FileDType::f16; }),
             Contains("'w#t1,1' is F16 [3, 1] where its tile is BF16 [3, 1]"));
  CHECK_THAT(refusal([](Manifest& m) {
               m.tensors.push_back({"w", FileDType::bf16, {12}, m.files[0].name, 1, {}});
             }),
             Contains("cut tensor 'w': it is whole, too"));
  CHECK_THAT(refusal([](Manifest& m) { m.cut.push_back(m.cut[0]); }),
             Contains("is another's tile"));
  for (char const* const name : {"model-1-of-2.safetensors", "model-00001-of-.safetensors",
                                 "model-of-00002.safetensors", "model-0000x-of-00002.safetensors",
                                 "model-00001-of-00002", "model00001-of-00002.safetensors"})
    CHECK_THAT(refusal([&](Manifest& m) { m.files[1].name = m.tensors[2].file = name; }),
               Contains("where checkpoints have model.safetensors and"));
  CHECK_THAT(refusal([](Manifest& m) { m.files.pop_back(); }),
             Contains("where the files lack 'model-00002-of-00002.safetensors'"));
}

TEST_CASE("a model or run that is nested too deep to be read back is not saved", "[io][manifest]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  auto const nested = [](int levels) {  // an object, in it arrays and objects in turn
    Json json;
    for (int level = levels; level > 0; --level)
      json = level % 2 == 0 ? Json(Json::Array{1, json}) : Json::object({{"a", json}});
    return json;
  };
  auto const state = [](std::uint64_t step, Json const& run = Json::object()) {
    TrainingState of;
    of.step = step;
    of.run = run;
    return of;
  };
  (void)directory.save(nested(31), state(1, nested(31)), {});
  CHECK_NOTHROW(Checkpoint::open(*directory.latest()));
  CHECK(thrown<ValueError>([&] { directory.save(nested(32), state(2), {}); }) ==
        "checkpoint of step 2: 'model' has 32 levels where at most 31 are read");
  CHECK_THAT(thrown<ValueError>([&] { directory.save(Json::object(), state(2, nested(33)), {}); }),
             Contains("'run' has 33 levels"));
  CHECK(checkpoint_steps(scratch.path()) == std::vector<std::uint64_t>{1});
}

TEST_CASE("a manifest that is too large to be read back says what takes the room",
          "[io][manifest]") {
  Manifest of_run;
  of_run.state.run["notes"] = std::string(largest_manifest, 'x');
  CHECK_THAT(thrown<ValueError>([&] { (void)manifest_text(of_run); }),
             Contains("keep less in `run`"));
  Manifest of_tensors;
  of_tensors.tensors.assign(
      256, {std::string(largest_manifest / 256, 'w'), FileDType::f32, {1}, "a.safetensors", 0, {}});
  CHECK_THAT(thrown<ValueError>([&] { (void)manifest_text(of_tensors); }),
             Contains("have fewer tensors, or larger tiles"));
}

TEST_CASE("a manifest whose state is of another type is refused", "[io][manifest]") {
  check_refused({
      {"\"run\": {", "\"run\": 7,\"more\": {", "'run' is 7 where an object is needed"},
      {"\"model\": {", "\"model\": null,\"more\": {", "'model' is null where an object"},
      {"\"optimizer\": {", "\"optimizer\": {\"x\":\"y\",",
       "'optimizer': 'x' is \"y\" where a number is needed"},
      {"\"step\": 5", "\"step\": 5.0", "'step' is 5.0 where another type"},
      {"\"step\": 5", "\"step\": -5", "'step' is -5 where another type"},
      {"\"counter\": \"", "\"counter\": \"x", "where a 64-bit number"},
      {"\"loss\": ", "\"loss\": 1e400,\"more\": ", "'1e400' is out of range"},
      {"\"model\": {", "\"model\": {\"\\u0000\":1,\"a\nb\": 1,", "not JSON at byte"},
  });
}

TEST_CASE("what a manifest says of tensors is compared with the files before data is read",
          "[io][manifest]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  std::string const path = save_step(directory, 5).path;
  std::string const manifest = get(path + "/manifest.json");
  put(path + "/manifest.json",
      changed(manifest, "\"shape\": [\n    3,\n    4\n   ]", "\"shape\": [3, 1000000000000]"));
  CHECK_THAT(thrown<FormatError>([&] { Checkpoint::open(path).check(); }),
             Contains("is F32 [3, 4] here but F32 [3, 1000000000000] in the manifest"));
}

TEST_CASE("a run writes nothing into a folder that is not the one it locked", "[io][manifest]") {
  Scratch const scratch;
  std::string const path = scratch / "run";
  CheckpointDirectory first(path);
  save_step(first, 1);
  auto const refused = [&] {
    CHECK_THAT(thrown([&] { save_step(first, 2); }), Contains("was removed or replaced"));
  };
  rename_path(path, scratch / "away");
  refused();
  CHECK_FALSE(path_exists(path));
  {
    CheckpointDirectory second(path);  // made anew: another run's
    save_step(second, 2);
    make_directory(path + "/step-0000000002.tmp");
    refused();
    CHECK(path_exists(path + "/step-0000000002.tmp"));
    CHECK_THAT(thrown([&] { CheckpointDirectory third(path); }), Contains("in use by another run"));
  }
  remove_tree(path);
  rename_path(scratch / "away", path);
  save_step(first, 3);
  CHECK(good_step(path) == 3);
}

TEST_CASE("a folder that is replaced during a save gets no checkpoint", "[io][manifest]") {
  Scratch const scratch;
  std::string const path = scratch / "run";
  bool replaced = false;
  Fault const fault{[&](FileStep step, std::string const& at, std::size_t&) {
    if (step == FileStep::sync_directory && at == path + "/step-0000000001.tmp" && !replaced) {
      replaced = true;
      rename_path(path, scratch / "away");
      make_directories(path + "/step-0000000001.tmp");  // what another run is writing
    }
    return 0;
  }};
  CheckpointDirectory directory(path, {.fault = &fault});
  CHECK_THAT(thrown([&] { save_step(directory, 1); }), Contains("was removed or replaced"));
  CHECK(replaced);
  CHECK(list_directory(path) == std::vector<std::string>{"step-0000000001.tmp"});
}

TEST_CASE("a folder that was replaced before it was locked is not entered", "[io][manifest]") {
  Scratch const scratch;
  make_directories(scratch / "run");
  DirectoryLock const lock(scratch / "run");
  CHECK_NOTHROW(lock.check());
  remove_tree(scratch / "run");
  CHECK_THAT(thrown([&] { lock.check(); }), Contains("was removed or replaced"));
  make_directories(scratch / "run");
  CHECK_THAT(thrown([&] { lock.check(); }), Contains("was removed or replaced"));
}

TEST_CASE("a tensor that is named like a tile of another is not saved", "[io][manifest]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  float const value = 1;
  TensorSource const source =
      source_of("w#t0", DType::fp32, {1}, std::as_bytes(std::span(&value, 1)));
  TensorShare const whole{"w#t0", DType::fp32, {1}, {}, {source}};
  TensorShare const cut{"w", DType::fp32, {2}, {{0, 1, 2}}, {}};  // tiles of other ranks
  for (std::vector<TensorShare> const& shares : {std::vector{whole, cut}, std::vector{cut, whole}})
    CHECK(thrown<ValueError>([&] { directory.save_shares(Json::object(), {}, shares); }) ==
          "save: two tensors would be 'w#t0': tiles of 'w' have such names; rename the other");
  CHECK_FALSE(directory.latest());
}
