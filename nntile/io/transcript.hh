#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transcripts of runs as text files.
//
// One line a call; words stand between single spaces:
//   nntile transcript 1               2 where tasks submit tasks; 3 where hints name devices, and
//                                     DEVICE stands behind each OFFLOAD
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
//   region BUFFER OFFSET BYTES STEPS  makes a buffer as well, of bytes of that one
//   orchestrate USES WORKER PRIORITY NODE PREFETCH OFFLOAD TENSOR TILE
//                                     a task that submits; up to its end_body, the calls of its
//                                     body
//   end_body OUTCOME CAUSE            ran; threw, and CAUSE; or none: the body did not run
//   end CALLS HASH                    xxHash64 of all bytes before this line, in hexadecimal
// USES are an access (r, w, u, a; d writes disjoint bytes, o has no order) and a buffer each, with
// commas between; STEPS a count and a stride each, as 3x64; HEX is two digits a byte. CODELET,
// TENSOR and CAUSE have %xx for a byte up to space, for % and for DEL. A lone - stands for nothing.
// A body allocates, retires, submits, orchestrates, reads, writes, waits, and opens and closes
// scopes; what it makes ends with the task at the latest. It names buffers that its task uses or it
// has made, and waits for its own tasks.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "nntile/io/directory.hh"
#include "nntile/io/hash.hh"
#include "nntile/io/quotes.hh"
#include "nntile/io/transcript_parse.hh"
#include "nntile/runtime/transcript.hh"

namespace nntile::io {

inline constexpr std::size_t largest_transcript = std::size_t{1} << 32;  // bytes

namespace detail {

/// Throws ValueError where a transcript makes a larger file than is read.
inline void check_transcript_file(std::string const& path, std::size_t bytes) {
  if (bytes > largest_transcript)
    throw ValueError(concat(path_in_quotes(path), " would have ", bytes, " bytes where at most ",
                            largest_transcript,
                            " are read; write down fewer calls, or adopt less memory"));
}

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

}  // namespace detail

/// A transcript as text; each codelet by its name among `codelets`. Throws ValueError for one that
/// is not among them, and a call that is out of place.
inline std::string transcript_text(Transcript const& run, std::span<NamedCodelet const> codelets) {
  nntile::detail::check_transcript(run);
  using CallKind = TranscribedCall::Kind;
  bool const nests = std::ranges::any_of(
      run.calls, [](TranscribedCall const& call) { return call.kind == CallKind::orchestrate; });
  bool const devices = std::ranges::any_of(
      run.calls, [](TranscribedCall const& call) { return call.hints.device != -1; });
  std::string text(detail::transcript_heads[devices ? 2 : nests ? 1 : 0]);
  auto const put = [&](auto const&... words) { ((text += concat(' ', words)), ...); };
  auto const put_task = [&](TranscribedCall const& call) {
    text += call.uses.empty() ? " -" : " ";
    for (std::size_t i = 0; i < call.uses.size(); ++i)
      text += concat(i == 0 ? "" : ",",
                     detail::access_letters[static_cast<std::size_t>(call.uses[i].access)],
                     call.uses[i].handle);
    put(call.hints.worker, call.hints.priority, call.hints.node, int{call.hints.prefetch},
        int{call.hints.offload});
    if (devices) put(call.hints.device);
    text += ' ';
    detail::append_word(text, call.tensor);
    put(call.tile);
  };
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
        put_task(call);
        text += ' ';
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
      case CallKind::region:
        put(call.of, call.region.offset, call.region.bytes, "");
        for (std::size_t i = 0; i < call.region.steps.size(); ++i)
          text += concat(i == 0 ? "" : ",", call.region.steps[i].count, 'x',
                         call.region.steps[i].stride);
        if (call.region.steps.empty()) text += '-';
        break;
      case CallKind::wait_all:
        break;
      case CallKind::orchestrate:
        put_task(call);
        break;
      case CallKind::end_body:
        put(detail::outcome_names[static_cast<std::size_t>(call.outcome)], "");
        detail::append_word(text, call.cause);
        break;
    }
    text += '\n';
  }
  std::uint64_t const hash = hash64(std::as_bytes(std::span(text)));
  return text + detail::end_of_transcript(run.calls.size(), hash);
}

/// The transcript of such a text; `source` is what errors call it. Throws FormatError, naming the
/// line, for one that was cut or changed, and for a codelet that is not among `codelets`. Its tasks
/// run the kernels that it names on sizes that it states: run none that you do not trust.
inline Transcript transcript_of(std::string_view text, std::string_view source,
                                std::span<NamedCodelet const> codelets) {
  return detail::TranscriptReader(text, source, codelets).read();
}

/// Throws what transcript_text() does, and ValueError where load_transcript() would not read so
/// much.
inline void save_transcript(std::string const& path, Transcript const& run,
                            std::span<NamedCodelet const> codelets) {
  std::string const text = transcript_text(run, codelets);
  detail::check_transcript_file(path, text.size());
  write_file(path, text);
}
inline Transcript load_transcript(std::string const& path, std::span<NamedCodelet const> codelets) {
  std::string const text = read_file(path, largest_transcript);
  return transcript_of(text, path, codelets);
}

}  // namespace nntile::io
