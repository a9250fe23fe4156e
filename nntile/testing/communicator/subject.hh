#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A communicator behind virtual calls, so that the battery is compiled once.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/comm/concept.hh"

namespace nntile::testing {

struct CommSubject {
  virtual ~CommSubject() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::int64_t tag_bound() const = 0;
  virtual Request send(std::span<std::byte const> bytes, Message message) = 0;
  virtual Request receive(std::span<std::byte> bytes, Message message) = 0;
  virtual void test(std::vector<EndedRequest>& ended) = 0;
  virtual void barrier() = 0;
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) = 0;
  virtual PeerTraffic traffic(int peer) const = 0;
};

template <Communicator C> class CommSubjectOf final : public CommSubject {
 public:
  explicit CommSubjectOf(C& comm) : comm_(comm) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::int64_t tag_bound() const override { return comm_.tag_bound(); }
  Request send(std::span<std::byte const> bytes, Message message) override {
    return comm_.send(bytes, message);
  }
  Request receive(std::span<std::byte> bytes, Message message) override {
    return comm_.receive(bytes, message);
  }
  void test(std::vector<EndedRequest>& ended) override { comm_.test(ended); }
  void barrier() override { comm_.barrier(); }
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) override {
    return comm_.all_gather(bytes);
  }
  PeerTraffic traffic(int peer) const override { return comm_.traffic(peer); }

 private:
  C& comm_;
};

}  // namespace nntile::testing
