// Writes what bench/peers/wide_and_deep_torch.py reads.

#include "framework/testing/reference_run_main.h"
#include "models/wide_and_deep/reference_run.h"

int main(int argc, char** argv) {
  return sluice::RunReferenceRunMain(sluice::WideAndDeepReferenceRun(), argc, argv);
}
