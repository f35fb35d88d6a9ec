#include "framework/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/checkpoint/folder.h"

namespace sluice {
namespace {

// An error as text for other ranks, with its code, by which a caller tells a disk that takes
// nothing from a state that is not to be saved. Empty where there is none.
std::string TextOf(const absl::Status& status) {
  if (status.ok()) return "";
  return absl::StrCat(static_cast<int>(status.code()), " ", status.message());
}

absl::Status ErrorOfRank(size_t rank, const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code)) code = static_cast<int>(absl::StatusCode::kInternal);
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat("rank ", rank, ": ", parts.second));
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : options_(std::move(options)) {}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Begin(CheckpointContents contents, std::function<BoxSource()> copied) {
  SLUICE_CHECK(!pending_.valid()) << "the result of the save before was not taken";
  if (thread_.joinable()) thread_.join();  // it has given its result
  auto save = std::make_shared<std::packaged_task<Result()>>(
      [this, contents = std::move(contents), copied = std::move(copied)] {
        return Write(contents, copied());
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

CheckpointWriter::Result CheckpointWriter::Write(const CheckpointContents& contents,
                                                 const BoxSource& source) const {
  const CheckpointPart& part = options_.part;
  Result result{contents.meta.step,
                part.parts > 1 ? SaveTogether(contents, source) : Save(contents, source),
                {}};
  if (result.saved.ok() && part.part == 0) {
    result.pruned = PruneCheckpoints(options_.dir, contents.meta.step, options_.keep, options_.best,
                                     options_.faults);
  }
  return result;
}

absl::StatusOr<std::string> CheckpointWriter::Save(const CheckpointContents& contents,
                                                   const BoxSource& source) const {
  if (options_.check) RETURN_IF_ERROR(options_.check());
  size_t next = 0;  // the source is asked once for each, in order
  return SaveCheckpoint(
      options_.dir, contents.meta, contents.tensors,
      [&](const TensorEntry&) { return source(contents.boxes[next++]); }, options_.faults);
}

// Nobody waits but for the others' writers. A rank that is lost is an error of the question under
// way: what was begun stays unfinished, and the next save that is committed removes it.
absl::StatusOr<std::string> CheckpointWriter::SaveTogether(const CheckpointContents& contents,
                                                           const BoxSource& source) const {
  const CheckpointMeta& meta = contents.meta;
  const std::string& dir = options_.dir;
  FileFaults* const faults = options_.faults;
  RETURN_IF_ERROR(options_.agree("", [&](absl::Span<const std::string>) {
    const absl::Status checked = options_.check ? options_.check() : absl::OkStatus();
    return AddContext(checked.ok() ? BeginCheckpoint(dir, meta, faults) : checked, "rank 0");
  }));
  const absl::Status written = WriteCheckpointPart(dir, meta, options_.part, contents.tensors,
                                                   contents.boxes, source, faults);
  RETURN_IF_ERROR(options_.agree(TextOf(written), [&](absl::Span<const std::string> ranks) {
    // Where a part has failed, the commit only cleans up.
    const absl::Status committed =
        CommitCheckpoint(dir, meta, options_.part.parts, faults).status();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (!ranks[rank].empty()) return ErrorOfRank(rank, ranks[rank]);
    }
    return AddContext(committed, "rank 0");
  }));
  return CheckpointPath(dir, meta);
}

}  // namespace sluice
