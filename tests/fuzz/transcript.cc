// SPDX-License-Identifier: BSD-3-Clause
// The reader of transcripts, past their hash: the input is what stands before that, and gets an end
// that fits. What is read is written and read back as an equal run, whole and reduced to a task.
// Where its buffers are small it runs: to a typed error, or on the ring to the results of serial.
#include "nntile/io/transcript.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/repeated_run.hh"
#include "tests/fuzz/check.hh"
#include "tests/fuzz/memory.hh"
#include "tests/fuzz/touching.hh"

using namespace nntile;
using namespace nntile::test;
using nntile::testing::TaskResult;
using Kind = TranscribedCall::Kind;

namespace {

/// A ring that takes little memory, and whose window fills up.
struct SmallPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t window = 16;
    static constexpr std::uint32_t argument_bytes = 1u << 14;
    static constexpr std::size_t heap_bytes = std::size_t{1} << 12;
    static constexpr std::uint32_t heap_records = 16;
  };
};
using SmallRing = BasicRing<SmallPolicy>;

constexpr std::size_t largest_run = std::size_t{1} << 16;  // bytes of buffers

/// The input with a line that ends it.
std::string ended(std::string_view body) {
  std::string text(body);
  if (!text.ends_with('\n')) text += '\n';
  auto const lines = std::count(text.begin(), text.end(), '\n');
  std::uint64_t const hash = io::hash64(std::as_bytes(std::span(text)));
  char digits[17];
  std::snprintf(digits, sizeof digits, "%llx", static_cast<unsigned long long>(hash));
  return text + concat("end ", lines - 1, ' ', digits, '\n');
}

void check_written(Transcript const& run) {
  std::string const written = io::transcript_text(run, touching_codelets());
  must(io::transcript_of(written, "written", touching_codelets()) == run,
       "what was read is written", written);
}

/// A run whose codelets know the bytes of their operands.
struct Runnable {
  Transcript run;
  std::vector<TouchedOperands> operands;
  bool small = true;
  bool comparable = true;  // no byte is read that nothing has given a value

  explicit Runnable(Transcript const& read) : run(read), operands(run.tasks()) {
    auto const parts = nntile::detail::transcribed_parts(run);
    auto const partner = nntile::detail::transcribed_bodies(run);
    std::size_t bytes = 0, task = 0;
    for (std::size_t c = 0; c < run.calls.size(); ++c) {
      TranscribedCall& call = run.calls[c];
      if (call.kind == Kind::allocate &&
          (bytes += std::min(call.bytes, largest_run)) >= largest_run)
        small = false;
      if (!call.is_task()) continue;
      TouchedOperands& of = operands[task];
      of.task = task++;
      for (auto const& use : call.uses) {
        comparable &= use.access != Access::unordered;
        if (call.kind == Kind::orchestrate && use.access == Access::write)
          comparable &= body_writes(c, partner[c], use.handle);
        of.list.push_back({use.access, region_of(parts, use.handle)});
      }
      if (call.kind != Kind::submit) continue;
      TouchedOperands const* const address = &of;
      auto const* const first = reinterpret_cast<std::byte const*>(&address);
      call.arguments.insert(call.arguments.begin(), first, first + sizeof address);
    }
  }

 private:
  Region region_of(std::vector<nntile::detail::TranscribedPart> const& parts,
                   std::uint32_t buffer) const {
    Region region = parts.at(buffer).region;
    region.offset = 0;
    for (TranscribedCall const& call : run.calls)
      if ((call.kind == Kind::allocate || call.kind == Kind::adopt) && call.buffer == buffer)
        region.bytes = call.kind == Kind::adopt ? call.contents.size() : call.bytes;
    return region;
  }
  /// Whether a call of the body itself overwrites the buffer.
  bool body_writes(std::size_t begin, std::size_t end, std::uint32_t buffer) const {
    int depth = 0;
    for (std::size_t c = begin + 1; c < end; ++c) {
      TranscribedCall const& call = run.calls[c];
      if (call.kind == Kind::end_body) --depth;
      if (depth == 0 && call.kind == Kind::write && call.buffer == buffer) return true;
      if (depth == 0 && call.is_task())
        for (auto const& use : call.uses)
          if (use.handle == buffer && use.access == Access::write) return true;
      if (call.kind == Kind::orchestrate) ++depth;
    }
    return false;
  }
};

/// The results, or none where it ends in an error.
template <class R>
std::optional<std::vector<TaskResult>> results_on(R& runtime, Transcript const& run) {
  try {
    return testing::run(run, runtime);
  } catch (Error const&) {
    return std::nullopt;
  }
}

/// Of a runtime that runs one task at a time: serial, which has no regions.
std::optional<std::vector<TaskResult>> results_alone(Transcript const& run) {
  auto const is_region = [](TranscribedCall const& call) { return call.kind == Kind::region; };
  if (std::any_of(run.calls.begin(), run.calls.end(), is_region)) {
    SmallRing ring(RuntimeOptions{.workers = 1});
    return results_on(ring, run);
  }
  Serial serial;
  return results_on(serial, run);
}

bool submits_no_task(Transcript const& run, std::size_t task) {
  for (TranscribedCall const& call : run.calls)
    if (call.is_task() && task-- == 0) return call.kind == Kind::submit;
  return false;
}

void check_run(Transcript const& read) {
  Runnable const runnable(read);
  if (!runnable.small) return;
  auto const expected = results_alone(runnable.run);
  {
    SmallRing ring(RuntimeOptions{.workers = 2});
    auto const results = results_on(ring, runnable.run);
    must(!runnable.comparable || !expected || !results || *results == *expected,
         "the ring has the results of serial");
  }
  if (!expected) return;
  for (std::size_t const task : {expected->size() / 2, expected->size() - 1}) {
    if (task >= expected->size()) continue;
    Transcript const part = slice(runnable.run, task);
    auto const of_part = results_alone(part);
    must(of_part.has_value(), "a run that is reduced runs");
    if (runnable.comparable && submits_no_task(runnable.run, task))
      must(of_part->back() == (*expected)[task], "a task that a run is reduced to has its results");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const body = text_of(data, size);
  (void)touching_codelets();
  std::optional<Transcript> run;
  {
    MemoryLimit const limit(size);
    (void)reads([&] { (void)io::transcript_of(body, "source", touching_codelets()); });
    std::string const text = ended(body);
    if (!reads([&] { run = io::transcript_of(text, "source", touching_codelets()); })) return 0;
    check_written(*run);
  }
  std::size_t const tasks = run->tasks();
  for (std::size_t const task : {tasks / 2, tasks - 1})
    if (task < tasks) check_written(slice(*run, task));
  check_run(*run);
  return 0;
}
