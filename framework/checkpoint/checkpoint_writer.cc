#include "framework/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <utility>

#include "framework/base/log.h"

namespace sluice {

CheckpointWriter::CheckpointWriter(std::string dir, int64_t keep, FileFaults* faults)
    : dir_(std::move(dir)), keep_(keep), faults_(faults) {}

void CheckpointWriter::Begin(CheckpointMeta meta, std::vector<TensorEntry> entries,
                             std::vector<HostTensor> values) {
  SLUICE_CHECK(!pending_.valid()) << "the result of the save before was not taken";
  SLUICE_CHECK_EQ(entries.size(), values.size());
  pending_ =
      std::async(std::launch::async, [this, meta = std::move(meta), entries = std::move(entries),
                                      values = std::move(values)]() mutable {
        size_t next = 0;  // the source is asked once for each, in order
        return Write(meta, entries, [&](const TensorEntry&) -> absl::StatusOr<HostTensor> {
          return std::move(values[next++]);
        });
      });
}

std::optional<CheckpointWriter::Result> CheckpointWriter::Take(bool wait) {
  if (!pending_.valid()) return std::nullopt;
  if (!wait && pending_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return std::nullopt;
  }
  return pending_.get();
}

CheckpointWriter::Result CheckpointWriter::Write(const CheckpointMeta& meta,
                                                 const std::vector<TensorEntry>& entries,
                                                 const TensorSource& source) const {
  Result result{meta.step, SaveCheckpoint(dir_, meta, entries, source, faults_), {}};
  if (result.saved.ok()) result.pruned = PruneCheckpoints(dir_, keep_, faults_);
  return result;
}

}  // namespace sluice
