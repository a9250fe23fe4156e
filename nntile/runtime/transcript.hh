#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The calls of a run, with everything that is needed to make them again on any runtime.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/region.hh"
#include "nntile/runtime/concept.hh"

namespace nntile {

/// One call. Buffers, regions among them, and tasks are numbered from 0, in the order in which they
/// stand here. Behind a task that submits come the calls of its body, up to its end_body.
struct TranscribedCall {
  enum class Kind : std::uint8_t {
    allocate,
    adopt,  // contents: those of that time
    retire,
    submit,
    read,   // a lock to read
    write,  // any other lock; contents: those at its end
    wait,
    wait_all,
    open_scope,
    close_scope,
    region,
    orchestrate,  // submits a task that submits
    end_body
  };
  enum class Outcome : std::uint8_t { ran, threw, none };  // none: the body did not run
  Kind kind = Kind::wait_all;
  std::uint32_t buffer = 0;                  // of all that name one
  std::size_t bytes = 0;                     // allocate
  Lifetime lifetime = Lifetime::persistent;  // allocate, open_scope, close_scope
  bool read_only = false;                    // adopt
  std::vector<std::byte> contents{};         // adopt; write: of a region its bytes alone
  std::uint32_t of = 0;                      // region: the buffer that it is a part of
  Region region{};                           // region
  std::uint32_t task = 0;                    // wait
  Codelet const* codelet = nullptr;          // submit, and what follows; orchestrate: uses to tile
  std::vector<Use<std::uint32_t>> uses{};
  std::vector<std::byte> arguments{};
  Hints hints{};
  std::string tensor{};  // of the label, "" for none
  std::int64_t tile = -1;
  Outcome outcome = Outcome::ran;  // end_body
  std::string cause{};             // end_body: what was thrown

  bool is_task() const { return kind == Kind::submit || kind == Kind::orchestrate; }
  bool operator==(TranscribedCall const&) const = default;
};

/// A run.
struct Transcript {
  std::vector<TranscribedCall> calls;

  bool operator==(Transcript const&) const = default;

  /// Tasks submitted, those in bodies included.
  std::size_t tasks() const {
    return static_cast<std::size_t>(std::count_if(
        calls.begin(), calls.end(), [](TranscribedCall const& call) { return call.is_task(); }));
  }
};

namespace detail {

/// Meaning of a buffer's number in a transcript: bytes of one that was allocated or adopted.
struct TranscribedPart {
  std::uint32_t root = 0;
  Region region{};
};
inline std::vector<TranscribedPart> transcribed_parts(Transcript const& run) {
  using CallKind = TranscribedCall::Kind;
  std::vector<TranscribedPart> parts;
  for (TranscribedCall const& call : run.calls) {
    bool const whole = call.kind == CallKind::allocate || call.kind == CallKind::adopt;
    if (!whole && call.kind != CallKind::region) continue;
    TranscribedPart part{call.buffer, {}};
    if (whole) {
      std::size_t const bytes = call.kind == CallKind::adopt ? call.contents.size() : call.bytes;
      part.region.bytes = std::max<std::size_t>(bytes, 1);  // an empty one has a state as well
    } else {
      part = parts[call.of];
      std::size_t const begin = part.region.offset;
      part.region = normalize(call.region);
      part.region.offset += begin;
    }
    parts.push_back(part);
  }
  return parts;
}

/// Bytes of each buffer of a transcript whose contents matter.
class NeededParts {
 public:
  explicit NeededParts(Transcript const& run)
      : parts_(transcribed_parts(run)), needed_(parts_.size()) {}

  bool any(std::uint32_t buffer) const {
    TranscribedPart const& part = part_of(buffer);
    return std::any_of(needed_[part.root].begin(), needed_[part.root].end(),
                       [&](Region const& needed) { return overlap(needed, part.region); });
  }
  void add(std::uint32_t buffer) {
    TranscribedPart const& part = part_of(buffer);
    auto& needed = needed_[part.root];
    for (Region const& other : needed)
      if (other == part.region || covers(other, part.region)) return;
    needed.push_back(part.region);
  }
  void remove(std::uint32_t buffer) {
    TranscribedPart const& part = part_of(buffer);
    std::erase_if(needed_[part.root], [&](Region const& needed) {
      return needed == part.region || covers(part.region, needed);
    });
  }

 private:
  TranscribedPart const& part_of(std::uint32_t buffer) const { return parts_[buffer]; }

  std::vector<TranscribedPart> parts_;
  std::vector<std::vector<Region>> needed_;
};

/// By position, that of the end_body of an orchestrate, and the other way round. Throws ValueError
/// where one has none.
inline std::vector<std::size_t> transcribed_bodies(Transcript const& run) {
  using CallKind = TranscribedCall::Kind;
  std::vector<std::size_t> partner(run.calls.size()), open;
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    if (run.calls[c].kind == CallKind::orchestrate) open.push_back(c);
    if (run.calls[c].kind != CallKind::end_body) continue;
    if (open.empty()) throw ValueError(concat("transcript: call ", c, " ends no body"));
    partner[c] = open.back();
    partner[open.back()] = c;
    open.pop_back();
  }
  if (!open.empty())
    throw ValueError(concat("transcript: the body of call ", open.back(), " has no end"));
  return partner;
}

/// Throws ValueError for a call that is out of place, as one made by hand may be: it makes a buffer
/// that is not the next one, names one or waits for a task that no call before it makes where it
/// stands, or submits no codelet; and for a body without a begin or an end.
inline void check_transcript(Transcript const& run) {
  using CallKind = TranscribedCall::Kind;
  (void)transcribed_bodies(run);
  std::vector<bool> open{true};                     // by the number of a body; 0: outside of all
  std::vector<std::size_t> inside{0}, made, tasks;  // bodies: those open; of a buffer; of a task
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    TranscribedCall const& call = run.calls[c];
    auto const refuse = [c](auto const&... why) {
      throw ValueError(concat("transcript: call ", c, why...));
    };
    auto const check_buffer = [&](std::uint32_t buffer) {
      if (buffer >= made.size())
        refuse(" names buffer ", buffer, " where ", made.size(),
               " are made: allocate or adopt it first");
      if (!open[made[buffer]])
        refuse(" names buffer ", buffer, ", which was made in a body that has ended");
    };
    for (auto const& use : call.uses) check_buffer(use.handle);
    if (call.is_task()) tasks.push_back(inside.back());
    switch (call.kind) {
      case CallKind::allocate:
      case CallKind::adopt:
      case CallKind::region:
        if (call.kind == CallKind::region) check_buffer(call.of);
        if (call.buffer != made.size())
          refuse(" makes buffer ", call.buffer, " where the next one is ", made.size());
        made.push_back(inside.back());
        break;
      case CallKind::retire:
      case CallKind::read:
      case CallKind::write:
        check_buffer(call.buffer);
        break;
      case CallKind::submit:
        if (call.codelet == nullptr) refuse(" submits no codelet");
        break;
      case CallKind::wait:
        if (call.task >= tasks.size() || tasks[call.task] != inside.back())
          refuse(" waits for task ", call.task, ", which no call before it in its body submits");
        break;
      case CallKind::orchestrate:
        inside.push_back(open.size());
        open.push_back(true);
        break;
      case CallKind::end_body:
        open[inside.back()] = false;
        inside.pop_back();
        break;
      default:
        break;
    }
  }
}

/// Numbers the buffers of a transcript anew, from 0.
inline void renumber(Transcript& run) {
  using CallKind = TranscribedCall::Kind;
  std::vector<std::uint32_t> names;  // by the former ones
  std::uint32_t next = 0;
  auto const rename = [&](std::uint32_t& buffer) { buffer = names[buffer]; };
  for (TranscribedCall& call : run.calls) {
    for (auto& use : call.uses) rename(use.handle);
    if (call.kind == CallKind::region) rename(call.of);
    bool const makes = call.kind == CallKind::allocate || call.kind == CallKind::adopt ||
                       call.kind == CallKind::region;
    bool const names_one = call.kind == CallKind::retire || call.kind == CallKind::read ||
                           call.kind == CallKind::write;
    if (makes) {
      if (names.size() <= call.buffer) names.resize(call.buffer + std::size_t{1});
      names[call.buffer] = next++;
    }
    if (makes || names_one) rename(call.buffer);
  }
}

/// Looks for what a task depends on, from it back to the begin of its run.
class Slicer {
  using Call = TranscribedCall;
  using Kind = Call::Kind;

 public:
  Slicer(Transcript const& run, std::size_t task)
      : run_(run),
        partner_(transcribed_bodies(run)),
        needed_(run),
        kept_(run.calls.size()),
        waits_(run.calls.size()) {
    for (Call const& call : run.calls)
      for (auto const& use : call.uses) unordered_ |= use.access == Access::unordered;
    std::size_t at = 0;
    for (std::size_t seen = 0; seen <= task; ++at) seen += run.calls[at].is_task();
    target_ = last_ = at - 1;
    if (run.calls[target_].kind == Kind::orchestrate) last_ = partner_[target_];
  }

  Transcript slice() {
    for (std::size_t c = last_ + 1; c-- > 0;)
      if (run_.calls[c].kind == Kind::end_body)
        c = look_at_body(partner_[c], c);
      else if (run_.calls[c].kind == Kind::orchestrate)
        look_around(c);
      else
        kept_[c] = look_at(c);
    Transcript part = kept();
    renumber(part);
    return part;
  }

 private:
  /// Whether a call is kept, backwards: `needed_` are the bytes whose contents matter behind it.
  bool look_at(std::size_t c) {
    Call const& call = run_.calls[c];
    bool keep = false;
    switch (call.kind) {
      case Kind::submit:
        keep = look_at_task(c);
        break;
      case Kind::write:
        keep = needed_.any(call.buffer);
        needed_.remove(call.buffer);
        if (keep) name(call.buffer);
        waits_[c] = unordered_;
        break;
      case Kind::read:
      case Kind::wait:
      case Kind::wait_all:
        waits_[c] = unordered_;
        break;
      case Kind::allocate:
      case Kind::adopt:
        keep = is_named(call.buffer);
        break;
      case Kind::region:
        keep = is_named(call.buffer);
        if (keep) name(call.of);
        break;
      case Kind::open_scope:
      case Kind::close_scope:
        keep = true;
        break;
      default:
        break;
    }
    return keep;
  }
  bool look_at_task(std::size_t c) {
    Call const& call = run_.calls[c];
    bool keep = c == target_;
    for (auto const& use : call.uses) keep |= writes(use.access) && needed_.any(use.handle);
    if (!keep) return false;
    for (auto const& use : call.uses) name(use.handle);
    for (auto const& use : call.uses)
      if (use.access == Access::write) needed_.remove(use.handle);
    for (auto const& use : call.uses)
      if (may_read(use.access) || leaves_some(c, use.access)) needed_.add(use.handle);
    return true;
  }
  /// In no order a task may do anything with the bytes.
  static bool may_read(Access access) { return reads(access) || access == Access::unordered; }
  /// Whether results of the task in question have bytes that it did not write.
  bool leaves_some(std::size_t c, Access access) const {
    return c == target_ && access == Access::write_disjoint;
  }
  /// A task that submits and has ended is kept as a whole or not at all: whether it fails, and so
  /// what it marks, depends on each of its tasks.
  std::size_t look_at_body(std::size_t begin, std::size_t end) {
    if (look_at_task(begin))
      std::fill(kept_.begin() + static_cast<std::ptrdiff_t>(begin),
                kept_.begin() + static_cast<std::ptrdiff_t>(end) + 1, true);
    return begin;
  }
  /// One around the task declares what is kept of its body. Of what this does not need it need not
  /// have read any.
  void look_around(std::size_t begin) {
    Call call = run_.calls[begin];
    std::erase_if(call.uses, [&](auto const& use) { return !is_named(use.handle); });
    for (auto& use : call.uses) {
      if (use.access == Access::update && !needed_.any(use.handle)) use.access = Access::write;
      if (use.access == Access::write) needed_.remove(use.handle);
    }
    for (auto const& use : call.uses)
      if (may_read(use.access)) needed_.add(use.handle);
    kept_[begin] = true;
    around_.push_back(static_cast<Call&&>(call));
  }

  Transcript kept() {
    Transcript part;
    std::vector<std::uint32_t> tasks;  // new numbers, by the former ones
    std::uint32_t next = 0;
    std::size_t const bodies = around_.size();
    for (std::size_t c = 0; c <= last_; ++c) {
      Call const& call = run_.calls[c];
      if (call.is_task()) tasks.push_back(kept_[c] ? next++ : 0);
      if (waits_[c]) part.calls.push_back({.kind = Kind::wait_all});
      if (!kept_[c]) continue;
      bool const around = call.kind == Kind::orchestrate && partner_[c] > last_;
      part.calls.push_back(around ? static_cast<Call&&>(around_.back()) : call);
      if (around) around_.pop_back();
      if (call.kind == Kind::wait) part.calls.back().task = tasks[call.task];
    }
    part.calls.resize(part.calls.size() + bodies, Call{.kind = Kind::end_body});
    return part;
  }

  void name(std::uint32_t buffer) {
    if (named_.size() <= buffer) named_.resize(buffer + std::size_t{1});
    named_[buffer] = true;
  }
  bool is_named(std::uint32_t buffer) const { return buffer < named_.size() && named_[buffer]; }

  Transcript const& run_;
  std::vector<std::size_t> const partner_;
  NeededParts needed_;
  std::vector<bool> kept_, named_;
  std::vector<bool> waits_;   // whether a wait for all is kept, by which accesses may have an order
  bool unordered_ = false;    // whether some have none otherwise
  std::vector<Call> around_;  // from the innermost outwards
  std::size_t target_, last_;
};

}  // namespace detail

/// The part of a run that the results of one task depend on, that task included, in the same
/// order; waits, reads and retirements are left out, and buffers and tasks have new numbers. In a
/// run with accesses in no order, which calls that wait may have given them, a wait_all stands for
/// each of those. Other tasks that submit are there with all that is inside them; those that the
/// task is inside of end behind it. Cost: linear in the operands, times the regions of a buffer
/// that matter at a time. Throws ValueError for a task that is not in it, and a call that is out of
/// place.
inline Transcript slice(Transcript const& run, std::size_t task) {
  detail::check_transcript(run);
  std::size_t const count = run.tasks();
  if (task >= count)
    throw ValueError(concat("slice: task ", task, " of a transcript of ", count, " tasks"));
  return detail::Slicer(run, task).slice();
}

}  // namespace nntile
