// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints against crashes, failing disks, failing memory and changed files.
#include <sys/resource.h>

#include "nntile/io/checkpoint.hh"
#include "tests/io/allocations.hh"
#include "tests/io/checkpoint_sample.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

/// A directory with a checkpoint of step 100.
void start(Scratch const& scratch) {
  CheckpointDirectory directory(scratch.path());
  save_step(directory, 100);
}

/// Saves two more checkpoints, so that the protocol goes through pruning, and one of a step that is
/// there.
void run(Scratch const& scratch, Fault const* fault) {
  CheckpointDirectory directory(scratch.path(), {.keep = 1, .piece_bytes = 16, .fault = fault});
  save_step(directory, 200);
  save_step(directory, 200);
}

constexpr int crashed = 9;

}  // namespace

TEST_CASE("a crash before any step of a save leaves a good checkpoint", "[io][checkpoint_faults]") {
  for (bool const exchange : {true, false}) {
    int status = crashed;
    int steps = 0;
    for (; status == crashed; ++steps) {
      Scratch const scratch;
      start(scratch);
      status = status_in_child([&] {
        int left = steps;
        Fault const fault{[&](FileStep step, std::string const&, std::size_t&) {
          if (left-- == 0) ::_exit(crashed);
          return step == FileStep::exchange && !exchange ? EINVAL : 0;
        }};
        run(scratch, &fault);
        return 0;
      });
      INFO("crash before step " << steps);
      CheckpointDirectory directory(scratch.path());  // the next start
      int const good = good_step(scratch.path());
      CHECK((good == 100 || good == 200));
      for (std::string const& name : list_directory(scratch.path()))
        CHECK(step_of(name).has_value());
      save_step(directory, 300);
      CHECK(good_step(scratch.path()) == 300);
    }
    CHECK(status == 0);
    CHECK(steps > 60);
  }
}

TEST_CASE("a disk that fails at any step, once or for good, leaves a good checkpoint",
          "[io][checkpoint_faults]") {
  for (bool const for_good : {false, true}) {
    bool reached = true;
    for (int steps = 0; reached; ++steps) {
      Scratch const scratch;
      start(scratch);
      int left = steps;
      reached = false;
      Fault const fault{[&](FileStep step, std::string const&, std::size_t&) {
        bool const fails = left == 0 || (for_good && left < 0);
        --left;
        reached = reached || fails;
        return fails ? (step == FileStep::write ? ENOSPC : EIO) : 0;
      }};
      std::string const text = thrown([&] { run(scratch, &fault); });
      INFO("failure at step " << steps << ": " << text);
      CHECK(text.find('\n') == std::string::npos);
      int const good = good_step(scratch.path());
      CHECK((good == 100 || good == 200));
      CheckpointDirectory directory(scratch.path());
      save_step(directory, 300);
      CHECK(good_step(scratch.path()) == 300);
    }
  }
}

TEST_CASE("a write that is cut short anywhere is carried to the end", "[io][checkpoint_faults]") {
  Scratch const whole;
  start(whole);
  for (std::size_t const most : {1u, 7u, 64u}) {
    Scratch const scratch;
    int writes = 0;
    Fault const fault{[&](FileStep step, std::string const&, std::size_t& bytes) {
      if (step == FileStep::write) {
        bytes = std::min(bytes, most);
        ++writes;
      }
      return 0;
    }};
    CheckpointDirectory directory(scratch.path(), {.fault = &fault});
    save_step(directory, 100);
    CHECK(writes > 30);
    for (std::string const file : {"manifest.json", "model.safetensors", "optimizer.safetensors"})
      CHECK(get(scratch / ("step-0000000100/" + file)) == get(whole / ("step-0000000100/" + file)));
  }
}

TEST_CASE("a disk that is full behind any short write leaves the last checkpoint",
          "[io][checkpoint_faults]") {
  bool reached = true;
  int failures = 0;
  for (int writes = 0; reached; ++writes) {
    Scratch const scratch;
    start(scratch);
    reached = false;
    int left = writes;
    Fault const fault{[&](FileStep step, std::string const&, std::size_t& bytes) {
      if (step != FileStep::write) return 0;
      bytes = std::min<std::size_t>(bytes, 50);
      reached = reached || left == 0;
      return left-- <= 0 ? ENOSPC : 0;
    }};
    CheckpointDirectory directory(scratch.path(), {.fault = &fault});
    std::string const text = thrown([&] { save_step(directory, 200); });
    CHECK(good_step(scratch.path()) == (reached ? 100 : 200));
    if (!reached) continue;
    ++failures;
    CHECK_THAT(text, Contains("No space left on device; free space there"));
    CHECK(list_directory(scratch.path()).size() == 1);
  }
  CHECK(failures > 20);
}

TEST_CASE("memory that the system lacks is said with what to do", "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  Fault const fault{[](FileStep, std::string const&, std::size_t&) { return ENOMEM; }};
  CHECK_THAT(thrown([&] { (void)list_directory(scratch.path(), &fault); }),
             Contains("list directory") && Contains("Cannot allocate memory; free some memory"));
}

TEST_CASE("a disk that fails at any step of a load is a typed error", "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  std::string const path = *latest_checkpoint(scratch.path());
  int steps = 0;
  for (bool reached = true; reached; ++steps) {
    int left = steps;
    reached = false;
    Fault const fault{[&](FileStep, std::string const&, std::size_t& bytes) {
      bytes = std::min<std::size_t>(bytes, 100);
      reached = reached || left == 0;
      return left-- == 0 ? EIO : 0;
    }};
    SmallModel model;
    std::string const text = thrown([&] { Checkpoint::open(path, &fault).load(model.targets()); });
    CHECK((reached ? text.find("Input/output error") != std::string::npos
                   : model == SmallModel(100)));
    CHECK(text.find('\n') == std::string::npos);
  }
  CHECK(steps > 30);
  CHECK(good_step(scratch.path()) == 100);
}

TEST_CASE("memory that fails at any request of a save or a load is a typed error",
          "[io][checkpoint_faults]") {
  if (!allocations_watched()) return;
  Scratch const scratch;
  start(scratch);
  SmallModel const saved(200);
  auto const sources = saved.sources();
  TrainingState const state = state_at(200);
  SmallModel model;
  auto const targets = model.targets();
  // Returns how many requests there were.
  auto const attempt = [&](Failing failing, auto const& work) {
    return fail_each_allocation(failing, work, [&](bool, std::string const& error) {
      CHECK(error == "");
      int const good = good_step(scratch.path());
      CHECK((good == 100 || good == 200));
    });
  };
  for (Failing const failing : {Failing::once, Failing::for_good}) {
    CheckpointDirectory directory(scratch.path());
    CHECK(attempt(failing, [&] { directory.save(small_config, state, sources); }) > 100);
    std::string const path = *latest_checkpoint(scratch.path());
    CHECK(attempt(failing, [&] { Checkpoint::open(path).load(targets); }) > 100);
    CHECK(attempt(failing, [&] { CheckpointDirectory other(scratch / "another/directory"); }) > 0);
  }
}

TEST_CASE("a full disk while saving is named and the last checkpoint stays",
          "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  for (unsigned long limit = 0; limit < 1600; limit += 64) {
    int const status = status_in_child([&] {
      rlimit const bytes{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &bytes);
      CheckpointDirectory directory(scratch.path());
      std::string const text = thrown([&] { save_step(directory, 200); });
      return text.find("File too large; raise the limit") != std::string::npos ? 0
             : text.empty()                                                    ? 1
                                                                               : 2;
    });
    if (status == 1) break;  // the limit suffices
    CHECK(status == 0);
    CHECK(good_step(scratch.path()) == 100);
    CHECK(list_directory(scratch.path()).size() == 1);
  }
}

TEST_CASE("a directory that cannot be written is named before anything is computed",
          "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  ::chmod(scratch.path().c_str(), 0555);
  int const status = status_in_child([&] {
    constexpr uid_t nobody = 65534;  // root may write everywhere
    if (::geteuid() == 0 && ::setuid(nobody) != 0) return 3;
    std::string const text = thrown([&] { CheckpointDirectory directory(scratch.path()); });
    return text.find("step-0000000000.tmp': Permission denied; give") != std::string::npos ? 0 : 1;
  });
  ::chmod(scratch.path().c_str(), 0755);
  CHECK(status == 0);
  CHECK(good_step(scratch.path()) == 100);
}

TEST_CASE("a checkpoint that cannot be looked into is an error, not passed over",
          "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  {
    CheckpointDirectory directory(scratch.path());
    save_step(directory, 200);
  }
  ::chmod(scratch.path().c_str(), 0755);
  std::string const newest = scratch / "step-0000000200";
  ::chmod(newest.c_str(), 0);
  int const status = status_in_child([&] {
    constexpr uid_t nobody = 65534;  // root may read every directory
    if (::geteuid() == 0 && ::setuid(nobody) != 0) return 3;
    std::string const refused = "step-0000000200/manifest.json': Permission denied; give";
    for (std::string const& text : {thrown([&] { (void)latest_checkpoint(scratch.path()); }),
                                    thrown([&] { (void)checkpoint_steps(scratch.path()); })})
      if (text.find(refused) == std::string::npos) return 1;
    return 0;
  });
  ::chmod(newest.c_str(), 0755);
  CHECK(status == 0);
  CHECK(good_step(scratch.path()) == 200);
}

TEST_CASE("a read-only file system is named", "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  Fault const fault{[](FileStep step, std::string const&, std::size_t&) {
    return step == FileStep::make_directory || step == FileStep::create ? EROFS : 0;
  }};
  CHECK_THAT(thrown([&] { CheckpointDirectory directory(scratch.path(), {.fault = &fault}); }),
             Contains("Read-only file system; choose a directory"));
  CHECK(good_step(scratch.path()) == 100);
}

TEST_CASE("an old checkpoint that cannot be removed is a warning", "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  Fault const fault{[](FileStep step, std::string const& path, std::size_t&) {
    return step == FileStep::remove && path.find("step-0000000100") != path.npos ? EBUSY : 0;
  }};
  CheckpointDirectory directory(scratch.path(), {.keep = 1, .fault = &fault});
  CHECK_THAT(save_step(directory, 200).warning, Contains("an old checkpoint stays: remove '"));
  CHECK(good_step(scratch.path()) == 200);
}

TEST_CASE("a checkpoint with any one bit flipped is refused before a tensor changes",
          "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  std::string const path = *latest_checkpoint(scratch.path());
  for (std::string const file : {"manifest.json", "model.safetensors", "optimizer.safetensors"}) {
    std::string const whole = get(path + "/" + file);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at * 5 + at / 8) % 8));
      put(path + "/" + file, bytes);
      SmallModel model;
      std::string const text =
          thrown<FormatError>([&] { Checkpoint::open(path).load(model.targets()); });
      INFO(file << " byte " << at);
      CHECK_FALSE(text.empty());
      CHECK(text.find('\n') == std::string::npos);
      CHECK(model == SmallModel());
    }
    put(path + "/" + file, whole);
  }
  CHECK(good_step(scratch.path()) == 100);
}

TEST_CASE("a checkpoint that lacks a file or has a longer or shorter one is refused",
          "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  std::string const path = *latest_checkpoint(scratch.path());
  auto const refusal = [&] { return thrown([&] { Checkpoint::open(path); }); };
  std::string const model = get(path + "/model.safetensors");
  put(path + "/model.safetensors", model + "x");
  CHECK_THAT(refusal(), Contains(std::to_string(model.size() + 1) + " bytes where " +
                                 std::to_string(model.size()) + " were written"));
  put(path + "/model.safetensors", model.substr(0, model.size() - 1));
  CHECK_THAT(refusal(), Contains("were written; use an older checkpoint"));
  remove_tree(path + "/model.safetensors");
  CHECK_THAT(refusal(), Contains("model.safetensors': No such file"));
  put(path + "/model.safetensors", model);
  CHECK(refusal().empty());
  put(path + "/manifest.json", "{}");
  CHECK_THAT(refusal(), Contains("not the manifest of a checkpoint"));
}

TEST_CASE("a tensor exchanged between two checkpoints is refused by name",
          "[io][checkpoint_faults]") {
  Scratch const scratch;
  start(scratch);
  CheckpointDirectory directory(scratch.path());
  std::string const path = save_step(directory, 200).path;
  put(path + "/model.safetensors", get(scratch / "step-0000000100/model.safetensors"));
  CHECK_THAT(thrown<FormatError>([&] { Checkpoint::open(path).verify(); }),
             Contains("tensor 'scale' was changed: checksum") ||
                 Contains("tensor 'h.0.bias' was changed: checksum"));
}

TEST_CASE("a checkpoint of another version is refused", "[io][checkpoint_faults]") {
  Manifest manifest;
  std::string const text = manifest_text(manifest);
  CHECK_NOTHROW(ManifestText(text, "manifest"));
  std::string body = text.substr(text.find(",") + 1);
  body.replace(body.find("\"version\": 1"), 12, "\"version\": 3");
  std::string const newer =
      text.substr(0, text.find("xxh64:") + 6) + to_hex(hash64(body)) + "\"," + body;
  CHECK_THAT(thrown<FormatError>([&] { ManifestText(newer, "manifest"); }),
             Contains("version 3 where 1 to 2 are read"));
}

TEST_CASE("a manifest whose checksum is no number is refused on one line",
          "[io][checkpoint_faults]") {
  std::string text = manifest_text({});
  text.replace(text.find("xxh64:") + 6, 16, "\n\x1b[2J\0 fourteen..", 16);
  std::string const refusal = thrown<FormatError>([&] { ManifestText(text, "manifest"); });
  CHECK_THAT(refusal, Contains("changed since it was written") && Contains("\\x0a\\x1b[2J"));
  CHECK(refusal.find('\n') == std::string::npos);
}
