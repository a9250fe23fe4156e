#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The loss of a language model.

#include "nntile/graph/apply.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile::nn {

/// Mean of -log softmax(logits)[label] over the tokens whose label is not -100: logits[v, s, b],
/// labels int64 or int32 [s, b], result a scalar in nats. Sums over s, then over b; the last stage
/// multiplies by the reciprocal of the count, which is taken in fp64. Where every label is -100 the
/// loss is NaN and the gradient of the logits 0, as torch.nn.functional.cross_entropy's; a batch of
/// no sequences has the loss 0.
inline Node mean_cross_entropy(Node const& logits, Node const& labels,
                               std::string const& name = "loss") {
  LogicalGraph& graph = logits.graph();
  if (logits.shape().size() < 2)
    throw ShapeError(concat("mean_cross_entropy: logits ('", logits.name(), "') of shape ",
                            to_string(logits.shape()),
                            ", but they are {vocab, seq, batch} or {vocab, seq}"));
  return graph.all_or_nothing([&] {
    Node const count = count_labels(
        labels, graph.tensor({.shape = {}, .dtype = DType::fp64}, graph.unique("count_labels")));
    Node total = cross_entropy(logits, labels);
    bool later = false;
    for (; total.shape().size() > 1; later = true)
      total = sum_slice({.axis = 0, .ascending = later}, total);
    return sum_slice({.axis = 0, .ascending = later, .divided = true}, total, count,
                     graph.tensor({.shape = {}, .dtype = total.dtype()}, name));
  });
}

}  // namespace nntile::nn
