// The small BERT's run that PyTorch repeats (framework/testing/reference_run.h), on masked samples
// of the fixed text. bench/peers/bert_torch.py writes testdata/reference_run.json.
#ifndef SLUICE_MODELS_BERT_REFERENCE_RUN_H_
#define SLUICE_MODELS_BERT_REFERENCE_RUN_H_

#include "framework/testing/reference_run.h"

namespace sluice {

ReferenceRunCase BertReferenceRun();

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_REFERENCE_RUN_H_
