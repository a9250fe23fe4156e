#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Joins the entries that several lists have for one computation, such as a CPU's and a device's.
// Internal to kernels/.

#include <mutex>
#include <span>
#include <utility>

#include "nntile/core/codelet.hh"

namespace nntile::kernels {

/// Codelets made of several, one for each set of parts, at the same address from then on.
class Joined {
 public:
  Joined() = default;
  Joined(Joined const&) = delete;
  Joined& operator=(Joined const&) = delete;
  ~Joined() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next);
  }

  /// Each entry from the first part that has one; name and computation are the first part's. The
  /// first part itself where the others add nothing, null for no parts. Allocates: a codelet that
  /// it has not joined before. Throws std::bad_alloc.
  Codelet const* join(std::span<Codelet const* const> parts) {
    if (parts.empty()) return nullptr;
    Codelet whole = *parts[0];
    for (Codelet const* const part : parts) add(whole, *part);
    if (same_entries(whole, *parts[0])) return parts[0];
    std::lock_guard guard(gate_);
    for (Node const* node = first_; node != nullptr; node = node->next)
      if (same_entries(node->codelet, whole) && node->codelet.computation == whole.computation)
        return &node->codelet;
    first_ = new Node{whole, first_};
    return &first_->codelet;
  }

 private:
  struct Node {
    Codelet codelet;
    Node* next;
  };
  /// A body's workspace belongs to its CPU entry; an asynchronous entry stands in for one.
  static void add(Codelet& whole, Codelet const& part) {
    if (!whole.runs_on_cpu()) {
      whole.cpu = part.cpu;
      whole.async = part.async;
      whole.workspace = part.workspace;
    }
    if (whole.cuda == nullptr) {
      whole.cuda = part.cuda;
      whole.device_workspace = part.device_workspace;
    }
  }
  static bool same_entries(Codelet const& a, Codelet const& b) {
    return a.cpu == b.cpu && a.cuda == b.cuda && a.async == b.async;
  }

  std::mutex gate_;
  Node* first_ = nullptr;
};

}  // namespace nntile::kernels
