#include "framework/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <memory>
#include <utility>

#include "framework/base/log.h"
#include "framework/base/thread.h"

namespace sluice {

CheckpointWriter::CheckpointWriter(std::string dir, int64_t keep, FileFaults* faults)
    : dir_(std::move(dir)), keep_(keep), faults_(faults) {}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Begin(CheckpointMeta meta, std::vector<TensorEntry> entries,
                             std::vector<HostTensor> values) {
  SLUICE_CHECK(!pending_.valid()) << "the result of the save before was not taken";
  SLUICE_CHECK_EQ(entries.size(), values.size());
  if (thread_.joinable()) thread_.join();  // it has given its result
  auto save = std::make_shared<std::packaged_task<Result()>>(
      [this, meta = std::move(meta), entries = std::move(entries),
       values = std::move(values)]() mutable {
        size_t next = 0;  // the source is asked once for each, in order
        return Write(meta, entries, [&](const TensorEntry&) -> absl::StatusOr<HostTensor> {
          return std::move(values[next++]);
        });
      });
  pending_ = save->get_future();
  if (!StartThread([save] { (*save)(); }, &thread_).ok()) (*save)();  // while the caller waits
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
  if (result.saved.ok()) result.pruned = PruneCheckpoints(dir_, meta.step, keep_, faults_);
  return result;
}

}  // namespace sluice
