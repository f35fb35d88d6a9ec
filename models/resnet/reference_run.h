// The small ResNet's run that PyTorch repeats (framework/testing/reference_run.h), on drawn
// pictures. bench/peers/resnet_torch.py writes testdata/reference_run.json.
#ifndef SLUICE_MODELS_RESNET_REFERENCE_RUN_H_
#define SLUICE_MODELS_RESNET_REFERENCE_RUN_H_

#include "framework/testing/reference_run.h"

namespace sluice {

ReferenceRunCase ResNetReferenceRun();

}  // namespace sluice

#endif  // SLUICE_MODELS_RESNET_REFERENCE_RUN_H_
