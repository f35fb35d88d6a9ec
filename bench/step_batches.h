// One batch of a timed step, drawn once: what a step trains on again and again. GPT's is in
// gpt_batch.h, Wide & Deep's batches in click_batches.h. One thread.
#ifndef SLUICE_BENCH_STEP_BATCHES_H_
#define SLUICE_BENCH_STEP_BATCHES_H_

#include "bench/step_run.h"
#include "models/bert/bert.h"
#include "models/insightface/insightface.h"
#include "models/resnet/resnet.h"

namespace sluice {

// No sample is padded; every word is as likely as any other, in text and labels.
StepFeeds BertFeeds(const BertConfig& config);
StepFeeds PictureFeeds(const ResNetConfig& config);
// What step_models.h calls the end of a face network.
StepFeeds FeatureFeeds(const FaceConfig& config);

}  // namespace sluice

#endif  // SLUICE_BENCH_STEP_BATCHES_H_
