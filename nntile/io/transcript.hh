#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transcripts of runs as text files.
//
// One line a call; words stand between single spaces:
//   nntile transcript 1
//   allocate BYTES LIFETIME           makes buffer 0, 1, 2, ...
//   adopt w|r HEX                     likewise; r: read-only
//   retire BUFFER
//   submit CODELET USES WORKER PRIORITY NODE PREFETCH OFFLOAD TENSOR TILE ARGUMENTS
//   read BUFFER
//   write BUFFER HEX
//   wait TASK                         of task 0, 1, 2, ...
//   wait_all
//   open_scope LIFETIME
//   close_scope LIFETIME
//   end CALLS HASH                    xxHash64 of all bytes before this line, in hexadecimal
// USES are an access (r, w, u, a; d writes disjoint bytes, o has no order) and a buffer each, with
// commas between; HEX is two digits a byte. CODELET and TENSOR have %xx for a byte up to space, for
// % and for DEL. A lone - stands for nothing.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/io/directory.hh"
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

inline constexpr std::size_t largest_transcript = std::size_t{1} << 32;

namespace detail {

inline constexpr std::string_view transcript_head = "nntile transcript 1\n";
inline constexpr std::string_view access_letters = "rwuado";  // in the order of Access
inline constexpr std::string_view call_names[] = {
    "allocate", "adopt", "retire",   "submit",     "read",
    "write",    "wait",  "wait_all", "open_scope", "close_scope"};  // in the order of Kind
inline constexpr std::string_view hex_digits = "0123456789abcdef";

inline void append_hex(std::string& text, std::span<std::byte const> bytes) {
  if (bytes.empty()) text += '-';
  for (std::byte const byte : bytes) {
    auto const value = static_cast<unsigned char>(byte);
    text += {hex_digits[value >> 4], hex_digits[value & 15u]};
  }
}
inline void append_word(std::string& text, std::string_view word) {
  if (word.empty()) text += '-';
  for (char const c : word) {
    auto const value = static_cast<unsigned char>(c);
    bool const plain = value > 0x20 && value != 0x7f && c != '%' && word != "-";
    if (plain)
      text += c;
    else
      text += {'%', hex_digits[value >> 4], hex_digits[value & 15u]};
  }
}

/// Reads the lines of a transcript.
class TranscriptReader {
  using Kind = TranscribedCall::Kind;

 public:
  TranscriptReader(std::string_view text, std::string_view source,
                   std::span<NamedCodelet const> codelets)
      : text_(text), rest_(text), source_(source), codelets_(codelets) {}

  Transcript read() {
    if (!text_.starts_with(transcript_head))
      fail("not a transcript of version 1: it does not begin with '",
           transcript_head.substr(0, transcript_head.size() - 1), "'");
    next_line();
    Transcript run;
    for (;;) {
      std::size_t const before = text_.size() - rest_.size();
      if (!next_line()) fail("cut: it has no line 'end'");
      std::string_view const name = word("a call");
      if (name == "end") {
        check_end(run, before);
        return run;
      }
      run.calls.push_back(call(name));
      if (!line_.empty()) fail(in_quotes(line_), " stands behind the call");
    }
  }

 private:
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
  std::uint32_t buffer() { return below(number<std::uint32_t>("buffer"), buffers_, "buffer"); }
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
    while (text != "-") {
      std::size_t const end = text.find(',');
      std::string_view const use = text.substr(0, end);
      std::size_t const access = use.empty() ? access_letters.npos : access_letters.find(use[0]);
      if (access == access_letters.npos)
        fail("use ", in_quotes(use), " begins with none of r, w, u, a, d, o");
      result.push_back(
          {below(number_of<std::uint32_t>(use.substr(1), "buffer"), buffers_, "buffer"),
           static_cast<Access>(access)});
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
    return result;
  }

  TranscribedCall call(std::string_view name_of_call) {
    std::size_t kind = 0;
    while (kind < std::size(call_names) && call_names[kind] != name_of_call) ++kind;
    if (kind == std::size(call_names)) fail(in_quotes(name_of_call), " is no call");
    TranscribedCall call{.kind = static_cast<Kind>(kind)};
    switch (call.kind) {
      case Kind::allocate:
        call.buffer = buffers_++;
        call.bytes = number<std::size_t>("bytes");
        call.lifetime = lifetime();
        break;
      case Kind::adopt: {
        call.buffer = buffers_++;
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
        ++tasks_;
        call.codelet = codelet();
        call.uses = uses();
        call.hints.worker = number<int>("worker");
        call.hints.priority = number<int>("priority");
        call.hints.node = number<int>("node");
        call.hints.prefetch = flag("prefetch");
        call.hints.offload = flag("offload");
        call.tensor = name("tensor");
        call.tile = number<std::int64_t>("tile");
        call.arguments = bytes("arguments");
        break;
      case Kind::wait:
        call.task = below(number<std::uint32_t>("task"), tasks_, "task");
        break;
      case Kind::open_scope:
      case Kind::close_scope:
        call.lifetime = lifetime();
        break;
      case Kind::wait_all:
        break;
    }
    return call;
  }

  void check_end(Transcript const& run, std::size_t before) {
    auto const calls = number<std::size_t>("the number of calls");
    auto const hash = number_of<std::uint64_t>(word("the hash"), "the hash", 16);
    if (calls != run.calls.size())
      fail("it has ", run.calls.size(), " calls where the end says ", calls);
    std::uint64_t const found = hash64(std::as_bytes(std::span(text_.substr(0, before))));
    if (hash != found) fail("it was changed: its hash is not what the end says");
    if (!rest_.empty()) fail(rest_.size(), " bytes stand behind the end");
  }

  std::string_view text_;
  std::string_view rest_;  // behind the line
  std::string_view line_;  // the rest of it
  std::string_view source_;
  std::span<NamedCodelet const> codelets_;
  std::size_t number_ = 0;
  std::uint32_t buffers_ = 0;
  std::uint32_t tasks_ = 0;
};

}  // namespace detail

/// A transcript as text; each codelet by its name among `codelets`. Throws ValueError for one that
/// is not among them.
inline std::string transcript_text(Transcript const& run, std::span<NamedCodelet const> codelets) {
  using CallKind = TranscribedCall::Kind;
  std::string text(detail::transcript_head);
  auto const put = [&](auto const&... words) { ((text += concat(' ', words)), ...); };
  for (TranscribedCall const& call : run.calls) {
    text += detail::call_names[static_cast<int>(call.kind)];
    switch (call.kind) {
      case CallKind::allocate:
        put(call.bytes, name_of(call.lifetime));
        break;
      case CallKind::adopt:
        text += call.read_only ? " r " : " w ";
        detail::append_hex(text, call.contents);
        break;
      case CallKind::retire:
      case CallKind::read:
        put(call.buffer);
        break;
      case CallKind::write:
        put(call.buffer, "");
        detail::append_hex(text, call.contents);
        break;
      case CallKind::submit: {
        NamedCodelet const* named = codelets.data();
        while (named != codelets.data() + codelets.size() && named->codelet != call.codelet)
          ++named;
        if (named == codelets.data() + codelets.size())
          throw ValueError(concat("transcript: codelet '", call.codelet->name, "' of tensor ",
                                  in_quotes(call.tensor), " is not among the ", codelets.size(),
                                  " that have names: pass it as well"));
        text += ' ';
        detail::append_word(text, named->name);
        text += call.uses.empty() ? " -" : " ";
        for (std::size_t i = 0; i < call.uses.size(); ++i)
          text += concat(i == 0 ? "" : ",",
                         detail::access_letters[static_cast<std::size_t>(call.uses[i].access)],
                         call.uses[i].handle);
        put(call.hints.worker, call.hints.priority, call.hints.node, int{call.hints.prefetch},
            int{call.hints.offload}, "");
        detail::append_word(text, call.tensor);
        put(call.tile, "");
        detail::append_hex(text, call.arguments);
        break;
      }
      case CallKind::wait:
        put(call.task);
        break;
      case CallKind::open_scope:
      case CallKind::close_scope:
        put(name_of(call.lifetime));
        break;
      case CallKind::wait_all:
        break;
    }
    text += '\n';
  }
  std::uint64_t const hash = hash64(std::as_bytes(std::span(text)));
  char digits[16];
  auto const end = std::to_chars(digits, digits + sizeof digits, hash, 16).ptr;
  return text + concat("end ", run.calls.size(), ' ', std::string_view(digits, end), '\n');
}

/// The transcript of such a text; `source` is what errors call it. Throws FormatError, naming the
/// line, for one that was cut or changed, and for a codelet that is not among `codelets`. Its tasks
/// run the kernels that it names on sizes that it states: run none that you do not trust.
inline Transcript transcript_of(std::string_view text, std::string_view source,
                                std::span<NamedCodelet const> codelets) {
  return detail::TranscriptReader(text, source, codelets).read();
}

inline void save_transcript(std::string const& path, Transcript const& run,
                            std::span<NamedCodelet const> codelets) {
  write_file(path, transcript_text(run, codelets));
}
inline Transcript load_transcript(std::string const& path, std::span<NamedCodelet const> codelets) {
  std::string const text = read_file(path, largest_transcript);
  return transcript_of(text, path, codelets);
}

}  // namespace nntile::io
