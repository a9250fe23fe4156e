#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks on devices, as asynchronous tasks: their tokens are completed by polls of the streams.
//
// Use by a runtime with a Device D: a member DeviceTasks<D>, before its table of buffers, which is
// given `source()`: from there memory of devices comes, and the check of tasks that name it. Such a
// task counts as unusual in BufferTable::bind, and so leaves the path of tasks that run at once.
// To run a body, the runtime calls run_body of this instead of run_body.hh's. With NoDevice all of
// it is nothing.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/copy.hh"
#include "nntile/core/heap_array.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/support/aligned.hh"
#include "nntile/runtime/support/check_codelet.hh"
#include "nntile/runtime/support/run_body.hh"
#include "nntile/runtime/support/storage_source.hh"

namespace nntile::support {

/// The number of the device where a task runs that names these buffers: the last one's that lives
/// on a device, so that a copy runs at its target. -1: the host.
inline int device_of(std::span<Use<Buffer*> const> uses) noexcept {
  for (std::size_t i = uses.size(); i-- != 0;)
    if (is_on_device(uses[i].handle->place)) return uses[i].handle->place.device;
  return -1;
}

/// The devices of one runtime, and the tasks in flight on them. Any thread may call it.
template <Device D> class DeviceTasks {
 public:
  template <class... Arguments>
  explicit DeviceTasks(Arguments&&... arguments)
      : device_(static_cast<Arguments&&>(arguments)...),
        queues_(static_cast<std::size_t>(device_.devices() * device_.lanes())) {
    for (int device = 0; device < device_.devices(); ++device)
      for (int lane = 0; lane < device_.lanes(); ++lane) {
        Queue& queue = queue_of({device, lane});
        queue.device = &device_;
        queue.stream = {device, lane};
      }
  }
  DeviceTasks(DeviceTasks const&) = delete;
  DeviceTasks& operator=(DeviceTasks const&) = delete;

  D& device() noexcept { return device_; }
  /// Whether some task was launched that has not ended.
  bool busy() const noexcept {
    for (int device = 0; device < device_.devices(); ++device)
      for (int lane = 0; lane < device_.lanes(); ++lane) {
        Queue& queue = queue_of({device, lane});
        detail::Lock guard(queue.mutex);
        if (!queue.flying.empty()) return true;
      }
    return false;
  }

  /// Whether a task that names these buffers runs on a device.
  static bool own(std::span<Use<Buffer*> const> uses) noexcept { return device_of(uses) >= 0; }
  StorageSource source() noexcept {
    StorageSource source{&allocate, &free, &device_, &check_place, &check_task};
    if constexpr (UnifiedDevice<D>)
      source.reach = [](void* state, void* pointer) {
        return static_cast<D*>(state)->reach(pointer);
      };
    else if constexpr (LocatingDevice<D>)
      source.check_memory = &check_memory;
    return source;
  }

  /// As run_body of run_body.hh; a task that names memory of a device runs there, as an
  /// asynchronous one.
  ///
  /// launched() is called once the task is on its stream: tasks of that stream that come behind it
  /// may be launched then, if `ahead`, before it has ended. A mark that stands by then says
  /// nothing: it may be cleared by a task that is on the stream already, as others may be set;
  /// settle() says whether a task is cancelled, whatever it has computed.
  template <class Tokens, class Launched>
  Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
               void* workspace, bool ahead, Launched launched) noexcept {
    if (!own(body.uses)) return support::run_body(failures, tokens, body, task, workspace);
    Codelet const& codelet = *body.codelet;
    if (std::string const why = problem(device_, codelet, body.uses); !why.empty()) [[unlikely]]
      return fail(failures, body, why);
    if constexpr (UnifiedDevice<D>)
      if (!device_.runs(codelet)) return run_on_host(failures, tokens, body, task);
    DeviceJob const job{codelet, {body.pointers, body.uses.size()}, body.arguments};
    Queue& queue = queue_of(stream_of(codelet, body.uses));
    typename Queue::Flying* flying = nullptr;
    char text[status_text_bytes] = {};
    Ran const ran = run_with_token(
        failures, tokens, body, task, text, false,
        [&](KernelCall const&, Completion const& token) -> Status {
          bool const cancelled = !ahead && failures.any_marked() && failures.meets_mark(body);
          flying = queue.launch(cancelled ? nullptr : &job, token, body.sequence,
                                device_.lanes() > 1 && &codelet == &copy_codelet);
          return flying == nullptr ? Status{"no memory for a task on a device"} : Status{};
        },
        [this](Failures& its_failures, TaskBody const& its_body, Status status) {
          settle(its_failures, its_body, status);
        });
    launched();
    if (flying != nullptr) queue.let_end(*flying);
    return ran;
  }
  template <class Tokens>
  Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
               void* workspace) noexcept {
    return run_body(failures, tokens, body, task, workspace, false, [] {});
  }

  /// Settles a task that has ended by its token. Tasks of one stream end in its order, so that what
  /// one marks is there for those behind it: whether these are cancelled is said now, whatever they
  /// have computed.
  void settle(Failures& failures, TaskBody const& body, Status status) noexcept {
    bool const asks = own(body.uses) && device_.runs(*body.codelet) && failures.any_marked();
    if (!asks || !failures.cancel_if_marked(body)) support::settle(failures, body, status);
  }

  /// The stream of a task; a device below 0: the host.
  Stream stream_of(Codelet const& codelet, std::span<Use<Buffer*> const> uses) const noexcept {
    if (!device_.runs(codelet)) return {-1, 0};
    return {device_of(uses), &codelet == &copy_codelet ? device_.lanes() - 1 : 0};
  }
  /// Whether kernels reach memory of the host.
  static constexpr bool reaches_host = [] {
    if constexpr (requires { bool(D::reaches_host); }) return D::reaches_host;
    return true;
  }();
  /// Whether tasks of one stream may be launched before those of it that they depend on have ended.
  static constexpr bool runs_ahead = [] {
    if constexpr (requires { bool(D::runs_ahead); }) return D::runs_ahead;
    return true;
  }();

 private:
  /// Tasks launched into one stream that have not ended, in order. A poll of the token of the first
  /// looks for all of them.
  ///
  /// Of copies few are launched at a time; the others are held, and of these the earliest in the
  /// program is launched next: a plan puts copies in the order in which they are needed.
  struct Queue {
    struct Flying {
      std::uint64_t mark;  // 0: nothing was launched before it
      Completion token;
      char text[status_text_bytes] = {};  // reason of a failed launch
      bool may_end = false;  // its entry has returned, so that those before it are settled first
      std::uint64_t position = 0;
      std::optional<DeviceJob> job;  // while it is held

      void fail(char const* why) noexcept {
        if (why != text) std::strncpy(text, why, status_text_bytes - 1);
        if (text[0] == 0) std::strcpy(text, "its launch failed");
      }
    };
    D* device = nullptr;
    Stream stream;
    detail::Mutex mutex;
    std::list<Flying> flying, held;  // by position; none unless as many fly as may
    bool watched = false;            // a poll looks for the first, or is about to
    std::uint64_t last_mark = 0;

    /// Launches a job, or none: the task ends in its turn all the same, and so where that fails. Or
    /// holds it. Null: no memory.
    Flying* launch(DeviceJob const* job, Completion const& token, std::uint64_t position,
                   bool holds) noexcept {
      detail::Lock guard(mutex);
      auto& list = holds && job != nullptr && flying.size() >= copies_in_flight ? held : flying;
      auto at = list.end();
      while (&list == &held && at != list.begin() && position < std::prev(at)->position) --at;
      try {
        at = list.emplace(at);
      } catch (std::bad_alloc const&) {
        return nullptr;
      }
      at->token = token;
      at->position = position;
      if (&list == &held)
        at->job.emplace(*job);
      else
        begin(*at, job);
      return &*at;
    }
    void begin(Flying& task, DeviceJob const* job) noexcept {
      if (job != nullptr) {
        Status const status = device->launch(stream, *job, task.text);
        if (status.ok())
          last_mark = device->mark(stream);
        else
          task.fail(status.error);
      }
      task.mark = last_mark;
    }
    /// The first has ended.
    void pop() noexcept {
      flying.pop_front();
      if (held.empty()) return;
      flying.splice(flying.end(), held, held.begin());
      DeviceJob const job = *flying.back().job;
      flying.back().job.reset();
      begin(flying.back(), &job);
    }
    /// The task that was launched may end from here on, and is gone then.
    void let_end(Flying& task) noexcept {
      Completion const token = task.token;
      bool watches;
      {
        detail::Lock guard(mutex);
        task.may_end = true;
        watches = !std::exchange(watched, true);
      }
      if (watches) watch(token);
    }
    StreamProgress progress_of(Flying const& task, char* text) noexcept {
      StreamProgress const progress =
          task.mark == 0 ? StreamProgress::ended : device->query(stream, task.mark, text);
      if (task.text[0] == 0 || progress == StreamProgress::running) return progress;
      std::memcpy(text, task.text, status_text_bytes);
      return StreamProgress::failed;
    }
    /// Polls for the first task; where there is no memory for that, waits for all of them.
    void watch(Completion const& token) noexcept {
      try {
        token.poll(&poll, this);
      } catch (std::bad_alloc const&) {
        while (!poll(this, token)) detail::yield_core();
      }
    }
    /// Ends the tasks whose marks the stream has reached; true if the first was among them.
    static bool poll(void* state, Completion) noexcept {
      auto& self = *static_cast<Queue*>(state);
      char text[status_text_bytes];
      for (bool any = false;; any = true) {
        Completion token;
        StreamProgress progress;
        {
          detail::Lock guard(self.mutex);
          if (self.flying.empty()) {
            self.watched = false;
            return true;
          }
          Flying const& next = self.flying.front();
          if (!next.may_end) {
            if (any) self.watched = false;
            return any;
          }
          token = next.token;
          progress = self.progress_of(next, text);
          if (progress != StreamProgress::running) self.pop();
        }
        if (progress == StreamProgress::running) {
          if (any) self.watch(token);
          return any;
        }
        text[status_text_bytes - 1] = 0;
        token.complete(progress == StreamProgress::failed ? Status{text} : Status{});
      }
    }
  };

  static Ran fail(Failures& failures, TaskBody const& body, std::string const& why) noexcept {
    if (!failures.any_marked() || !failures.cancel_if_marked(body))
      support::settle(failures, body, {why.c_str()});
    return Ran::ended;
  }
  /// An asynchronous entry, on memory that the host reaches.
  template <class Tokens>
  Ran run_on_host(Failures& failures, Tokens& tokens, TaskBody const& body, void* task) noexcept {
    return run_asynchronous(failures, tokens, body, task, body.codelet->runs_on_marks,
                            [&](KernelCall call, Completion const& token) -> Status {
                              std::vector<void*> pointers;
                              for (std::size_t i = 0; i < body.uses.size(); ++i)
                                pointers.push_back(is_on_device(body.uses[i].handle->place)
                                                       ? device_.reach(body.pointers[i])
                                                       : body.pointers[i]);
                              call.buffers = pointers.data();
                              return body.codelet->async(call, token);
                            });
  }

  Queue& queue_of(Stream stream) const noexcept {
    return queues_[static_cast<std::size_t>(stream.device * device_.lanes() + stream.lane)];
  }
  static void* allocate(void* state, std::size_t bytes, Place place) {
    if (place == host) return allocate_aligned(bytes);
    check_place(state, "allocate", place);
    return static_cast<D*>(state)->allocate(bytes, place);
  }
  static void free(void* state, void* pointer, std::size_t bytes, Place place) noexcept {
    if (place == host) return free_aligned(pointer);
    static_cast<D*>(state)->free(pointer, bytes, place);
  }
  static void check_place(void* state, char const* call, Place place) {
    int const devices = static_cast<D*>(state)->devices();
    bool const numbered = is_on_device(place) && place.device >= 0 && place.device < devices;
    if (numbered || (place.kind <= Place::Kind::pinned && place.device == 0)) return;
    throw ValueError(concat(call, ": there is no ", name_of(place.kind), " ", place.device,
                            ": this runtime has memory on the host, pinned, and on ", devices,
                            devices == 1 ? " device" : " devices", ", numbered from 0"));
  }
  static void check_memory(void* state, void const* memory, std::size_t bytes, Place place) {
    std::optional<Place> const at = static_cast<D*>(state)->place_of(memory);
    if (!at || *at == place || (place == host && *at == pinned)) return;
    throw ValueError(concat("adopt: ", bytes, " bytes as memory of ", describe_memory_at(place),
                            ", and they are memory of ", describe_memory_at(*at),
                            ": adopt them there, or copy them to a buffer of ", to_string(place),
                            " by a task of copy_codelet"));
  }
  static void check_task(void* state, Codelet const* codelet, TaskLabel const& label,
                         std::span<Use<Buffer*> const> uses) {
    if (device_of(uses) < 0) return check_codelet(codelet, label);
    if (codelet == &nesting_codelet) return;
    std::string const why = problem(*static_cast<D*>(state), *codelet, uses);
    if (!why.empty()) throw ValueError(concat("submit: ", task_name(codelet, label, 0), why));
  }
  /// The reason that a task naming memory of a device cannot run there; "" if it can.
  static std::string problem(D const& device, Codelet const& codelet,
                             std::span<Use<Buffer*> const> uses) {
    int const number = device_of(uses);
    if (!device.runs(codelet) && !(UnifiedDevice<D> && codelet.async != nullptr))
      return concat(" has no entry for a device, and names memory of device ", number);
    if (&codelet == &copy_codelet || UnifiedDevice<D>) return {};
    for (Use<Buffer*> const& use : uses)
      if (!reaches_host && use.handle->place == host)
        return concat(" names memory of the host and of device ", number,
                      ": copy it there first, by a task of copy_codelet, or allocate it pinned");
      else if (is_on_device(use.handle->place) && use.handle->place.device != number)
        return concat(" names memory of device ", use.handle->place.device, " and of ", number,
                      ": copy one of them first, by a task of copy_codelet");
    return {};
  }

  D device_;
  HeapArray<Queue> queues_;
};

/// Without devices: nothing.
template <> class DeviceTasks<NoDevice> {
 public:
  static constexpr bool runs_ahead = false;
  static constexpr bool busy() noexcept { return false; }
  static constexpr bool own(std::span<Use<Buffer*> const>) noexcept { return false; }
  static StorageSource source() noexcept { return {}; }
  template <class Tokens>
  static Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
                      void* workspace) noexcept {
    return support::run_body(failures, tokens, body, task, workspace);
  }
  static void settle(Failures& failures, TaskBody const& body, Status status) noexcept {
    support::settle(failures, body, status);
  }
};

}  // namespace nntile::support
