#include "framework/conformance/planted_bugs.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "framework/attributes/attributes.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/ops/op_defs.h"

namespace sluice {
namespace {

using Signatures = absl::StatusOr<std::vector<Signature>>;

Signatures FromRule(const OpCall& call, int64_t shards, absl::string_view equation,
                    std::vector<std::vector<int>> linear = {},
                    Reduction contracted = Reduction::kSum) {
  ASSIGN_OR_RETURN(const IndexRule rule, IndexRule::Parse(equation, std::move(linear), contracted));
  std::vector<Shape> inputs, outputs;
  for (const TensorType& type : call.inputs) inputs.push_back(type.shape);
  for (const TensorType& type : call.outputs) outputs.push_back(type.shape);
  return rule.Signatures(inputs, outputs, shards);
}

// The right signatures, but what a split factor leaves partial is called whole.
Signatures WithoutPartial(const OpDef& op, const OpCall& call, int64_t shards) {
  ASSIGN_OR_RETURN(std::vector<Signature> signatures, SignaturesOf(op, call, shards));
  for (Signature& signature : signatures) {
    if (signature.factor == "P") continue;
    for (Sbp& sbp : signature.outputs) {
      if (sbp.is_partial()) sbp = Sbp::B();
    }
  }
  return signatures;
}

// The right signatures, and one more: these inputs partial (the rest whole) give partial outputs.
Signatures AlsoLinear(const OpDef& op, const OpCall& call, int64_t shards,
                      const std::vector<int>& inputs) {
  ASSIGN_OR_RETURN(std::vector<Signature> signatures, SignaturesOf(op, call, shards));
  Signature wrong = {"P", std::vector<Sbp>(call.inputs.size()),
                     std::vector<Sbp>(call.outputs.size(), Sbp::P())};
  for (int i : inputs) wrong.inputs[i] = Sbp::P();
  signatures.push_back(wrong);
  return signatures;
}

Signatures MaximumIsPartialSum(const OpCall& call, int64_t shards) {
  ASSIGN_OR_RETURN(std::vector<Signature> signatures, SignaturesOf(ReduceOp(), call, shards));
  for (Signature& signature : signatures) {
    for (Sbp& sbp : signature.outputs) {
      if (sbp == Sbp::P(Reduction::kMax)) sbp = Sbp::P();
    }
  }
  return signatures;
}

const RuleBug kRuleBugs[] = {
    {"matmul: split k is not partial", MatMulOp,
     [](const OpCall& c, int64_t p) { return WithoutPartial(MatMulOp(), c, p); }},
    {"weight gradient: split batch is not partial", MatMulWeightGradientOp,
     [](const OpCall& c, int64_t p) { return WithoutPartial(MatMulWeightGradientOp(), c, p); }},
    {"embedding: split rows are not partial", EmbeddingOp,
     [](const OpCall& c, int64_t p) { return WithoutPartial(EmbeddingOp(), c, p); }},
    {"gelu is linear", GeluOp,
     [](const OpCall& c, int64_t p) { return AlsoLinear(GeluOp(), c, p, {0}); }},
    {"multiply is linear in both together", MultiplyOp,
     [](const OpCall& c, int64_t p) {
       return AlsoLinear(MultiplyOp(), c, p, {0, 1});
     }},
    {"add takes what is partial beside what is whole", AddOp,
     [](const OpCall& c, int64_t p) { return AlsoLinear(AddOp(), c, p, {0}); }},
    {"softmax splits the dimension that it normalizes", SoftmaxOp,
     [](const OpCall& c, int64_t p) { return FromRule(c, p, "...e->...e"); }},
    {"a maximum is a partial sum", ReduceOp, MaximumIsPartialSum},
    {"sum_squares of a split tensor is not partial", SumSquaresOp,
     [](const OpCall& c, int64_t p) { return WithoutPartial(SumSquaresOp(), c, p); }},
};

// Calls fn for every instruction; true if one of them was changed.
bool ForEach(plan::Plan* plan, const std::function<bool(plan::Instruction*)>& fn) {
  bool changed = false;
  for (plan::Program& program : *plan->mutable_programs()) {
    for (plan::Actor& actor : *program.mutable_actors()) {
      for (plan::Instruction& instruction : *actor.mutable_script()) changed |= fn(&instruction);
    }
  }
  return changed;
}

// Over space: regions that hold in every firing.
bool IsBoxing(const plan::Instruction& x) {
  return x.kind() == plan::INSTRUCTION_FOLD && x.regions_size() > 0 && x.regions(0).micro() == 0;
}
bool IsOverTime(const plan::Instruction& x) {
  return x.kind() == plan::INSTRUCTION_FOLD && x.regions_size() > 0 && x.regions(0).micro() > 0;
}
bool IsUpdate(const plan::Instruction& x) {
  return std::any_of(x.inputs().begin(), x.inputs().end(),
                     [](const plan::Operand& operand) { return operand.updates(); });
}

bool DropRegion(plan::Instruction* x) {
  if (!IsBoxing(*x) || x->regions_size() < 2) return false;
  x->mutable_regions()->RemoveLast();
  return true;
}

bool LoseSourceOffset(plan::Instruction* x) {
  bool changed = false;
  if (!IsBoxing(*x)) return false;
  for (plan::Region& region : *x->mutable_regions()) {
    for (int64_t& offset : *region.mutable_source_offsets()) {
      changed |= offset != 0;
      offset = 0;
    }
  }
  return changed;
}

bool LoseTargetOffset(plan::Instruction* x) {
  bool changed = false;
  if (!IsBoxing(*x)) return false;
  for (plan::Region& region : *x->mutable_regions()) {
    changed |= region.offset() != 0;
    region.set_offset(0);
  }
  return changed;
}

// A reduction of two shards or more takes the first alone.
bool DropTerms(plan::Instruction* x) {
  bool changed = false;
  if (!IsBoxing(*x)) return false;
  for (plan::Region& region : *x->mutable_regions()) {
    if (region.fold_size() < 2) continue;
    region.clear_fold();
    region.add_fold(0);
    changed = true;
  }
  return changed;
}

// ... or the first twice.
bool RepeatTerm(plan::Instruction* x) {
  bool changed = false;
  if (!IsBoxing(*x)) return false;
  for (plan::Region& region : *x->mutable_regions()) {
    if (region.fold_size() < 2) continue;
    for (int32_t& term : *region.mutable_fold()) {
      if (term == 1) term = 0;
    }
    changed = true;
  }
  return changed;
}

bool SumBecomesMax(plan::Instruction* x) {
  const bool folds = std::any_of(x->regions().begin(), x->regions().end(),
                                 [](const plan::Region& r) { return r.fold_size() > 1; });
  if (!IsBoxing(*x) || !folds || x->reduction() != static_cast<int>(Reduction::kSum)) return false;
  x->set_reduction(static_cast<int>(Reduction::kMax));
  return true;
}

bool FillWithWrongIdentity(plan::Instruction* x) {
  if (!x->fill_identity() || x->reduction() != static_cast<int>(Reduction::kSum)) return false;
  x->set_reduction(static_cast<int>(Reduction::kMax));
  return true;
}

// Two pieces of equal extent come from each other's source.
bool SwapSources(plan::Instruction* x) {
  if (!IsBoxing(*x) || x->regions_size() < 2) return false;
  plan::Region &a = *x->mutable_regions(0), &b = *x->mutable_regions(1);
  for (int d = 0; d < a.begin_size(); ++d) {
    if (a.end(d) - a.begin(d) != b.end(d) - b.begin(d)) return false;
  }
  if (a.sources_size() != 1 || b.sources_size() != 1) return false;
  a.mutable_sources()->Swap(b.mutable_sources());
  a.mutable_source_offsets()->Swap(b.mutable_source_offsets());
  a.mutable_source_strides()->Swap(b.mutable_source_strides());
  return true;
}

// The last micro-batch instead of the sum of all.
bool OverwriteInsteadOfAccumulate(plan::Instruction* x) {
  if (x->kind() != plan::INSTRUCTION_ACCUMULATE) return false;
  const plan::Shard& shard = x->outputs(0).shard();
  x->set_kind(plan::INSTRUCTION_FOLD);
  plan::Region* region = x->add_regions();
  plan::Strides* strides = region->add_source_strides();
  int64_t stride = 1;
  for (int d = shard.local_size() - 1; d >= 0; stride *= shard.local(d--))
    strides->add_values(stride);
  std::reverse(strides->mutable_values()->begin(), strides->mutable_values()->end());
  for (int64_t extent : shard.local()) {
    region->add_begin(0);
    region->add_end(extent);
  }
  *region->mutable_strides() = strides->values();
  region->add_sources(0);
  region->add_fold(0);
  region->add_source_offsets(0);
  return true;
}

// Where readers' gradients of one tensor meet, the first counts twice and the second not at all.
bool CountGradientTwice(plan::Instruction* x) {
  const bool adds = x->op() == "add" || x->op() == "add_n";
  if (!adds || !absl::StrContains(x->scope(), "backward")) return false;
  *x->mutable_inputs(1) = x->inputs(0);
  return true;
}

// What one firing reads, or writes, is another firing's piece.
bool MixMicroBatches(plan::Instruction* x, bool pack) {
  if (!IsOverTime(*x)) return false;
  const bool packs = std::any_of(x->regions().begin(), x->regions().end(),
                                 [](const plan::Region& region) { return region.offset() != 0; });
  if (packs != pack || x->regions_size() < 2) return false;
  for (plan::Region& region : *x->mutable_regions()) {
    region.set_micro(x->regions_size() + 1 - region.micro());
  }
  return true;
}

// The shard of an operand forgets where it lies.
bool LoseOffset(plan::Operand* operand) {
  bool changed = false;
  for (int64_t& offset : *operand->mutable_shard()->mutable_offset()) {
    changed |= offset != 0;
    offset = 0;
  }
  return changed;
}

bool SameMaskEverywhere(plan::Instruction* x) {
  if (x->op() != "dropout") return false;
  const bool input = LoseOffset(x->mutable_inputs(0)), output = LoseOffset(x->mutable_outputs(0));
  return input || output;
}
bool TableForgetsItsRows(plan::Instruction* x) {
  return x->op() == "embedding" && LoseOffset(x->mutable_inputs(0));
}
bool LogitsForgetTheirVocabulary(plan::Instruction* x) {
  return x->op() == "ce_pick" && LoseOffset(x->mutable_inputs(0));
}

// A mean divides by what the shard holds.
bool MeanOfThePart(plan::Instruction* x) {
  if (x->op() != "reduce" || !absl::StrContains(x->attributes(), "mean=true")) return false;
  const auto attributes = ParseAttributes<ReduceAttributes>(x->attributes());
  if (!attributes.ok()) return false;
  plan::Shard* shard = x->mutable_inputs(0)->mutable_shard();
  bool changed = false;
  // Of what is reduced: dimensions that are kept say where the result lies.
  for (int64_t reduced : attributes->dims) {
    const int d = static_cast<int>(reduced);
    changed |= shard->local(d) != shard->logical(d) && shard->local(d) > 0;
    if (shard->local(d) > 0) shard->set_logical(d, shard->local(d));
    shard->set_offset(d, 0);
    shard->set_stride_per_micro(d, 0);
  }
  return changed;
}

bool LocalNorm(plan::Instruction* x) {
  return absl::StrContains(x->scope(), "sum_squares") && DropTerms(x);
}

bool FeedFirstMicroBatch(plan::Instruction* x) {
  if (x->kind() != plan::INSTRUCTION_FEED) return false;
  bool changed = false;
  for (int64_t& stride : *x->mutable_outputs(0)->mutable_shard()->mutable_stride_per_micro()) {
    changed |= stride != 0;
    stride = 0;
  }
  return changed;
}

// A view starts where its buffer does.
bool LoseViewOffset(plan::Instruction* x) {
  bool changed = false;
  for (plan::Operand& operand : *x->mutable_inputs()) {
    changed |= operand.offset() != 0;
    operand.set_offset(0);
  }
  return changed;
}

template <bool (*kChange)(plan::Instruction*)>
bool Everywhere(plan::Plan* plan) {
  return ForEach(plan, kChange);
}

// Variables on every device but the first of a stage keep their values.
bool StaleReplica(plan::Plan* plan) {
  bool changed = false;
  for (plan::Program& program : *plan->mutable_programs()) {
    for (plan::Actor& actor : *program.mutable_actors()) {
      if (program.streams(actor.stream()).device() == 0) continue;
      for (plan::Instruction& x : *actor.mutable_script()) {
        if (!IsUpdate(x)) continue;
        x.clear_op();
        x.set_kind(plan::INSTRUCTION_BEGIN);  // does nothing
        changed = true;
      }
    }
  }
  return changed;
}

// What crosses from device to device is read one token late.
bool StaleCopy(plan::Plan* plan) {
  bool changed = false;
  for (plan::Program& program : *plan->mutable_programs()) {
    std::set<int32_t> crossing;
    for (const plan::Actor& actor : program.actors()) {
      if (program.streams(actor.stream()).kind() != plan::STREAM_COMM) continue;
      for (const plan::Instruction& x : actor.script()) {
        for (const plan::Operand& output : x.outputs()) crossing.insert(output.register_());
      }
    }
    for (int32_t r : crossing) {
      plan::Register* reg = program.mutable_registers(r);
      if (reg->quota() < 2) continue;
      reg->set_initial_tokens(1);
      changed = true;
    }
  }
  return changed;
}

const PlanBug kPlanBugs[] = {
    {"boxing: a region is dropped", Everywhere<DropRegion>},
    {"boxing: source offsets are lost", Everywhere<LoseSourceOffset>},
    {"boxing: target offsets are lost", Everywhere<LoseTargetOffset>},
    {"boxing: a reduction takes one shard", Everywhere<DropTerms>},
    {"boxing: a reduction takes a shard twice", Everywhere<RepeatTerm>},
    {"boxing: max instead of sum", Everywhere<SumBecomesMax>},
    {"boxing: pads with the identity of max", Everywhere<FillWithWrongIdentity>},
    {"boxing: two sources swapped", Everywhere<SwapSources>},
    {"lowering: accumulators keep the last micro-batch", Everywhere<OverwriteInsteadOfAccumulate>},
    {"lowering: a gradient counts twice", Everywhere<CountGradientTwice>},
    {"lowering: packs micro-batches in the wrong order",
     [](plan::Plan* plan) {
       return ForEach(plan, [](plan::Instruction* x) { return MixMicroBatches(x, true); });
     }},
    {"lowering: slices the wrong micro-batch",
     [](plan::Plan* plan) {
       return ForEach(plan, [](plan::Instruction* x) { return MixMicroBatches(x, false); });
     }},
    {"lowering: one dropout mask for all shards", Everywhere<SameMaskEverywhere>},
    {"lowering: tables forget which rows they hold", Everywhere<TableForgetsItsRows>},
    {"lowering: logits forget which vocabulary they hold", Everywhere<LogitsForgetTheirVocabulary>},
    {"lowering: means divide by the shard", Everywhere<MeanOfThePart>},
    {"lowering: the norm is local", Everywhere<LocalNorm>},
    {"lowering: every firing is fed the first micro-batch", Everywhere<FeedFirstMicroBatch>},
    {"lowering: views lose their offset", Everywhere<LoseViewOffset>},
    {"lowering: updates on one device only", StaleReplica},
    {"lowering: copies are one token late", StaleCopy},
};

}  // namespace

absl::Span<const RuleBug> RuleBugs() { return kRuleBugs; }
absl::Span<const PlanBug> PlanBugs() { return kPlanBugs; }

OpDef WrongOp(const RuleBug& bug) {
  OpDef wrong = bug.op();
  wrong.rule = nullptr;
  wrong.signatures = bug.signatures;
  return wrong;
}

bool Plant(const OpDef& wrong, Graph* graph) {
  bool planted = false;
  for (const Node& node : graph->nodes()) {
    if (node.op->name != wrong.name) continue;
    graph->mutable_node(node.id).op = &wrong;
    planted = true;
  }
  return planted;
}

}  // namespace sluice
