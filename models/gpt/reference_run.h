// A short training run that another framework repeats: the tiny GPT for 20 steps, without dropout,
// from its initial values, on batches of testdata/fixed.txt. What the other one measured is kept in
// testdata/reference_run.json; bench/peers/gpt_torch.py writes it. One thread.
#ifndef SLUICE_MODELS_GPT_REFERENCE_RUN_H_
#define SLUICE_MODELS_GPT_REFERENCE_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/batch.h"
#include "framework/session/session.h"

namespace sluice {

constexpr int64_t kReferenceRunSteps = 20;

struct ReferenceRunFigures {
  std::vector<double> losses, grad_norms;  // of each step; norms are those before clipping
};

class ReferenceRun {
 public:
  static absl::StatusOr<std::unique_ptr<ReferenceRun>> Start(const std::string& text_path);

  // All that a peer needs, before the first step:
  //   step-000000/          a checkpoint of the initial values; its options say sizes and rules
  //   batches.safetensors   tokens, labels i32 [steps, batch, length], learning_rate f32 [steps]
  absl::Status WriteInputs(const std::string& folder);
  absl::StatusOr<ReferenceRunFigures> Train();

  // Digest of all batches, then of the initial values: whether a record is of this very run. The
  // second may depend on the machine's mathematical library.
  std::string batches_digest() const { return batches_digest_; }
  absl::StatusOr<std::string> InitialDigest();

 private:
  ReferenceRun() = default;
  std::string batches_digest_;
  std::vector<Batch> batches_;
  std::unique_ptr<Session> session_;
};

// {"losses": [..], "grad_norms": [..]} and whatever facts came with them.
struct ReferenceRunRecord {
  ReferenceRunFigures figures;
  std::string peer, date, batches_digest, initial_digest;
};
absl::StatusOr<ReferenceRunRecord> ReadReferenceRunRecord(const std::string& path);
absl::Status WriteReferenceRunRecord(const std::string& path, const ReferenceRunRecord& record);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_REFERENCE_RUN_H_
