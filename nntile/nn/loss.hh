#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The loss of a language model.

#include "nntile/graph/apply.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile::nn {

/// Mean over all tokens of -log softmax(logits)[label]: logits[v, s, b], labels int64 [s, b],
/// result a scalar in nats. The mean is a sum over s, then over b, scaled in the last stage; labels
/// of -100 count as tokens of loss 0.
inline Node mean_cross_entropy(Node const& logits, Node const& labels,
                               std::string const& name = "loss") {
  Node total = cross_entropy(logits, labels);
  double const scale = 1.0 / static_cast<double>(element_count(labels.shape()));
  bool later = false;
  for (; total.shape().size() > 1; later = true)
    total = sum_slice({.axis = 0, .ascending = later}, total);
  return sum_slice({.axis = 0, .alpha = scale, .ascending = later}, total,
                   logits.graph().tensor({.shape = {}, .dtype = total.dtype()}, name));
}

}  // namespace nntile::nn
