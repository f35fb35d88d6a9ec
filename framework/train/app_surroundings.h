// What the process of a trainer finds around it: its environment, files beside it, the time.
#ifndef SLUICE_FRAMEWORK_TRAIN_APP_SURROUNDINGS_H_
#define SLUICE_FRAMEWORK_TRAIN_APP_SURROUNDINGS_H_

#include <string>

#include "framework/train/app_options.h"

namespace sluice {

// `bundled`: App::bundled, looked for where `bazel run` and tests start the program, and beside it.
AppSurroundings SurroundingsOf(const std::string& bundled);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_APP_SURROUNDINGS_H_
