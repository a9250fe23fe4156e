#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transcripts run again, on any runtime, and the first task whose results differ between two runs.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "nntile/io/quotes.hh"
#include "nntile/io/transcript.hh"
#include "nntile/ops/all.hh"
#include "nntile/ops/kernel.hh"
#include "nntile/testing/repeated_run.hh"

namespace nntile::testing {

/// The kernels of the companion library, as "gemm/fp32/fp32/exact": op, element types, mode. A file
/// means the best instruction set of the machine that reads it; kernels of each are known. Cost: a
/// few thousand look-ups. In fast mode it loads the vendor's library, where there is one.
inline std::vector<io::NamedCodelet> kernel_codelets(Mode mode = Mode::exact) {
  std::vector<io::NamedCodelet> all;
  for (Isa const isa : {Isa::best, Isa::v4, Isa::v3, Isa::v2, Isa::plain})
    for (OpInfo const* const op : all_ops)
      for (int types = 0; types < dtype_count * dtype_count; ++types) {
        if (isa != Isa::best && !kernels::available(isa)) continue;
        auto const element = static_cast<DType>(types / dtype_count);
        auto const second = static_cast<DType>(types % dtype_count);
        if (Codelet const* const codelet = kernels::find(op->name, element, second, mode, isa))
          all.push_back(
              {concat(op->name, '/', name_of(element), '/', name_of(second), '/', name_of(mode)),
               codelet});
      }
  return all;
}

/// A task whose results are not the same in two runs.
struct Difference {
  std::size_t task;                  // number in the transcript
  std::size_t operand;               // position of its first use whose contents differ
  Transcript reduced;                // that task, the last one to end, and what it depends on
  TranscribedCall call;              // that submits it
  std::optional<std::size_t> outer;  // the task that it is inside of
};

/// "task 6, join of tensor 'sum', tile 2, left other bytes in operand 2".
inline std::string to_string(Difference const& difference) {
  TranscribedCall const& call = difference.call;
  std::string text = concat("task ", difference.task);
  if (difference.outer) text += concat(" inside task ", *difference.outer);
  text += concat(", ", call.codelet != nullptr ? call.codelet->name : "which submits");
  if (!call.tensor.empty()) text += concat(" of tensor ", io::in_quotes(call.tensor));
  if (call.tile >= 0) text += concat(", tile ", call.tile);
  return text + concat(", left other bytes in operand ", difference.operand);
}

/// The first task, in the order of submission, with different results; none if all are equal. One
/// that submits comes behind those inside it. Both have one element a task, as `run` returns them.
inline std::optional<Difference> first_difference(Transcript const& transcript,
                                                  std::vector<TaskResult> const& one,
                                                  std::vector<TaskResult> const& other) {
  using Kind = TranscribedCall::Kind;
  std::size_t const tasks = transcript.tasks();
  if (one.size() != tasks || other.size() != tasks)
    throw ValueError(concat("first_difference: results of ", one.size(), " and ", other.size(),
                            " tasks of a transcript with ", tasks));
  struct Open {
    std::size_t task;
    TranscribedCall const* call;
  };
  std::vector<Open> open;
  std::size_t next = 0;
  for (TranscribedCall const& call : transcript.calls) {
    if (call.kind == Kind::submit || call.kind == Kind::orchestrate)
      open.push_back({next++, &call});
    if (call.kind != Kind::submit && (call.kind != Kind::end_body || open.empty())) continue;
    Open const ended = open.back();
    open.pop_back();
    std::size_t written = 0;
    for (std::size_t operand = 0; operand < ended.call->uses.size(); ++operand) {
      if (!writes(ended.call->uses[operand].access)) continue;
      auto const& own = one[ended.task].hashes;
      auto const& others = other[ended.task].hashes;
      if (written >= std::min(own.size(), others.size()))
        throw ValueError(concat("first_difference: ", own.size(), " and ", others.size(),
                                " results of task ", ended.task,
                                ", which writes more operands: they are another transcript's"));
      if (own[written] != others[written])
        return Difference{ended.task, operand, slice(transcript, ended.task), *ended.call,
                          open.empty() ? std::nullopt : std::optional(open.back().task)};
      ++written;
    }
  }
  return std::nullopt;
}

}  // namespace nntile::testing
