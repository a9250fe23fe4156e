// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A runtime of several places, all of them memory of the host, that checks who touches what.

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "nntile/core/copy.hh"
#include "nntile/core/shape.hh"
#include "nntile/runtime/adaptors/forward.hh"

namespace nntile::test {

/// Refuses a lock of memory that the host does not reach, and a task that names two places but
/// copies. Counts what copies move, and the bytes that each place has had at most.
template <Runtime R> class Places : public Forward<R> {
  using Base = Forward<R>;

 public:
  using Handle = typename Base::Handle;
  using Base::Base;

  /// From where to where: bytes.
  using Moved = std::map<std::pair<std::string, std::string>, Index>;
  Moved moved;
  std::map<std::string, Index> most, now;

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    Handle const handle = Base::allocate(bytes, host, lifetime);
    places_[key(handle)] = {place, static_cast<Index>(bytes)};
    Index& sum = now[to_string(place)];
    sum += static_cast<Index>(bytes);
    most[to_string(place)] = std::max(most[to_string(place)], sum);
    return handle;
  }
  void retire(Handle handle) {
    if (auto const at = places_.find(key(handle)); at != places_.end()) {
      now[to_string(at->second.place)] -= at->second.bytes;
      places_.erase(at);
    }
    Base::retire(handle);
  }
  Event submit(Task<Handle> const& task) {
    std::set<std::string> names;
    for (Use<Handle> const& use : task.uses) names.insert(to_string(place(use.handle)));
    if (task.codelet == &copy_codelet) {
      std::int64_t bytes;
      std::memcpy(&bytes, task.arguments.data(), sizeof bytes);
      moved[{to_string(place(task.uses[0].handle)), to_string(place(task.uses[1].handle))}] +=
          bytes;
      if (names.size() > 1 && !names.contains("host") && names.contains("disk"))
        throw ValueError("a copy between the disk and a device");
    } else if (names.size() > 1 || names.contains("disk")) {
      std::string text = "a task uses tiles at";
      for (std::string const& name : names) text += " " + name;
      throw ValueError(text);
    }
    return Base::submit(task);
  }
  std::span<std::byte> lock(Handle handle, Access access) {
    if (Place const at = place(handle); at.kind != Place::Kind::host)
      throw ValueError(concat("lock: memory of the ", to_string(at)));
    return Base::lock(handle, access);
  }
  // Tasks of programs would pass the checks by.
  void record() = delete;
  void replay() = delete;

 private:
  struct Info {
    Place place;
    Index bytes = 0;
  };
  static std::uint64_t key(Handle const& handle) {
    static_assert(sizeof handle == sizeof(std::uint64_t));
    std::uint64_t result;
    std::memcpy(&result, &handle, sizeof result);
    return result;
  }
  Place place(Handle handle) const {
    auto const at = places_.find(key(handle));
    return at == places_.end() ? host : at->second.place;
  }

  std::map<std::uint64_t, Info> places_;
};

}  // namespace nntile::test
