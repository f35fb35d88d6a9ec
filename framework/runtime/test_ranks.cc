#include "framework/runtime/test_ranks.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "framework/base/log.h"
#include "framework/plan/text.h"

namespace sluice {
namespace {

// $m: this rank's device, $o: the other's; $i: the item here that reads, $j: the one there.
constexpr const char* kPair = R"(device 0 0 memory 1024
device 1 0 memory 1024
device 2 0 memory 1024
program train micro 2 predicted 1000
stream d$m.compute
stream d$o.net
stream d$m.comm
stream d$m.net
reg mine quota 2 bytes 8 every 1 number 5$m offsets [0,64]
reg theirs quota 2 bytes 0 every 1 number 5$o
reg sum bytes 8 every 1 offsets [128]
reg step quota 2 bytes 0 every 1 device $m
reg theirs.pulled bytes 8 every 1 offsets [192]
actor make on d$m.compute x 2
  begin(step : f32 [0]) cost 0 scope "begin of a step"
  mine : f32 [2] = make() cost 500 scope "make"
actor writes on d$o.net x 2 priority 1
  theirs : f32 [2] = remote() cost 0 number $i scope "theirs"
actor reads on d$o.net x 2 priority 2
  remote(mine : f32 [2]) cost 0 number $j scope "mine"
actor add on d$m.comm x 2 priority 3
  sum : f32 [2] = add(mine : f32 [2], theirs.pulled : f32 [2]) cost 500 scope "add"
actor pull on d$m.net x 2 priority 4
  theirs.pulled : f32 [2] = pull(theirs : f32 [2]) cost 0 bytes 8 wire 8 number $i scope "theirs"
    region [0] [2] sources [0] fold [0] from [0] [1] to 0 [1]
)";

constexpr const char* kAlone = R"(device 0 0 memory 1024
device 1 0 memory 1024
device 2 0 memory 1024
program train micro 2 predicted 1000
stream d2.compute
reg mine bytes 8 every 1 offsets [0]
reg step quota 2 bytes 0 every 1 device 2
actor make on d2.compute x 2
  begin(step : f32 [0]) cost 0 scope "begin of a step"
  mine : f32 [2] = make() cost 500 scope "make"
)";

class Nothing final : public Kernel {
 public:
  absl::Status Launch(const KernelContext&, std::byte* const*, std::byte*) override {
    return absl::OkStatus();
  }
};

}  // namespace

plan::Plan TestPlanOfRank(int32_t rank, plan::DeviceKind kind) {
  const std::string text = rank == 2
                               ? std::string(kAlone)
                               : absl::StrReplaceAll(kPair, {{"$m", rank == 0 ? "0" : "1"},
                                                             {"$o", rank == 0 ? "1" : "0"},
                                                             {"$i", rank == 0 ? "70" : "71"},
                                                             {"$j", rank == 0 ? "71" : "70"}});
  absl::StatusOr<plan::Plan> plan = ParsePlan(text, "ranks");
  SLUICE_CHECK_OK(plan.status());
  plan->set_rank(rank);
  for (plan::Device& device : *plan->mutable_devices()) device.set_kind(kind);
  return *std::move(plan);
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareNothing(const KernelSpec&) {
  return absl::StatusOr<std::unique_ptr<Kernel>>(std::make_unique<Nothing>());
}

}  // namespace sluice
