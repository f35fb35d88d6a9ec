// The small Wide & Deep model's run that PyTorch repeats (framework/testing/reference_run.h). For
// tests.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_REFERENCE_RUN_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_REFERENCE_RUN_H_

#include "framework/testing/reference_run.h"

namespace sluice {

ReferenceRunCase WideAndDeepReferenceRun();

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_REFERENCE_RUN_H_
