// A small ResNet as framework/testing/training_parity.h compares it, and the layouts on which it
// does. For tests of this package.
#ifndef SLUICE_MODELS_RESNET_PARITY_H_
#define SLUICE_MODELS_RESNET_PARITY_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "framework/testing/training_parity.h"
#include "models/resnet/resnet.h"

namespace sluice {

struct ResNetLayout {
  std::string mesh;
  int64_t micro_batches = 1;
  int64_t groups = 1;
  int64_t split_stages = 0;
  int64_t depth = 18;
  int zero = 0;  // passes/zero.h
  PrecisionOptions precision = {};

  std::string Name() const;  // "data=2 model=2 micro=2 groups=2"
  std::string Stem() const;  // the same as a file name
  ResNetConfig Config() const;
  friend void PrintTo(const ResNetLayout& layout, std::ostream* out) { *out << layout.Name(); }
};

// One device of the same model in the same precision: what the layout must equal.
ResNetLayout ReferenceOf(const ResNetLayout& layout);
// The layouts of Stanza (convolutions data parallel, the last layer split by classes) and OptCNN
// (channels split where images are small) among them.
std::vector<ResNetLayout> ResNetLayouts();

ParityCase ResNetParity(const ResNetLayout& layout);

}  // namespace sluice

#endif  // SLUICE_MODELS_RESNET_PARITY_H_
