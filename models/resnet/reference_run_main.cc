// Writes what bench/peers/resnet_torch.py reads.

#include "framework/testing/reference_run_main.h"
#include "models/resnet/reference_run.h"

int main(int argc, char** argv) {
  return sluice::RunReferenceRunMain(sluice::ResNetReferenceRun(), argc, argv);
}
