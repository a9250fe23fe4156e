// SPDX-License-Identifier: BSD-3-Clause
// Files of transcripts: what is saved and loaded, and what is refused.
#include <algorithm>
#include <cctype>
#include <string>

#include "nntile/io/transcript.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/testing/counters.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using counting::counters, counting::own, counting::step_codelet;

}  // namespace

TEST_CASE("a transcript is saved and loaded", "[testing][transcript]") {
  Scratch const scratch;
  Transcribe<Serial> runtime;
  Transcript const run = counters(runtime);
  io::save_transcript(scratch / "run", run, own);
  CHECK(io::load_transcript(scratch / "run", own) == run);
  CHECK(contains(message_of<ValueError>([&] { (void)io::transcript_text(run, {}); }),
                 "codelet 'step' of tensor '' is not among the 0 that have names"));
}

TEST_CASE("hints at a device are saved", "[testing][transcript]") {
  Transcribe<Serial> recorder;
  std::uint64_t value = 0;
  auto const a = recorder.adopt(std::as_writable_bytes(std::span(&value, 1)));
  Use<Transcribe<Serial>::Handle> const uses[] = {{a, Access::update}};
  for (int const device : {-1, 2})
    recorder.submit({&step_codelet, uses, {}, {.device = device}, {}});
  recorder.wait_all();
  Transcript const run = recorder.transcript();
  std::string const text = io::transcript_text(run, own);
  CHECK(text.starts_with("nntile transcript 3\n"));
  CHECK(io::transcript_of(text, "run", own) == run);
}

TEST_CASE("a transcript that would not be read is not written", "[testing][transcript]") {
  CHECK_NOTHROW(io::detail::check_transcript_file("run", io::largest_transcript));
  CHECK(message_of<ValueError>(
            [] { io::detail::check_transcript_file("run", io::largest_transcript + 1); }) ==
        "'run' would have 4294967297 bytes where at most 4294967296 are read; write down fewer "
        "calls, or adopt less memory");
}

TEST_CASE("a transcript that was cut or changed is refused", "[testing][transcript]") {
  Transcribe<Serial> runtime;
  std::string const text = io::transcript_text(counters(runtime), own);
  auto const refused = [&](std::string const& changed) {
    return message_of<FormatError>([&] { (void)io::transcript_of(changed, "run", own); });
  };
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
    CHECK(contains(refused(text.substr(0, bytes)), "'run', line "));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(contains(refused(changed), "'run', line "));
  }
  CHECK(contains(refused(text + "x"), "1 bytes stand behind the end"));
  CHECK(contains(refused(text.substr(0, text.find("end "))), "cut: it has no line 'end'"));
  std::size_t const end = text.rfind("end ") + 4, hash = text.rfind(' ') + 1;
  std::string upper = text;
  std::transform(upper.begin() + static_cast<std::ptrdiff_t>(hash), upper.end(),
                 upper.begin() + static_cast<std::ptrdiff_t>(hash), ::toupper);
  REQUIRE(upper != text);
  for (std::string const& changed :
       {text.substr(0, text.size() - 1) + " changed\n", std::string(text).insert(end, "0"),
        std::string(text).insert(hash, "0"), upper})
    CHECK(contains(refused(changed),
                   concat("the end is not '", text.substr(end - 4, text.size() - end + 3), "'")));

  auto const line = [&](std::string const& call) {
    return refused("nntile transcript 1\nallocate 8 step\n" + call + "\n");
  };
  CHECK(line("write 0 0g") ==
        "'run', line 3: contents has 'g' where a digit of 0 to f is expected");
  CHECK(contains(line("write 0 000"), "contents has an odd number of digits"));
  CHECK(contains(line("write 1 00"), "buffer 1 of 1 so far"));
  CHECK(contains(line("write -1 00"), "buffer is '-1', which is no such number"));
  CHECK(contains(line("wait 0"), "task 0 of 0 so far"));
  CHECK(contains(line("retire"), "buffer is missing"));
  CHECK(contains(line("retire 0 "), "two spaces, or one at an end"));
  CHECK(contains(line("retire 0 1"), "'1' stands behind the call"));
  CHECK(contains(line("region 1 0 8 -"), "buffer 1 of 1 so far"));
  CHECK(contains(line("region 0 0 8"), "steps is missing"));
  CHECK(contains(line("region 0 -1 8 -"), "offset is '-1', which is no such number"));
  CHECK(contains(line("region 0 0 8 2"), "step '2' is no count, x and stride"));
  CHECK(contains(line("region 0 0 8 2x"), "stride is '', which is no such number"));
  CHECK(contains(line("region 0 0 8 2x8,"), "step '' is no count, x and stride"));
  CHECK(contains(line("region 0 0 8 2x8,-"), "step '-' is no count, x and stride"));
  CHECK(contains(line("region 0 0 1 2x8,2x8,2x8,2x8,2x8,2x8,2x8,2x8,2x8"), "more than 8 steps"));
  CHECK(contains(line("region 0 0 8 9999999999x9999999999"), "has more than 2^63 - 1 from"));
  CHECK(contains(line("region 0 9999999999999999999 8 -"), "at 9999999999999999999 has more than"));
  CHECK(contains(line("region 0 9223372036854775807 8 -"), "at 9223372036854775807 has more than"));
  CHECK(contains(line("region 0 100 8 -\nregion 1 9223372036854775700 8 -"),
                 "'run', line 4: region of 8 bytes at 9223372036854775700 has more than"));
  CHECK(contains(line("region 0 0 1 40x2,40x3,40x5,40x7,40x11"),
                 "region of 102400000 runs in 1093 bytes: its steps overlap too often"));
  CHECK(contains(line("open_scope never"), "lifetime is 'never', and none of"));
  CHECK(contains(line("allocate 99999999999999999999 step"), "which is no such number"));
  CHECK(contains(line("jump 0"), "'jump' is no call"));
  CHECK(contains(line("adopt x 00"), "'x' is neither w nor r"));
  CHECK(
      contains(line("submit step r0"), "codelet 'step' is not among the 2 that the caller knows"));
  CHECK(contains(line("submit join%2"), "codelet ends within %xx"));
  CHECK(contains(line("submit join%25 r0,x0"), "use 'x0' begins with none of r, w, u, a, d, o"));
  CHECK(contains(line("submit join%25 r0,"), "use '' begins with none of r, w, u, a, d, o"));
  CHECK(contains(line("submit join%25 r0,-"), "use '-' begins with none of r, w, u, a, d, o"));
  CHECK(contains(line("submit join%25 r1"), "buffer 1 of 1 so far"));
  CHECK(
      contains(line("submit join%25 r0 -1 0 -1 2 0 - 0 -"), "prefetch is 2, and neither 0 nor 1"));
}
