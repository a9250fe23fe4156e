#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Device: the policy by which a runtime drives accelerators, and its law. Smallest model: NoDevice;
// one that needs no hardware: testing/device.hh.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "nntile/core/place.hh"
#include "nntile/runtime/concept.hh"

namespace nntile {

/// A queue of one device, whose jobs run one at a time in the order of their launch.
struct Stream {
  int device = 0;
  int lane = 0;
  bool operator==(Stream const&) const = default;
};

/// State of the jobs before a mark in a stream.
enum class StreamProgress : std::uint8_t { running, ended, failed };

/// The work of one task. It may be given operands that a failed task before it has left in any
/// state: it fails then, or computes what is not used, and touches no byte beside its buffers.
/// These stand in the order of its uses, as the device allocated them, or of the host. Both arrays
/// live until the device says that the job has ended. It reads them when it runs: as it is
/// launched, jobs before it on its stream may have to write them yet.
struct DeviceJob {
  Codelet const& codelet;
  std::span<void* const> buffers;
  void const* arguments;
  TaskLabel label = {};  // of its task
};

/// The default: no devices. A runtime with it has no instruction for them.
struct NoDevice {
  static constexpr bool exists = false;
};

/// Streams of all devices of a runtime.
inline constexpr int most_streams = 1 << 15;

// clang-format off
/// The devices of a runtime, one object for all of them. The runtime makes it, calls it from several
/// threads at a time, of one stream from one at a time but for `query`, and ends it when all that was
/// launched has ended and all memory is free.
///
///   exists                          true
///   devices()                       devices, numbered from 0. Constant, and so are
///   lanes()                         streams of each, 1 or more, `most_streams` in all. Kernels go to
///                                   the first; copies to the last.
///   allocate(bytes, place)          memory of that device, or pinned memory of the host; aligned to
///                                   64 bytes, never null. Throws OutOfMemory, which names place and
///                                   bytes, DeviceError.
///   free(pointer, bytes, place)     what allocate gave. No job that was launched uses it.
///   runs(codelet)                   whether it has code for it; always for copy_codelet.
///   launch(stream, job, text)       queues the work and returns; it runs under the default mode of
///                                   floating point. A failed status, whose text is a constant or
///                                   `text`, says that nothing was queued.
///   mark(stream)                    a number for the place behind all that was launched: of one
///                                   stream they ascend from 1.
///   query(stream, mark, text)       whether all before the mark has ended, and how: failed, with the
///                                   reason in `text`, if a job since the mark before failed. What
///                                   ended jobs have written is visible then. Once for each mark it
///                                   says so; later calls say ended or failed.
///   wait(stream, other, mark)       jobs launched from here on begin behind that mark of another.
///
/// A device with `reaches_host` = false has kernels that reach memory of the host only where it is
/// pinned: a task that names other memory of the host beside its own is refused, but a copy.
///
/// A device with `runs_ahead` = false is given no job before those that its task depends on have
/// ended; with others, a runtime may launch along one stream ahead of the ends.
///
/// A device may say where memory is, of others or its own, from any thread; null: wherever it is
/// asked for, or not known. Then memory of the host that is given as a device's, or the reverse, is
/// refused.
///   place_of(pointer)               its place: host, pinned, or a device, below 0: one's that was
///                                   freed
///
/// A device may take the workspace that it lends to kernels (Codelet::device_workspace) beforehand,
/// asked by any thread, so that binding a graph says what does not fit:
///   lend(device, bytes)             that one has as many at least for each kernel from then on.
///                                   Throws OutOfMemory, which names it and the bytes, DeviceError.
///
/// A device with `has_disk` = true has memory in a file beside that of its devices: allocate, free
/// and place_of know the place `disk` too, whose addresses nothing follows, and the stream
/// {devices(), 0} copies between it and the host; `wait` is not asked about that one. There may be
/// no devices then.
///
/// After an error that lasts (a lost device) launch and query go on to fail, with one sentence that
/// says so, allocate throws DeviceError, and free and the destructor return.
// clang-format on
template <class D>
concept Device = std::same_as<D, NoDevice> ||
                 requires(D& device, D const& constant, std::size_t bytes, Place place,
                          void* pointer, Codelet const& codelet, DeviceJob const& job,
                          Stream stream, std::uint64_t number, char* text) {
                   requires D::exists;
                   { constant.devices() } -> std::same_as<int>;
                   { constant.lanes() } -> std::same_as<int>;
                   { device.allocate(bytes, place) } -> std::same_as<void*>;
                   { device.free(pointer, bytes, place) } noexcept;
                   { constant.runs(codelet) } -> std::same_as<bool>;
                   { device.launch(stream, job, text) } noexcept -> std::same_as<Status>;
                   { device.mark(stream) } noexcept -> std::same_as<std::uint64_t>;
                   { device.query(stream, number, text) } noexcept -> std::same_as<StreamProgress>;
                   { device.wait(stream, stream, number) } noexcept;
                 };
static_assert(Device<NoDevice>);

namespace detail {

/// Whether D is a Device; says which member any other type lacks, or has of another kind.
template <class D> consteval bool is_required_device() {
  if constexpr (!Device<D>) {
    static_assert(
        requires { requires D::exists; }, "a device needs `static constexpr bool exists = true`");
    static_assert(
        requires(D const& constant) {
          { constant.devices() } -> std::same_as<int>;
        }, "a device needs `int devices() const`");
    static_assert(
        requires(D const& constant) {
          { constant.lanes() } -> std::same_as<int>;
        }, "a device needs `int lanes() const`: streams of each device");
    static_assert(
        requires(D& device, std::size_t bytes, Place place) {
          { device.allocate(bytes, place) } -> std::same_as<void*>;
        }, "a device needs `void* allocate(std::size_t bytes, Place)`");
    static_assert(
        requires(D& device, void* pointer, std::size_t bytes, Place place) {
          { device.free(pointer, bytes, place) } noexcept;
        }, "a device needs `void free(void*, std::size_t bytes, Place) noexcept`");
    static_assert(
        requires(D const& constant, Codelet const& codelet) {
          { constant.runs(codelet) } -> std::same_as<bool>;
        }, "a device needs `bool runs(Codelet const&) const`");
    static_assert(
        requires(D& device, Stream stream, DeviceJob const& job, char* text) {
          { device.launch(stream, job, text) } noexcept -> std::same_as<Status>;
        }, "a device needs `Status launch(Stream, DeviceJob const&, char* text) noexcept`");
    static_assert(
        requires(D& device, Stream stream) {
          { device.mark(stream) } noexcept -> std::same_as<std::uint64_t>;
        }, "a device needs `std::uint64_t mark(Stream) noexcept`");
    static_assert(
        requires(D& device, Stream stream, std::uint64_t mark, char* text) {
          { device.query(stream, mark, text) } noexcept -> std::same_as<StreamProgress>;
        },
        "a device needs `StreamProgress query(Stream, std::uint64_t mark, char* text) noexcept`");
    static_assert(
        requires(D& device, Stream stream, std::uint64_t mark) {
          { device.wait(stream, stream, mark) } noexcept;
        }, "a device needs `void wait(Stream, Stream other, std::uint64_t mark) noexcept`");
  }
  return Device<D>;
}

}  // namespace detail

/// A Device; any other type is an error whose first line names what it lacks. For parameters of
/// classes, and to assert after a device of one's own.
template <class D>
concept RequiredDevice = detail::is_required_device<D>();

template <class D>
concept DiskDevice = Device<D> && requires { requires D::has_disk; };

template <class D>
concept LendingDevice =
    Device<D> && requires(D& device, std::size_t bytes) { device.lend(0, bytes); };

template <class D>
concept LocatingDevice = Device<D> && requires(D const& device, void const* pointer) {
  { device.place_of(pointer) } noexcept -> std::same_as<std::optional<Place>>;
};

/// Memory of its devices is the host's as well, and any of them reaches that of the others: it may
/// be locked, a task may name memory of several devices, and one with an asynchronous entry alone
/// runs as on the host. reach(pointer) is the host's address of what was allocated.
template <class D>
concept UnifiedDevice = Device<D> && requires(D& device, void* pointer) {
  { device.reach(pointer) } noexcept -> std::same_as<void*>;
};

/// "device 1", "a device, and was freed", "the disk", "the host": where memory is, or not.
inline std::string describe_memory_at(Place place) {
  if (place == disk) return "the disk";
  if (host_reaches(place)) return place == host ? "the host" : "the host, pinned";
  return place.device < 0 ? "a device, and was freed" : to_string(place);
}

/// Throws ValueError where the host is given values that it cannot follow: an operand's of a call.
template <LocatingDevice D>
void check_followed(D const& device, char const* call, std::string const& name,
                    void const* pointer) {
  if constexpr (!UnifiedDevice<D>) {
    std::optional<Place> const at = device.place_of(pointer);
    if (at && !host_reaches(*at))
      throw ValueError(concat(call, ": the values of '", name, "' are memory of ",
                              describe_memory_at(*at),
                              ", which the host cannot follow: give memory of the host, to and "
                              "from which a task of copy_codelet brings them"));
  }
}

}  // namespace nntile
