// Adds the updates of the variables to a graph that has gradients.
#ifndef SLUICE_FRAMEWORK_PASSES_OPTIMIZER_H_
#define SLUICE_FRAMEWORK_PASSES_OPTIMIZER_H_

#include "absl/status/status.h"
#include "framework/graph/graph.h"
#include "framework/passes/backward.h"
#include "framework/passes/pass.h"
#include "framework/passes/zero.h"

namespace sluice {

// The update rules are PyTorch's, term by term (AdamW: decay first, epsilon outside the root; SGD:
// the momentum begins with the whole first gradient, later ones lose the dampening), and LARS and
// LAMB as their papers have them (You et al. 2017 and 2019). Variables of rank below 2, biases,
// norms and slopes, have neither weight decay nor a trust ratio.
struct OptimizerOptions {
  enum Kind : uint8_t { kSgd, kAdamW, kLars, kLamb };
  Kind kind = kAdamW;
  double momentum = 0;                               // SGD and LARS; 0 keeps no state of SGD's
  bool nesterov = false;                             // SGD with momentum alone
  double dampening = 0;                              // SGD with momentum alone, and not Nesterov's
  double trust_coefficient = 0.001;                  // LARS alone
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // AdamW and LAMB
  bool bias_correction = true;                       // of these; Google's BERT goes without
  double weight_decay = 0;                           // pulls weights to 0
  // Largest global norm of the gradients; 0 never clips.
  double clip = 0;
  // What gradients of f32 are reduced over devices in, but for rows of tables; norms and updates
  // read what comes of it in f32. In another type than f32 micro-batches are reduced one by one.
  DType reduce = DType::kF32;
  ZeroOptions zero;  // `reduce` and this: of AddTraining and Train
};

// Whether a step of a variable is as long as its length says, so that all of it moves.
inline bool HasTrustRatio(OptimizerOptions::Kind kind) {
  return kind == OptimizerOptions::kLars || kind == OptimizerOptions::kLamb;
}

// Adds the global norm, then an update of every variable in `gradients`, in their order, and the
// state that it needs as variables of zeros: <variable>.m and .v, or .momentum, with the role of a
// state, stored as the parameter says. Where that is as the parameter is stored itself, one op
// changes both in place; elsewhere one changes the state and gives the new value, which another
// puts into the parameter. `learning_rate` is f32 [], `step` i32 [], counted from 1. `grad_norm`:
// before clipping.
absl::Status AddOptimizer(Graph* graph, const VariableGradients& gradients, Tensor learning_rate,
                          Tensor step, const OptimizerOptions& options, Tensor* grad_norm);

// All that turns a loss into a train program: inputs "learning_rate" (f32 []) and "step" (i32 [],
// from 1), the backward pass, the updates, outputs "loss" and "grad_norm". Graph::Finish is the
// caller's.
absl::Status AddTraining(Graph* graph, Tensor loss, const OptimizerOptions& options);
// The same of a program whose output "loss" it is.
GraphPass Train(const OptimizerOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PASSES_OPTIMIZER_H_
