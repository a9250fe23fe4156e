#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The text of a Chrome trace, put together event by event.

#include <string>
#include <string_view>
#include <utility>

#include "nntile/io/json_text.hh"

namespace nntile::io::detail {

/// Events of a trace, held as their text: as values they would take ten times the memory.
class TraceEvents {
 public:
  /// `unit` is that of the times that a viewer shows: "ms", "ns".
  explicit TraceEvents(std::string_view unit)
      : text_(concat("{\n\"displayTimeUnit\": \"", unit, "\",\n\"traceEvents\": [")) {}

  /// Throws what to_text does; the text is of no use then.
  void push_back(Json const& event) {
    text_ += std::exchange(any_, true) ? ",\n" : "\n";
    JsonWriter(text_, 0).write(event);
  }
  /// The trace of these events, which it gives away.
  std::string text() && {
    text_ += any_ ? "\n]\n}" : "]\n}";
    return std::move(text_);
  }

 private:
  std::string text_;
  bool any_ = false;
};

}  // namespace nntile::io::detail
