// The GPTs that are measured beside peers; bench/peers/gpt_sizes.py has the same.
#ifndef SLUICE_BENCH_GPT_SIZES_H_
#define SLUICE_BENCH_GPT_SIZES_H_

#include <string>

#include "absl/status/statusor.h"
#include "models/gpt/gpt.h"

namespace sluice {

// "tiny" or "small", without dropout; the error names --size.
absl::StatusOr<GptConfig> GptOfSize(const std::string& name);

}  // namespace sluice

#endif  // SLUICE_BENCH_GPT_SIZES_H_
