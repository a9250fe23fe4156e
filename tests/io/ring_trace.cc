// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/ring_trace.hh"

#include <map>
#include <string>
#include <vector>

#include "nntile/io/json.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/support/catch.hh"

using namespace nntile;

namespace {

Status nothing(KernelCall const&) noexcept { return {}; }
constexpr Codelet quoted{"a \"task\"", nothing, nullptr, nullptr};

}  // namespace

TEST_CASE("a ring's trace has its bodies, arrows through joins, and a counter", "[io][trace]") {
  BasicRing<RingTracePolicy> ring({.workers = 1});
  DataHandle const buffer = ring.allocate(8);
  Use<DataHandle> const write[] = {{buffer, Access::write}};
  Use<DataHandle> const read[] = {{buffer, Access::read}};
  constexpr int readers = 20;  // more than a slot has edges: joins stand for some of them
  ring.submit({&quoted, write, {}, {}, {}});
  for (int r = 0; r < readers; ++r) ring.submit({&quoted, read, {}, {}, {}});
  ring.submit({&quoted, write, {}, {}, {}});
  ring.wait_all();
  CHECK(ring.stats().joins > 0);

  std::string const text = io::ring_trace_text(ring.trace());
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  std::map<std::string, int> count;
  for (io::JsonView const& event : events) {
    std::string const phase = *event["ph"].as<std::string>();
    ++count[phase];
    if (phase != "M") CHECK(*event["ts"].as<double>() >= 0);
    if (phase == "X") CHECK(*event["name"].as<std::string>() == quoted.name);
    if (phase == "C") CHECK(*event["args"]["slots in use"].as<std::int64_t>() >= 1);
  }
  CHECK(count["M"] == 1);
  CHECK(count["X"] == readers + 2);
  CHECK(count["C"] == readers + 2);
  CHECK(count["s"] == 2 * readers);  // each reader behind the first, the last behind each
  CHECK(count["f"] == 2 * readers);
}

TEST_CASE("a ring's trace has its scopes, and what heaps hold", "[io][trace]") {
  BasicRing<RingTracePolicy> ring({.workers = 1});
  for (int i = 0; i < 2; ++i) {
    ring.open_scope(Lifetime::step);
    (void)ring.allocate(100, host, Lifetime::step);
    ring.close_scope(Lifetime::step);
  }
  std::string const text = io::ring_trace_text(ring.trace());
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  int scopes = 0, samples = 0;
  for (io::JsonView const& event : events) {
    if (*event["ph"].as<std::string>() == "X") {
      ++scopes;
      CHECK(event["name"].as<std::string>()->starts_with("ring_trace.cc:"));
      CHECK(*event["args"]["bytes"].as<std::int64_t>() == 100);
      CHECK(*event["args"]["peak of heap"].as<std::int64_t>() == 128);
    } else if (*event["ph"].as<std::string>() == "C") {
      ++samples;
      CHECK(*event["name"].as<std::string>() == "heap step");
      CHECK(*event["args"]["bytes"].as<std::int64_t>() <= 128);
    }
  }
  CHECK((scopes == 2 && samples == 6));
}

TEST_CASE("the trace of an idle ring is empty", "[io][trace]") {
  BasicRing<RingTracePolicy> ring({.workers = 2});
  auto const text = io::ring_trace_text(ring.trace());
  CHECK(io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>()->size() == 2);
  CHECK_THROWS_AS(io::write_ring_trace("/nowhere/trace.json", ring.trace()), Error);
}
