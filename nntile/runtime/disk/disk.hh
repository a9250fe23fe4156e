#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// WithDisk: memory in a file, as one more place of a runtime with devices, or without.
//
//   BasicSerial<WithDisk<>> runtime({}, DiskOptions{.directory = "/scratch"});
//   BasicSerial<WithDisk<Cuda>> runtime;

#include <sys/types.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "nntile/core/copy.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/runtime/disk/file.hh"
#include "nntile/runtime/disk/memory.hh"
#include "nntile/runtime/disk/stream.hh"

namespace nntile {

struct DiskOptions {
  std::string directory = {};  // of the file; "": $TMPDIR, or /tmp
  std::size_t capacity = 0;    // bytes; 0: what its file system has left when the file is made
  DeviceLog* log = nullptr;    // of its copies, and of its memory
};

/// Bytes of a disk's memory.
using DiskUse = detail::on_disk::Use;

namespace detail::on_disk {

/// No device, as the base of a policy that has some memory all the same.
struct NoDevices {
  static constexpr bool exists = true;
  int devices() const noexcept { return 0; }
  int lanes() const noexcept { return 1; }
  void* allocate(std::size_t, Place place) {
    throw ValueError(concat("allocate: there is no ", to_string(place)));
  }
  void free(void*, std::size_t, Place) noexcept {}
  bool runs(Codelet const& codelet) const noexcept { return &codelet == &copy_codelet; }
  Status launch(nntile::Stream, DeviceJob const&, char*) noexcept { return {"there is no device"}; }
  std::uint64_t mark(nntile::Stream) noexcept { return 1; }
  StreamProgress query(nntile::Stream, std::uint64_t, char*) noexcept {
    return StreamProgress::ended;
  }
  void wait(nntile::Stream, nntile::Stream, std::uint64_t) noexcept {}
  std::optional<Place> place_of(void const*) const noexcept { return host; }
};
template <class D> struct BaseOf {
  using Type = D;
};
template <> struct BaseOf<NoDevice> {
  using Type = NoDevices;
};

}  // namespace detail::on_disk

/// The devices of D and a disk: a file without a name, made at the first allocation there, that no
/// other process sees and that is gone when this ends, or the process. What is allocated is the
/// file's at once, so that a disk that is full is an error there and at no copy. Its addresses
/// fault where they are followed; tasks of copy_codelet bring bytes to the host and back, in a
/// thread of its own, in order. Bytes go by way of the system's cache and are never synced. A child
/// process, where that thread is not, leaves the file and its bytes to the parent: it allocates and
/// copies nothing there. `File`: what reads and writes, other than UnnamedFile in tests. Models
/// Device.
template <RequiredDevice D = NoDevice, class File = detail::on_disk::UnnamedFile>
class WithDisk : public detail::on_disk::BaseOf<D>::Type {
  using Base = typename detail::on_disk::BaseOf<D>::Type;

 public:
  static constexpr bool exists = true;
  static constexpr bool has_disk = true;

  /// Hands the further arguments to the devices. Makes no file yet.
  template <class... Arguments>
  requires std::constructible_from<Base, Arguments...>
  explicit WithDisk(DiskOptions const& options = {}, Arguments&&... devices)
      : Base(std::forward<Arguments>(devices)...), options_(options) {}
  WithDisk(WithDisk const&) = delete;
  WithDisk& operator=(WithDisk const&) = delete;
  ~WithDisk() { delete opened(); }

  /// Throws what the devices throw; of the disk OutOfMemory (it is full, or its capacity is
  /// reached), DeviceError (there is no such directory, or no thread; an error of the disk; it is
  /// a parent process's).
  void* allocate(std::size_t bytes, Place place) {
    if (place != disk) return Base::allocate(bytes, place);
    void* const pointer = open().memory.allocate(bytes);
    if (options_.log != nullptr) options_.log->changed(disk, static_cast<std::int64_t>(bytes));
    return pointer;
  }
  void free(void* pointer, std::size_t bytes, Place place) noexcept {
    if (place != disk) return Base::free(pointer, bytes, place);
    Opened* const its = opened();
    if (its == nullptr) return;
    if (options_.log != nullptr) options_.log->changed(disk, -static_cast<std::int64_t>(bytes));
    its->memory.free(pointer);
  }
  std::optional<Place> place_of(void const* pointer) const noexcept {
    Opened const* const its = opened_.load(std::memory_order_acquire);
    if (its != nullptr && its->memory.contains(pointer)) return disk;
    if constexpr (requires(Base const& base) { base.place_of(pointer); })
      return Base::place_of(pointer);
    return std::nullopt;
  }

  Status launch(Stream stream, DeviceJob const& job, char* text) noexcept {
    if (!is_disk(stream)) return Base::launch(stream, job, text);
    Opened* const its = opened();
    if (its == nullptr) return {of_parent};
    std::int64_t count;
    std::memcpy(&count, job.arguments, sizeof count);
    std::size_t const bytes = count > 0 ? static_cast<std::size_t>(count) : 0;
    bool const writes = its->memory.contains(job.buffers[1]);
    detail::on_disk::Copy copy{static_cast<std::byte*>(job.buffers[writes ? 0 : 1]), bytes, 0,
                               writes};
    if (!its->memory.locate(job.buffers[writes ? 1 : 0], bytes, copy.at))
      return {"it names memory that the disk does not have, or has no more"};
    if (options_.log == nullptr) return its->stream.launch(copy);
    std::optional<LoggedJob> record;
    try {
      record = DeviceLog::record(stream, job, [its](void const* pointer) {
        return its->memory.contains(pointer) ? disk : host;
      });
    } catch (std::bad_alloc const&) {
      return {"no memory for the record of a copy of the disk"};
    }
    return its->stream.launch(copy, std::move(record));
  }
  std::uint64_t mark(Stream stream) noexcept {
    if (!is_disk(stream)) return Base::mark(stream);
    Opened* const its = opened();
    return its == nullptr ? 1 : its->stream.mark();
  }
  StreamProgress query(Stream stream, std::uint64_t mark, char* text) noexcept {
    if (!is_disk(stream)) return Base::query(stream, mark, text);
    if (Opened* const its = opened()) return its->stream.query(mark, text);
    std::memcpy(text, of_parent, sizeof of_parent);
    return StreamProgress::failed;
  }

  /// Bytes that are allocated on the disk, and their peak.
  DiskUse disk_use() noexcept {
    Opened* const its = opened();
    return its == nullptr ? DiskUse{} : its->memory.use();
  }
  /// Bytes that were copied since the last call.
  DiskTraffic take_disk_traffic() noexcept {
    Opened* const its = opened();
    return its == nullptr ? DiskTraffic{} : its->stream.take_traffic();
  }

 private:
  static constexpr char of_parent[] =
      "disk: it is a parent process's, and so is the thread that copies; make a runtime in the "
      "child";
  static_assert(sizeof of_parent <= status_text_bytes);

  struct Opened {
    explicit Opened(DiskOptions const& options)
        : memory(options.directory, options.capacity), stream(memory.file(), options.log) {}
    detail::on_disk::Memory<File> memory;
    detail::on_disk::Stream<File> stream;
    pid_t const process = detail::this_process();
  };
  bool is_disk(Stream stream) const noexcept { return stream.device == this->devices(); }
  /// Null before the first allocation, and in a child process: a lock may be held there for ever.
  Opened* opened() const noexcept {
    Opened* const its = opened_.load(std::memory_order_acquire);
    return its != nullptr && its->process == detail::this_process() ? its : nullptr;
  }
  Opened& open() {
    if (Opened* const its = opened()) return *its;
    detail::Lock guard(mutex_);
    if (opened_.load(std::memory_order_acquire) == nullptr)
      opened_.store(new Opened(options_), std::memory_order_release);
    if (Opened* const its = opened()) return *its;
    throw DeviceError(of_parent);
  }

  DiskOptions const options_;
  detail::Mutex mutex_;
  std::atomic<Opened*> opened_{nullptr};
};
static_assert(DiskDevice<WithDisk<>>);

}  // namespace nntile
