// Plans as text, for people, tests and goldens. ParsePlan(PrintPlan(p)) equals p, field by field.
//
//   plan digest "..."                    device 0.0 variables 512 memory 4096     # rank.local
//   variable w f32 [4,8] init "..." layout "..."  shard 0 f32 [4,8] offset 64
//   program train micro 4 predicted 123  stream d0.compute
//   feeds x f32 [2]                      fetches loss f32 []
//   reg x quota 2 bytes 64 every 4 tokens 1 variable w offsets [0,64] device 1 producer 3
//   ring gathered slots 2 registers a b a    temporary %h actor 3 bytes 64 offset 128
//   actor F0 on d0.compute x 4 priority 1
//     y, %h = matmul "transpose_b=true" (x : f32 [4,8] of [8,8] at [4,0], w + 64) cost 9 scope "m"
//     G += mul(h, y)
//   order d0.compute (F0 0 0 2) (B0 0 0 1)                 # actor, firing, [from, to)
//   reuse F0 0 1 -> B1 2 0 wraps
//
// What has its default is left out: quota 1, bytes 16, cost 1 nanosecond, shard none, producer the
// actor that writes it, device its producer's; `x 1`. A hand-written plan needs actors and what
// differs from that: streams, registers and temporaries come into being where they are first named,
// a stream dN.kind on device N (dN.kind.more too), devices as many as are named; a text without a
// line `program` is one program named "main". `G += op(x)` is op(x, &G), `G -= op(x)` the same with
// attributes "subtract"; & marks an operand that is updated in place. `y takes 1 = relu(x)`: y lies
// where the first input lay. %h is a temporary. Where a name does not tell things apart, $n is the
// n-th of its kind.
#ifndef SLUICE_FRAMEWORK_PLAN_TEXT_H_
#define SLUICE_FRAMEWORK_PLAN_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

std::string PrintPlan(const plan::Plan& plan);
std::string PrintProgram(const plan::Program& program);
// Errors begin with name:line:column.
absl::StatusOr<plan::Plan> ParsePlan(absl::string_view text, absl::string_view name = "");

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_TEXT_H_
