#include "framework/runtime/planned_pull.h"

#include <utility>

#include "framework/tensor/dtype.h"

namespace sluice {
namespace {

const ProgramIndex::Register& StagingOf(const ProgramIndex& index, int32_t actor) {
  return index.reg(index.program().actors(actor).script(0).outputs(0).register_());
}

}  // namespace

PullRequest PlannedRequest(const ProgramIndex& index, int32_t program, int32_t actor) {
  const plan::Program& planned = index.program();
  const plan::Instruction& x = planned.actors(actor).script(0);
  const plan::Register& reg = planned.registers(x.inputs(0).register_());
  const int32_t device = planned.streams(planned.actors(actor).stream()).device();
  PullRequest request;
  request.edge = {program, reg.device(), reg.number(), device, x.number()};
  request.element_bytes =
      static_cast<int32_t>(SizeOf(static_cast<DType>(x.outputs(0).shard().dtype())));
  for (const plan::Region& region : x.regions()) {
    PullRequest::Piece piece;
    piece.offset = x.inputs(0).offset() + region.source_offsets(0) * request.element_bytes;
    int64_t elements = 1;
    for (int d = 0; d < region.begin_size(); ++d) {
      piece.extent.push_back(region.end(d) - region.begin(d));
      elements *= piece.extent.back();
    }
    const auto& strides = region.source_strides(0).values();
    piece.strides.assign(strides.begin(), strides.end());
    request.bytes += elements * request.element_bytes;
    request.pieces.push_back(std::move(piece));
  }
  return request;
}

int32_t ReaderOfPull(const ProgramIndex& index, int32_t actor) {
  const ProgramIndex::Register& staging = StagingOf(index, actor);
  const bool has_one = staging.consumers_end == staging.consumers_begin + 1;
  return has_one ? index.consumer(staging.consumers_begin).actor : -1;
}

bool MayLend(const ProgramIndex& index, int32_t actor) {
  return ReaderOfPull(index, actor) >= 0 && index.ring(StagingOf(index, actor).ring).slots == 1;
}

}  // namespace sluice
