#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// All that one submitter does with its domain: submit, wait, end.

#include <cstdint>

#include "nntile/runtime/ring/submit.hh"

namespace nntile::detail::ring {

/// The driving thread's side of a domain. Sequences are packed event names, of any domain of the
/// machine where a call only looks.
template <class Policy> class Submission {
 public:
  explicit Submission(Domain<Policy>& own)
      : domain(own), driver(own), submitter(own, driver), machine_(own.machine) {}

  Domain<Policy>& domain;
  Driver<Policy> driver;
  Submitter<Policy> submitter;

  /// Goes on with the slots of a larger one that is not in use.
  void borrow(Submission& larger) {
    std::uint32_t const slots = domain.window.size();
    submitter.borrow(larger.domain);
    driver.reclaim().grow(slots, larger.driver.reclaim());
  }
  /// Behind the end of all tasks.
  void give_back_borrowed() {
    domain.give_back_borrowed();
    driver.reclaim().shrink();
    submitter.restart();
  }

  /// Whether that task, which was submitted, has ended. Any thread.
  bool over(std::uint64_t sequence) const { return of(sequence).over(sequence); }
  /// Waits for the end of one of this domain: another submitter may use its slot again, and give
  /// its name to another task, while this thread looks there before it sleeps.
  void wait(std::uint64_t sequence) {
    driver.block_until([&] { return domain.left(sequence); },
                       [&] { return domain.reference_of(sequence); });
  }
  /// Does something towards its end; whether it has ended.
  bool done(std::uint64_t sequence) {
    (void)machine_.tokens.poll(true);
    if (driver.is_needed()) (void)driver.help_once();
    driver.reclaim().collect();
    return over(sequence);
  }

  /// Waits for all tasks of the domain, and takes back what they held.
  void wait_for_everything() {
    auto& window = domain.window;
    driver.block_until(
        [&] {
          if (!window.finished(window.head() - 1) || domain.pending.open_count() != 0) return false;
          driver.reclaim().collect();
          return window.watermark() == window.head();
        },
        [&] {
          // The youngest task first: when it has ended, most of the others have.
          if (!window.finished(window.head() - 1)) return reference_to(window.head() - 1);
          if (window.watermark() != window.head()) return driver.oldest();
          return domain.pending.newest();
        });
    driver.reclaim().collect();
  }

 private:
  Domain<Policy>& of(std::uint64_t sequence) const {
    return *machine_.domain_of(EventName::unpack(sequence));
  }

  Machine<Policy>& machine_;
};

}  // namespace nntile::detail::ring
