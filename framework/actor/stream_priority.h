// Whose ready actors a worker takes first, by the kind of their stream. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_ACTOR_STREAM_PRIORITY_H_
#define SLUICE_FRAMEWORK_ACTOR_STREAM_PRIORITY_H_

#include <cstdint>

#include "framework/plan/plan.pb.h"

namespace sluice {

// 0 is taken before 1: others wait for what is moved.
constexpr int kPriorities = 2;
inline int32_t PriorityOf(plan::StreamKind kind) { return kind == plan::STREAM_COMPUTE ? 1 : 0; }

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_STREAM_PRIORITY_H_
