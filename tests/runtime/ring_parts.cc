// SPDX-License-Identifier: BSD-3-Clause
// The parts of the ring that threads share, each alone.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "nntile/runtime/ring/deque.hh"
#include "nntile/runtime/ring/domain.hh"
#include "nntile/runtime/ring/lane.hh"
#include "nntile/runtime/ring/parking.hh"
#include "nntile/runtime/ring/payload.hh"
#include "nntile/runtime/ring/queue.hh"
#include "nntile/runtime/ring/users.hh"
#include "nntile/runtime/ring/window.hh"
#include "tests/support/catch.hh"

namespace {

using namespace nntile;
using namespace nntile::detail::ring;

struct SmallPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t window = 8;
    static constexpr std::uint32_t deque = 4;
    static constexpr std::uint32_t argument_bytes = 256;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 4;  // ids wrap
  };
};

/// Every number below `count` was taken by one of the threads once.
struct Taken {
  explicit Taken(std::uint64_t count) : times(count) {}
  std::vector<std::atomic<int>> times;
  void add(std::uint64_t item) { times[item].fetch_add(1); }
  bool all_once() const {
    for (auto const& time : times)
      if (time.load() != 1) return false;
    return true;
  }
};

}  // namespace

TEST_CASE("a deque gives its owner the latest and thieves the oldest", "[runtime][ring]") {
  Deque<SmallPolicy, std::uint64_t> deque;
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(deque.push(i));
  REQUIRE(!deque.push(4));
  std::uint64_t item = 9;
  REQUIRE(deque.pop(item));
  REQUIRE(item == 3);
  REQUIRE(deque.steal(item));
  REQUIRE(item == 0);
  REQUIRE(deque.pop(item));
  REQUIRE(deque.pop(item));
  REQUIRE(item == 1);
  REQUIRE(!deque.pop(item));
  REQUIRE(!deque.steal(item));
  REQUIRE(deque.empty());
}

TEST_CASE("owner and thieves share a deque without losing an item", "[runtime][ring]") {
  std::uint64_t const count = 20000;
  Deque<SmallPolicy, std::uint64_t> deque;
  Taken taken(count);
  std::atomic<bool> finished{false};
  std::vector<std::thread> thieves;
  for (int t = 0; t < 3; ++t)
    thieves.emplace_back([&] {
      std::uint64_t item;
      while (!finished.load() || !deque.empty())
        if (deque.steal(item))
          taken.add(item);
        else
          std::this_thread::yield();
    });
  std::uint64_t item;
  for (std::uint64_t i = 0; i < count;) {
    if (deque.push(i))
      ++i;
    else if (deque.pop(item))
      taken.add(item);
  }
  while (deque.pop(item)) taken.add(item);
  finished.store(true);
  for (auto& thief : thieves) thief.join();
  REQUIRE(taken.all_once());
}

TEST_CASE("a ready queue hands each id to one of several takers", "[runtime][ring]") {
  std::uint32_t const rounds = 2000, batch = SmallPolicy::Sizes::window;
  ReadyQueue<SmallPolicy> queue(2 * batch);
  Taken taken(rounds * batch);
  std::atomic<std::uint32_t> pushed{0}, popped{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      ReadyTask id;
      while (popped.load() < rounds * batch)
        if (queue.pop(id))
          taken.add(id), popped.fetch_add(1);
        else
          std::this_thread::yield();
    });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {  // at most a window of ids is in the queue, as in the ring
      for (std::uint32_t id; (id = pushed.fetch_add(1)) < rounds * batch;) {
        while (id >= popped.load() + batch) std::this_thread::yield();
        queue.push(id);
      }
    });
  for (auto& thread : threads) thread.join();
  REQUIRE(taken.all_once());
  REQUIRE(queue.empty());
}

TEST_CASE("a sleeper that looks after its announcement never misses work", "[runtime][ring]") {
  int const count = 5000;
  Parking<SmallPolicy> parking;
  std::atomic<int> work{0};
  int done = 0;
  std::thread sleeper([&] {
    while (done < count) {
      if (work.load() > 0) {
        work.fetch_sub(1);
        ++done;
        continue;
      }
      parking.announce();
      if (work.load() > 0)
        parking.cancel();
      else
        parking.sleep();
    }
  });
  for (int i = 0; i < count; ++i) {
    work.fetch_add(1);
    parking.wake(1);
    if (i % 3 == 0) std::this_thread::yield();
  }
  sleeper.join();
  REQUIRE(done == count);
}

TEST_CASE("a slot gives back as many operands as it has room for", "[runtime][ring]") {
  struct Shape {
    std::size_t operands, arguments;
  };
  static_assert(Payload::inline_operands == 7 && !Payload::fits(8, 0));
  static_assert(Payload::fits(6, 16) && !Payload::fits(6, 24) && !Payload::fits(7, 8));
  support::Buffer buffers[Payload::inline_operands];
  for (auto const& [operands, arguments] : {Shape{7, 0}, Shape{6, 16}, Shape{1, 64}, Shape{0, 8}}) {
    std::vector<std::byte> const bytes(arguments, std::byte{0xa5});
    HotSlot<SmallPolicy> slot;
    ColdSlot cold;
    slot.operands = static_cast<std::uint8_t>(operands);
    slot.argument_bytes = static_cast<std::uint8_t>(arguments);
    auto const place = Payload::place(cold, arguments, operands);
    auto const access = [](std::size_t i) { return static_cast<Access>(i % 6); };
    for (std::size_t i = 0; i < operands; ++i) place.put(i, &buffers[6 - i], buffers[i], access(i));
    place.end(cold, bytes, -2);
    Payload payload;
    support::TaskBody const body = payload.body(slot, cold);
    REQUIRE(body.uses.size() == operands);
    for (std::size_t i = 0; i < operands; ++i) {
      REQUIRE((body.uses[i] == Use<support::Buffer*>{&buffers[i], access(i)}));
      REQUIRE(body.pointers[i] == &buffers[6 - i]);
    }
    REQUIRE(body.label.tile == -2);
    REQUIRE(std::equal(bytes.begin(), bytes.end(), static_cast<std::byte const*>(body.arguments)));
  }
}

TEST_CASE("a closed edge list takes no edge, and its walk readies who waits for no other",
          "[runtime][ring]") {
  struct Sink {
    std::vector<std::uint32_t> ids;
    void ended(Reference) {}
    void ready(HotSlot<SmallPolicy>& slot) { ids.push_back(slot.id); }
  } sink;
  Window<SmallPolicy> window(SmallPolicy::Sizes::window, 1);
  auto& first = window.open(SlotKind::task, 0, -1, 1);
  auto& second = window.open(SlotKind::task, 0, -1, 1);
  auto& both = window.open(SlotKind::task, 0, -1, 1);
  auto& one = window.open(SlotKind::task, 0, -1, 1);
  window.expect(both, 2);
  REQUIRE(window.link(first.consumers, both, 0));
  REQUIRE(window.link(second.consumers, both, 1));
  REQUIRE(!window.publish(both, 0));
  window.expect(one, 1);
  REQUIRE(window.link(first.consumers, one, 0));
  REQUIRE(!window.publish(one, 0));
  window.complete(first, sink);
  REQUIRE(sink.ids == std::vector<std::uint32_t>{one.id});
  REQUIRE(!window.link(first.consumers, one, 1));
  window.complete(second, sink);
  REQUIRE(sink.ids == std::vector<std::uint32_t>{one.id, both.id});
}

TEST_CASE("the watermark stops at the first unfinished task, also where ids wrap",
          "[runtime][ring]") {
  struct Sink {
    void ended(Reference) {}
    void ready(HotSlot<SmallPolicy>&) {}
  } sink;
  Window<SmallPolicy> window(SmallPolicy::Sizes::window, 1);
  std::uint64_t const first = window.head();
  std::vector<HotSlot<SmallPolicy>*> slots;
  for (int i = 0; i < 8; ++i) slots.push_back(&window.open(SlotKind::task, 0, -1, 1));
  REQUIRE(window.full());
  for (int i : {1, 2, 3, 4, 6}) window.complete(*slots[static_cast<std::size_t>(i)], sink);
  std::uint64_t retired = 0;
  window.advance([&](std::uint64_t) { ++retired; });
  REQUIRE(retired == 0);
  window.complete(*slots[0], sink);
  window.advance([&](std::uint64_t) { ++retired; });
  REQUIRE(retired == 5);
  REQUIRE(window.watermark() == first + 5);
  REQUIRE(window.watermark() > 0xffffffffu);
  REQUIRE(window.finished(first + 6));
  REQUIRE(!window.finished(first + 5));
  REQUIRE(window.live(reference_to(first + 5)));
  REQUIRE(!window.live(reference_to(first + 4)));
  REQUIRE(!window.live(reference_to(first + 8)));
}

TEST_CASE("argument blocks never straddle the end of their ring", "[runtime][ring]") {
  ArgumentRing<SmallPolicy> ring;
  std::byte* const base = ring.take(48);
  std::uint64_t const first = ring.position();
  for (int i = 0; i < 3; ++i) REQUIRE(ring.take(60) != nullptr);
  REQUIRE(ring.take(48) == nullptr);
  ring.take_back_to(first);
  REQUIRE(ring.take(48) == base);
  REQUIRE(ring.take(16) == nullptr);
}

TEST_CASE("stale references are forgotten, live ones kept", "[runtime][ring]") {
  UsersTable table;
  table.prepare(1500);
  table[1500].writer = 7;
  for (Reference const reader : {1u, 2u, 3u}) table[1500].readers.push_back(reader);
  table.sweep([](Reference reference) { return reference == 1 || reference == 3; });
  BufferUsers const& users = table[1500];
  REQUIRE(users.writer == no_reference);
  REQUIRE(std::vector(users.readers.begin(), users.readers.end()) == std::vector<Reference>{1, 3});
}

TEST_CASE("a late worker takes nothing from a lane of another epoch", "[runtime][ring]") {
  std::vector<Lane<SmallPolicy>::Entry> entries(40);
  Lane<SmallPolicy> lane;
  std::uint32_t tasks[lane_batch];
  lane.set_entries(entries.data());
  for (std::uint32_t epoch = 1; epoch <= 3; ++epoch) {
    for (std::uint32_t task = 0; task < 3; ++task) lane.put(epoch, task, 10 * epoch + task);
    REQUIRE(lane.empty());
    REQUIRE(lane.pop(tasks, 16, 1) == 0);  // not open yet
    lane.begin(epoch, 3);
    REQUIRE(lane.empty());
    REQUIRE(lane.pop(tasks, 16, 1) == 0);
    lane.open(epoch);
    lane.push(10 * epoch + 3);
    REQUIRE(lane.pop(tasks, 16, 2) == 2);
    REQUIRE(tasks[0] == 10 * epoch);
    REQUIRE(tasks[1] == 10 * epoch + 1);
    REQUIRE(lane.pop(tasks, 1, 1) == 1);
    REQUIRE(tasks[0] == 10 * epoch + 2);
    REQUIRE(!lane.empty());
    REQUIRE(lane.pop(tasks, 16, 1) == 1);
    REQUIRE(tasks[0] == 10 * epoch + 3);
    REQUIRE(lane.empty());
  }
}

TEST_CASE("an event names domain and sequence", "[runtime][ring]") {
  for (std::uint64_t const sequence : {std::uint64_t{1}, std::uint64_t{1} << 42})
    for (std::uint32_t const domain : {0u, 1u, EventName::domains - 1}) {
      EventName const name{domain, sequence};
      CHECK(EventName::unpack(name.pack()) == name);
    }
  CHECK(EventName{root_domain, 12}.pack() == 12);
}
