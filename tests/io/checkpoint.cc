// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/checkpoint.hh"

#include <bit>
#include <cmath>
#include <filesystem>

#include "tests/io/checkpoint_sample.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

using Names = std::vector<std::string>;

TEST_CASE("a checkpoint gives back everything that was saved", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch / "run/checkpoints");
  CHECK_FALSE(directory.latest().has_value());
  auto const saved = save_step(directory, 100);
  CHECK(saved.path == scratch / "run/checkpoints/step-0000000100");
  CHECK(saved.warning.empty());
  auto const checkpoint = Checkpoint::open(*directory.latest());
  SmallModel model;
  checkpoint.load(model.targets());
  CHECK(model == SmallModel(100));
  CHECK(checkpoint.model() == small_config);
  SavedState const state = checkpoint.state();
  TrainingState const expected = state_at(100);
  CHECK(state.step == expected.step);
  CHECK(state.sample == expected.sample);
  CHECK(state.seed == expected.seed);
  CHECK(state.counter == expected.counter);
  CHECK(state.optimizer == Json(expected.optimizer));
  CHECK(state.loss == expected.loss);
  CHECK(state.run == expected.run);
}

TEST_CASE("the files of a checkpoint are plain safetensors under the model's names",
          "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  std::string const path = save_step(directory, 1).path;
  CHECK(list_directory(path) ==
        Names{"manifest.json", "model.safetensors", "optimizer.safetensors"});
  auto const model = SafetensorsFile::open(path + "/model.safetensors", Reading::strict);
  CHECK(model.entries().size() == 3);
  CHECK(model.at("h.0.weight").shape == FileShape{3, 4});
  auto const optimizer = SafetensorsFile::open(path + "/optimizer.safetensors", Reading::strict);
  CHECK(optimizer.at("optim.exp_avg_sq/h.0.weight").bytes() == 48);
  std::string const manifest = get(path + "/manifest.json");
  CHECK(parse_json(manifest, "manifest")["tensors"].elements().size() == 5);
}

TEST_CASE("a checkpoint's bytes depend on its contents alone", "[io][checkpoint]") {
  Scratch const scratch;
  for (char const* const name : {"a", "b"}) {
    CheckpointDirectory directory(scratch / name, {.piece_bytes = *name == 'a' ? 1u : 1000u});
    save_step(directory, 3);
  }
  for (std::string const file : {"manifest.json", "model.safetensors", "optimizer.safetensors"})
    CHECK(get(scratch / "a/step-0000000003/" + file) == get(scratch / "b/step-0000000003/" + file));
}

TEST_CASE("the last two checkpoints are kept", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  for (int const step : {5, 10, 15, 20}) CHECK(save_step(directory, step).warning.empty());
  CHECK(list_directory(scratch.path()) == Names{"step-0000000015", "step-0000000020"});
  CheckpointDirectory single(scratch / "single", {.keep = 1});
  for (int const step : {5, 10}) save_step(single, step);
  CHECK(list_directory(scratch / "single") == Names{"step-0000000010"});
  CHECK_THROWS_AS(CheckpointDirectory(scratch / "none", {.keep = 0}), ValueError);
}

TEST_CASE("a checkpoint of the same step is replaced", "[io][checkpoint]") {
  Scratch const scratch;
  for (bool const exchange : {true, false}) {
    Fault const fault{[&](FileStep step, std::string const&, std::size_t&) {
      return step == FileStep::exchange && !exchange ? EINVAL : 0;
    }};
    CheckpointDirectory directory(scratch / (exchange ? "a" : "b"), {.fault = &fault});
    save_step(directory, 7);
    directory.save(small_config, state_at(7), SmallModel(8).sources());
    SmallModel model;
    Checkpoint::open(*directory.latest()).load(model.targets());
    CHECK(model == SmallModel(8));
    CHECK(list_directory(directory.path()) == Names{"step-0000000007"});
  }
}

TEST_CASE("what an interrupted save left is removed at the next start", "[io][checkpoint]") {
  Scratch const scratch;
  {
    CheckpointDirectory directory(scratch.path());
    save_step(directory, 4);
  }
  make_directories(scratch / "step-0000000008.tmp");
  put(scratch / "step-0000000008.tmp/model.safetensors", "half");
  make_directories(scratch / "step-0000000009");  // a name without a manifest is no checkpoint
  make_directories(scratch / "notes.tmp");
  rename_path(scratch / "step-0000000004", scratch / "step-0000000004.old");
  CheckpointDirectory const directory(scratch.path());
  CHECK(good_step(scratch.path()) == 4);
  CHECK(list_directory(scratch.path()) == Names{"notes.tmp", "step-0000000004", "step-0000000009"});
}

TEST_CASE("a checkpoint that a cut off save had set aside is read before the next start",
          "[io][checkpoint]") {
  Scratch const scratch;
  {
    CheckpointDirectory directory(scratch.path());
    save_step(directory, 4);
    save_step(directory, 8);
  }
  std::string const name = scratch / "step-0000000008";
  rename_path(name, name + ".old");
  CHECK(latest_checkpoint(scratch.path()) == name + ".old");
  CHECK(good_step(scratch.path()) == 8);
  make_directories(name);
  CHECK(latest_checkpoint(scratch.path()) == scratch / "step-0000000004");
  rename_path(name + ".old", name + ".tmp");  // as of a save under way
  CHECK(latest_checkpoint(scratch.path()) == scratch / "step-0000000004");
}

TEST_CASE("names of checkpoints are steps of ten digits or more", "[io][checkpoint]") {
  CHECK(checkpoint_name(0) == "step-0000000000");
  CHECK(checkpoint_name(12345678901) == "step-12345678901");
  CHECK(step_of("step-0000000042") == 42);
  CHECK(step_of("step-12345678901") == 12345678901);
  for (char const* const name : {"step-42", "step-0000000042.tmp", "step-00000000042",
                                 "step--000000042", "Step-0000000042", "step-"})
    CHECK_FALSE(step_of(name).has_value());
}

TEST_CASE("a checkpoint of another model is refused with the differences", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  auto const checkpoint = Checkpoint::open(save_step(directory, 1).path);
  CHECK_NOTHROW(checkpoint.require_model(small_config));
  Json const other = Json::object({{"model_type", "small"}, {"width", 8}, {"heads", 2}});
  CHECK_THAT(thrown<FormatError>([&] { checkpoint.require_model(other); }),
             Contains("'heads' is missing there but 2 here, 'layers' is 1 there but missing here, "
                      "'width' is 4 there but 8 here"));
}

TEST_CASE("tensors that do not match are refused before any is written", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  auto const checkpoint = Checkpoint::open(save_step(directory, 1).path);
  SmallModel model;
  auto const refused = [&](auto change) {
    auto targets = model.targets();
    change(targets);
    return thrown<FormatError>([&] { checkpoint.load(targets); });
  };
  CHECK_THAT(
      refused([](auto& targets) { targets.pop_back(); }),
      Contains("holds tensor 'optim.exp_avg_sq/h.0.weight', which this model does not have"));
  CHECK_THAT(refused([](auto& targets) { targets[1].name = "h.1.bias"; }),
             Contains("has no tensor 'h.1.bias'"));
  CHECK_THAT(refused([](auto& targets) { targets[0].shape = {4, 3}; }),
             Contains("'h.0.weight' is F32 [3, 4] there but F32 [4, 3] here"));
  CHECK_THAT(refused([](auto& targets) { targets[2].dtype = DType::int64; }),
             Contains("'scale' is F64 [] there but I64 [] here"));
  CHECK(model == SmallModel());
}

TEST_CASE("the model's tensors are loaded without the optimizer's", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  std::string const path = save_step(directory, 6).path;
  put(path + "/optimizer.safetensors",
      std::string(get(path + "/optimizer.safetensors").size(), 'x'));
  SmallModel model;
  auto targets = model.targets();
  CHECK_THROWS_AS(Checkpoint::open(path).load(targets), FormatError);
  targets.resize(3);
  Checkpoint::open(path).load(targets, Part::model);
  CHECK(model.weight == SmallModel(6).weight);
}

TEST_CASE("the model's tensors are loaded where the optimizer's file is gone", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  std::string const path = save_step(directory, 6).path;
  CHECK(Checkpoint::open(path).has(Part::all));
  CHECK(std::filesystem::remove(path + "/optimizer.safetensors"));
  CHECK_THAT(thrown([&] { Checkpoint::open(path); }), Contains("optimizer.safetensors"));
  Checkpoint const checkpoint = Checkpoint::open(path, nullptr, Part::model);
  CHECK((checkpoint.has(Part::model) && !checkpoint.has(Part::all)));
  SmallModel model;
  auto targets = model.targets();
  CHECK_THAT(thrown([&] { checkpoint.load(targets); }), Contains("optimizer.safetensors"));
  targets.resize(3);
  checkpoint.load(targets, Part::model);
  checkpoint.verify(Part::model);
  CHECK(model.weight == SmallModel(6).weight);
}

TEST_CASE("a tensor that two targets name is not loaded", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  std::string const path = save_step(directory, 6).path;
  SmallModel model;
  auto targets = model.targets();
  targets.push_back(targets.front());
  CHECK_THAT(thrown<ValueError>([&] { Checkpoint::open(path).load(targets); }),
             Contains("tensor 'h.0.weight' is given twice"));
  CHECK(model == SmallModel());
}

TEST_CASE("numbers that are not finite are not saved", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  save_step(directory, 1);
  TrainingState state = state_at(2);
  state.loss = 0.0 / std::numeric_limits<double>::max() * std::numeric_limits<double>::infinity();
  CHECK_THAT(thrown<ValueError>([&] { directory.save(small_config, state, {}); }),
             Contains("step 2: loss") && Contains("not finite"));
  state.loss.reset();
  state.optimizer["lr"] = std::numeric_limits<double>::infinity();
  CHECK_THAT(thrown<ValueError>([&] { directory.save(small_config, state, {}); }),
             Contains("step 2: 'lr' is inf, not finite"));
  CHECK(list_directory(scratch.path()) == Names{"step-0000000001"});
}

TEST_CASE("a model or a run that is no object is not saved, and older checkpoints stay",
          "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path(), {.keep = 1});
  save_step(directory, 1);
  CHECK_THAT(thrown<ValueError>([&] { directory.save({}, state_at(2), {}); }),
             Contains("step 2: 'model' is null where an object is needed"));
  TrainingState state = state_at(2);
  state.run = Json::array();
  CHECK_THAT(thrown<ValueError>([&] { directory.save(small_config, state, {}); }),
             Contains("step 2: 'run' is an array where an object is needed"));
  CHECK(list_directory(scratch.path()) == Names{"step-0000000001"});
}

TEST_CASE("pieces are whole rows and cover each byte once", "[io][checkpoint]") {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  auto const note = [&](std::uint64_t offset, std::uint64_t bytes) {
    pieces.emplace_back(offset, bytes);
  };
  io::detail::for_each_piece({5, 3}, 60, 30, note);  // rows of 12 bytes
  CHECK(pieces == decltype(pieces){{0, 24}, {24, 24}, {48, 12}});
  pieces.clear();
  io::detail::for_each_piece({2, 3}, 24, 1, note);
  CHECK(pieces == decltype(pieces){{0, 12}, {12, 12}});
  pieces.clear();
  io::detail::for_each_piece({0, 3}, 0, 30, note);
  CHECK(pieces.empty());
  io::detail::for_each_piece({}, 8, 1, note);
  CHECK(pieces == decltype(pieces){{0, 8}});
}

TEST_CASE("the hash of tensors depends on names, shapes and bytes, not on their order",
          "[io][checkpoint]") {
  SmallModel const model(3);
  auto sources = model.sources();
  std::uint64_t const hash = hash_tensors(sources);
  std::reverse(sources.begin(), sources.end());
  CHECK(hash_tensors(sources) == hash);
  sources[0].shape = {12};
  CHECK(hash_tensors(sources) != hash);
  CHECK(hash_tensors(SmallModel(4).sources()) != hash);
  CHECK(hash_tensors(std::vector<TensorSource>{}) == hash64(""));
}

TEST_CASE("the hash of tensors takes NaNs as one, distinct from numbers", "[io][checkpoint]") {
  auto const hash_of = [](std::vector<float> const& values) {
    auto const bytes = std::as_bytes(std::span(values));
    return hash_tensors(std::vector{source_of("x", DType::fp32, {3}, bytes)});
  };
  float const odd = std::bit_cast<float>(0xff812345u);
  CHECK(hash_of({1, NAN, -0.0f}) == hash_of({1, odd, -0.0f}));
  CHECK(hash_of({1, NAN, -0.0f}) != hash_of({1, INFINITY, -0.0f}));
  CHECK(hash_of({1, NAN, -0.0f}) != hash_of({1, NAN, 0.0f}));
}

TEST_CASE("a safetensors file is loaded by name, whatever it is called", "[io][checkpoint]") {
  Scratch const scratch;
  SmallModel const model(9);
  save_tensors(scratch / "weights.safetensors", model.sources());
  SmallModel loaded;
  auto targets = loaded.targets();
  load_tensors(SafetensorsFile::open(scratch / "weights.safetensors"), targets);
  CHECK(loaded == model);
  targets.pop_back();
  auto const file = SafetensorsFile::open(scratch / "weights.safetensors");
  CHECK_THAT(thrown<FormatError>([&] { load_tensors(file, targets); }),
             Contains("is not among those to load"));
  CHECK_NOTHROW(load_tensors(file, targets, Extra::ignored));
}

TEST_CASE("loading into a store on which nothing is compiled yet says so", "[io][checkpoint]") {
  Scratch const scratch;
  CheckpointDirectory directory(scratch.path());
  auto const checkpoint = Checkpoint::open(save_step(directory, 1).path);
  auto const file = SafetensorsFile::open(checkpoint.path() + "/model.safetensors");
  CHECK_THAT(thrown<FormatError>([&] { load_tensors(file, {}); }),
             Contains("no tensor was given") && Contains("once graphs are compiled on it"));
  CHECK_THAT(thrown<FormatError>([&] { checkpoint.load({}); }),
             Contains("no tensor was given") && Contains("once graphs are compiled on it"));
}
