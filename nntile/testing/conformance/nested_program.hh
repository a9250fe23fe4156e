#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Random programs whose tasks submit tasks, and the law executed on them one task after the other.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/runtime/nested.hh"
#include "nntile/runtime/regions.hh"
#include "nntile/testing/conformance/activity.hh"
#include "nntile/testing/conformance/journal.hh"

namespace nntile::testing {

/// 64-bit words of a buffer, one for each task of a group that write disjoint bytes.
inline constexpr std::uint32_t nested_parts = 4;
inline constexpr std::size_t nested_bytes = nested_parts * sizeof(std::uint64_t);

/// A step of a body that submits: a task, a task that submits, or a call.
struct NestedStep {
  enum class Kind { task, nest, wait, wait_all, renew } kind = Kind::task;
  std::uint32_t id = 0;     // of a task or nest
  bool fails = false;       // its body does, behind what it has submitted
  bool late = false;        // its token is completed by a poll
  std::uint32_t parts = 0;  // a bit each, that it writes where it writes disjoint bytes
  std::vector<Use<std::uint32_t>> uses;
  std::uint32_t own = 0;    // buffers that a nest allocates; they come behind those that it names
  std::uint32_t which = 0;  // the child to wait for, or the buffer to begin anew
  std::vector<NestedStep> inside;
};

class NestedDrawer {
 public:
  explicit NestedDrawer(std::uint64_t seed) : random_(seed) {}

  /// Tasks drawn so far; they are numbered from 0.
  std::uint32_t tasks() const { return tasks_; }

  /// Steps of a body over buffers, of which `written` are; each is named by its position. A buffer
  /// that a task declared to write has to be written there before it is read. `parts`: those that
  /// the body may write of what it declared to write disjointly.
  std::vector<NestedStep> body(std::vector<Access> const& access, std::vector<bool> written,
                               std::uint32_t first_own, std::uint32_t parts, int depth) {
    std::vector<NestedStep> nodes;
    std::vector<std::uint32_t> free;  // parts of each buffer that its group does not write yet
    for (Access const how : access)
      free.push_back(how == Access::write_disjoint ? parts : all_parts);
    std::vector<std::uint32_t> waitable;
    NestedStep first;  // writes all that was declared to be written
    for (std::uint32_t b = 0; b < first_own; ++b)
      if (!written[b]) first.uses.push_back({b, Access::write});
    if (!first.uses.empty()) {
      first.id = tasks_++;
      nodes.push_back(first);
      written.assign(written.size(), true);
      for (std::size_t b = first_own; b < written.size(); ++b) written[b] = false;
    }
    std::uint32_t const count = 2 + random_.below(depth == 0 ? 30 : 12);
    for (auto i = static_cast<std::uint32_t>(nodes.size()); i < count; ++i) {
      NestedStep node;
      std::uint32_t const x = random_.below(100);
      if (x < 6 && !waitable.empty()) {
        node.kind = NestedStep::Kind::wait;
        node.which = waitable[random_.below(static_cast<std::uint32_t>(waitable.size()))];
      } else if (x < 9) {
        node.kind = NestedStep::Kind::wait_all;
      } else if (x < 14 && first_own < access.size()) {
        node.kind = NestedStep::Kind::renew;
        node.which =
            first_own + random_.below(static_cast<std::uint32_t>(access.size()) - first_own);
        written[node.which] = false;
        free[node.which] = all_parts;
      } else {
        node.kind = x < 40 && depth < 4 ? NestedStep::Kind::nest : NestedStep::Kind::task;
        node.id = tasks_++;
        node.fails = random_.below(100) < 4;
        draw_uses(node, access, written, free);
        if (node.kind == NestedStep::Kind::task) {
          node.late = random_.below(100) < 10;
        } else {
          node.own = random_.below(3);
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
          if (!inner.empty()) node.inside = body(inner, inner_written, own, node.parts, depth + 1);
        }
        waitable.push_back(i);
      }
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

 private:
  static constexpr std::uint32_t all_parts = (1u << nested_parts) - 1;

  /// A group of tasks that write disjoint bytes of a buffer ends with any other access to it but
  /// one in no order.
  void draw_uses(NestedStep& node, std::vector<Access> const& access, std::vector<bool>& written,
                 std::vector<std::uint32_t>& free) {
    node.parts = 1 + random_.below(all_parts);
    for (std::uint32_t b = 0; b < access.size(); ++b) {
      if (random_.below(3) != 0) continue;
      constexpr Access any[] = {Access::read,       Access::write,          Access::update,
                                Access::accumulate, Access::write_disjoint, Access::write_disjoint,
                                Access::unordered};
      bool const all = access[b] == Access::update || access[b] == Access::write;
      Access how = all ? any[random_.below(std::size(any))] : access[b];
      if (all && !written[b]) how = Access::write;
      if (how == Access::write_disjoint && (node.parts & ~free[b]) != 0) {
        if (!all) continue;
        how = Access::update;
      }
      if (how == Access::write_disjoint)
        free[b] &= ~node.parts;
      else if (how != Access::unordered)
        free[b] = all_parts;
      if (writes(how)) written[b] = true;
      node.uses.push_back({b, how});
    }
  }

  Random random_;
  std::uint32_t tasks_ = 0;
};

/// The computation of a task on its buffers, words(i) of each. Of one that it accesses in no order
/// it touches nothing.
template <class Words> void compute_nested(NestedStep const& node, Words words) {
  std::uint64_t hash = node.id + 1;
  for (std::size_t i = 0; i < node.uses.size(); ++i)
    if (node.uses[i].access == Access::read || node.uses[i].access == Access::update)
      for (std::uint32_t part = 0; part < nested_parts; ++part) hash = mix(hash, words(i)[part]);
  for (std::size_t i = 0; i < node.uses.size(); ++i) {
    Access const access = node.uses[i].access;
    if (!writes(access) || access == Access::unordered) continue;
    for (std::uint32_t part = 0; part < nested_parts; ++part) {
      if (access == Access::write_disjoint && (node.parts >> part & 1u) == 0) continue;
      std::uint64_t& to = words(i)[part];
      to = (access == Access::accumulate ? to : 0) + mix(hash, i + part);
    }
  }
}

/// The law, one task after the other.
class NestedModel {
 public:
  struct Cell {
    std::array<std::uint64_t, nested_parts> words{};
    bool marked = false;
  };

  explicit NestedModel(std::uint32_t tasks) : ran(tasks) {}

  std::vector<int> ran;  // counts runs, by task

  /// Runs a task; whether it failed or was cancelled.
  bool run(NestedStep const& node, std::vector<Cell*> const& cells) {
    bool bad = false;
    std::vector<Cell*> used;
    for (Use<std::uint32_t> const& use : node.uses) {
      used.push_back(cells[use.handle]);
      bad |= used.back()->marked && (use.access == Access::read || use.access == Access::update);
    }
    std::vector<Cell> inner;
    if (!bad) {
      ++ran[node.id];
      if (node.kind == NestedStep::Kind::task)
        compute_nested(node, [&](std::size_t i) { return used[i]->words.data(); });
      else
        bad = body(node, used, inner);
      bad |= node.fails;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!writes(node.uses[i].access) || node.uses[i].access == Access::unordered) continue;
      if (bad) used[i]->marked = true;
      if (!bad && node.uses[i].access == Access::write) used[i]->marked = false;
      if (!inner.empty()) used[i]->marked |= inner[i].marked;
    }
    return bad;
  }

 private:
  /// Whether tasks failed that were not reported to the body.
  bool body(NestedStep const& node, std::vector<Cell*> const& outer, std::vector<Cell>& inner) {
    for (Cell const* cell : outer) inner.push_back({cell->words, false});
    inner.resize(inner.size() + node.own);
    std::vector<Cell*> cells;
    for (Cell& cell : inner) cells.push_back(&cell);
    bool unreported = false;
    for (NestedStep const& step : node.inside) {
      if (step.kind == NestedStep::Kind::task || step.kind == NestedStep::Kind::nest)
        unreported |= run(step, cells);
      if (step.kind == NestedStep::Kind::wait_all) unreported = false;
      if (step.kind == NestedStep::Kind::renew) *cells[step.which] = {};
    }
    for (std::size_t i = 0; i < outer.size(); ++i) outer[i]->words = inner[i].words;
    return unreported;
  }
};

/// Counts the runs of each task on a runtime. Outlives it.
using NestedRuns = std::deque<std::atomic<int>>;

namespace detail {

struct NestedArguments {
  NestedStep const* node;
  NestedRuns* ran;
};
inline Status run_nested_step(KernelCall const& call) noexcept {
  ActiveStep const step;
  auto const& [node, ran] = *static_cast<NestedArguments const*>(call.arguments);
  ++(*ran)[node->id];
  compute_nested(*node,
                 [&](std::size_t i) { return static_cast<std::uint64_t*>(call.buffers[i]); });
  return node->fails ? Status{"asked to fail"} : Status{};
}
inline constexpr Codelet nested_codelet{"nested", &run_nested_step, nullptr, nullptr};
inline constexpr Codelet late_nested_codelet{
    "late_nested", nullptr, nullptr,
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
          new Late{run_nested_step(call), 0});
      return {};
    }};

}  // namespace detail

/// Lifetime of what the body of a task allocates, in a scope that is closed behind its last step
/// or left open.
constexpr Lifetime nested_lifetime(NestedStep const& node) {
  return static_cast<Lifetime>(node.id % 5);
}

/// One way to run a nested program. The law is the same.
struct NestedVariant {
  bool regions = false;          // its buffers are regions of one, apart; of a RegionRuntime
  std::span<int const> kinds{};  // any_of(kind) of workers that tasks name, with a priority
};

/// Submits the steps, on a runtime or in a body; `outer` is what the task of that body names as its
/// worker, and so may its own tasks, and what the body allocates is of that lifetime.
template <class Submitter, class Handle>
void submit_nested_steps(Submitter& submitter, std::vector<NestedStep> const& nodes,
                         std::vector<Handle> handles, NestedRuns& ran,
                         NestedVariant const& variant = {}, int outer = -1,
                         [[maybe_unused]] Lifetime lifetime = Lifetime::persistent) {
  std::vector<Event> events(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    NestedStep const& node = nodes[i];
    std::vector<Use<Handle>> uses;
    for (Use<std::uint32_t> const& use : node.uses)
      uses.push_back({handles[use.handle], use.access});
    Hints hints;
    if (!variant.kinds.empty())
      hints = {!Runtime<Submitter> ? (node.id % 2 == 0 ? -1 : outer)
               : node.id % 3 == 0  ? -1
                                   : variant.kinds[node.id % variant.kinds.size()],
               static_cast<int>(node.id % 5 % 3)};
    try {
      switch (node.kind) {
        case NestedStep::Kind::task: {
          detail::NestedArguments const arguments{&node, &ran};
          events[i] =
              submitter.submit({node.late ? &detail::late_nested_codelet : &detail::nested_codelet,
                                uses,
                                std::as_bytes(std::span(&arguments, 1)),
                                hints,
                                {}});
          break;
        }
        case NestedStep::Kind::nest: {
          auto body = [&node, &ran, &variant, uses, worker = hints.worker](auto& nested) {
            ++ran[node.id];
            std::vector<Handle> inner;
            for (Use<Handle> const& use : uses) inner.push_back(use.handle);
            Lifetime const own = nested_lifetime(node);
            bool const scoped = own != Lifetime::persistent;
            ScopeName const name = scoped ? nested.open_scope(own) : ScopeName{};
            for (std::uint32_t b = 0; b < node.own; ++b)
              inner.push_back(nested.allocate(nested_bytes, host, own));
            submit_nested_steps(nested, node.inside, inner, ran, variant, worker, own);
            if (scoped && node.id % 3 != 0) nested.close_scope(own, name);
            if (node.fails) throw 1;
          };
          events[i] = submitter.submit_nesting(std::move(body), uses, hints);
          break;
        }
        case NestedStep::Kind::wait:
          submitter.wait(events[node.which]);
          break;
        case NestedStep::Kind::wait_all:
          submitter.wait_all();
          break;
        case NestedStep::Kind::renew:
          if constexpr (!Runtime<Submitter>) {
            submitter.retire(handles[node.which]);
            handles[node.which] = submitter.allocate(nested_bytes, host, lifetime);
          }
          break;
      }
    } catch (TaskError const&) {  // by a wait
    }
  }
}

/// Runs the program of that seed on a runtime that make() builds, and compares all that can be seen
/// afterwards.
template <class Make>
void run_nested_program(std::uint64_t seed, Make make, NestedVariant const& variant = {}) {
  constexpr std::uint32_t buffers = 6;
  NestedDrawer drawer(seed);
  std::vector<NestedStep> const steps =
      drawer.body(std::vector(buffers, Access::update), std::vector(buffers, false), buffers, 0, 0);
  NestedModel model(drawer.tasks());
  std::vector<NestedModel::Cell> cells(buffers);
  std::vector<NestedModel::Cell*> pointers;
  for (NestedModel::Cell& cell : cells) pointers.push_back(&cell);
  for (NestedStep const& step : steps) {
    bool const is_task = step.kind == NestedStep::Kind::task || step.kind == NestedStep::Kind::nest;
    if (is_task) (void)model.run(step, pointers);
  }

  NestedRuns ran;
  for (std::uint32_t i = 0; i < drawer.tasks(); ++i) ran.emplace_back(0);
  auto runtime = make();
  using R = std::remove_reference_t<decltype(*runtime)>;
  using Handle = std::remove_cvref_t<decltype(runtime->allocate(8, host, Lifetime::persistent))>;
  std::vector<Handle> handles;
  Handle whole{};
  if (variant.regions)
    whole = runtime->allocate(buffers * nested_bytes, host, Lifetime::persistent);
  for (std::uint32_t b = 0; b < buffers; ++b) {
    if constexpr (RegionRuntime<R>)
      if (variant.regions) {
        handles.push_back(runtime->region(whole, {b * nested_bytes, nested_bytes, {}}));
        continue;
      }
    handles.push_back(runtime->allocate(nested_bytes, host, Lifetime::persistent));
  }
  submit_nested_steps(*runtime, steps, handles, ran, variant);
  try {
    runtime->wait_all();
  } catch (TaskError const&) {
  }
  std::string const where = concat(" [nested program ", seed, "]");
  for (std::uint32_t i = 0; i < drawer.tasks(); ++i)
    require(ran[i] == model.ran[i],
            concat("task ", i, " ran ", ran[i].load(), " times, not ", model.ran[i], where));
  for (std::uint32_t b = 0; b < buffers; ++b) {
    try {
      auto const bytes = runtime->lock(handles[b], Access::read);
      std::array<std::uint64_t, nested_parts> words;
      std::memcpy(words.data(), bytes.data(), nested_bytes);
      runtime->unlock(handles[b]);
      require(!cells[b].marked, concat("buffer ", b, ", which is marked, could be locked", where));
      for (std::uint32_t part = 0; part < nested_parts; ++part)
        require(words[part] == cells[b].words[part],
                concat("word ", part, " of buffer ", b, " is ", words[part],
                       " where one task at a time leaves ", cells[b].words[part], where));
    } catch (TaskError const& error) {
      require(cells[b].marked, concat("locking buffer ", b, ", which is not marked, threw '",
                                      error.what(), "'", where));
    }
  }
}

}  // namespace nntile::testing
