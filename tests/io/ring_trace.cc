// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/ring_trace.hh"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nntile/io/json.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/testing/device.hh"
#include "tests/support/catch.hh"

using namespace nntile;

namespace {

Status nothing(KernelCall const&) noexcept { return {}; }
constexpr Codelet quoted{"a \"task\"", nothing, nullptr, nullptr};
constexpr Codelet latin1{"z\xe9ro\n", nothing, nullptr, nullptr};
constexpr Codelet nameless{nullptr, nothing, nullptr, nullptr};

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
    std::string_view const time = event["ts"].text();
    CHECK(time.size() - std::min(time.find('.'), time.size() - 1) <= 4);
    if (phase == "X") CHECK(*event["name"].as<std::string>() == quoted.name);
    if (phase == "C") CHECK(*event["args"]["slots in use"].as<std::int64_t>() >= 1);
  }
  CHECK(count["M"] == 1);
  CHECK(count["X"] == readers + 2);
  CHECK(count["C"] == readers + 2);
  CHECK(count["s"] == 2 * readers);  // each reader behind the first, the last behind each
  CHECK(count["f"] == 2 * readers);
}

namespace {

/// The row of an event of a trace, and its time in ns.
std::pair<std::int64_t, std::int64_t> place_of(io::JsonView event) {
  return {*event["tid"].as<std::int64_t>(), std::llround(*event["ts"].as<double>() * 1000)};
}

/// The slices of a trace, from 0, by where they begin; and its arrows from slice to slice.
struct Arrows {
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> slices;
  std::map<std::int64_t, std::pair<std::size_t, std::size_t>> ends;  // by id

  explicit Arrows(std::vector<io::JsonView> const& events) {
    for (io::JsonView const& event : events)
      if (event["ph"].as<std::string>() == "X") slices.emplace(place_of(event), slices.size());
    for (io::JsonView const& event : events) {
      std::string const phase = *event["ph"].as<std::string>();
      if (phase != "s" && phase != "f") continue;
      auto& arrow = ends[*event["id"].as<std::int64_t>()];
      (phase == "s" ? arrow.first : arrow.second) =
          std::prev(slices.upper_bound(place_of(event)))->second;
    }
  }
  /// The slices that are reached from each, itself included.
  std::vector<std::set<std::size_t>> reached() const {
    std::vector<std::set<std::size_t>> result(slices.size());
    for (std::size_t i = 0; i < result.size(); ++i) result[i].insert(i);
    for (std::size_t i = 0; i < result.size(); ++i)  // no path has more arrows
      for (auto const& [id, arrow] : ends)
        result[arrow.first].insert(result[arrow.second].begin(), result[arrow.second].end());
    return result;
  }
};

}  // namespace

TEST_CASE("joins that many tasks wait for have slices, so that arrows are as few as edges",
          "[io][trace]") {
  BasicRing<RingTracePolicy> ring({.workers = 1});
  DataHandle const buffer = ring.allocate(8);
  Use<DataHandle> const write[] = {{buffer, Access::write_disjoint}};
  Use<DataHandle> const read[] = {{buffer, Access::read}};
  constexpr std::size_t many = 40;
  for (std::size_t i = 0; i < many; ++i) ring.submit({&quoted, write, {}, {}, {}});
  for (std::size_t i = 0; i < many; ++i) ring.submit({&nameless, read, {}, {}, {}});
  ring.wait_all();

  std::string const text = io::ring_trace_text(ring.trace());
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  Arrows const arrows(events);
  CHECK(arrows.slices.size() > 2 * many);
  CHECK(arrows.ends.size() <= ring.trace().edges().size());
  auto const reached = arrows.reached();
  for (std::size_t writer = 0; writer < many; ++writer)  // in the order in which they ran
    for (std::size_t reader = many; reader < 2 * many; ++reader)
      CHECK(reached[writer].contains(reader));
  int joins = 0;
  for (io::JsonView const& event : events)
    joins += event["args"]["name"].as<std::string>() == "joins";
  CHECK(joins == 1);
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

TEST_CASE("a ring's trace has names that are not UTF-8, or not there", "[io][trace]") {
  BasicRing<RingTracePolicy> ring({.workers = 1});
  ring.submit({&latin1, {}, {}, {}, {}});
  ring.submit({&nameless, {}, {}, {}, {}});
  ring.open_scope(Lifetime::step, {"src/caf\xe9.cc", 7});
  ring.close_scope(Lifetime::step);
  ring.wait_all();
  std::string const text = io::ring_trace_text(ring.trace());
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  std::vector<std::string> names;
  for (io::JsonView const& event : events)
    if (event["ph"].as<std::string>() == "X") names.push_back(*event["name"].as<std::string>());
  CHECK(names == std::vector<std::string>{"z\xEF\xBF\xBDro\n", "task", "caf\xEF\xBF\xBD.cc:7"});
}

namespace {

struct TracedDevices : RingTracePolicy {
  using Device = testing::EmulatedDevice;
};

}  // namespace

TEST_CASE("a ring's trace has a row for each stream, and counts memory by place", "[io][trace]") {
  DeviceLog log;
  BasicRing<TracedDevices> ring(RuntimeOptions{.workers = 1},
                                testing::EmulatedOptions{.devices = 2, .log = &log});
  std::int64_t const bytes = 48;
  DataHandle const here = ring.allocate(48);
  for (int const number : {0, 1}) {
    DataHandle const there = ring.allocate(static_cast<std::size_t>(100 + number), device(number));
    Use<DataHandle> const write[] = {{here, Access::write}};
    Use<DataHandle> const copy[] = {{here, Access::read}, {there, Access::write}};
    Use<DataHandle> const update[] = {{there, Access::update}};
    ring.submit({&quoted, write, {}, {}, {}});
    ring.submit({&copy_codelet, copy, std::as_bytes(std::span(&bytes, 1)), {}, {"x", 7}});
    ring.submit({&quoted, update, {}, {}, {"y\xff", 3}});
    ring.wait_all();
    ring.retire(there);
  }
  ring.wait_all();
  std::string const text = io::ring_trace_text(ring.trace(), &log);
  auto const events = *io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>();
  std::map<std::string, int> rows, copies;
  std::map<std::string, std::vector<std::int64_t>> memory;
  int kernels = 0;
  for (io::JsonView const& event : events) {
    auto const phase = *event["ph"].as<std::string>(), name = *event["name"].as<std::string>();
    auto const args = event["args"];
    if (phase == "M") ++rows[*args["name"].as<std::string>()];
    if (phase == "C" && name != "window") memory[name].push_back(*args["bytes"].as<std::int64_t>());
    if (phase != "X" || *event["cat"].as<std::string>() == "task") continue;
    CHECK(*event["tid"].as<std::int64_t>() > 0);
    if (*event["cat"].as<std::string>() == "kernel") {
      ++kernels;
      CHECK(args["tensor"].as<std::string>() == "y\xEF\xBF\xBD");
      continue;
    }
    CHECK(args["tile"].as<std::int64_t>() == 7);
    CHECK(args["bytes"].as<std::int64_t>() == bytes);
    ++copies[*args["from"].as<std::string>() + " to " + *args["to"].as<std::string>()];
  }
  CHECK(rows == std::map<std::string, int>{{"worker 0", 1},
                                           {"device 0, stream 0", 1},
                                           {"device 0, stream 1", 1},
                                           {"device 1, stream 0", 1},
                                           {"device 1, stream 1", 1}});
  CHECK(kernels == 2);
  CHECK(copies == std::map<std::string, int>{{"host to device 0", 1}, {"host to device 1", 1}});
  using Counted = std::vector<std::int64_t>;
  CHECK(memory["memory of device 0"] == Counted{100, 0});
  CHECK(memory["memory of device 1"] == Counted{101, 0});
}

TEST_CASE("a log forgets what has run, and not what places hold", "[io][trace]") {
  DeviceLog log;
  testing::EmulatedDevice devices({.log = &log});
  void* const kept = devices.allocate(100, device(0));
  void* const gone = devices.allocate(20, device(0));
  log.clear();
  devices.free(gone, 20, device(0));
  auto const memory = log.memory();
  REQUIRE(memory.size() == 2);
  CHECK((memory[0].bytes == 120 && memory[1].bytes == 100));
  CHECK(memory[0].time <= memory[1].time);
  devices.free(kept, 100, device(0));
}

TEST_CASE("the trace of an idle ring is empty", "[io][trace]") {
  BasicRing<RingTracePolicy> ring({.workers = 2});
  auto const text = io::ring_trace_text(ring.trace());
  CHECK(io::parse_json(text, "trace")["traceEvents"].as<std::vector<io::JsonView>>()->size() == 2);
  CHECK_THROWS_AS(io::write_ring_trace("/nowhere/trace.json", ring.trace()), Error);
}
