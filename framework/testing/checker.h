// Watches an execution and knows, apart from the actors, who may read and write which bytes when:
// nobody reads a buffer that is being written or that holds another token, nobody overwrites what
// is still to be read, here or in other buffers that share the bytes. It also computes: buffers
// hold symbolic values. For tests; one thread.
#ifndef SLUICE_FRAMEWORK_TESTING_CHECKER_H_
#define SLUICE_FRAMEWORK_TESTING_CHECKER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "framework/plan/program_index.h"
#include "framework/testing/symbolic.h"

namespace sluice {

class Checker {
 public:
  // All that is passed must outlive the checker.
  Checker(const ProgramIndex& index, const SymbolicState& initial);

  // An instruction begins or ends; firings are absolute. Internal: a hazard, in words.
  absl::Status Begin(int a, int64_t firing, int i);
  // Of a collective: may End only when all members have begun.
  bool MayEnd(int a, int64_t firing, int i) const;
  void End(int a, int64_t firing, int i);

  // Have all tokens gone back to where they began, after this many steps?
  absl::Status CheckSettled(int64_t steps) const;
  SymbolicOutcome TakeOutcome(int64_t steps);

 private:
  struct Buffer {
    int32_t reg = -1;  // whose token it holds; of a temporary: its number
    int64_t token = -1;
    int64_t value = 0;
    int32_t readers = 0, unread = 0;  // that read now; releases still owed
    bool writing = false;             // an instruction writes now
    bool open = false;                // first write begun, last not ended
    std::vector<int32_t> overlaps;    // buffers that share bytes
  };
  struct Access {
    int32_t buffer = -1;
    int32_t reg = -1;    // -1: a temporary
    int32_t taken = -1;  // buffer of the input whose bytes it takes
    int64_t token = 0;
    bool read = false, update = false;
  };
  struct Running {
    std::vector<Access> accesses;
    std::vector<int64_t> inputs;
  };

  void FindOverlaps();
  int32_t BufferOf(int32_t reg, int64_t token) const;
  bool IsFirst(int64_t firing, int i, const Access& access) const;
  bool IsLast(int64_t firing, int i, const Access& access) const;
  absl::Status CheckWrite(int a, int64_t firing, int i, const Access& access);
  absl::Status CheckRead(int a, int64_t firing, int i, const Access& access);
  absl::Status Hazard(int a, int64_t firing, int i, const Access& access,
                      absl::string_view what) const;

  const ProgramIndex& index_;
  const SymbolicState& initial_;
  std::vector<int32_t> ring_base_;  // buffers of each ring's slots; then those of temporaries
  int32_t temporary_base_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<int32_t> temporary_first_, temporary_last_;
  std::vector<std::vector<SymbolicOp>> ops_;
  std::vector<Running> running_;  // by actor
  struct Collective {
    int32_t begun = 0, ended = 0;
    int64_t sum = 0;
  };
  std::vector<Collective> collectives_;  // each twice: for even firings and odd ones
  SymbolicOutcome outcome_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_CHECKER_H_
