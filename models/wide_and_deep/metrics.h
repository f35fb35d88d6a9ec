// How well logits tell clicks from others, over a whole set, exactly. Pure.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_METRICS_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_METRICS_H_

#include "absl/types/span.h"

namespace sluice {

// The share of pairs of one sample of each label in which that with label 1 has the larger logit,
// equal ones half (Mann & Whitney): by sorting, without bins. NaN where one of the labels does not
// occur. Requires: no logit is NaN.
double AreaUnderCurve(absl::Span<const float> logits, absl::Span<const float> labels);

// The mean of -log of the probability that the sigmoid of a logit gives its label, in nats.
double LogLoss(absl::Span<const float> logits, absl::Span<const float> labels);

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_METRICS_H_
