// Times MPI_Allreduce of f32 among processes; mpi_all_reduce.py compiles and starts it.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int Ascending(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return difference < 0 ? -1 : difference > 0;
}

int main(int argc, char** argv) {
  enum { kMostRepeats = 200, kLeastRepeats = 6, kMibOfAll = 2048 };
  int rank = 0, count = 0;
  double seconds[kMostRepeats];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  for (int argument = 1; argument < argc; ++argument) {
    const long mib = atol(argv[argument]);
    const size_t elements = (size_t)mib << 18;
    float* const terms = malloc(elements * sizeof(float));
    float* const sum = malloc(elements * sizeof(float));
    if (mib < 1 || !terms || !sum) MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < elements; ++i) terms[i] = sum[i] = 1;
    int repeats = (int)(kMibOfAll / mib);
    if (repeats < kLeastRepeats) repeats = kLeastRepeats;
    if (repeats > kMostRepeats) repeats = kMostRepeats;
    for (int i = -1; i < repeats; ++i) {  // the first is not counted
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      MPI_Allreduce(terms, sum, (int)elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      const double took = MPI_Wtime() - begin;
      double slowest = 0;
      MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (i >= 0) seconds[i] = slowest;
    }
    if (sum[elements - 1] != (float)count) MPI_Abort(MPI_COMM_WORLD, 2);
    qsort(seconds, (size_t)repeats, sizeof(double), Ascending);
    if (rank == 0) {
      printf("{\"name\": \"net/all_reduce/processes:%d/mib:%ld\", \"unit\": \"B/s\", \"value\": %.0f}\n", count, mib,
             (double)(mib << 20) / seconds[repeats / 4]);
    }
    free(terms);
    free(sum);
  }
  MPI_Finalize();
  return 0;
}
