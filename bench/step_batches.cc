#include "bench/step_batches.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/drawn_images.h"
#include "framework/tensor/array.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

// Tensors by the names of the program's inputs; all programs have the last two.
class DrawnBatch {
 public:
  explicit DrawnBatch(float learning_rate) { *rate_.data<float>() = learning_rate; }

  HostTensor& Add(const std::string& name, DType dtype, const Shape& shape) {
    tensors_.emplace_back(name, std::make_unique<HostTensor>(dtype, shape));
    return *tensors_.back().second;
  }

  Feeds Of(int64_t step) {
    *step_.data<int32_t>() = static_cast<int32_t>(step);
    Feeds feeds = {{"learning_rate", &rate_}, {"step", &step_}};
    for (const auto& [name, tensor] : tensors_) feeds.emplace_back(name, tensor.get());
    return feeds;
  }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<HostTensor>>> tensors_;
  HostTensor rate_{DType::kF32, {}}, step_{DType::kI32, {}};
};

StepFeeds FeedsOf(std::shared_ptr<DrawnBatch> batch) {
  return [batch = std::move(batch)](int64_t step) { return batch->Of(step); };
}

}  // namespace

StepFeeds BertFeeds(const BertConfig& c) {
  const auto batch = std::make_shared<DrawnBatch>(1e-4f);
  const auto word = [&](int64_t i) { return static_cast<int32_t>(i * 7919 % c.vocabulary); };
  const int64_t words = c.batch * c.sequence_length, masked = c.batch * c.predictions;
  const Shape of_words = {c.batch, c.sequence_length}, of_masked = {c.batch, c.predictions};
  int32_t* const tokens = batch->Add("tokens", DType::kI32, of_words).data<int32_t>();
  int32_t* const segments = batch->Add("segments", DType::kI32, of_words).data<int32_t>();
  for (int64_t i = 0; i < words; ++i) {
    tokens[i] = word(i);
    segments[i] = i % c.sequence_length < c.sequence_length / 2 ? 0 : 1;
  }
  int32_t* const positions = batch->Add("positions", DType::kI32, of_masked).data<int32_t>();
  int32_t* const labels = batch->Add("labels", DType::kI32, of_masked).data<int32_t>();
  float* const weights = batch->Add("weights", DType::kF32, of_masked).data<float>();
  for (int64_t i = 0; i < masked; ++i) {
    positions[i] = static_cast<int32_t>(i % c.predictions * c.sequence_length / c.predictions);
    labels[i] = word(i + 1);
    weights[i] = 1;
  }
  HostTensor& masked_words = batch->Add("masked_words", DType::kF32, {c.batch});
  std::fill_n(masked_words.data<float>(), c.batch, static_cast<float>(c.predictions));
  int32_t* const length = batch->Add("length", DType::kI32, {c.batch}).data<int32_t>();
  int32_t* const next = batch->Add("next", DType::kI32, {c.batch}).data<int32_t>();
  for (int64_t i = 0; i < c.batch; ++i) {
    length[i] = static_cast<int32_t>(c.sequence_length);
    next[i] = static_cast<int32_t>(i % 2);
  }
  return FeedsOf(batch);
}

StepFeeds PictureFeeds(const ResNetConfig& c) {
  const auto batch = std::make_shared<DrawnBatch>(1e-3f);
  HostTensor& images =
      batch->Add("images", DType::kU8, {c.batch, c.image_size, c.image_size, c.channels});
  HostTensor& labels = batch->Add("labels", DType::kI32, {c.batch});
  const LabeledImages drawn =
      DrawImages(c.batch, {c.image_size, c.image_size, c.channels}, c.classes, /*seed=*/1);
  std::copy_n(reinterpret_cast<const std::byte*>(drawn.pixels.data()), drawn.pixels.size(),
              images.bytes.begin());
  std::copy(drawn.labels.begin(), drawn.labels.end(), labels.data<int32_t>());
  return FeedsOf(batch);
}

StepFeeds FeatureFeeds(const FaceConfig& c) {
  const auto batch = std::make_shared<DrawnBatch>(1e-3f);
  float* const features = batch->Add("features", DType::kF32, {c.batch, c.embedding}).data<float>();
  for (int64_t i = 0; i < c.batch * c.embedding; ++i) {
    const auto words = Philox(/*seed=*/1, /*key=*/0, /*step=*/0, i);
    features[i] = static_cast<float>(words[0]) * 0x1p-31f - 1;
  }
  int32_t* const labels = batch->Add("labels", DType::kI32, {c.batch}).data<int32_t>();
  for (int64_t i = 0; i < c.batch; ++i) labels[i] = static_cast<int32_t>(i * 7919 % c.classes);
  return FeedsOf(batch);
}

}  // namespace sluice
