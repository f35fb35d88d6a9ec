// Writes what bench/peers/insightface_torch.py reads.

#include "framework/testing/reference_run_main.h"
#include "models/insightface/reference_run.h"

int main(int argc, char** argv) {
  return sluice::RunReferenceRunMain(sluice::FaceReferenceRun(), argc, argv);
}
