#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Text of transcripts, read. What it looks like is in transcript.hh.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/region.hh"
#include "nntile/io/hash.hh"
#include "nntile/io/quotes.hh"
#include "nntile/runtime/transcript.hh"

namespace nntile::io {

/// A codelet by the name that it has in files. Several may share one: the first is what a file
/// means.
struct NamedCodelet {
  std::string name;
  Codelet const* codelet;
};

namespace detail {

inline constexpr std::string_view transcript_heads[] = {
    "nntile transcript 1\n", "nntile transcript 2\n", "nntile transcript 3\n"};  // by version
inline constexpr std::string_view access_letters = "rwuado";  // in the order of Access
inline constexpr std::string_view call_names[] = {"allocate",    "adopt",    "retire",
                                                  "submit",      "read",     "write",
                                                  "wait",        "wait_all", "open_scope",
                                                  "close_scope", "region",   "orchestrate",
                                                  "end_body"};  // in the order of Kind
inline constexpr std::string_view outcome_names[] = {"ran", "threw", "none"};  // of Outcome
inline constexpr std::string_view hex_digits = "0123456789abcdef";

/// The last line of a transcript: the number of calls, and the hash of the other lines.
inline std::string end_of_transcript(std::size_t calls, std::uint64_t hash) {
  char digits[16];
  auto const end = std::to_chars(digits, digits + sizeof digits, hash, 16).ptr;
  return concat("end ", calls, ' ', std::string_view(digits, end), '\n');
}

/// Reads the lines of a transcript.
class TranscriptReader {
  using Kind = TranscribedCall::Kind;
  using Outcome = TranscribedCall::Outcome;

 public:
  TranscriptReader(std::string_view text, std::string_view source,
                   std::span<NamedCodelet const> codelets)
      : text_(text), rest_(text), source_(source), codelets_(codelets) {}

  Transcript read() {
    while (version_ <= std::size(transcript_heads) &&
           !text_.starts_with(transcript_heads[version_ - 1]))
      ++version_;
    if (version_ > std::size(transcript_heads))
      fail("not a transcript of version 1 to 3: it does not begin with '",
           transcript_heads[0].substr(0, transcript_heads[0].size() - 1),
           "', or 2 or 3 in place of 1");
    next_line();
    Transcript run;
    for (;;) {
      std::size_t const before = text_.size() - rest_.size();
      if (!next_line()) fail("cut: it has no line 'end'");
      std::string_view const name = word("a call");
      if (name == "end") {
        if (!open_.empty())
          fail(open_.size(), " bodies have no end_body, the last that of task ", open_.back().task);
        check_end(run, before);
        return run;
      }
      run.calls.push_back(call(name));
      if (!line_.empty()) fail(in_quotes(line_), " stands behind the call");
    }
  }

 private:
  static constexpr Kind calls_of_bodies[] = {Kind::allocate,   Kind::retire,      Kind::submit,
                                             Kind::read,       Kind::write,       Kind::wait,
                                             Kind::wait_all,   Kind::orchestrate, Kind::end_body,
                                             Kind::open_scope, Kind::close_scope};
  struct Body {
    std::uint32_t number, task;
    std::vector<std::uint32_t> operands{};  // ascending
    bool calls = false;
  };

  template <class... What> [[noreturn]] void fail(What const&... what) const {
    throw FormatError(concat(path_in_quotes(source_), ", line ", number_, ": ", what...));
  }

  bool next_line() {
    std::size_t const end = rest_.find('\n');
    if (end == std::string_view::npos) return false;
    ++number_;
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  std::string_view word(char const* what) {
    if (line_.empty()) fail(what, " is missing");
    std::size_t const end = line_.find(' ');
    std::string_view const result = line_.substr(0, end);
    line_.remove_prefix(end == std::string_view::npos ? line_.size() : end + 1);
    if (result.empty() || (end != std::string_view::npos && line_.empty()))
      fail("two spaces, or one at an end");
    return result;
  }
  template <class Number> Number number_of(std::string_view text, char const* what, int base = 10) {
    Number value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{} || end != text.data() + text.size())
      fail(what, " is ", in_quotes(text), ", which is no such number");
    return value;
  }
  template <class Number> Number number(char const* what) {
    return number_of<Number>(word(what), what);
  }
  bool flag(char const* what) {
    auto const value = number<unsigned>(what);
    if (value > 1) fail(what, " is ", value, ", and neither 0 nor 1");
    return value == 1;
  }
  std::uint32_t below(std::uint32_t value, std::uint32_t count, char const* what) const {
    if (value >= count) fail(what, " ", value, " of ", count, " so far");
    return value;
  }
  std::uint32_t buffer() { return known_buffer(number<std::uint32_t>("buffer")); }
  /// One that calls here may name.
  std::uint32_t known_buffer(std::uint32_t number) const {
    below(number, count(buffers_), "buffer");
    if (buffers_[number] == here()) return number;
    if (open_.empty()) fail("buffer ", number, " was made in a body, which has ended");
    auto const& operands = open_.back().operands;
    if (!std::ranges::binary_search(operands, number))
      fail("buffer ", number, " is no operand of task ", open_.back().task,
           ", in whose body this stands, nor made there");
    return number;
  }
  std::uint32_t new_buffer() {
    buffers_.push_back(here());
    begins_.push_back(0);
    return count(buffers_) - 1;
  }
  std::uint32_t own_task() {
    auto const task = below(number<std::uint32_t>("task"), count(tasks_), "task");
    if (tasks_[task] != here()) fail("task ", task, " was not submitted here: see orchestrate");
    return task;
  }
  static std::uint32_t count(std::vector<std::uint32_t> const& list) {
    return static_cast<std::uint32_t>(list.size());
  }
  /// The number of the body, from 1; 0 outside of all.
  std::uint32_t here() const { return open_.empty() ? 0 : open_.back().number; }
  Lifetime lifetime() {
    std::string_view const text = word("lifetime");
    for (int i = 0; i < 5; ++i)
      if (text == name_of(static_cast<Lifetime>(i))) return static_cast<Lifetime>(i);
    fail("lifetime is ", in_quotes(text),
         ", and none of persistent, step, scope, scratch, staging");
  }
  unsigned digit(char c, char const* what) const {
    std::size_t const value = hex_digits.find(c);
    if (value == std::string_view::npos)
      fail(what, " has ", in_quotes({&c, 1}), " where a digit of 0 to f is expected");
    return static_cast<unsigned>(value);
  }
  std::vector<std::byte> bytes(char const* what) {
    std::string_view const text = word(what);
    if (text == "-") return {};
    if (text.size() % 2 != 0) fail(what, " ", "has an odd number of digits");
    std::vector<std::byte> result;
    result.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2)
      result.push_back(
          static_cast<std::byte>(digit(text[i], what) << 4 | digit(text[i + 1], what)));
    return result;
  }
  std::string name(char const* what) {
    std::string_view const text = word(what);
    if (text == "-") return {};
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && text.size() - i < 3) fail(what, " ends within %xx");
      if (text[i] == '%')
        result += static_cast<char>(digit(text[i + 1], what) << 4 | digit(text[i + 2], what)),
            i += 2;
      else
        result += text[i];
    }
    return result;
  }

  Codelet const* codelet() {
    std::string const text = name("codelet");
    for (NamedCodelet const& named : codelets_)
      if (named.name == text) return named.codelet;
    fail("codelet ", in_quotes(text), " is not among the ", codelets_.size(),
         " that the caller knows: pass it as well");
  }
  std::vector<Use<std::uint32_t>> uses() {
    std::string_view text = word("uses");
    std::vector<Use<std::uint32_t>> result;
    if (text == "-") return result;
    for (;;) {
      std::size_t const end = text.find(',');
      std::string_view const use = text.substr(0, end);
      std::size_t const access = use.empty() ? access_letters.npos : access_letters.find(use[0]);
      if (access == access_letters.npos)
        fail("use ", in_quotes(use), " begins with none of r, w, u, a, d, o");
      result.push_back({known_buffer(number_of<std::uint32_t>(use.substr(1), "buffer")),
                        static_cast<Access>(access)});
      if (end == std::string_view::npos) return result;
      text.remove_prefix(end + 1);
    }
  }

  inplace_vector<Region::Step, Region::most_steps> steps() {
    std::string_view text = word("steps");
    inplace_vector<Region::Step, Region::most_steps> result;
    if (text == "-") return result;
    for (;;) {
      std::size_t const end = text.find(',');
      std::string_view const step = text.substr(0, end);
      std::size_t const cross = step.find('x');
      if (cross == step.npos) fail("step ", in_quotes(step), " is no count, x and stride");
      if (result.size() == Region::most_steps) fail("more than ", Region::most_steps, " steps");
      result.push_back({number_of<std::size_t>(step.substr(0, cross), "count"),
                        number_of<std::size_t>(step.substr(cross + 1), "stride")});
      if (end == std::string_view::npos) return result;
      text.remove_prefix(end + 1);
    }
  }

  TranscribedCall call(std::string_view name_of_call) {
    std::size_t kind = 0;
    while (kind < std::size(call_names) && call_names[kind] != name_of_call) ++kind;
    if (kind == std::size(call_names)) fail(in_quotes(name_of_call), " is no call");
    TranscribedCall call{.kind = static_cast<Kind>(kind)};
    bool const of_bodies = call.kind == Kind::orchestrate || call.kind == Kind::end_body;
    if (of_bodies && version_ < 2) fail(in_quotes(name_of_call), " is no call of version 1");
    if (!open_.empty() && !std::ranges::count(calls_of_bodies, call.kind))
      fail(in_quotes(name_of_call), " is no call of a body, as that of task ", open_.back().task);
    if (!open_.empty() && call.kind != Kind::end_body) open_.back().calls = true;
    switch (call.kind) {
      case Kind::allocate:
        call.buffer = new_buffer();
        call.bytes = number<std::size_t>("bytes");
        call.lifetime = lifetime();
        break;
      case Kind::adopt: {
        call.buffer = new_buffer();
        std::string_view const access = word("w or r");
        if (access != "w" && access != "r") fail(in_quotes(access), " is neither w nor r");
        call.read_only = access == "r";
        call.contents = bytes("contents");
        break;
      }
      case Kind::retire:
      case Kind::read:
        call.buffer = buffer();
        break;
      case Kind::write:
        call.buffer = buffer();
        call.contents = bytes("contents");
        break;
      case Kind::submit:
        call.codelet = codelet();
        read_task(call);
        call.arguments = bytes("arguments");
        break;
      case Kind::wait:
        call.task = own_task();
        break;
      case Kind::open_scope:
      case Kind::close_scope:
        call.lifetime = lifetime();
        break;
      case Kind::region:
        call.of = buffer();
        call.buffer = new_buffer();
        call.region.offset = number<std::size_t>("offset");
        call.region.bytes = number<std::size_t>("bytes");
        call.region.steps = steps();
        check_region(call);
        break;
      case Kind::wait_all:
        break;
      case Kind::orchestrate:
        read_task(call);
        open_body(call);
        break;
      case Kind::end_body:
        read_end(call);
        break;
    }
    return call;
  }
  void read_task(TranscribedCall& call) {
    tasks_.push_back(here());
    call.uses = uses();
    call.hints.worker = number<int>("worker");
    call.hints.priority = number<int>("priority");
    call.hints.node = number<int>("node");
    call.hints.prefetch = flag("prefetch");
    call.hints.offload = flag("offload");
    if (version_ > 2) call.hints.device = number<int>("device");
    call.tensor = name("tensor");
    call.tile = number<std::int64_t>("tile");
  }
  void open_body(TranscribedCall const& call) {
    Body body{.number = ++bodies_, .task = count(tasks_) - 1};
    for (auto const& use : call.uses) body.operands.push_back(use.handle);
    std::ranges::sort(body.operands);
    open_.push_back(std::move(body));
  }
  void read_end(TranscribedCall& call) {
    if (open_.empty()) fail("no body is open here");
    std::string_view const text = word("outcome");
    std::size_t outcome = 0;
    while (outcome < std::size(outcome_names) && outcome_names[outcome] != text) ++outcome;
    if (outcome == std::size(outcome_names)) fail(in_quotes(text), " is none of ran, threw, none");
    call.outcome = static_cast<Outcome>(outcome);
    call.cause = name("cause");
    if ((call.outcome == Outcome::threw) == call.cause.empty())
      fail("a body has a cause if it threw, and else none");
    if (call.outcome == Outcome::none && open_.back().calls)
      fail("the body of task ", open_.back().task, " makes calls, and did not run");
    open_.pop_back();
  }

  /// A runtime, which has the buffer's bytes, refuses what ends behind it. It walks through the
  /// runs, of which steps that overlap may make more than there are bytes.
  void check_region(TranscribedCall const& call) {
    constexpr std::size_t most = SIZE_MAX / 2;
    std::size_t& begin = begins_[call.buffer];
    begin = begins_[call.of];
    std::size_t span = SIZE_MAX, runs = 1;
    try {
      span = span_of(call.region);
    } catch (ValueError const&) {
    }
    if (call.region.offset > most - begin || span > most - begin - call.region.offset)
      fail("region of ", call.region.bytes, " bytes at ", call.region.offset,
           " has more than 2^63 - 1 from the first of its buffer to its last");
    begin += call.region.offset;
    for (Region::Step const& step : normalize(call.region).steps)
      if (__builtin_mul_overflow(runs, step.count, &runs)) runs = SIZE_MAX;
    if (runs > std::max<std::size_t>(span, 1))
      fail("region of ", runs, " runs in ", span, " bytes: its steps overlap too often");
  }

  void check_end(Transcript const& run, std::size_t before) {
    auto const calls = number<std::size_t>("the number of calls");
    auto const hash = number_of<std::uint64_t>(word("the hash"), "the hash", 16);
    if (calls != run.calls.size())
      fail("it has ", run.calls.size(), " calls where the end says ", calls);
    std::uint64_t const found = hash64(std::as_bytes(std::span(text_.substr(0, before))));
    if (hash != found) fail("it was changed: its hash is not what the end says");
    std::string const end = end_of_transcript(calls, hash);
    if (text_.substr(before, text_.size() - rest_.size() - before) != end)
      fail("the end is not ", in_quotes(end.substr(0, end.size() - 1)));
    if (!rest_.empty()) fail(rest_.size(), " bytes stand behind the end");
  }

  std::string_view text_;
  std::string_view rest_;  // behind the line
  std::string_view line_;  // the rest of it
  std::string_view source_;
  std::span<NamedCodelet const> codelets_;
  std::size_t number_ = 0;
  std::size_t version_ = 1;
  std::vector<Body> open_;  // from the outermost inwards
  std::uint32_t bodies_ = 0;
  std::vector<std::uint32_t> buffers_, tasks_;  // the number of the body that each was made in
  std::vector<std::size_t> begins_;             // of regions, from the first byte of their buffer
};

}  // namespace detail

}  // namespace nntile::io
