// SPDX-License-Identifier: BSD-3-Clause
// Random programs whose tasks submit tasks, on every runtime that nests them, against one task at a
// time on plain arrays: every buffer, every mark, and which tasks ran.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nntile/runtime/nested.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

using Handle = DataHandle;
using NestingRuntimes = std::tuple<Serial>;

struct Node;
/// What a body does: a task of its own, a task that submits, or a call.
struct Node {
  enum class Kind { task, nest, wait, wait_all, renew } kind = Kind::task;
  std::uint32_t id = 0;  // of a task or nest
  bool fails = false;    // its body does, behind what it has submitted
  bool late = false;     // its token is completed by a poll
  std::vector<Use<std::uint32_t>> uses;
  std::uint32_t own = 0;    // buffers that a nest allocates; they come behind those that it names
  std::uint32_t which = 0;  // the child to wait for, or the buffer to begin anew
  std::vector<Node> inside;
};

struct Generator {
  std::uint64_t state;
  std::uint32_t ids = 0;
  std::uint32_t below(std::uint32_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((state >> 33) % limit);
  }

  /// Steps of a body over buffers, of which `written` are; each is named by its position. A buffer
  /// that a task declared to write has to be written there before it is read.
  std::vector<Node> body(std::vector<Access> const& access, std::vector<bool> written,
                         std::uint32_t first_own, int depth) {
    std::vector<Node> nodes;
    std::vector<std::uint32_t> waitable;
    std::uint32_t const count = 2 + below(depth == 0 ? 30 : 12);
    for (std::uint32_t i = 0; i < count; ++i) {
      Node node;
      std::uint32_t const x = below(100);
      if (x < 6 && !waitable.empty()) {
        node.kind = Node::Kind::wait;
        node.which = waitable[below(static_cast<std::uint32_t>(waitable.size()))];
      } else if (x < 9) {
        node.kind = Node::Kind::wait_all;
      } else if (x < 14 && first_own < access.size()) {
        node.kind = Node::Kind::renew;
        node.which = first_own + below(static_cast<std::uint32_t>(access.size()) - first_own);
        written[node.which] = false;
      } else {
        node.kind = x < 40 && depth < 4 ? Node::Kind::nest : Node::Kind::task;
        node.id = ids++;
        node.fails = below(100) < 4;
        draw_uses(node, access, written);
        if (node.kind == Node::Kind::task) {
          node.late = below(100) < 10;
        } else {
          node.own = below(3);
          std::vector<Access> inner;
          std::vector<bool> inner_written;
          for (Use<std::uint32_t> const& use : node.uses) {
            inner.push_back(use.access);
            inner_written.push_back(use.access != Access::write);
          }
          auto const own = static_cast<std::uint32_t>(inner.size());
          for (std::uint32_t b = 0; b < node.own; ++b) {
            inner.push_back(Access::update);
            inner_written.push_back(false);
          }
          if (!inner.empty()) node.inside = body(inner, inner_written, own, depth + 1);
        }
        waitable.push_back(i);
      }
      nodes.push_back(std::move(node));
    }
    return nodes;
  }
  void draw_uses(Node& node, std::vector<Access> const& access, std::vector<bool>& written) {
    for (std::uint32_t b = 0; b < access.size(); ++b) {
      if (below(3) != 0) continue;
      constexpr Access any[] = {Access::read, Access::write, Access::update, Access::accumulate};
      bool const all = access[b] == Access::update || access[b] == Access::write;
      Access how = all ? any[below(4)] : access[b];
      if (all && !written[b]) how = Access::write;
      if (writes(how)) written[b] = true;
      node.uses.push_back({b, how});
    }
  }
};

std::uint64_t scramble(std::uint64_t a, std::uint64_t b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15u;
  return a ^ a >> 29;
}
/// The computation of a task on the words of its buffers.
template <class Word> void compute(Node const& node, Word word) {
  std::uint64_t hash = node.id + 1;
  for (std::size_t i = 0; i < node.uses.size(); ++i)
    if (node.uses[i].access == Access::read || node.uses[i].access == Access::update)
      hash = scramble(hash, word(i));
  for (std::size_t i = 0; i < node.uses.size(); ++i) {
    if (!writes(node.uses[i].access)) continue;
    std::uint64_t& to = word(i);
    to = (node.uses[i].access == Access::accumulate ? to : 0) + scramble(hash, i);
  }
}

/// The law, one task after the other.
struct Oracle {
  struct Cell {
    std::uint64_t word = 0;
    bool marked = false;
  };
  std::vector<int>& ran;

  /// Whether it failed or was cancelled.
  bool run(Node const& node, std::vector<Cell*> const& cells) {
    bool bad = false;
    std::vector<Cell*> used;
    for (Use<std::uint32_t> const& use : node.uses) {
      used.push_back(cells[use.handle]);
      bad |= used.back()->marked && (use.access == Access::read || use.access == Access::update);
    }
    std::vector<Cell> inner;
    if (!bad) {
      ++ran[node.id];
      if (node.kind == Node::Kind::task)
        compute(node, [&](std::size_t i) -> std::uint64_t& { return used[i]->word; });
      else
        bad = body(node, used, inner);
      bad |= node.fails;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!writes(node.uses[i].access)) continue;
      if (bad) used[i]->marked = true;
      if (!bad && node.uses[i].access == Access::write) used[i]->marked = false;
      if (!inner.empty()) used[i]->marked |= inner[i].marked;
    }
    return bad;
  }
  /// Whether tasks failed that were not reported to the body.
  bool body(Node const& node, std::vector<Cell*> const& outer, std::vector<Cell>& inner) {
    for (Cell const* cell : outer) inner.push_back({cell->word, false});
    inner.resize(inner.size() + node.own);
    std::vector<Cell*> cells;
    for (Cell& cell : inner) cells.push_back(&cell);
    bool unreported = false;
    for (Node const& step : node.inside) {
      if (step.kind == Node::Kind::task || step.kind == Node::Kind::nest)
        unreported |= run(step, cells);
      if (step.kind == Node::Kind::wait_all) unreported = false;
      if (step.kind == Node::Kind::renew) *cells[step.which] = {};
    }
    for (std::size_t i = 0; i < outer.size(); ++i) outer[i]->word = inner[i].word;
    return unreported;
  }
};

/// The same on a runtime.
struct Shared {
  std::deque<std::atomic<int>> ran;
};
struct Arguments {
  Node const* node;
  Shared* shared;
};
Status run_node(KernelCall const& call) noexcept {
  auto const& [node, shared] = *static_cast<Arguments const*>(call.arguments);
  ++shared->ran[node->id];
  compute(*node, [&](std::size_t i) -> std::uint64_t& {
    return *static_cast<std::uint64_t*>(call.buffers[i]);
  });
  return node->fails ? Status{"asked to fail"} : Status{};
}
constexpr Codelet node_codelet{"node", &run_node, nullptr, nullptr};
constexpr Codelet late_codelet{"late", nullptr, nullptr,
                               +[](KernelCall const& call, Completion token) noexcept -> Status {
                                 struct Late {
                                   Status status;
                                   int looks;
                                 };
                                 token.poll(
                                     [](void* state, Completion its) {
                                       auto* const late = static_cast<Late*>(state);
                                       if (++late->looks < 3) return false;
                                       its.complete(late->status);
                                       delete late;
                                       return true;
                                     },
                                     new Late{run_node(call), 0});
                                 return {};
                               }};

template <class Submitter>
void submit_nodes(Submitter& submitter, std::vector<Node> const& nodes, std::vector<Handle> handles,
                  Shared& shared) {
  std::vector<Event> events(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node const& node = nodes[i];
    std::vector<Use<Handle>> uses;
    for (Use<std::uint32_t> const& use : node.uses)
      uses.push_back({handles[use.handle], use.access});
    try {
      switch (node.kind) {
        case Node::Kind::task: {
          Arguments const arguments{&node, &shared};
          events[i] = submitter.submit({node.late ? &late_codelet : &node_codelet,
                                        uses,
                                        std::as_bytes(std::span(&arguments, 1)),
                                        {},
                                        {}});
          break;
        }
        case Node::Kind::nest: {
          auto body = [&node, &shared, uses](Nested<Handle>& nested) {
            ++shared.ran[node.id];
            std::vector<Handle> inner;
            for (Use<Handle> const& use : uses) inner.push_back(use.handle);
            for (std::uint32_t b = 0; b < node.own; ++b)
              inner.push_back(nested.allocate(sizeof(std::uint64_t)));
            submit_nodes(nested, node.inside, inner, shared);
            if (node.fails) throw 1;
          };
          events[i] = submitter.submit_nesting({NestingBody<Handle>(std::move(body)), uses});
          break;
        }
        case Node::Kind::wait:
          submitter.wait(events[node.which]);
          break;
        case Node::Kind::wait_all:
          submitter.wait_all();
          break;
        case Node::Kind::renew:
          submitter.retire(handles[node.which]);
          handles[node.which] = submitter.allocate(sizeof(std::uint64_t));
          break;
      }
    } catch (TaskError const&) {  // by a wait
    }
  }
}

constexpr std::uint32_t buffers = 6;

template <class R> void compare(std::uint64_t seed, RuntimeOptions const& options) {
  Generator generator{seed * 977 + 13};
  std::vector<Node> const nodes =
      generator.body(std::vector(buffers, Access::update), std::vector(buffers, true), buffers, 0);
  std::vector<int> expected(generator.ids);
  std::vector<Oracle::Cell> cells(buffers);
  std::vector<Oracle::Cell*> pointers;
  for (std::uint32_t b = 0; b < buffers; ++b) cells[b].word = b + 1;
  for (Oracle::Cell& cell : cells) pointers.push_back(&cell);
  Oracle oracle{expected};
  for (Node const& node : nodes)
    if (node.kind == Node::Kind::task || node.kind == Node::Kind::nest)
      (void)oracle.run(node, pointers);

  Shared shared;
  for (std::uint32_t i = 0; i < generator.ids; ++i) shared.ran.emplace_back(0);
  R runtime(options);
  std::vector<Handle> handles;
  for (std::uint32_t b = 0; b < buffers; ++b)
    handles.push_back(cell(runtime, static_cast<long>(b + 1)));
  submit_nodes(runtime, nodes, handles, shared);
  try {
    runtime.wait_all();
  } catch (TaskError const&) {
  }
  INFO("seed " << seed << ", " << options.workers.value_or(0) << " workers");
  for (std::uint32_t i = 0; i < generator.ids; ++i)
    if (shared.ran[i] != expected[i])
      FAIL_CHECK("task " << i << " ran " << shared.ran[i] << " times");
  for (std::uint32_t b = 0; b < buffers; ++b) {
    bool marked = false;
    std::uint64_t word = 0;
    try {
      word = static_cast<std::uint64_t>(read(runtime, handles[b]));
    } catch (TaskError const&) {
      marked = true;
    }
    CHECK(marked == cells[b].marked);
    if (!marked && !cells[b].marked) CHECK(word == cells[b].word);
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("random programs whose tasks submit leave what one task at a time leaves",
                        "[runtime][nesting]", NestingRuntimes) {
  char const* const asked = std::getenv("NNTILE_NESTED");  // programs for each number of workers
  std::uint64_t const programs = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 150;
  for (bool const own : {false, true})
    for (int const workers : worker_counts<TestType>())
      for (std::uint64_t seed = 0; seed < programs && !(own && std::same_as<TestType, Serial>);
           ++seed)
        compare<TestType>(seed, {.workers = workers, .own_driver = own});
}
