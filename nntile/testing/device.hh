#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// EmulatedDevice: devices without hardware, to test what runs on devices.
//
// An address of a device is one that the host cannot follow: a kernel or a copy that touches one
// unasked faults at once, under sanitizers, too. The bytes lie elsewhere. A stream is a thread that
// runs its jobs in order, now and then late; a job is the CPU entry of its codelet, on pointers
// that were translated to where the bytes lie. Memory that was freed is known to be: a job that
// names it loses the device, and so does a free while a job uses the memory. A clock says what the
// jobs would take on devices of a model, in an order that real threads have found.

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/testing/device/clock.hh"
#include "nntile/testing/device/copies.hh"
#include "nntile/testing/device/memory.hh"
#include "nntile/testing/device/stream.hh"

namespace nntile::testing {

struct EmulatedOptions {
  int devices = 1;
  int lanes = 2;                                // streams of each
  std::size_t capacity = std::size_t{1} << 30;  // bytes of each device
  std::uint64_t seed = 0;                       // of delays; 0: none
  std::int64_t longest_delay_ns = 200'000;      // of a job, and of a mark's being seen
  EmulatedFault fault = {};
  DeviceLog* log = nullptr;   // of what streams run, and of memory
  MachineModel machine = {};  // virtual time of jobs, tasks of the host, and copies
  MachineModel host = {};
  LinkModel link = {};
  bool virtual_order = false;  // ends are seen in the order of virtual time
};

/// Devices whose memory has a capacity, streams that are threads, and the CPU's kernels. Models
/// Device.
class EmulatedDevice {
 public:
  static constexpr bool exists = true;

  /// Throws ValueError (no device, no stream, a delay, fault, machine or link that cannot be),
  /// OutOfMemory (no address space), DeviceError (no thread).
  explicit EmulatedDevice(EmulatedOptions const& options = {})
      : options_(checked(options)),
        memory_(options.devices, options.capacity),
        clock_(options.machine, options.host, options.link, options.virtual_order),
        machine_(memory_, clock_, options.fault, options.log) {
    int const streams = options.devices * options.lanes;
    for (int i = 0; i < streams; ++i) try {
        streams_.push_back(std::make_unique<EmulatedStream>(
            machine_, Stream{i / options.lanes, i % options.lanes},
            options.seed == 0 ? 0 : options.seed * 1000 + static_cast<std::uint64_t>(i) + 1,
            options.longest_delay_ns));
      } catch (std::system_error const& error) {
        throw DeviceError(concat("emulated devices: stream ", i, " of ", streams,
                                 " has no thread: ", error.what()));
      }
  }

  /// Runs what was launched.
  ~EmulatedDevice() {
    for (auto const& stream : streams_) stream->end();  // others may wait for it
  }

  int devices() const noexcept { return options_.devices; }
  int lanes() const noexcept { return options_.lanes; }
  void* allocate(std::size_t bytes, Place place) {
    if (machine_.lost()) throw DeviceError(concat("allocate: ", machine_.why()));
    if (machine_.fails(EmulatedCall::allocate))
      throw OutOfMemory(concat("allocate: ", bytes, " bytes: ", machine_.failure()));
    void* const pointer = machine_.memory.allocate(bytes, place);
    if (options_.log != nullptr) options_.log->changed(place, static_cast<std::int64_t>(bytes));
    return pointer;
  }
  void free(void* pointer, std::size_t bytes, Place place) noexcept {
    if (options_.log != nullptr) options_.log->changed(place, -static_cast<std::int64_t>(bytes));
    std::string const wrong = machine_.memory.free(pointer, place);
    if (!wrong.empty()) machine_.lose(wrong);
  }
  std::optional<Place> place_of(void const* pointer) const noexcept {
    return memory_.place_of(pointer);
  }
  bool runs(Codelet const& codelet) const noexcept {
    return codelet.cpu != nullptr || clock_.knows(codelet);
  }
  Status launch(Stream stream, DeviceJob const& job, char*) noexcept {
    return at(stream).launch(job);
  }
  std::uint64_t mark(Stream stream) noexcept { return at(stream).mark(); }
  /// Marks so far: a runtime makes one behind each job.
  std::uint64_t marks(Stream stream) const noexcept { return at(stream).marks(); }
  StreamProgress query(Stream stream, std::uint64_t mark, char* text) noexcept {
    return at(stream).query(mark, text);
  }
  void wait(Stream stream, Stream other, std::uint64_t mark) noexcept {
    at(stream).wait(at(other), mark);
  }

  /// Bytes that are allocated on each device, and their peak; the tensor at an address.
  EmulatedMemory const& memory() const noexcept { return memory_; }
  /// Bytes that were copied, by direction.
  EmulatedCopies& copies() noexcept { return machine_.copies; }
  /// Virtual time.
  EmulatedClock& clock() noexcept { return clock_; }

 protected:
  EmulatedStream& at(Stream stream) const noexcept {
    return *streams_[static_cast<std::size_t>(stream.device * options_.lanes + stream.lane)];
  }

  static EmulatedOptions const& checked(EmulatedOptions const& options) {
    auto const refuse = [](auto const&... text) {
      throw ValueError(concat("emulated devices: ", text...));
    };
    if (options.devices < 1) refuse(options.devices, " of them; there must be at least 1");
    if (options.lanes < 1) refuse(options.lanes, " lanes; there must be at least 1");
    if (std::int64_t{options.devices} * options.lanes > most_streams)
      refuse(options.devices, " of ", options.lanes, " lanes each; ", most_streams,
             " lanes in all are possible");
    if (options.longest_delay_ns < 0)
      refuse("delays of up to ", options.longest_delay_ns, " ns; 0 (none) or more");
    if (options.fault.call != EmulatedCall::none && options.fault.at < 1)
      refuse("a fault at call ", options.fault.at, " of its kind; they count from 1");
    if (std::string const fault = fault_of(options.machine); !fault.empty()) refuse(fault);
    if (std::string const fault = fault_of(options.host); !fault.empty())
      refuse("a host of ", fault);
    if (std::string const fault = fault_of(options.link); !fault.empty())
      refuse("a link of ", fault);
    return options;
  }

  EmulatedOptions const options_;
  EmulatedMemory memory_;
  EmulatedClock clock_;
  EmulatedMachine machine_;
  std::vector<std::unique_ptr<EmulatedStream>> streams_;
};
static_assert(LocatingDevice<EmulatedDevice> && !UnifiedDevice<EmulatedDevice>);

/// The same with memory that the host reaches, though not at the devices' addresses: for the
/// conformance battery, whose buffers are all locked.
class EmulatedUnifiedDevice : public EmulatedDevice {
 public:
  using EmulatedDevice::EmulatedDevice;
  static constexpr bool runs_ahead = false;  // a cancelled task's body is never called there
  void* reach(void* pointer) noexcept { return machine_.memory.at(pointer); }
};
static_assert(UnifiedDevice<EmulatedUnifiedDevice>);

/// A runtime R with devices, whose buffers of the host go to all places in turn: host, pinned,
/// device 0, 1, ... For the conformance battery, which knows of the host only.
template <Runtime R> class Scattered : public R {
 public:
  using R::R;
  using typename R::Handle;

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    if (place != host) return R::allocate(bytes, place, lifetime);
    int const places = this->device().devices() + 2;
    int const next = next_++ % places;
    return R::allocate(bytes,
                       next == 0   ? host
                       : next == 1 ? Place{Place::Kind::pinned}
                                   : Place{Place::Kind::device, next - 2},
                       lifetime);
  }

 private:
  int next_ = 0;
};

/// A runtime R with emulated devices, which tells their clock what tasks cost and how they access
/// their buffers: those of devices, and those of the host, which wait there for their virtual ends.
template <Runtime R> class Timed : public R {
 public:
  using R::R;
  using typename R::Handle;

  Event submit(Task<Handle> task) {
    std::vector<std::byte> arguments;
    (void)time(task, arguments);
    return R::submit(task);
  }
  auto record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
              std::span<ProgramParameter const> parameters = {})
  requires ReplayingRuntime<R> {
    std::vector<ProgramTask> timed(tasks.begin(), tasks.end());
    std::vector<std::vector<std::byte>> arguments(tasks.size());
    std::vector<ProgramParameter> moved(parameters.begin(), parameters.end());
    std::vector<bool> is_timed(tasks.size());
    for (std::size_t i = 0; i < timed.size(); ++i) is_timed[i] = time(timed[i], arguments[i]);
    for (ProgramParameter& parameter : moved)
      if (parameter.task < is_timed.size() && is_timed[parameter.task])
        parameter.argument_offset += TimedTask::head_bytes;
    return R::record(timed, binding_count, moved);
  }

 private:
  template <class T> bool time(T& task, std::vector<std::byte>& arguments) {
    if (task.codelet == nullptr || task.codelet == &copy_codelet || task.codelet->cpu == nullptr)
      return false;
    std::vector<Access> accesses;
    for (auto const& use : task.uses) accesses.push_back(use.access);
    auto const& timed = this->device().clock().timed(*task.codelet, task.cost, accesses);
    arguments = timed.arguments(task.arguments);
    task.codelet = &timed.codelet;
    task.arguments = arguments;
    return true;
  }
};

}  // namespace nntile::testing
