// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Data that threads share without atomics: an access that is not ordered with a write is a race.

#include "tests/runtime/model/exploration.hh"

namespace nntile::test::model {

/// As T. Source of the check: Flanagan and Freund, FastTrack, PLDI 2009.
template <class T> class Plain {
 public:
  Plain(T value = T{}) : value_(value) { note_write(); }
  Plain(Plain const& other) : Plain(static_cast<T>(other)) {}
  Plain& operator=(Plain const& other) { return *this = static_cast<T>(other); }
  Plain& operator=(T value) {
    if (concurrent() && !(written_.before(seen()) && read_before()))
      Exploration::current->fail("race: a write that is not behind another access");
    note_write();
    value_ = value;
    return *this;
  }
  operator T() const {
    if (concurrent()) {
      if (!written_.before(seen()))
        Exploration::current->fail("race: a read that is not behind the write");
      Stamp const now = Exploration::current->now();
      read_.at[now.thread] = now.step;
    }
    return value_;
  }

 private:
  static bool concurrent() {
    return Exploration::current != nullptr && Exploration::current->concurrent();
  }
  static Clock const& seen() { return Exploration::current->seen(); }
  bool read_before() const {
    for (std::size_t t = 0; t < most_threads; ++t)
      if (!seen().covers(t, read_.at[t])) return false;
    return true;
  }
  void note_write() {
    written_ = concurrent() ? Exploration::current->now() : Stamp{};
    read_ = {};
  }

  T value_;
  Stamp written_;
  mutable Clock read_;
};

}  // namespace nntile::test::model
