// A short training run that another framework repeats: a model for 20 steps on one device, from its
// initial values, on given batches. A model brings a ReferenceRunCase; what the peer measured is
// kept in a record beside the model's tests, which its losses and gradient norms must equal. A
// script in bench/peers reads what WriteReferenceRun writes, and writes the record. For tests. One
// thread.
#ifndef SLUICE_FRAMEWORK_TESTING_REFERENCE_RUN_H_
#define SLUICE_FRAMEWORK_TESTING_REFERENCE_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/batch.h"
#include "framework/data/dataset.h"
#include "framework/data/sample_order.h"
#include "framework/graph/graph.h"
#include "framework/nn/learning_rate.h"
#include "framework/session/session.h"
#include "framework/testing/reference_evaluation.h"

namespace sluice {

constexpr int64_t kReferenceRunSteps = 20;

// A model, and how it is trained.
struct ReferenceRunCase {
  // The train program: outputs "loss" and "grad_norm", inputs "learning_rate", "step" and the
  // fields of the data. Without dropout, for a peer draws other random numbers.
  std::function<absl::Status(Graph* graph)> build;
  std::function<absl::StatusOr<std::shared_ptr<const Dataset>>()> open_data;
  SampleOrder order;
  int64_t batch = 1;
  LearningRateSchedule schedule;
  // Sizes and rules that the peer has to know, under the trainer's names where it has a flag of the
  // same meaning.
  std::map<std::string, std::string> options;
  // Held-out data that the peer evaluates, too. May be empty.
  std::vector<ReferenceEvaluation> evaluations = {};
};

struct ReferenceRunFigures {
  std::vector<double> losses, grad_norms;  // of each step; norms are those before clipping
};

class ReferenceRun {
 public:
  static absl::StatusOr<std::unique_ptr<ReferenceRun>> Start(const ReferenceRunCase& of);

  // All that a peer needs, before the first step:
  //   step-000000/          a checkpoint of the initial values; its options are those of the case
  //   batches.safetensors   the fields of the data [steps, batch, ...], learning_rate f32 [steps]
  absl::Status WriteInputs(const std::string& folder);
  absl::StatusOr<ReferenceRunFigures> Train();

  // Digest of all batches, then of the initial values: whether a record is of this very run. The
  // second may depend on the machine's mathematical library.
  std::string batches_digest() const { return batches_digest_; }
  absl::StatusOr<std::string> InitialDigest();

 private:
  explicit ReferenceRun(const ReferenceRunCase& of) : case_(of) {}
  float RateOf(int64_t step) const {
    return static_cast<float>(LearningRate(case_.schedule, step));
  }

  const ReferenceRunCase case_;
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

// Writes a run's inputs into a folder, and in sluice.json what Sluice makes of them.
absl::Status WriteReferenceRun(const ReferenceRunCase& of, const std::string& folder);

// The largest relative differences from a record.
struct ReferenceRunDifferences {
  double loss = 0, grad_norm = 0;
};
// Trains, and compares each loss and norm with the record's. FailedPrecondition: the record is of
// other batches. DataLoss: the first figure that is further from the record's than `bound`,
// relative, and whether the run began from the record's values.
absl::Status CheckReferenceRun(const ReferenceRunCase& of, const ReferenceRunRecord& record,
                               double bound, ReferenceRunDifferences* differences);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_REFERENCE_RUN_H_
