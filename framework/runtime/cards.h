// Which card each CUDA device of a process has. Processes of one host take cards in turn, each as
// many as any rank of the plan has devices, so that none has to be told which are its own. Pure.
#ifndef SLUICE_FRAMEWORK_RUNTIME_CARDS_H_
#define SLUICE_FRAMEWORK_RUNTIME_CARDS_H_

#include <cstdint>
#include <vector>

#include "framework/comm/comm_net.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// By CUDA device of the plan's rank, in the plan's order; to be taken modulo the cards that the
// process sees. `net`: null if there is one rank.
std::vector<int32_t> CardsOf(const plan::Plan& plan, const CommNet* net);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_CARDS_H_
