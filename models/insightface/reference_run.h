// The small face network's run that PyTorch repeats (framework/testing/reference_run.h), on drawn
// pictures. bench/peers/insightface_torch.py writes testdata/reference_run.json.
#ifndef SLUICE_MODELS_INSIGHTFACE_REFERENCE_RUN_H_
#define SLUICE_MODELS_INSIGHTFACE_REFERENCE_RUN_H_

#include "framework/testing/reference_run.h"

namespace sluice {

ReferenceRunCase FaceReferenceRun();

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_REFERENCE_RUN_H_
