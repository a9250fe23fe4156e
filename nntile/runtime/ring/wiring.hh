#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Dependences: a task's producers, and its entry as a producer of later tasks.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "nntile/core/dynamic_array.hh"
#include "nntile/runtime/ring/driver.hh"
#include "nntile/runtime/ring/edges.hh"
#include "nntile/runtime/support/groups.hh"

namespace nntile::detail::ring {

/// Connects one task after the other. Use: make_room, collect, Window::open, note, publish. The
/// slot that make_room has found stays free until it is opened.
template <class Policy> class Wiring : public Edges<Policy> {
  friend class Edges<Policy>;
  using Edges<Policy>::link;
  using Edges<Policy>::trace_join;
  using Hot = HotSlot<Policy>;
  using Uses = std::span<Use<support::Buffer*> const>;
  using Live = typename Window<Policy>::Live;
  using Groups = support::Groups;

 public:
  Wiring(Domain<Policy>& domain, Driver<Policy>& driver)
      : machine_(domain.machine), domain_(domain), driver_(driver) {}

  /// Whether tasks of a stream are launched before those that they depend on have ended.
  static constexpr bool runs_ahead = support::DeviceTasks<typename Policy::Device>::runs_ahead;
  /// As long as it lives a task of that stream is submitted: behind others of it that waits for
  /// their launch alone.
  class Following {
   public:
    Following(Wiring& wiring, Stream stream) : wiring_(wiring), before_(wiring.stream_) {
      if constexpr (runs_ahead) wiring_.stream_ = stream;
    }
    Following(Following const&) = delete;
    Following& operator=(Following const&) = delete;
    ~Following() {
      if constexpr (runs_ahead) wiring_.stream_ = before_;
    }

   private:
    Wiring& wiring_;
    Stream const before_;
  };

  std::uint64_t joins() const { return joins_; }
  std::uint64_t blocked() const { return blocked_; }
  /// Tasks of another submission come next.
  void restart() { look_at_ = due_at_ = 0; }
  /// Goes on in the slots of another domain, as Domain's.
  void borrow(Domain<Policy>& other) {
    domain_.borrow(other, [this](Hot const& task, Hot const& join) { trace_join(task, join); });
  }

  /// Blocks until there is a free slot. Looks for finished tasks now and then in any case, so that
  /// what they held comes back early and producers that finished long ago are not examined.
  [[gnu::always_inline]] void make_room() {
    if (domain_.window.head() >= look_at_) [[unlikely]]
      look_for_room();
  }

  /// Lists the producers that a task with these operands has to wait for, at most as many as a slot
  /// has edges: beyond that, joins stand for them. `groups`: how its uses are ordered.
  /// `parts`: it names parts of buffers.
  [[gnu::always_inline]] void collect(Uses uses, Groups groups, bool parts) {
    BufferUsers** const users = prepare_users(uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i)
      users[i] = &driver_.reclaim().users(*uses[i].handle);
    collect_found(uses, groups, parts);
  }
  /// The same where the users of each operand are where `prepare_users` said.
  [[gnu::always_inline]] void collect_found(Uses uses, Groups groups, bool parts) {
    count_ = 0;
    if (!uses.empty()) collect_some(uses, groups, parts);
  }
  /// Room for the users of `operands` operands. Throws std::bad_alloc.
  [[gnu::always_inline]] BufferUsers** prepare_users(std::size_t operands) {
    if (users_.size() < operands) {  // `listed_` may have grown by itself
      ++growths_;
      users_.resize(operands);
      prepare(operands);
    }
    return users_.data();
  }

  /// Enters a task among the users of its operands, those of the latest collection.
  [[gnu::always_inline]] void note(Uses uses, Reference self, std::uint64_t ticket, Groups groups,
                                   bool parts) {
    if (groups != Groups::none) [[unlikely]] {
      note_groups(uses, self, groups);
      support::BufferTable::commit(uses, support::Ticket{ticket});
    } else {
      BufferUsers* const* const users = users_.data();
      for (std::size_t i = 0; i < uses.size(); ++i)
        note_usual(uses[i].access, *uses[i].handle, *users[i], self, ticket);
    }
    if (parts) note_parts(uses, ticket, groups);
  }

  /// The same for a task whose operands are buffers as a whole, which it reads, writes or updates,
  /// one after the other: lists what each waits for, unless that has left the window, and then
  /// keeps what has not ended. Use where there is a free slot: has_room, add for each operand,
  /// keep_open, Window::open, note_usual for each. It branches where the answer is mostly the same.
  class Usual {
   public:
    explicit Usual(Wiring& wiring)
        : wiring_(wiring), live_(wiring.domain_.window.live()), listed_(wiring.listed_.data()) {}
    /// False where there may be pending tasks, or no room for one more reader by name; then start
    /// again by `collect`.
    [[gnu::always_inline]] bool add(Access access, BufferUsers& users) {
      if (!users.usual() && !wiring_.become_usual(users)) [[unlikely]]
        return false;
      bool const alone = !writes(access);
      Reference const last = alone ? users.writer : users.newest();
      bool const open = live_(last);
      listed_[count_] = last;
      count_ += open;
      if (!alone && open) [[unlikely]]
        for (std::uint32_t i = users.readers.state; i-- > 1;) {
          if (!live_(users.readers.references[i - 1])) break;
          listed_[count_++] = users.readers.references[i - 1];
        }
      return true;
    }
    /// False if there are more than a slot has edges: as above.
    [[gnu::always_inline]] bool keep_open() {
      wiring_.count_ = 0;
      return count_ == 0 || wiring_.keep_open(count_);
    }

   private:
    Wiring& wiring_;
    Live const live_;
    Reference* const listed_;
    std::size_t count_ = 0;
  };
  bool has_room() const { return domain_.window.head() < look_at_; }
  [[gnu::always_inline]] static void note_usual(Access access, support::Buffer& buffer,
                                                BufferUsers& users, Reference self,
                                                std::uint64_t ticket) {
    if (writes(access))
      users.enter(access, self);
    else
      users.enter_reader(self);
    support::BufferTable::commit({&buffer, access}, support::Ticket{ticket});
  }
  /// Before any `Usual` of as many operands. Throws std::bad_alloc.
  void prepare(std::size_t operands) {
    if (listed_.size() < operands * most_per_operand) listed_.resize(operands * most_per_operand);
  }
  /// Makes room for the producers of a task of `operands` operands, which are buffers as a whole.
  /// Throws std::bad_alloc.
  void reserve(std::size_t operands) {
    prepare(2 * operands);  // joins come behind what they stand for
    if (users_.size() < operands) users_.resize(operands);
  }
  /// Times that memory was taken for the operands of a task.
  std::uint64_t growths() const { return growths_; }

  /// Links a task to the listed producers and lets it go.
  [[gnu::always_inline]] void publish(Hot& slot) {
    if (count_ == 0 || publish_linked(slot)) machine_.give(domain_, slot);
  }
  /// The same for one of normal level that any worker may run.
  [[gnu::always_inline]] void publish_usual(Hot& slot) {
    if (count_ == 0 || publish_linked(slot)) machine_.give_usual(domain_, slot);
  }

 private:
  static constexpr std::uint64_t look_every = 32;
  static constexpr std::uint64_t look_idly = 8;
  static constexpr std::size_t most_per_operand = most_readers + 1;  // a writer that is not kept

  /// Makes room in the domain of a task that submits without waiting, if there is any.
  bool grow() {
    if (domain_.family == nullptr) return false;
    driver_.reclaim().collect();
    return !domain_.window.full() || domain_.family->grow();
  }

  [[gnu::noinline]] void look_for_room() {
    auto const& window = domain_.window;
    if (window.head() >= due_at_) {
      driver_.reclaim().collect();
      driver_.reclaim().sweep_if_due();
      due_at_ = window.head() + look_every;
    }
    if (window.full() && !grow()) {
      ++blocked_;
      driver_.wait_for_slot();
    } else if (window.head() - window.watermark() >= driver_.most_ahead()) {
      driver_.keep_up();
    }
    std::uint64_t const mark = window.watermark(), ahead = mark + driver_.most_ahead();
    bool const held_up = ahead <= window.head();  // behind a token: looking at each task is in vain
    look_at_ =
        std::min({due_at_, mark + window.size(), held_up ? window.head() + look_idly : ahead});
  }

  [[gnu::always_inline]] void collect_some(Uses uses, Groups groups, bool parts) {
    BufferUsers* const* const users = users_.data();
    if (groups != Groups::none) {
      make_readers_room(uses, users);
      make_groups_room(uses, groups);
      begin_collection();
      collect_groups(uses, groups, domain_.window.live());
    } else if (!collect_usual(uses, users)) {
      make_readers_room(uses, users);
      (void)collect_usual(uses, users);
    }
    Live const live = domain_.window.live();
    if (parts) collect_parts(uses, groups, live);
    if (count_ > edges_per_slot) join_all();
  }

  /// The same of uses that are in no groups; false where a buffer has no room for a reader.
  [[gnu::always_inline]] bool collect_usual(Uses uses, BufferUsers* const* users) {
    begin_collection();
    Live const live = domain_.window.live();
    auto const slots = domain_.window.slots();
    std::uint32_t const tag = tag_;
    Reference* const listed = listed_.data();
    std::size_t count = 0;
    auto const before = [&](Reference producer) __attribute__((always_inline)) {
      if (is_pending(producer)) {
        count_ = count;
        consider(producer, live);
        count = count_;
        return;
      }
      if (!live(producer) || !slots.first_meeting(producer, tag)) return;
      listed[count] = producer;
      count += !slots.consumers(producer).is_closed();
    };
    for (std::size_t i = 0; i < uses.size(); ++i) {  // as LastUsers::each_before
      BufferUsers const& its = *users[i];
      if (!writes(uses[i].access)) {
        if (!its.readers.takes_reader()) [[unlikely]]
          return false;
        before(its.writer);
      } else if (its.readers.empty()) {
        before(its.writer);
      } else {
        for (Reference const reader : its.readers) before(reader);
      }
    }
    count_ = count;
    return true;
  }

  /// Links a slot to the listed producers; true if it is ready now, and then the caller's to
  /// enqueue.
  [[gnu::always_inline]] bool publish_linked(Hot& slot) {
    return link({listed_.data(), count_}, slot);
  }

  /// The same where some uses are in groups, or not ordered.
  [[gnu::noinline]] void make_groups_room(Uses uses, Groups groups) {
    for (std::size_t i = 0; i < uses.size(); ++i)
      if (Access const order = support::order_of(uses, i, groups); support::is_group(order))
        make_group_room(*users_[i], order);
  }
  [[gnu::noinline]] void collect_groups(Uses uses, Groups groups, Live const& live) {
    auto const before = [&](Reference producer) { consider(producer, live); };
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Access const order = support::order_of(uses, i, groups);
      if (support::is_group(order))
        users_[i]->each_before_group(before);
      else if (order != Access::unordered)
        users_[i]->each_before(order, before);
    }
  }
  [[gnu::noinline]] void note_groups(Uses uses, Reference self, Groups groups) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Access const order = support::order_of(uses, i, groups);
      if (support::is_group(order))
        users_[i]->enter_group(order, self);
      else if (order != Access::unordered)
        users_[i]->enter(order, self);
      else  // it is not among the users, and holds the buffer by `last_use`
        support::whole_of(*uses[i].handle).set(support::Buffer::unordered);
    }
  }

  /// Lists the users of other parts of the same buffers that share bytes with these.
  [[gnu::noinline]] void collect_parts(Uses uses, Groups groups, Live const& live) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Use<support::Buffer*> const& use = uses[i];
      if (support::order_of(uses, i, groups) == Access::unordered) continue;
      for (support::Overlap const& other : support::overlaps_of(*use.handle)) {
        if (listed_.size() < count_ + most_readers + 1) lengthen(2 * listed_.size() + 16);
        BufferUsers const& users = driver_.reclaim().users(*other.buffer);
        consider(users.writer, live);
        if (writes(use.access) || !users.readers.only_read())
          for (Reference const reader : users.readers) consider(reader, live);
      }
    }
  }
  /// Besides `note`: behind a writer, what names no other bytes has no users of its own, nor has an
  /// empty region at all.
  [[gnu::noinline]] void note_parts(Uses uses, std::uint64_t ticket, Groups groups) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].handle->bytes == 0) users_[i]->forget();
      Access const order = support::order_of(uses, i, groups);
      if (order != Access::write && order != Access::update) continue;
      for (support::Overlap const& other : support::overlaps_of(*uses[i].handle))
        if (other.covered) driver_.reclaim().users(*other.buffer).forget();
    }
    support::commit_parts(uses, support::Ticket{ticket});
  }

  [[gnu::always_inline]] void begin_collection() {
    tag_ = domain_.window.next_collection();
    if (tag_ == 0) [[unlikely]]
      restart_tags();
  }
  /// No later collection takes a producer for met that one of before has met under the same tag.
  [[gnu::noinline]] void restart_tags() {
    domain_.window.forget_collections();
    domain_.pending.forget_collections();
    tag_ = domain_.window.next_collection();
  }

  /// Adds a producer unless it has ended or is listed.
  [[gnu::noinline]] void consider(Reference producer, Live const& live) {
    if (is_pending(producer)) {
      if (producer == no_reference) return;
      auto& pending = domain_.pending[producer];
      if (pending.seen == tag_ || pending.consumers.is_closed()) return;
      pending.seen = tag_;
      if (is_behind(pending) && domain_.window.finishing(pending.ticket)) return;
    } else {
      if (!live(producer) || !domain_.window.first_meeting(producer, tag_)) return;
      if (domain_.window.hot(producer).consumers.is_closed()) return;
    }
    listed_[count_++] = producer;
  }

  /// Keeps, of the first `count` listed tasks of the window, those that have not ended, each once.
  [[gnu::always_inline]] bool keep_open(std::size_t count) {
    begin_collection();
    Reference* const listed = listed_.data();
    std::uint32_t const tag = tag_;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Reference const producer = listed[i];
      if (producer == no_reference) [[unlikely]]
        continue;  // one ticket of 2^31 looks like it
      bool const first = domain_.window.first_meeting(producer, tag);
      bool const open = !domain_.window.hot(producer).consumers.is_closed();
      listed[kept] = producer;
      kept += first & open;
    }
    count_ = kept;
    return kept <= edges_per_slot;
  }

  /// Replaces listed producers by joins, eight by one, until a slot has edges for all.
  void join_all() {
    std::size_t first = 0;
    while (count_ - first > edges_per_slot) {
      if (count_ == listed_.size()) lengthen(2 * count_);
      listed_[count_++] = join({listed_.data() + first, edges_per_slot});
      first += edges_per_slot;
    }
    std::copy(listed_.begin() + static_cast<std::ptrdiff_t>(first),
              listed_.begin() + static_cast<std::ptrdiff_t>(count_), listed_.begin());
    count_ -= first;
  }

  [[gnu::noinline]] void lengthen(std::size_t listed) {
    ++growths_;
    listed_.resize(listed);
  }

  /// A task that does nothing and ends once all of these have: one that was submitted for the same
  /// ones lately, or a new one. Leaves a free slot.
  [[gnu::noinline]] Reference join(std::span<Reference const> producers) {
    if (producers.size() != edges_per_slot) return submit_join(producers);
    // In one of two places.
    Joined* const places = &joined_[producers[0] * 0x9e3779b9u >> (32 - joined_bits) & ~1u];
    std::uint64_t const mark = domain_.window.watermark();
    for (Joined* const joined : {places, places + 1})
      if (std::memcmp(producers.data(), joined->producers, sizeof joined->producers) == 0 &&
          joined->behind > mark)
        return reference_to(joined->behind - 1);
    if (std::any_of(producers.begin(), producers.end(), is_pending))
      return submit_join(producers);  // names of pending tasks are used again
    Joined& joined = places[places[0].behind > mark ? 1 : 0];
    std::uint64_t const behind = domain_.window.head() + 1;
    joined.behind = 0;  // the wait for another slot may throw
    std::copy(producers.begin(), producers.end(), joined.producers);
    Reference const self = submit_join(producers);
    joined.behind = behind;
    return self;
  }
  Reference submit_join(std::span<Reference const> producers) {
    Reference const self = reference_to(domain_.window.head());
    Hot& slot = domain_.window.open(SlotKind::join, normal_level, -1, 0);
    ++joins_;
    if (link(producers, slot)) {
      NoSuccessors none;
      domain_.window.complete(slot, none);
    }
    make_room();
    return self;
  }
  struct NoSuccessors {
    void ended(Reference) {}
    void ready(Hot&) {}
  };

  /// Forgets what has ended; whether the users are usual then.
  [[gnu::noinline]] bool become_usual(BufferUsers& users) {
    UsersTable::sweep(users, [this](Reference reference) { return !domain_.finished(reference); });
    return users.usual();
  }
  /// Room for one more reader by name of each buffer that is read. Buffers that the same tasks have
  /// read, as are many of a task that reads many, are looked at once.
  [[gnu::noinline]] void make_readers_room(Uses uses, BufferUsers* const* users) {
    Readers before, after;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Readers& readers = users[i]->readers;
      if (writes(uses[i].access) || readers.takes_reader()) continue;
      if (readers == before) {
        readers = after;
        continue;
      }
      before = readers;
      make_group_room(*users[i], Access::read);
      if (before.only_read())
        after = readers;
      else
        before.clear();  // the writer has changed as well
    }
  }
  /// Room for one more of the tasks of that kind.
  [[gnu::noinline]] void make_group_room(BufferUsers& users, Access kind) {
    Following const none(*this, {-1, 0});  // the joins are others' producers, too
    (void)become_usual(users);
    users.begin_group(
        kind, [this](Readers const& group) { return join({group.begin(), group.count()}); });
    if (!users.readers.full()) return;
    Reference const all = join({users.readers.begin(), most_readers});
    users.readers.clear();
    users.enter_group(kind, all);
  }

  /// Whether the task that is being submitted waits for the launch of that one alone, which is that
  /// of its slot.
  bool is_behind(Pending<Policy> const& producer) const {
    if constexpr (runs_ahead)
      return stream_.device >= 0 && producer.stream == stream_;
    else
      return false;
  }

  struct Joined {
    Reference producers[edges_per_slot] = {};
    std::uint64_t behind = 0;  // the ticket behind its own; 0: there is none
  };

  Machine<Policy>& machine_;
  Domain<Policy>& domain_;
  Driver<Policy>& driver_;
  static constexpr int joined_bits = 6;
  Joined joined_[1 << joined_bits];  // by their first producer
  DynamicArray<Reference> listed_;
  DynamicArray<BufferUsers*> users_;  // of the operands of the latest collection
  std::size_t count_ = 0;
  Stream stream_{-1, 0};       // of the task that is being submitted
  std::uint32_t tag_ = 0;      // of the current collection
  std::uint64_t due_at_ = 0;   // tickets from which on finished tasks are looked for,
  std::uint64_t look_at_ = 0;  // and from which on these or room
  std::uint64_t joins_ = 0;
  std::uint64_t blocked_ = 0;
  std::uint64_t growths_ = 0;
};

}  // namespace nntile::detail::ring
