// SPDX-License-Identifier: BSD-3-Clause
// The calls of a run as a file: repeated on another runtime, and cut down to the first task whose
// result another version of a kernel changes.
//
// 13_transcript [FILE]: writes FILE, and FILE.first with what that task needs.

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/transcript.hh"

using namespace nntile;

namespace {

using Recording = Transcribe<Ring>;

double& at(KernelCall const& call, int i) { return *static_cast<double*>(call.buffers[i]); }

constexpr Codelet put{"put", +[](KernelCall const& call) noexcept -> Status {
                        at(call, 0) = *static_cast<double const*>(call.arguments);
                        return {};
                      }};
/// x = (x + y) / 2
constexpr Codelet mean{"mean", +[](KernelCall const& call) noexcept -> Status {
                         at(call, 0) = (at(call, 0) + at(call, 1)) / 2;
                         return {};
                       }};
/// The same, rewritten: with other bits where halves round.
constexpr Codelet rewritten{"mean", +[](KernelCall const& call) noexcept -> Status {
                              float const sum = static_cast<float>(at(call, 0) + at(call, 1));
                              at(call, 0) = double{sum} / 2;
                              return {};
                            }};

/// Each number of four pairs becomes the mean of both, in turn, thirty times.
Transcript record() {
  Recording ring;
  std::vector<Recording::Handle> numbers;
  for (double const value : {1., 2., 4., 7., 11., 17., 26., 40.}) {
    numbers.push_back(ring.allocate(sizeof(double)));
    Use<Recording::Handle> const use{numbers.back(), Access::write};
    ring.submit({&put, std::span(&use, 1), std::as_bytes(std::span(&value, 1)), {}, {}});
  }
  for (int round = 0; round < 30; ++round)
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      Use<Recording::Handle> const uses[] = {{numbers[i], Access::update},
                                             {numbers[i ^ 1], Access::read}};
      ring.submit({&mean, uses, {}, {}, {"numbers", static_cast<int>(i)}});
    }
  ring.wait_all();
  return ring.transcript();
}

}  // namespace

int main(int count, char** words) try {
  bool const keep = count > 1;
  std::string const file =
      keep ? words[1] : (std::filesystem::temp_directory_path() / "13_transcript.run").string();
  std::vector<io::NamedCodelet> const known{{"put", &put}, {"mean", &mean}},
      other{{"put", &put}, {"mean", &rewritten}};

  io::save_transcript(file, record(), known);
  Transcript const run = io::load_transcript(file, known);
  Serial serial;
  Ring ring;
  auto const expected = testing::run(run, serial);
  bool const same = testing::run(run, ring) == expected;
  std::printf("%zu tasks, on a ring %s\n", run.tasks(), same ? "as on serial" : "NOT as on serial");

  auto const changed = testing::run(io::load_transcript(file, other), ring);
  auto const first = testing::first_difference(run, expected, changed);
  if (first) {
    std::printf("rewritten: %s; it needs %zu of the tasks before it\n", to_string(*first).c_str(),
                first->reduced.tasks() - 1);
    io::save_transcript(file + ".first", first->reduced, known);
  }
  if (!keep)
    for (std::string const& written : {file, file + ".first"}) std::filesystem::remove(written);
  return same && first ? 0 : 1;
} catch (Error const& error) {  // a file that cannot be written
  std::fprintf(stderr, "13_transcript: %s\n", error.what());
  return 2;
}
