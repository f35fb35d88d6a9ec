#include "framework/compiler/pulls.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "framework/plan/shard_proto.h"
#include "framework/tensor/shard.h"

namespace sluice {
namespace {

using Longs = google::protobuf::RepeatedField<int64_t>;

// Appends a box of so many elements along each dimension to what a pull brings: where it lies there
// and, in a row with those before it, here. Returns its elements.
int64_t AddPiece(const Shape& extent, int64_t source_offset, const Shape& source_strides,
                 int64_t at, plan::Instruction* pull) {
  plan::Region* piece = pull->add_regions();
  for (int64_t n : extent) {
    piece->add_begin(0);
    piece->add_end(n);
  }
  piece->add_sources(0);
  piece->add_fold(0);
  piece->add_source_offsets(source_offset);
  plan::Strides* there = piece->add_source_strides();
  for (int64_t stride : source_strides) there->add_values(stride);
  piece->set_offset(at);
  for (int64_t stride : extent.Strides()) piece->add_strides(stride);
  return extent.NumElements();
}

Shape ExtentOf(const plan::Region& region) {
  Shape extent;
  for (int d = 0; d < region.begin_size(); ++d) extent.Append(region.end(d) - region.begin(d));
  return extent;
}

Shape ShapeFrom(const Longs& values) {
  return Shape(absl::MakeConstSpan(values.data(), values.size()));
}

class Puller {
 public:
  explicit Puller(plan::Program* program) : program_(*program) {
    for (int s = 0; s < program_.streams_size(); ++s) {
      if (program_.streams(s).kind() != plan::STREAM_NET) continue;
      net_[program_.streams(s).device()] = s;
    }
  }

  void Run() {
    const int actors = program_.actors_size();  // pulls are added behind
    for (int a = 0; a < actors; ++a) {
      if (IsRemote(program_.actors(a))) continue;
      for (int i = 0; i < program_.actors(a).script_size(); ++i) {
        for (int o = 0; o < program_.actors(a).script(i).inputs_size(); ++o) {
          if (ReadsRemote(program_.actors(a).script(i).inputs(o))) Pull(a, i, o);
        }
      }
    }
  }

 private:
  bool ReadsRemote(const plan::Operand& operand) const {
    if (operand.storage_case() != plan::Operand::kRegister) return false;
    const int32_t producer = program_.registers(operand.register_()).producer();
    return producer >= 0 && IsRemote(program_.actors(producer));
  }

  void Pull(int a, int i, int o) {
    const int32_t device = program_.streams(program_.actors(a).stream()).device();
    const int32_t from = program_.actors(a).script(i).inputs(o).register_();
    const plan::Actor& remote = program_.actors(program_.registers(from).producer());
    const int32_t staging = program_.registers_size();

    plan::Actor actor;
    actor.set_name(absl::StrCat("d", device, ".pull(", program_.registers(from).name(), ".d",
                                program_.registers(from).device(), ")"));
    actor.set_firings_per_step(remote.firings_per_step());
    actor.set_priority(program_.actors(a).priority());
    plan::Instruction* pull = actor.add_script();
    pull->set_kind(plan::INSTRUCTION_PULL);
    pull->set_scope(remote.script(0).scope());
    pull->set_number(remote.script(0).number());

    plan::Instruction* reader = program_.mutable_actors(a)->mutable_script(i);
    plan::Operand* read = reader->mutable_inputs(o);
    const auto dtype = static_cast<DType>(read->shard().dtype());
    const int64_t elements = MovePieces(o, reader, pull);
    *pull->add_inputs() = *read;
    read->set_register_(staging);
    read->set_offset(0);
    const plan::Shard brought = ShardToProto(Shard::Whole(dtype, Shape{elements}));
    if (reader->kind() != plan::INSTRUCTION_FETCH) *read->mutable_shard() = brought;
    plan::Operand* output = pull->add_outputs();
    *output->mutable_shard() = brought;
    output->set_register_(staging);
    const int64_t bytes = elements * SizeOf(dtype);
    pull->set_bytes(bytes);
    pull->set_wire_bytes(bytes);

    plan::Register* reg = program_.add_registers();
    reg->set_name(absl::StrCat(program_.registers(from).name(), ".pulled"));
    reg->set_producer(program_.actors_size());
    reg->set_device(device);
    reg->set_bytes(bytes);
    reg->set_quota(1);
    reg->set_emit_every(1);
    actor.set_stream(NetStream(device));
    *program_.add_actors() = std::move(actor);
  }

  // Everything that the reader's regions take of input `o`, piece by piece in a row; a fetch takes
  // all of it. Then the regions read the row. Returns its elements.
  static int64_t MovePieces(int o, plan::Instruction* reader, plan::Instruction* pull) {
    if (reader->kind() == plan::INSTRUCTION_FETCH) {
      const Shape whole = ShapeFrom(reader->inputs(o).shard().local());
      return AddPiece(whole, 0, whole.Strides(), 0, pull);
    }
    int64_t at = 0;
    for (plan::Region& region : *reader->mutable_regions()) {
      const Shape extent = ExtentOf(region);
      for (int k = 0; k < region.sources_size(); ++k) {
        if (region.sources(k) != o) continue;
        plan::Strides* strides = region.mutable_source_strides(k);
        const int64_t elements =
            AddPiece(extent, region.source_offsets(k), ShapeFrom(strides->values()), at, pull);
        region.set_source_offsets(k, at);
        strides->clear_values();
        for (int64_t stride : extent.Strides()) strides->add_values(stride);
        at += elements;
      }
    }
    return at;
  }

  int32_t NetStream(int32_t device) {
    const auto [found, fresh] = net_.emplace(device, program_.streams_size());
    if (fresh) {
      plan::Stream* stream = program_.add_streams();
      stream->set_device(device);
      stream->set_kind(plan::STREAM_NET);
    }
    return found->second;
  }

  plan::Program& program_;
  std::map<int32_t, int32_t> net_;  // by device
};

}  // namespace

bool IsRemote(const plan::Actor& actor) {
  return actor.script(0).kind() == plan::INSTRUCTION_REMOTE;
}

bool IsPull(const plan::Actor& actor) { return actor.script(0).kind() == plan::INSTRUCTION_PULL; }

Schedule AddPulls(Schedule schedule) {
  Puller(&schedule.program).Run();
  return schedule;
}

}  // namespace sluice
