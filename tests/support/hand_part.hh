// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Parts of a job that are written down task by task.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nntile/graph/plan.hh"

namespace nntile::test {

/// The part of one rank, task by task.
class HandPart {
 public:
  HandPart(int rank, int ranks) {
    data_.name = "hand";
    data_.rank = rank, data_.ranks = ranks;
    data_.kernels = {
        {KernelKind::op, "work"}, {KernelKind::send, "send"}, {KernelKind::receive, "receive"}};
    data_.tensors.emplace_back().name = "x";
  }
  /// So many seconds, by what it does with buffers.
  HandPart& work(double seconds, std::vector<Use<BufferId>> const& uses, int priority = 0) {
    PlannedTask task;
    task.cost.bytes = static_cast<std::int64_t>(seconds * 1000);
    task.priority = priority;
    return add(task, uses);
  }
  HandPart& send(BufferId buffer, int to, std::int64_t number = 0) {
    return transfer(1, {buffer, Access::read}, to, number);
  }
  HandPart& receive(BufferId buffer, int from, std::int64_t number = 0) {
    return transfer(2, {buffer, Access::write}, from, number);
  }
  /// Bytes of each of eight buffers: as many seconds on a link as thousands.
  HandPart& bytes(Index count) {
    bytes_ = count;
    return *this;
  }
  Plan plan() const {
    PlanData data = data_;
    for (std::uint32_t b = 0; b < 8; ++b) data.buffers.push_back({.tile = b, .bytes = bytes_});
    return Plan(std::move(data));
  }

 private:
  HandPart& transfer(std::uint32_t kernel, Use<BufferId> use, int peer, std::int64_t number) {
    PlannedTask task;
    task.kernel = kernel;
    task.tile = use.handle;
    task.args = static_cast<std::uint32_t>(data_.args.size());
    task.args_bytes = sizeof(TransferArgs);
    TransferArgs const args{number, peer, 0};
    auto const bytes = std::as_bytes(std::span(&args, 1));
    data_.args.append(bytes);
    return add(task, {use});
  }
  HandPart& add(PlannedTask task, std::vector<Use<BufferId>> const& uses) {
    task.first_use = static_cast<std::uint32_t>(data_.uses.size());
    task.use_count = static_cast<std::uint8_t>(uses.size());
    data_.uses.append(uses);
    data_.tasks.push_back(task);
    return *this;
  }

  PlanData data_;
  Index bytes_ = 1000;
};
constexpr Use<BufferId> write(BufferId b) { return {b, Access::write}; }
constexpr Use<BufferId> read(BufferId b) { return {b, Access::read}; }
constexpr Use<BufferId> update(BufferId b) { return {b, Access::update}; }

}  // namespace nntile::test
