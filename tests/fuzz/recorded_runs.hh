#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Random runs that are written down.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "nntile/io/transcript.hh"
#include "nntile/runtime/adaptors/transcribe.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/fuzz/touching.hh"

namespace nntile::test {

/// Choices that follow from a seed.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : random_(static_cast<std::uint32_t>(seed)) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <class List> auto const& one_of(List const& list) {
    return list.at(static_cast<std::size_t>(below(static_cast<int>(list.size()))));
  }

 private:
  std::minstd_rand random_;
};

/// A run of random calls, of which those are written down that the runtime does not refuse.
class RandomRun {
  using R = Transcribe<Ring>;
  using H = R::Handle;

 public:
  explicit RandomRun(std::uint64_t seed) : choices_(seed), runtime_(RuntimeOptions{.workers = 1}) {
    for (int left = 10 + choices_.below(30); left > 0; --left) refusable([&] { call(); });
    refusable([&] { runtime_.wait_all(); });
  }
  /// Its text, without the line that ends it.
  std::string text() {
    Transcript run = runtime_.transcript();
    for (TranscribedCall& call : run.calls)  // no address, which is another one each time
      if (call.kind == TranscribedCall::Kind::submit)
        call.arguments.assign(call.uses.size(), std::byte{7});
    std::string const whole = io::transcript_text(run, touching_codelets());
    return whole.substr(0, whole.rfind("end "));
  }

 private:
  struct Adopted {
    alignas(8) std::byte bytes[16] = {};
  };

  template <class Call> static void refusable(Call call) {
    try {
      call();
    } catch (Error const&) {
    }
  }
  Lifetime any_lifetime() { return static_cast<Lifetime>(choices_.below(5)); }

  void call() {
    int const kind = handles_.empty() ? choices_.below(2) : choices_.below(16);
    switch (kind) {
      case 0:
        handles_.push_back(
            runtime_.allocate(static_cast<std::size_t>(8 * choices_.below(5)), host,
                              choices_.below(3) == 0 ? any_lifetime() : Lifetime::persistent));
        break;
      case 1: {
        std::span<std::byte> const bytes = adopted_[adopted_count_++ % std::size(adopted_)].bytes;
        handles_.push_back(choices_.below(2) == 0
                               ? runtime_.adopt(bytes)
                               : runtime_.adopt(std::span<std::byte const>(bytes)));
        break;
      }
      case 2:
        handles_.push_back(runtime_.region(
            choices_.one_of(handles_),
            choices_.below(2) == 0 ? Region{4, 4, {}} : Region{0, 1, {{2, 4}, {2, 8}}}));
        break;
      case 3:
        runtime_.retire(choices_.one_of(handles_));
        break;
      case 4: {
        H const handle = choices_.one_of(handles_);
        (void)runtime_.lock(handle, choices_.below(2) == 0 ? Access::read : Access::update);
        runtime_.unlock(handle);
        break;
      }
      case 5: {
        H const handle = choices_.one_of(handles_);
        for (std::byte& byte : runtime_.lock(handle, Access::write))
          byte = static_cast<std::byte>(choices_.below(256));
        runtime_.unlock(handle);
        break;
      }
      case 6:
        runtime_.open_scope(any_lifetime());
        break;
      case 7:
        runtime_.close_scope(any_lifetime());
        break;
      case 8:
        runtime_.wait_all();
        break;
      case 9:
        runtime_.wait(last_);
        break;
      case 10:
      case 11:
        last_ = orchestrate(runtime_, choices_, handles_, 0);
        break;
      default:
        last_ = submit(runtime_, choices_, handles_);
    }
  }
  static std::vector<Use<H>> uses_of(Choices& choices, std::vector<H> const& handles) {
    std::vector<Use<H>> uses;
    for (int left = choices.below(4); left > 0 && !handles.empty(); --left)
      uses.push_back({choices.one_of(handles),
                      static_cast<Access>(choices.below(choices.below(5) == 0 ? 6 : 4))});
    return uses;
  }
  template <class Target>
  static Event submit(Target& target, Choices& choices, std::vector<H> const& handles) {
    static TouchedOperands const none;
    TouchedOperands const* const operands = &none;
    auto const uses = uses_of(choices, handles);
    Hints hints;
    if (choices.below(4) == 0)
      hints = {.worker = choices.below(3) - 1, .priority = choices.below(5) - 2};
    return target.submit({choices.below(8) == 0 ? &refuse_codelet : &touch_codelet,
                          uses,
                          std::as_bytes(std::span(&operands, 1)),
                          hints,
                          {choices.below(2) == 0 ? nullptr : "a %", choices.below(4) - 1}});
  }
  /// The body has choices of its own, since it runs at some later time.
  template <class Target>
  static Event orchestrate(Target& target, Choices& choices, std::vector<H> const& handles,
                           int depth) {
    auto const uses = uses_of(choices, handles);
    std::vector<H> operands;
    for (Use<H> const& use : uses) operands.push_back(use.handle);
    auto const seed = static_cast<std::uint64_t>(choices.below(1 << 30));
    return target.submit_nesting(
        [own = Choices(seed), operands, depth](auto& nested) mutable -> void {
          for (int left = own.below(5); left > 0; --left)
            refusable([&] { call_in_body(nested, own, operands, depth); });
          if (own.below(8) == 0) throw Error("out of\nideas");
        },
        std::span<Use<H> const>(uses));
  }
  template <class N>
  static void call_in_body(N& nested, Choices& own, std::vector<H>& operands, int depth) {
    switch (own.below(depth < 2 ? 6 : 5)) {
      case 0:
        operands.push_back(nested.allocate(8));
        break;
      case 1:
        nested.wait_all();
        break;
      case 5:
        orchestrate(nested, own, operands, depth + 1);
        break;
      default:
        submit(nested, own, operands);
    }
  }

  Choices choices_;
  Adopted adopted_[4];
  std::size_t adopted_count_ = 0;
  R runtime_;
  std::vector<H> handles_;
  Event last_;
};

}  // namespace nntile::test
