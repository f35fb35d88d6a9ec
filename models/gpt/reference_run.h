// The tiny GPT's run that PyTorch repeats (framework/testing/reference_run.h): without dropout, on
// batches of testdata/fixed.txt. bench/peers/gpt_torch.py writes testdata/reference_run.json.
#ifndef SLUICE_MODELS_GPT_REFERENCE_RUN_H_
#define SLUICE_MODELS_GPT_REFERENCE_RUN_H_

#include <string>

#include "framework/testing/reference_run.h"

namespace sluice {

ReferenceRunCase GptReferenceRun(const std::string& text_path);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_REFERENCE_RUN_H_
