// Mistakes in the calls by which a program uses the CUDA runtime and cuBLASLt, planted to see that
// the emulation finds them. The linker puts functions of this library in the place of the calls
// (the target's linkopts), so a program that links it is otherwise as it is. For tests, on the
// emulation alone. Any thread makes the calls; one plants.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_CALL_FAULTS_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_CALL_FAULTS_H_

#include <cstdint>

namespace sluice {

enum class CudaCallFault {
  kNone,
  kForgottenWait,     // a stream does not wait for an event
  kForgottenRecord,   // an event is not recorded
  kTwiceRecorded,     // an event is recorded again before what it is of is done
  kEarlyDone,         // an event is said to be reached that is not
  kForgottenBarrier,  // a thread does not wait for others of its block
  kSmallShared,       // a kernel gets four bytes of dynamic shared memory
  kLargeBlock,        // a kernel is to have 2048 threads a block
  kLongCopy,          // a copy takes 64 bytes more
  kShiftedCopy,       // a copy writes 64 bytes further on
  kWidePitch,         // a copy reads rows that lie twice as far apart
  kStaleGraph,        // a stream's last graph is launched again in the place of another
  kReusedPinned,      // the host writes what a copy that it has asked for has yet to read
  kHalfPinned,        // half of host memory is not pinned
  kSmallMemory,       // an allocation is half as large
  kWideLeading,       // the leading dimension of a matrix is twice as large
  kNarrowLeading,     // the leading dimension of a matrix is less than its rows
  kSmallWorkspace,    // a product has one byte of workspace less than its algorithm needs
  kShiftedWorkspace,  // the workspace of a product is not aligned
  kShiftedOperand,    // a product reads a matrix 64 bytes further on
  kDefaultStream,     // a product goes to the default stream
};

// From now on, calls number first, .., first + count - 1 of those that the mistake is about make
// it; calls are counted from 0.
void PlantCallFault(CudaCallFault fault, int64_t first, int64_t count);
// How many calls have made it since.
int64_t PlantedCallFaults();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_CALL_FAULTS_H_
