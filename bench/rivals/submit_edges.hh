#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The edges of bench/submit's tasks, for rivals that are given them.

#include <vector>

#include "bench/rivals/submit.hh"

namespace submit_bench {

/// Last writer and readers since of each handle. `Node` is a pointer, or like one.
template <class Node> class Edges {
 public:
  /// Calls edge(from, to) for all that a task waits for, which comes after those before it.
  template <class Edge> void add(Case of, Triple t, Node const& node, Edge const& edge) {
    if (of == Case::three_handles) {
      read(users_[Values::index(t.a)], node, edge);
      read(users_[Values::index(t.b)], node, edge);
    }
    if (of != Case::independent) write(users_[Values::index(t.c)], node, edge);
  }

 private:
  struct Users {
    Node writer{};
    bool written = false;
    std::vector<Node> readers = {};
  };
  template <class Edge> static void read(Users& users, Node const& node, Edge const& edge) {
    if (users.written) edge(users.writer, node);
    users.readers.push_back(node);
  }
  template <class Edge> static void write(Users& users, Node const& node, Edge const& edge) {
    if (users.readers.empty() && users.written) edge(users.writer, node);
    for (Node const& reader : users.readers) edge(reader, node);
    users.readers.clear();
    users.writer = node;
    users.written = true;
  }

  std::vector<Users> users_ = std::vector<Users>(handles);
};

}  // namespace submit_bench
