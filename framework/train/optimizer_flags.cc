#include "framework/train/optimizer_flags.h"

#include <map>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/train/app_options.h"

ABSL_FLAG(double, clip, 1, "largest norm of the gradient; 0 never clips");
ABSL_FLAG(double, weight_decay, 0.1, "the optimizer's pull towards zero, not on biases and norms");
ABSL_FLAG(std::string, optimizer, "adamw", "adamw, lamb, sgd, lars or adagrad");
ABSL_FLAG(double, beta1, 0.9, "of --optimizer=adamw and lamb: what a mean of gradients keeps");
ABSL_FLAG(double, beta2, 0.95, "of --optimizer=adamw and lamb: what a mean of squares keeps");
ABSL_FLAG(double, epsilon, 1e-8,
          "of --optimizer=adamw, lamb and adagrad: is added to the root of squares");
ABSL_FLAG(bool, bias_correction, true,
          "of --optimizer=adamw and lamb: means count for more while they are young; Google's BERT "
          "goes without");
ABSL_FLAG(double, momentum, 0.9, "of --optimizer=sgd and lars; 0 keeps no state of sgd's");
ABSL_FLAG(bool, nesterov, false, "Nesterov's form of --momentum, of --optimizer=sgd");
ABSL_FLAG(double, dampening, 0, "share of a gradient that --momentum leaves out, after the first");
ABSL_FLAG(double, trust_coefficient, 0.001,
          "of --optimizer=lars: how far a step may go, for a layer's length");

namespace sluice {

void DropUnusedNesterov(const std::set<std::string>& given) {
  const bool moves = absl::GetFlag(FLAGS_optimizer) == "sgd" && absl::GetFlag(FLAGS_momentum) > 0;
  if (!moves && given.count("nesterov") == 0) absl::SetFlag(&FLAGS_nesterov, false);
}

absl::Status ReadOptimizerFlags(OptimizerOptions* optimizer) {
  const std::string name = absl::GetFlag(FLAGS_optimizer);
  const std::map<std::string, OptimizerOptions::Kind> kinds = {
      {"adamw", OptimizerOptions::kAdamW},
      {"lamb", OptimizerOptions::kLamb},
      {"sgd", OptimizerOptions::kSgd},
      {"lars", OptimizerOptions::kLars},
      {"adagrad", OptimizerOptions::kAdagrad}};
  const auto kind = kinds.find(name);
  if (kind == kinds.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--optimizer: expected adamw, lamb, sgd, lars or adagrad, got \"", name, "\""));
  }
  optimizer->kind = kind->second;
  optimizer->clip = absl::GetFlag(FLAGS_clip);
  optimizer->weight_decay = absl::GetFlag(FLAGS_weight_decay);
  optimizer->beta1 = absl::GetFlag(FLAGS_beta1);
  optimizer->beta2 = absl::GetFlag(FLAGS_beta2);
  optimizer->epsilon = absl::GetFlag(FLAGS_epsilon);
  optimizer->bias_correction = absl::GetFlag(FLAGS_bias_correction);
  optimizer->momentum = absl::GetFlag(FLAGS_momentum);
  optimizer->nesterov = absl::GetFlag(FLAGS_nesterov);
  optimizer->dampening = absl::GetFlag(FLAGS_dampening);
  optimizer->trust_coefficient = absl::GetFlag(FLAGS_trust_coefficient);
  RETURN_IF_ERROR(CheckFlag("beta1", optimizer->beta1, 0, 0.999999));
  RETURN_IF_ERROR(CheckFlag("beta2", optimizer->beta2, 0, 0.999999));
  // At 0 a parameter without a gradient is updated by 0 / 0; below this f32 has no such number.
  RETURN_IF_ERROR(CheckFlag("epsilon", optimizer->epsilon, 1e-30, 0.1));
  RETURN_IF_ERROR(CheckFlag("momentum", optimizer->momentum, 0, 0.9999));
  RETURN_IF_ERROR(CheckFlag("dampening", optimizer->dampening, 0, 0.9999));
  RETURN_IF_ERROR(CheckFlag("trust_coefficient", optimizer->trust_coefficient, 1e-9, 1000));
  RETURN_IF_ERROR(CheckFlag("clip", optimizer->clip, 0, 1e9));
  RETURN_IF_ERROR(CheckFlag("weight_decay", optimizer->weight_decay, 0, 100));
  const bool moves = optimizer->kind == OptimizerOptions::kSgd && optimizer->momentum > 0;
  if (optimizer->dampening > 0 && (!moves || optimizer->nesterov)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dampening: expected --optimizer=sgd and a momentum above 0 that is not Nesterov's, got ",
        name, " and ", optimizer->momentum, optimizer->nesterov ? ", Nesterov's" : ""));
  }
  if (!optimizer->nesterov || moves) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--nesterov: expected --optimizer=sgd and a momentum above 0, got ", name,
                   " and ", optimizer->momentum));
}

}  // namespace sluice
