// What the updates of variables compute once a firing, for the loops over elements (formulas.inc).
#ifndef SLUICE_FRAMEWORK_KERNELS_UPDATE_STEPS_H_
#define SLUICE_FRAMEWORK_KERNELS_UPDATE_STEPS_H_

namespace sluice {

struct SgdStep {
  float factor, learning_rate, momentum, weight_decay;
  bool nesterov;
};
struct AdamWStep {
  // variable = decay * variable - rate * m / (sqrt(v) * root + epsilon)
  float factor, beta1, one_minus_beta1, beta2, one_minus_beta2, decay, rate, root, epsilon;
};
struct AdagradStep {
  float factor, learning_rate, weight_decay, epsilon;
};
struct FtrlStep {
  float factor, learning_rate, l1, l2, beta;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_UPDATE_STEPS_H_
