// What the compiler decided and why, as one value: the text (explain.h) and the page
// (page.h) both print from it, so they cannot disagree. Where devices do the same work, their
// class's first stands for all.
#ifndef SLUICE_FRAMEWORK_EXPLAIN_EXPLANATION_H_
#define SLUICE_FRAMEWORK_EXPLAIN_EXPLANATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/graph/graph.h"

namespace sluice {

struct ExplainedTensor {
  std::string name, type, layout;  // as its producer leaves it; a variable: as stored
};

// One of the rules that selection goes by, in the order in which they are asked.
struct ExplainedRule {
  std::string name, reason;
};

// A signature on one axis that a rule refused, beside what was chosen on the axes before it.
struct ExplainedRefusal {
  std::string signature;
  int32_t rule = 0;  // of the explanation's rules
};

// A node of the graph, variables and inputs too.
struct ExplainedOp {
  std::string name, op;
  Phase phase = Phase::kForward;
  int32_t stage = 0;
  NodeId forward = -1;  // of a backward node: whose gradient it is part of
  std::vector<TensorId> inputs, outputs;
  std::vector<std::string> reads;  // by input: the layout that it is read in
  std::string signature;           // empty: nothing was to be chosen
  int64_t nanoseconds = 0;         // a step: of compute, and of boxing its inputs
  // Everything that was legal, the chosen one among it.
  std::vector<std::pair<std::string, int64_t>> alternatives;
  std::vector<ExplainedRefusal> refused;
  std::vector<int32_t> gave_way;  // rules that left no signature and were not asked
};

struct ExplainedBoxing {
  std::string tensor, recipe, from, to;
  std::string reader;  // the node that first asked for it
  Phase phase = Phase::kForward;
  int64_t firings = 1, bytes = 0;  // bytes of one firing, over all devices
  int64_t between_hosts = 0;       // of them, at most
  int64_t nanoseconds = 0;         // a step, on the device that it takes most of
};

struct ExplainedVariable {
  std::string name, type, layout;
  int32_t stage = 0;
  bool state = false;  // of an optimizer
};

// Where an instruction comes from: a node or a boxing, or neither ("begin", "feed", "fetch").
struct ExplainedInstruction {
  std::string op, scope;
  NodeId node = -1;
  int32_t boxing = -1;
  Phase phase = Phase::kForward;
  int64_t flops = 0, bytes = 0, wire_bytes = 0, nanoseconds = 0;  // of one firing
};

struct ExplainedActor {
  std::string name;
  int32_t device = 0, stream = 0, firings = 1;
  int32_t representative =
      -1;  // the actor of the class's first device that does the same; itself there
  std::vector<ExplainedInstruction> script;  // empty where the representative is another
};

// One instruction of one firing on the virtual clock, in the first step.
struct ExplainedSpan {
  int32_t actor = 0, firing = 0, instruction = 0;
  int64_t begin = 0, end = 0;  // nanoseconds
  // If the stream stood still before it: what came last of all that it waited for, and from whom.
  std::string wait;
  int32_t owed_by = -1;  // actor
};

struct ExplainedStream {
  int32_t device = 0;
  std::string kind;
  std::vector<ExplainedSpan> spans;  // of the classes' first devices
};

enum class MemoryKind : uint8_t {
  kParameter,
  kOptimizer,        // state of it
  kSavedActivation,  // made in forward, read in backward
  kActivation,       // any other of forward
  kGradient,         // of backward
  kUpdate,
  kBoxing,
  kPort,  // feeds, fetches and credits
};

// Bytes of a device that one tensor holds for a while.
struct ExplainedBytes {
  std::string name;
  MemoryKind kind = MemoryKind::kActivation;
  int64_t offset = 0, bytes = 0;
  int64_t begin = 0, end = 0;       // nanoseconds of the predicted step
  int32_t maker = -1, made_at = 0;  // actor and instruction; -1: it lives across steps
  int32_t last = -1, freed_at = 0;  // who reads it last
};

struct ExplainedDevice {
  int32_t representative = 0;          // the first device of its class
  int64_t variables = 0;               // bytes of the plan
  int64_t packed = 0;                  // of the program
  int64_t live = 0;                    // the peak of what is alive at once in the program
  int64_t peak_time = 0;               // when
  std::vector<ExplainedBytes> memory;  // of the classes' first devices
  // The ten tensors with the most bytes alive at the peak: the blocks of `memory` that each has.
  std::vector<std::vector<int32_t>> peak;
};

// What a traced run of a program measured. Actors are representatives: where devices agree, their
// sums are one.
struct MeasuredSpan {
  int32_t actor = 0, firing = 0, instruction = 0, worker = 0;
  int64_t begin = 0, end = 0;  // from the begin of the step
};

struct MeasuredWait {
  int32_t worker = 0, stream = -1;
  int32_t actor = -1, owed_by = -1;  // of the program, who waited and who owed it; -1: the session
  std::string what;
  int64_t begin = 0, end = 0;
};

struct MeasuredInstruction {
  int32_t actor = 0, instruction = 0;
  int64_t count = 0, total = 0, least = 0, most = 0;  // firings, nanoseconds
};

struct MeasuredDebt {
  int32_t actor = -1, owed_by = -1;
  std::string what;
  int64_t count = 0, total = 0;
};

struct MeasuredRun {
  std::vector<int64_t> steps;  // what each added: from the end of the one before
  int64_t step = 0;            // the one that is shown: of median length
  int64_t makespan = 0;        // of its compute
  std::vector<std::vector<MeasuredSpan>> streams;  // of that step
  std::vector<MeasuredWait> waits;                 // while it ran
  std::vector<MeasuredInstruction> instructions;   // over all steps, as are
  std::vector<MeasuredDebt> debts;
};

// Nodes that are one instruction of a device, as calls of one op.
struct ExplainedCalls {
  int32_t device = 0;
  std::string op;
  std::vector<NodeId> nodes;
};

struct ExplainedProgram {
  std::string name;
  int64_t micro_batches = 1;
  std::vector<std::string> warnings;
  std::vector<ExplainedTensor> tensors;
  std::vector<ExplainedOp> ops;  // by NodeId
  std::vector<NodeId> variables;
  std::vector<ExplainedBoxing> boxings;
  std::vector<ExplainedCalls> calls;
  std::vector<ExplainedActor> actors;
  std::vector<ExplainedStream> streams;
  std::vector<ExplainedDevice> devices;
  int32_t device_classes = 0, registers = 0, reuse_edges = 0;
  int64_t step_nanoseconds = 0;  // predicted, once several steps are under way
  int64_t makespan = 0;          // of the spans: the first step alone
  std::optional<MeasuredRun> measured;
};

struct Explanation {
  std::string mesh;
  std::vector<std::string> devices;   // "0:1 data=0 model=1, rank 0, host 0"
  std::vector<int32_t> stage_of;      // by device
  bool representatives_only = false;  // actors, registers and reuse edges are of one device a class
  std::vector<ExplainedRule> rules;
  std::vector<ExplainedVariable> variables;
  std::vector<ExplainedProgram> programs;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_EXPLAIN_EXPLANATION_H_
