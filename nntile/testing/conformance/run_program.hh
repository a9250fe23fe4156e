#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Drives a runtime through a program, the model at its side.

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "nntile/testing/conformance/model.hh"
#include "nntile/testing/conformance/recorded.hh"
#include "nntile/testing/conformance/subject.hh"

namespace nntile::testing {

/// The caller's memory, and its contents at `release`. Outlives the runtime. Released memory is
/// overwritten at once, so that a late task reads garbage.
struct Adopted {
  std::vector<std::uint64_t> words;
  std::atomic<int> released{0};
  std::atomic<std::uint64_t> hash_at_release{0};
  Guard* guard = nullptr;  // of the tasks that use it

  explicit Adopted(std::size_t count) : words(count) {}
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words)); }
  Release release() {
    return {[](void* state) noexcept {
              auto* const adopted = static_cast<Adopted*>(state);
              if (adopted->guard != nullptr) adopted->guard->released = true;
              if (adopted->released.fetch_add(1) == 0)
                adopted->hash_at_release = hash_words(adopted->words);
              for (auto& word : adopted->words) word = 0xeeeeeeeeeeeeeeee;
            },
            this};
  }
};

inline std::span<std::uint64_t> words_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint64_t*>(bytes.data()), bytes.size() / sizeof(std::uint64_t)};
}

/// One execution of one program. Keeps what must outlive the runtime; `finish` is called after its
/// destruction.
class ProgramRun {
 public:
  ProgramRun(Program const& program, Journal& journal, Outside& outside)
      : program_(program), journal_(journal), outside_(outside), model_(program.words) {
    for (Step const& step : program.steps) {
      first_.push_back(tasks_);
      if (step.kind == Step::Kind::task) ++tasks_;
      if (step.kind == Step::Kind::replay)
        tasks_ += static_cast<std::uint32_t>(program.recordings[step.recording].tasks.size());
    }
    journal_.expect_tasks(tasks_);
    first_.push_back(tasks_);
    task_outcomes_.resize(tasks_, Outcome::refused);
    events_.resize(program.steps.size());
    outcomes_.resize(program.steps.size(), Outcome::refused);
    reported_.resize(program.steps.size(), false);
  }

  /// All steps, then a look at every buffer.
  void run(Subject& subject) {
    for (std::uint32_t b = 0; b < model_.size(); ++b) {
      handles_.push_back({});
      guards_.push_back(nullptr);
      memory_.push_back(nullptr);
      bind(subject, b, program_.seed + b);
    }
    for (Recording const& recording : program_.recordings)
      recorded_.emplace_back(recording, journal_, outside_, subject);
    for (std::size_t s = 0; s < program_.steps.size(); ++s) step(subject, s);
    subject.at(program_.seed, program_.steps.size());
    wait_all(subject, program_.steps.size());
    for (std::uint32_t b = 0; b < model_.size(); ++b) compare(subject, b, program_.steps.size());
    if (program_.seed % 2 == 0)  // the others are left to the destructor
      for (std::uint32_t b = 0; b < model_.size(); ++b) retire(subject, b);
    check_runs();
  }

  /// After the runtime's destruction: every release was called once, with the contents that the
  /// model predicts.
  void finish() {
    for (std::uint32_t b = 0; b < model_.size(); ++b) expect_contents(b);
    for (std::size_t i = 0; i < adopted_.size(); ++i) {
      int const released = adopted_[i]->released;
      require(released == 1,
              [&] { return concat("adopted memory was released ", released, " times", where(0)); });
      require(!expected_[i].compared || adopted_[i]->hash_at_release == expected_[i].hash, [&] {
        return concat("adopted memory was not current when it was released", where(0));
      });
    }
    journal_.require_quiet();
  }

 private:
  struct Expected {
    std::uint64_t hash = 0;
    bool compared = false;
  };

  std::string where(std::size_t step) const {
    return concat(" [program ", program_.seed, ", step ", step, " of ", program_.steps.size(), "]");
  }

  void bind(Subject& subject, std::uint32_t b, std::uint64_t salt) {
    ModelBuffer& buffer = model_.buffer(b);
    bool const adopt = Program::adopted(b);
    guards_[b] = &journal_.add_guard();
    if (adopt) {
      adopted_.push_back(std::make_unique<Adopted>(buffer.words.size()));
      expected_.emplace_back();
      memory_[b] = adopted_.back().get();
      memory_[b]->guard = guards_[b];
      fill_words(memory_[b]->words, salt);
      fill_words(buffer.words, salt);
      handles_[b] = subject.adopt(memory_[b]->bytes(), host, memory_[b]->release());
    } else {
      handles_[b] = subject.allocate(buffer.words.size() * 8, host, Lifetime::persistent);
    }
    buffer.written = adopt;
    buffer.marked = false;
  }

  void expect_contents(std::uint32_t b) {
    if (memory_[b] == nullptr) return;
    std::size_t i = 0;
    while (adopted_[i].get() != memory_[b]) ++i;
    expected_[i] = {hash_words(model_.buffer(b).words), !model_.buffer(b).marked};
    memory_[b] = nullptr;
  }

  void retire(Subject& subject, std::uint32_t b) {
    expect_contents(b);
    subject.retire(handles_[b]);
  }

  void step(Subject& subject, std::size_t s) {
    Step const& step = program_.steps[s];
    subject.at(program_.seed, s);
    switch (step.kind) {
      case Step::Kind::task:
        submit(subject, s);
        break;
      case Step::Kind::replay:
        replay(subject, s);
        break;
      case Step::Kind::renew:
        retire(subject, step.buffer);
        bind(subject, step.buffer, program_.seed ^ (s << 20));
        break;
      case Step::Kind::lock:
        lock(subject, s);
        break;
      case Step::Kind::wait:
        wait(subject, s);
        break;
      case Step::Kind::wait_all:
        wait_all(subject, s);
        break;
    }
  }

  void submit(Subject& subject, std::size_t s) {
    Step const& step = program_.steps[s];
    Note note{&journal_,   &outside_,  step.salt,   first_[s], 0,
              step.finish, step.fails, step.pauses, step.part, {}};
    note_operands(note, step.operands, guards_, program_.words);
    std::vector<Use<Subject::Handle>> uses;
    for (Use<Binding> const& operand : step.operands)
      uses.push_back({handles_[operand.handle], operand.access});
    Codelet const& codelet = step.finish == Finish::returns ? mix_codelet : late_mix_codelet;
    Outcome const outcome = model_.task(step);
    outcomes_[s] = task_outcomes_[first_[s]] = outcome;
    try {
      events_[s] = subject.submit({&codelet, uses, note.bytes(), step.hints, {}});
    } catch (LifetimeError const& error) {
      require(outcome == Outcome::refused, [&] {
        return concat("submit threw '", error.what(), "' for a lawful task", where(s));
      });
      return;
    }
    require(outcome != Outcome::refused,
            [&] { return concat("a task that reads an unwritten buffer was accepted", where(s)); });
    if (outcome != Outcome::succeeds) unreported_.push_back(s);
  }

  void replay(Subject& subject, std::size_t s) {
    Step const& step = program_.steps[s];
    Recorded const& recorded = recorded_[step.recording];
    std::vector<Subject::Handle> bindings;
    for (std::uint32_t const buffer : step.bindings) bindings.push_back(handles_[buffer]);
    auto const block = recorded.block(step, first_[s], guards_, program_.words);
    auto const expected = model_.replay(program_.recordings[step.recording], step);
    try {
      events_[s] = recorded.replay(subject, bindings, block);
    } catch (Error const& error) {
      require(!expected.has_value(), [&] {
        return concat("replay threw '", error.what(), "' for lawful bindings", where(s));
      });
      return;
    }
    require(expected.has_value(), [&] {
      return concat("bindings that alias, or are unwritten, were accepted", where(s));
    });
    std::copy(expected->begin(), expected->end(), task_outcomes_.begin() + first_[s]);
    outcomes_[s] = Outcome::succeeds;
    for (Outcome const outcome : *expected) outcomes_[s] = std::max(outcomes_[s], outcome);
    if (outcomes_[s] != Outcome::succeeds) unreported_.push_back(s);
  }

  void lock(Subject& subject, std::size_t s) {
    Step const& step = program_.steps[s];
    ModelBuffer& buffer = model_.buffer(step.buffer);
    if (step.access != Access::write) {
      compare(subject, step.buffer, s);
      if (buffer.marked || step.access == Access::read) return;
    }
    auto const words = words_of(subject.lock(handles_[step.buffer], step.access));
    require(words.size() == buffer.words.size(),
            [&] { return concat("lock gave a span of another size", where(s)); });
    if (step.access == Access::write) {
      fill_words(words, step.salt);
      fill_words(buffer.words, step.salt);
    } else {
      update_words(words, step.salt);
      update_words(buffer.words, step.salt);
    }
    subject.unlock(handles_[step.buffer]);
    buffer.written = true;
    buffer.marked = false;
  }

  void wait(Subject& subject, std::size_t s) {
    std::size_t const waited = program_.steps[s].step;
    Outcome const outcome = outcomes_[waited];
    if (reported_[waited] && outcome != Outcome::succeeds)
      return;  // an earlier wait_all has spent it
    try {
      subject.wait(events_[waited]);
    } catch (TaskError const& error) {
      if (program_.steps[waited].kind == Step::Kind::replay && outcome != Outcome::succeeds) return;
      require(outcome == Outcome::fails || outcome == Outcome::cancelled, [&] {
        return concat("waiting for step ", waited, ", which ", name_of(outcome), ", threw '",
                      error.what(), "'", where(s));
      });
      require(error.cancelled() == (outcome == Outcome::cancelled), [&] {
        return concat("step ", waited, " ", name_of(outcome), ", but its TaskError says otherwise",
                      where(s));
      });
      return;
    }
    require(outcome == Outcome::succeeds, [&] {
      return concat("waiting for step ", waited, ", which ", name_of(outcome), ", threw nothing",
                    where(s));
    });
    require(subject.done(events_[waited]),
            [&] { return concat("a task waited for is not done", where(s)); });
  }

  void wait_all(Subject& subject, std::size_t s) {
    bool threw = false;
    try {
      subject.wait_all();
    } catch (TaskError const& error) {
      threw = true;
      require(!unreported_.empty(), [&] {
        return concat("wait_all threw '", error.what(), "' where nothing had failed", where(s));
      });
      std::size_t const oldest = unreported_.front();
      require(program_.steps[oldest].kind == Step::Kind::replay ||
                  outcomes_[oldest] != Outcome::fails ||
                  error.sequence() == events_[oldest].sequence,
              [&] {
                return concat("wait_all reported another failure than the oldest, of step ", oldest,
                              where(s));
              });
    }
    require(threw || unreported_.empty(), [&] {
      return concat("wait_all threw nothing, though ", unreported_.size(),
                    " tasks had failed or were cancelled", where(s));
    });
    unreported_.clear();
    for (std::size_t i = 0; i < s; ++i) reported_[i] = true;
    for (std::size_t i = 0; i < s; ++i)
      require(outcomes_[i] == Outcome::refused || subject.done(events_[i]),
              [&] { return concat("step ", i, " is not done after wait_all", where(s)); });
  }

  /// Looks at a buffer through a lock.
  void compare(Subject& subject, std::uint32_t b, std::size_t s) {
    ModelBuffer const& buffer = model_.buffer(b);
    std::string const name = concat("buffer ", b);
    try {
      auto const words = words_of(subject.lock(handles_[b], Access::read));
      std::vector<std::uint64_t> const seen(words.begin(), words.end());
      subject.unlock(handles_[b]);
      require(buffer.written, [&] {
        return concat(name, ", which is unwritten, could be locked for reading", where(s));
      });
      require(!buffer.marked, [&] {
        return concat(name, ", marked by a failure, could be locked for reading", where(s),
                      history(program_, b, s));
      });
      require(seen.size() == buffer.words.size(),
              [&] { return concat(name, " has another size", where(s)); });
      for (std::size_t w = 0; w < seen.size(); ++w)
        require(seen[w] == buffer.words[w], [&] {
          return concat("word ", w, " of ", name, " is ", seen[w],
                        " where one task at a time leaves ", buffer.words[w], where(s),
                        history(program_, b, s));
        });
    } catch (TaskError const& error) {
      require(buffer.marked, [&] {
        return concat("locking ", name, ", which is not marked, threw '", error.what(), "'",
                      where(s), history(program_, b, s));
      });
    } catch (LifetimeError const& error) {
      require(!buffer.written,
              [&] { return concat("locking ", name, " threw '", error.what(), "'", where(s)); });
    }
  }

  void check_runs() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      for (std::uint32_t task = first_[s]; task < first_[s + 1]; ++task) {
        Outcome const outcome = task_outcomes_[task];
        bool const must_run = outcome == Outcome::succeeds || outcome == Outcome::fails;
        int const times = journal_.times_run(task);
        require(times == (must_run ? 1 : 0), [&] {
          return concat(to_string(program_.steps[s], s), ", whose task ", task - first_[s], " ",
                        name_of(outcome), ", and ran ", times, " times", where(s));
        });
      }
  }

  Program const& program_;
  Journal& journal_;
  Outside& outside_;
  Model model_;
  std::vector<Subject::Handle> handles_;
  std::vector<Guard*> guards_;
  std::vector<Adopted*> memory_;  // null: allocated by the runtime
  std::vector<std::unique_ptr<Adopted>> adopted_;
  std::vector<Expected> expected_;
  std::deque<Recorded> recorded_;  // by recording
  std::uint32_t tasks_ = 0;
  std::vector<std::uint32_t> first_;    // the number of each step's first task, and one more
  std::vector<Outcome> task_outcomes_;  // by number of task
  std::vector<Event> events_;           // from here on by step
  std::vector<Outcome> outcomes_;
  std::vector<bool> reported_;
  std::vector<std::size_t> unreported_;
};

}  // namespace nntile::testing
