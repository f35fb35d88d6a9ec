// A small face network as framework/testing/training_parity.h compares it, and the layouts on which
// it does. For tests of this package.
#ifndef SLUICE_MODELS_INSIGHTFACE_PARITY_H_
#define SLUICE_MODELS_INSIGHTFACE_PARITY_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "framework/testing/training_parity.h"
#include "models/insightface/insightface.h"

namespace sluice {

struct FaceLayout {
  std::string mesh;
  int64_t micro_batches = 1;
  int64_t groups = 1;
  std::string network = "ir18";
  bool cos_face = false;  // CosFace's margin, not ArcFace's
  int zero = 0;           // passes/zero.h
  PrecisionOptions precision = {};
  double sample_rate = 1;  // of more classes than all else has
  int64_t sample_groups = 1;

  std::string Name() const;  // "data=2 model=2 micro=2 groups=2"
  std::string Stem() const;  // the same as a file name
  FaceConfig Config() const;
  friend void PrintTo(const FaceLayout& layout, std::ostream* out) { *out << layout.Name(); }
};

// One device of the same model: what the layout must equal.
FaceLayout ReferenceOf(const FaceLayout& layout);
std::vector<FaceLayout> FaceLayouts();

ParityCase FaceParity(const FaceLayout& layout);

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_PARITY_H_
