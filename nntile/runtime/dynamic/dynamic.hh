#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A runtime chosen by name at run time, for tests, benchmarks and bindings.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/runtime/archetype.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/dynamic/model.hh"
#include "nntile/runtime/name.hh"
#include "nntile/runtime/orchestrate.hh"

namespace nntile {

/// One of the runtimes Rs, behind one indirect call: Dynamic<Serial, Ring> runtime("ring", {}).
/// Emulates the refinements that they lack: a program is submitted task by task, hints are
/// ignored. Tasks submit tasks where all of them nest. Handles and events are the chosen runtime's,
/// and die with it.
template <class... Rs>
requires(sizeof...(Rs) > 0 && (NamedRuntime<Rs> && ...))
class Dynamic : public Orchestrates<Dynamic<Rs...>> {
  using Erased = detail::ErasedHandles<typename Rs::Handle...>;

 public:
  using Handle = typename Erased::Handle;
  using Program = typename Facade<Handle>::Program;
  static constexpr bool heeds_hints = (HintedRuntime<Rs> || ...);

  /// Throws ValueError, listing the names there are, for another name; and what the constructor of
  /// the chosen runtime throws. One that takes no options ignores them; what follows is for its
  /// devices, and one without ignores that.
  template <class... ForDevices>
  explicit Dynamic(std::string_view name, RuntimeOptions const& options = {},
                   ForDevices const&... devices)
      : name_(name), model_(make(name, options, devices...)) {}

  /// The name of the runtime that was chosen.
  std::string_view name() const noexcept { return name_; }
  /// The names to choose from, in order, separated by ", ".
  static std::string names() {
    std::string list;
    ((list += list.empty() ? "" : ", ", list += runtime_name<Rs>), ...);
    return list;
  }

  Handle allocate(std::size_t bytes, Place place = host, Lifetime lifetime = Lifetime::persistent) {
    return model_->allocate(bytes, place, lifetime);
  }
  Handle adopt(std::span<std::byte> bytes, Place place = host, Release release = {}) {
    return model_->adopt(bytes, place, release);
  }
  /// Throws ValueError where the chosen runtime does not distinguish such memory.
  template <std::same_as<std::byte const> Byte, std::size_t count>
  Handle adopt(std::span<Byte, count> bytes, Place place = host, Release release = {}) {
    return model_->adopt_read_only(bytes, place, release);
  }
  void retire(Handle handle) { model_->retire(handle); }
  Event submit(Task<Handle> const& task) { return model_->submit(task); }
  /// Without an indirect call: f is compiled for each of the runtimes.
  template <class F>
  requires(NestingRuntime<Rs> && ...) && (std::same_as<typename Rs::Handle, Handle> && ...)
  Event submit_nesting(F f, std::span<Use<Handle> const> uses, Hints const& hints = {},
                       TaskLabel const& label = {}) {
    Event event;
    (void)((name_ == runtime_name<Rs> &&
            (event = own<Rs>().submit_nesting(std::move(f), uses, hints, label), true)) ||
           ...);
    return event;
  }
  void wait(Event event) { model_->wait(event); }
  bool done(Event event) { return model_->done(event); }
  void wait_all() { model_->wait_all(); }
  std::span<std::byte> lock(Handle handle, Access access) { return model_->lock(handle, access); }
  void unlock(Handle handle) { model_->unlock(handle); }
  void discard(Handle handle) { model_->discard(handle); }
  auto drive(char const* call) { return model_->drive(call); }
  auto link() const { return model_->link(); }
  bool here() const { return model_->here(); }
  void wait_and_retire(Handle handle) { model_->wait_and_retire(handle); }
  Workers workers() const { return model_->workers(); }
  std::size_t workspace_bytes() const { return model_->workspace_bytes(); }

  ScopeName open_scope(Lifetime lifetime, CallSite site = CallSite::here())
  requires(ScopedRuntime<Rs> && ...) {
    return model_->open_scope(lifetime, site);
  }
  void close_scope(Lifetime lifetime, ScopeName name = {})
  requires(ScopedRuntime<Rs> && ...) {
    model_->close_scope(lifetime, name);
  }

  /// Throws ValueError for a binding, task or byte range that is out of bounds.
  Program record(std::span<ProgramTask const> tasks, std::uint32_t binding_count,
                 std::span<ProgramParameter const> parameters) {
    return model_->record(tasks, binding_count, parameters);
  }
  /// Replays a program; if the runtime cannot, the event stands for all tasks of the program.
  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) {
    return model_->replay(program, bindings, block);
  }

 private:
  template <class R>
  using FacadeOfOne = FacadeOf<R, typename Erased::template Of<typename R::Handle>>;
  /// The chosen runtime, an R.
  template <class R> R& own() { return static_cast<FacadeOfOne<R>&>(*model_).runtime(); }

  template <class... ForDevices>
  static std::unique_ptr<Facade<Handle>> make(std::string_view name, RuntimeOptions const& options,
                                              ForDevices const&... devices) {
    std::unique_ptr<Facade<Handle>> model;
    (try_one<Rs>(model, name, options, devices...), ...);
    if (model == nullptr) throw ValueError(concat("runtime '", name, "': there are ", names()));
    return model;
  }
  template <class R, class... ForDevices>
  static void try_one(std::unique_ptr<Facade<Handle>>& model, std::string_view name,
                      RuntimeOptions const& options, ForDevices const&... devices) {
    using Handles = typename Erased::template Of<typename R::Handle>;
    using Model = std::conditional_t<ReplayingRuntime<R>, FacadeOf<R, Handles>,
                                     detail::ListingFacade<R, Handles>>;
    if (model != nullptr || name != runtime_name<R>) return;
    model = std::make_unique<Model>([&] {
      if constexpr (sizeof...(ForDevices) != 0 &&
                    std::constructible_from<R, RuntimeOptions const&, ForDevices const&...>)
        return R(options, devices...);
      else if constexpr (std::constructible_from<R, RuntimeOptions const&>)
        return R(options);
      else
        return R();
    });
  }

  std::string name_;
  std::unique_ptr<Facade<Handle>> model_;
};

namespace detail {
struct NamedArchetype : RuntimeArchetype {
  static constexpr std::string_view runtime_name = "archetype";
};
}  // namespace detail
static_assert(Runtime<Dynamic<detail::NamedArchetype>> &&
              ReplayingRuntime<Dynamic<detail::NamedArchetype>>);

}  // namespace nntile
