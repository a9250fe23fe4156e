#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Emulated devices with a disk whose copies take virtual time.

#include <cstdint>
#include <map>

#include "nntile/core/link_model.hh"
#include "nntile/runtime/disk/disk.hh"
#include "nntile/testing/device.hh"

namespace nntile::testing {

/// WithDisk over EmulatedDevice, whose clock counts the disk's copies, too: by a link of their own,
/// in the order of their launch. Their bytes lie in a file.
class EmulatedWithDisk : public WithDisk<EmulatedDevice> {
  using Base = WithDisk<EmulatedDevice>;

 public:
  explicit EmulatedWithDisk(DiskOptions const& options = {}, EmulatedOptions const& devices = {},
                            LinkModel const& link = {})
      : Base(options, devices), link_(link) {}

  Status launch(Stream stream, DeviceJob const& job, char* text) noexcept {
    Status const status = Base::launch(stream, job, text);
    if (!is_disk(stream) || !status.ok()) return status;
    clock().launch();
    // All that it depends on has run, or lies before it on this stream.
    free_ = clock().run(job, free_, link_);
    clock().ran();
    return status;
  }
  std::uint64_t mark(Stream stream) noexcept {
    std::uint64_t const number = Base::mark(stream);
    if (!is_disk(stream)) return number;
    clock().launch();
    clock().reach(free_);
    return ends_[number] = free_, number;
  }
  StreamProgress query(Stream stream, std::uint64_t mark, char* text) noexcept {
    auto const end = is_disk(stream) ? ends_.find(mark) : ends_.end();
    if (end == ends_.end()) return Base::query(stream, mark, text);
    StreamProgress progress = StreamProgress::ended;
    if (!reached_) progress = Base::query(stream, mark, text);
    if (progress == StreamProgress::running) return progress;
    reached_ = progress == StreamProgress::ended;
    if (reached_ && !clock().shows(end->second)) return StreamProgress::running;
    if (!reached_) clock().see(end->second);
    reached_ = false;
    ends_.erase(end);
    return progress;
  }

 private:
  bool is_disk(Stream stream) const noexcept { return stream.device == devices(); }

  LinkModel const link_;
  // Of its one stream, of which a runtime asks one mark after the other:
  double free_ = 0;
  std::map<std::uint64_t, double> ends_;
  bool reached_ = false;  // the mark that is asked for, though it is not shown yet
};

}  // namespace nntile::testing
