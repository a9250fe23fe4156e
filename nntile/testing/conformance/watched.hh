#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A subject whose calls are noted, so that a watchdog can name the one that does not return.

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "nntile/testing/conformance/activity.hh"
#include "nntile/testing/conformance/calls.hh"
#include "nntile/testing/conformance/subject.hh"

namespace nntile::testing {

using Factory = std::function<std::unique_ptr<Subject>(RuntimeOptions const&)>;

/// Forwards every call, construction and destruction included.
class Watched final : public Subject {
 public:
  Watched(Factory const& make, RuntimeOptions const& options, CallLogs& logs) : log_(logs) {
    CallLog::Call const call(log_, "the constructor");
    detail::ActiveStep const step;  // it may look for devices, or measure the machine
    inner_ = make(options);
  }
  ~Watched() override {
    CallLog::Call const call(log_, "the destructor");
    inner_.reset();
  }

  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) override {
    CallLog::Call const call(log_, "allocate()");
    return inner_->allocate(bytes, place, lifetime);
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) override {
    CallLog::Call const call(log_, "adopt()");
    return inner_->adopt(bytes, place, release);
  }
  Handle adopt_read_only(std::span<std::byte const> bytes, Place place, Release release) override {
    CallLog::Call const call(log_, "adopt()");
    return inner_->adopt_read_only(bytes, place, release);
  }
  void retire(Handle handle) override {
    CallLog::Call const call(log_, "retire()");
    inner_->retire(handle);
  }
  Event submit(Task<Handle> const& task) override {
    CallLog::Call const call(log_, CallLog::submit_name);
    Event const event = inner_->submit(task);
    log_.submitted();
    return event;
  }
  void wait(Event event) override {
    CallLog::Call const call(log_, "wait()");
    inner_->wait(event);
  }
  bool done(Event event) override {
    CallLog::Call call(log_, "done()");
    bool const is_done = inner_->done(event);
    if (!is_done) call.got_nothing_done();
    return is_done;
  }
  void wait_all() override {
    CallLog::Call const call(log_, "wait_all()");
    inner_->wait_all();
  }
  std::span<std::byte> lock(Handle handle, Access access) override {
    CallLog::Call const call(log_, "lock()");
    return inner_->lock(handle, access);
  }
  void unlock(Handle handle) override {
    CallLog::Call const call(log_, "unlock()");
    inner_->unlock(handle);
  }
  Workers workers() const override { return inner_->workers(); }
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }

  Handle borrow(Subject& other, Handle handle) override {
    return inner_->borrow(*static_cast<Watched&>(other).inner_, handle);
  }

  bool replays() const override { return inner_->replays(); }
  Program record(std::span<ProgramTask const> tasks, std::uint32_t bindings,
                 std::span<ProgramParameter const> parameters) override {
    CallLog::Call const call(log_, "record()");
    return inner_->record(tasks, bindings, parameters);
  }
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) override {
    CallLog::Call const call(log_, "replay()");
    return inner_->replay(program, bindings, block);
  }

  bool nests() const override { return inner_->nests(); }
  Event submit_body(NestingTask<Calls>&& task) override {
    CallLog::Call const call(log_, "submit_nesting()");
    return inner_->submit_body(std::move(task));
  }

  bool has_regions() const override { return inner_->has_regions(); }
  Handle region(Handle handle, Region const& region) override {
    CallLog::Call const call(log_, "region()");
    return inner_->region(handle, region);
  }
  Handle find(void const* address) override {
    CallLog::Call const call(log_, "find()");
    return inner_->find(address);
  }
  Handle region_at(void const* address, Region const& region) override {
    CallLog::Call const call(log_, "region_at()");
    return inner_->region_at(address, region);
  }
  bool same(Handle a, Handle b) const override { return inner_->same(a, b); }

  bool pauses() const override { return inner_->pauses(); }
  void pause() override {
    CallLog::Call const call(log_, "pause()");
    inner_->pause();
  }
  void resume() override {
    CallLog::Call const call(log_, "resume()");
    inner_->resume();
  }

  bool has_scopes() const override { return inner_->has_scopes(); }
  ScopeName open_scope(Lifetime lifetime, CallSite site) override {
    CallLog::Call const call(log_, "open_scope()");
    return inner_->open_scope(lifetime, site);
  }
  void close_scope(Lifetime lifetime, ScopeName name) override {
    CallLog::Call const call(log_, "close_scope()");
    inner_->close_scope(lifetime, name);
  }

  void at(std::uint64_t program, std::size_t step) override { log_.at(program, step); }

 private:
  CallLog log_;
  std::unique_ptr<Subject> inner_;
};

}  // namespace nntile::testing
