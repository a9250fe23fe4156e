// SPDX-License-Identifier: BSD-3-Clause
// The battery passes lawful communicators and fails broken ones.
#include "nntile/testing/communicator.hh"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "nntile/comm/self.hh"
#include "tests/comm/broken.hh"
#include "tests/comm/forked_ranks.hh"
#include "tests/comm/local_ranks.hh"
#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

namespace {

using namespace nntile;
using test::BrokenComm;
using test::CommDefect;

void pass_on_ranks(int size, LocalOptions const& options) {
  LocalWorld world(size, options);
  std::vector<std::string> reports(static_cast<std::size_t>(size));
  auto const thrown = test::on_ranks(world, [&](LocalComm& comm) {
    auto const report = testing::communicator_conformance(comm);
    if (!report.passed() || report.left_out() != 0)
      reports[static_cast<std::size_t>(comm.rank())] = to_string(report);
  });
  INFO("ranks " << size << " delay " << options.most_delay << " eager " << options.eager_bytes);
  CHECK(thrown == std::vector<std::string>(thrown.size()));
  CHECK(reports == std::vector<std::string>(reports.size()));
}

/// The reports of the ranks on which a check failed; `only` is the one that runs. A request counts
/// as lost soon where one may be, and late where none may be: busy machines are slow.
std::vector<std::string> failures(CommDefect defect, std::string const& only, int size,
                                  double seconds) {
  LocalWorld world(size, {.eager_bytes = 4096});
  std::vector<std::string> reports(static_cast<std::size_t>(size));
  std::vector<testing::CommReport> kept(reports.size());  // their bytes outlive the ranks
  auto const thrown = test::on_ranks(world, [&](LocalComm& comm) {
    BrokenComm broken(defect, comm);
    auto const rank = static_cast<std::size_t>(comm.rank());
    kept[rank] = testing::communicator_conformance(broken, {.seconds = seconds, .only = only});
    if (!kept[rank].passed()) reports[rank] = to_string(kept[rank]);
    comm.barrier();
  });
  std::erase(reports, "");
  for (std::string const& text : thrown)
    if (!text.empty()) reports.push_back("threw " + text);
  return reports;
}

struct Expectation {
  CommDefect defect;
  char const* check;
};
constexpr Expectation expectations[] = {
    {CommDefect::counts_from_one, "ranks are numbered from 0"},
    {CommDefect::has_no_ranks, "ranks are numbered from 0"},
    {CommDefect::has_few_numbers, "the tag bound"},
    {CommDefect::gathers_own_bytes, "all_gather gives"},
    {CommDefect::forgets_empty_pieces, "all_gather gives"},
    {CommDefect::leaves_the_barrier, "no rank leaves a barrier"},
    {CommDefect::changes_the_last_byte, "a message arrives whole"},
    {CommDefect::throws_a_number, "a message arrives whole"},
    {CommDefect::cuts_large_messages, "a message arrives whole"},
    {CommDefect::never_hears_itself, "a rank may send to itself"},
    {CommDefect::waits_in_send, "send, receive and test do not wait"},
    {CommDefect::waits_in_receive, "send, receive and test do not wait"},
    {CommDefect::waits_in_test, "send, receive and test do not wait"},
    {CommDefect::confuses_numbers, "messages are told apart by number"},
    {CommDefect::confuses_ranks, "messages are told apart by rank"},
    {CommDefect::opens_a_hundred, "a thousand requests"},
    {CommDefect::reports_twice, "test reports each request once"},
    {CommDefect::reports_nothing_known, "test reports each request once"},
    {CommDefect::gives_requests_again, "a message arrives whole"},
    {CommDefect::reports_again_later, "a number may be used again"},
    {CommDefect::writes_beside, "the bytes beside"},
    {CommDefect::keeps_numbers, "a number may be used again"},
    {CommDefect::takes_any_rank, "a rank that is not there"},
    {CommDefect::takes_negative_ranks, "a rank that is not there"},
    {CommDefect::takes_any_number, "a number out of bounds"},
    {CommDefect::receives_any_number, "a number out of bounds"},
    {CommDefect::takes_sends_in_flight, "a number in flight"},
    {CommDefect::takes_receives_in_flight, "a number in flight"},
    {CommDefect::takes_any_size, "a message of another size"},
    {CommDefect::hides_empty_ones, "a message of another size"},
    {CommDefect::blames_all, "a message of another size"},
    {CommDefect::counts_sends_alone, "traffic is counted"},
    {CommDefect::counts_twice, "traffic is counted"},
    {CommDefect::counts_failures, "traffic is counted"},
    {CommDefect::loses_late_ones, "random messages"},
};

}  // namespace

TEST_CASE("the communicator of one rank passes the battery", "[comm][conformance]") {
  SelfComm comm;
  auto const report = testing::communicator_conformance(comm);
  INFO(to_string(report));
  CHECK(report.passed());
}

TEST_CASE("ranks that are threads pass the battery", "[comm][conformance]") {
  for (int size = 1; size <= 4; ++size) {
    pass_on_ranks(size, {});
    pass_on_ranks(size, {.seed = 7, .most_delay = 5, .eager_bytes = 4096});
  }
}

TEST_CASE("ranks that are processes pass the battery", "[comm][conformance]") {
  if (!test::may_read_processes()) return;
  for (int size = 1; size <= 4; ++size) {
    ProcessWorld world(size);
    auto const texts = test::on_processes(world, [](ProcessComm& comm) {
      auto const report = testing::communicator_conformance(comm);
      return report.passed() && report.left_out() == 0 ? std::string() : to_string(report);
    });
    CHECK(texts == std::vector<std::string>(texts.size()));
  }
}

TEST_CASE("the battery of communicators passes one that breaks nothing", "[comm][conformance]") {
  CHECK(failures(CommDefect::none, "", 3, 60) == std::vector<std::string>());
}

TEST_CASE("the battery of communicators finds every broken law", "[comm][conformance]") {
  for (Expectation const& expected : expectations) {
    auto const reports = failures(expected.defect, expected.check, 3, 0.4);
    INFO("defect " << static_cast<int>(expected.defect) << " " << expected.check);
    REQUIRE(!reports.empty());
    CHECK(reports.front().starts_with(concat("FAILED: ", expected.check)));
  }
}

TEST_CASE("the battery remembers the requests of the checks before", "[comm][conformance]") {
  auto const reports = failures(CommDefect::reports_again_later, "", 1, 60);
  REQUIRE(reports.size() == 1);
  INFO(reports.front());
  CHECK(
      reports.front().starts_with("FAILED: a rank may send to itself: test reported the request"));
  CHECK(reports.front().find(" twice (rank 0 of 1, seed 1)") != std::string::npos);
}

TEST_CASE("a communicator without ranks fails the battery to its end", "[comm][conformance]") {
  auto const reports = failures(CommDefect::has_no_ranks, "", 1, 0.4);
  REQUIRE(reports.size() == 1);
  CHECK(
      reports.front().starts_with("FAILED: ranks are numbered from 0, each number once: size() "));
}

TEST_CASE("a receive that should have been refused has its bytes in the report",
          "[comm][conformance]") {
  LocalWorld world(1);
  LocalComm comm(world, 0);
  BrokenComm broken(CommDefect::receives_any_number, comm);
  auto const report = testing::communicator_conformance(broken, {.only = "out of bounds"});
  CHECK(std::any_of(
      report.bytes_in_flight.begin(), report.bytes_in_flight.end(),
      [&](auto const& bytes) { return bytes->data() == broken.of_any_number().data(); }));
}

TEST_CASE("every check of communicators has a defect that it finds", "[comm][conformance]") {
  for (auto const& check : testing::all_comm_checks())
    CHECK(std::any_of(std::begin(expectations), std::end(expectations), [&](auto const& expected) {
      return std::string(check.name).starts_with(expected.check);
    }));
}

TEST_CASE("a report names the rank, the message and the seed", "[comm][conformance]") {
  auto const reports = failures(CommDefect::changes_the_last_byte, "arrives whole", 2, 60);
  REQUIRE(reports.size() == 2);
  for (char const* word : {"receive of message", "from rank", "another byte", "of 2, seed 1"}) {
    INFO(reports.front());
    CHECK(reports.front().find(word) != std::string::npos);
  }
}

TEST_CASE("the sentences of the communicators' law are the names of the checks, in order",
          "[comm][conformance]") {
  char const* const root = std::getenv("NNTILE_SOURCE_ROOT");
  if (root == nullptr) return test::skip("NNTILE_SOURCE_ROOT is not set: run this through Meson");
  std::ifstream file(std::string(root) + "/nntile/comm/LAW.md");
  std::string const text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> sentences, names;
  for (std::size_t at = 0; (at = text.find("\n- **", at)) != std::string::npos;) {
    std::size_t const begin = at + 5;
    at = text.find("**", begin);
    sentences.push_back(text.substr(begin, at - begin));
  }
  for (auto const& check : testing::all_comm_checks()) names.emplace_back(check.name);
  CHECK(sentences == names);
}
