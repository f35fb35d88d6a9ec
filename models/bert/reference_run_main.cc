// Writes what bench/peers/bert_torch.py reads.

#include "framework/testing/reference_run_main.h"
#include "models/bert/reference_run.h"

int main(int argc, char** argv) {
  return sluice::RunReferenceRunMain(sluice::BertReferenceRun(), argc, argv);
}
