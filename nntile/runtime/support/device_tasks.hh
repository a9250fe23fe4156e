#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks on devices, as asynchronous tasks: their tokens are completed by polls of the streams.
//
// Use by a runtime with a Device D: a member DeviceTasks<D>, before its table of buffers, which is
// given `source()`: from there memory of devices comes, and the check of tasks that name it. Such a
// task counts as unusual in BufferTable::bind, and so leaves the path of tasks that run at once.
// To run a body, the runtime calls run_body of this instead of run_body.hh's. With NoDevice all of
// it is nothing.

#include <atomic>
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

/// The place where a task runs that names these buffers: the last one's that lives off the host, so
/// that a copy runs at its target. Copies between the disk and the host run at the disk.
inline Place place_of(std::span<Use<Buffer*> const> uses) noexcept {
  for (std::size_t i = uses.size(); i-- != 0;)
    if (Place const place = uses[i].handle->place; !host_reaches(place)) return place;
  return host;
}

/// The devices of one runtime, and the tasks in flight on them. Any thread may call it.
template <Device D> class DeviceTasks {
 public:
  /// Throws ValueError for numbers of devices and streams that cannot be.
  template <class... Arguments>
  explicit DeviceTasks(Arguments&&... arguments)
      : device_(static_cast<Arguments&&>(arguments)...), queues_(checked_queue_count()) {
    for (std::size_t i = 0; i < queue_count(); ++i) {
      int const number = static_cast<int>(i);
      queues_[i].device = &device_;
      queues_[i].stream = {number / device_.lanes(), number % device_.lanes()};
    }
  }
  DeviceTasks(DeviceTasks const&) = delete;
  DeviceTasks& operator=(DeviceTasks const&) = delete;

  D& device() noexcept { return device_; }
  /// Whether some task was launched that has not ended.
  bool busy() const noexcept {
    for (std::size_t i = 0; i < queue_count(); ++i) {
      detail::Lock guard(queues_[i].mutex);
      if (!queues_[i].flying.empty()) return true;
    }
    return false;
  }

  /// Whether a task that names these buffers runs on a device, or copies from or to the disk.
  static bool own(std::span<Use<Buffer*> const> uses) noexcept {
    return !host_reaches(place_of(uses));
  }
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
  /// launched() is called once the task is on its stream, if `stream_of` names one, and before
  /// another thread can end it: tasks of that stream that come behind it may be launched then, if
  /// `runs_ahead`, before it has ended. A mark that stands by then says nothing: it may be cleared
  /// by a task that is on the stream already, as others may be set; settle() says whether a task is
  /// cancelled, whatever it has computed. So a task that can not be launched ends in its turn, too.
  template <class Tokens, class Launched>
  Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
               void* workspace, Launched launched) noexcept {
    if (!own(body.uses)) return support::run_body(failures, tokens, body, task, workspace);
    Codelet const& codelet = *body.codelet;
    std::string const why = problem_now(codelet, body.uses);
    Stream const stream = stream_of(codelet, body.uses);
    if (!why.empty() && stream.device < 0) [[unlikely]]
      return fail(failures, body, why);
    if constexpr (UnifiedDevice<D>)
      if (!device_.runs(codelet)) return run_on_host(failures, tokens, body, task);
    DeviceJob const job{codelet, {body.pointers, body.uses.size()}, body.arguments, body.label};
    Queue& queue = queue_of(stream);
    typename Queue::Flying* flying = nullptr;
    char text[status_text_bytes] = {};
    Ran const ran = run_with_token(
        failures, tokens, body, task, text, false,
        [&](KernelCall const&, Completion const& token) -> Status {
          bool const cancelled = !runs_ahead && failures.any_marked() && failures.meets_mark(body);
          flying = queue.launch(cancelled || !why.empty() ? nullptr : &job, token, body.sequence,
                                is_for_copies(stream) && &codelet == &copy_codelet, why.c_str());
          return flying == nullptr ? Status{"no memory for a task on a device"} : Status{};
        },
        [&](Failures& its_failures, TaskBody const& its_body, Status status) {
          queue.wait_until_settled(tokens);
          settle_on(stream, its_failures, its_body, status);
        });
    launched();
    if (flying != nullptr) queue.let_end(*flying);
    return ran;
  }
  template <class Tokens>
  Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
               void* workspace) noexcept {
    return run_body(failures, tokens, body, task, workspace, [] {});
  }

  /// Tasks that were launched, or are held, and have not ended.
  std::size_t in_flight() const noexcept {
    std::size_t all = 0;
    for (std::size_t i = 0; i < queue_count(); ++i)
      all += queues_[i].unsettled.load(std::memory_order_acquire);
    return all;
  }
  /// A number above 0 of a stream of a device, or the disk's; 0: the host.
  std::uint32_t number_of(Stream stream) const noexcept {
    if (stream.device < 0) return 0;
    return static_cast<std::uint32_t>(&queue_of(stream) - &queues_[0]) + 1;
  }

  /// Settles a task that has ended by its token. Tasks of one stream end in its order, so that what
  /// one marks is there for those behind it: whether these are cancelled is said now, whatever they
  /// have computed.
  void settle(Failures& failures, TaskBody const& body, Status status) noexcept {
    Stream const stream = stream_of(*body.codelet, body.uses);
    settle_on(stream, failures, body, status);
    if (stream.device >= 0) queue_of(stream).ending.store(false, std::memory_order_release);
  }

  /// The stream of a task; a device below 0: the host.
  Stream stream_of(Codelet const& codelet, std::span<Use<Buffer*> const> uses) const noexcept {
    Place const place = place_of(uses);
    if (!device_.runs(codelet) || host_reaches(place)) return {-1, 0};
    if (place == disk) return {device_.devices(), 0};
    return {place.device, &codelet == &copy_codelet ? device_.lanes() - 1 : 0};
  }
  static constexpr bool has_disk = DiskDevice<D>;
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
    std::atomic<std::size_t> unsettled{0};
    std::atomic<bool> ending{false};  // a task was completed, and is not settled yet
    std::uint64_t last_mark = 0;

    /// Launches a job, or none: the task ends in its turn all the same, and so where that fails. Or
    /// holds it. `why`: the reason that there is no job, or "". Null: no memory.
    Flying* launch(DeviceJob const* job, Completion const& token, std::uint64_t position,
                   bool holds, char const* why) noexcept {
      detail::Lock guard(mutex);
      auto& list = holds && flying.size() >= copies_in_flight ? held : flying;
      auto at = list.end();
      while (&list == &held && at != list.begin() && position < std::prev(at)->position) --at;
      try {
        at = list.emplace(at);
      } catch (std::bad_alloc const&) {
        return nullptr;
      }
      unsettled.fetch_add(1, std::memory_order_relaxed);
      at->token = token;
      at->position = position;
      if (why[0] != 0) at->fail(why);
      if (&list != &held)
        begin(*at, job);
      else if (job != nullptr)
        at->job.emplace(*job);
      return &*at;
    }
    void begin(Flying& task, DeviceJob const* job) noexcept {
      if (job != nullptr) {
        Status const status = device->launch(stream, *job, task.text);
        if (status.ok()) {
          task.text[0] = 0;  // it may have held the words of an error that did not come
          last_mark = device->mark(stream);
        } else {
          task.fail(status.error);
        }
      }
      task.mark = last_mark;
    }
    /// The first has ended.
    void pop() noexcept {
      flying.pop_front();
      if (held.empty()) return;
      flying.splice(flying.end(), held, held.begin());
      Flying& next = flying.back();
      begin(next, next.job ? &*next.job : nullptr);
      next.job.reset();
    }
    /// Returns when all that was launched has ended: for a task that cannot stand among them.
    template <class Tokens> void wait_until_settled(Tokens& tokens) noexcept {
      while (unsettled.load(std::memory_order_acquire) != 0)
        if (!tokens.poll(false)) detail::yield_core();
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
      text[0] = 0;
      StreamProgress const progress =
          task.mark == 0 ? StreamProgress::ended : device->query(stream, task.mark, text);
      if (text[0] == 0) std::strcpy(text, "its device gave no reason");
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
        self.ending.store(true, std::memory_order_relaxed);
        token.complete(progress == StreamProgress::failed ? Status{text} : Status{});
        // A thread that reads its name at the moment, or registers a poll, ends it in our place.
        while (self.ending.load(std::memory_order_acquire)) detail::yield_core();
        self.unsettled.fetch_sub(1, std::memory_order_release);
      }
    }
  };

  /// As `problem`, for a task that begins: where there is no memory for the words, fewer.
  std::string problem_now(Codelet const& codelet,
                          std::span<Use<Buffer*> const> uses) const noexcept {
    try {
      return problem(device_, codelet, uses);
    } catch (std::bad_alloc const&) {
      return "cannot run here";  // inside of the string itself
    }
  }
  void settle_on(Stream stream, Failures& failures, TaskBody const& body, Status status) noexcept {
    bool const asks = stream.device >= 0 && failures.any_marked();
    if (!asks || !failures.cancel_if_marked(body)) support::settle(failures, body, status);
  }
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
                              try {
                                pointers.resize(body.uses.size());
                              } catch (std::bad_alloc const&) {
                                return {"no memory for the addresses of its buffers"};
                              }
                              for (std::size_t i = 0; i < body.uses.size(); ++i)
                                pointers[i] = is_on_device(body.uses[i].handle->place)
                                                  ? device_.reach(body.pointers[i])
                                                  : body.pointers[i];
                              call.buffers = pointers.data();
                              return body.codelet->async(call, token);
                            });
  }

  std::size_t checked_queue_count() const {
    int const devices = device_.devices(), lanes = device_.lanes();
    if (devices < 0 || lanes < 1 || std::int64_t{devices} * lanes > most_streams)
      throw ValueError(concat("device: devices()=", devices, " and lanes()=", lanes,
                              "; 0 or more devices, each of at least 1 stream, and of ",
                              most_streams, " at most in all"));
    return queue_count();
  }
  std::size_t queue_count() const noexcept {
    return static_cast<std::size_t>(device_.devices() * device_.lanes() + (has_disk ? 1 : 0));
  }
  bool is_for_copies(Stream stream) const noexcept {
    return device_.lanes() > 1 || stream.device == device_.devices();
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
    bool const known =
        place == host || (place == pinned && devices != 0) || (place == disk && has_disk);
    if (numbered || known) return;
    std::string there;
    if (devices != 0)
      there = concat(", pinned, ", has_disk ? "" : "and ", "on ", devices,
                     devices == 1 ? " device" : " devices", ", numbered from 0");
    if (has_disk) there += devices == 0 ? " and on the disk" : ", and on the disk";
    throw ValueError(concat(call, ": there is no ", name_of(place.kind), " ", place.device,
                            ": this runtime has memory on the host", there));
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
    if (!own(uses)) return check_codelet(codelet, label);
    if (codelet == &nesting_codelet) return;
    std::string const why = problem(*static_cast<D*>(state), *codelet, uses);
    if (!why.empty()) throw ValueError(concat("submit: ", task_name(codelet, label, 0), why));
  }
  /// The reason that a task naming memory of a device, or the disk, cannot run there; "" if it can.
  static std::string problem(D const& device, Codelet const& codelet,
                             std::span<Use<Buffer*> const> uses) {
    int const number = place_of(uses).device;
    if (&codelet == &copy_codelet && uses.size() != 2)
      return concat(" names ", uses.size(), " buffers: a copy has two, its source and its target");
    if constexpr (has_disk)
      for (Use<Buffer*> const& use : uses) {
        if (use.handle->place != disk) continue;
        if (&codelet != &copy_codelet)
          return " names memory of the disk, which only holds values: copy it to the host first, "
                 "by "
                 "a task of copy_codelet";
        if (uses[0].handle->place == disk ? !host_reaches(uses[1].handle->place)
                                          : !host_reaches(uses[0].handle->place))
          return concat(" copies from ", to_string(uses[0].handle->place), " to ",
                        to_string(uses[1].handle->place),
                        ": copies of the disk are between it and the host: go by way of that");
        return {};
      }
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
  template <class Tokens, class... Launched>
  static Ran run_body(Failures& failures, Tokens& tokens, TaskBody const& body, void* task,
                      void* workspace, Launched...) noexcept {
    return support::run_body(failures, tokens, body, task, workspace);
  }
  static void settle(Failures& failures, TaskBody const& body, Status status) noexcept {
    support::settle(failures, body, status);
  }
};

}  // namespace nntile::support
