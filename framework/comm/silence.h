// How long another rank has said nothing, and what follows from that. Who speaks each beat lives,
// however slow it is. Pure: the caller says what time it is.
#ifndef SLUICE_FRAMEWORK_COMM_SILENCE_H_
#define SLUICE_FRAMEWORK_COMM_SILENCE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/comm/comm_net.h"

namespace sluice {

class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Verdict {
    kNone,
    kNamed,  // once for each silence: the rank is to be named
    kLost,   // it is given up
  };

  // After how long it is named and given up. Heard is called before anything is asked.
  Silence(Clock::duration named, Clock::duration limit) : named_(named), limit_(limit) {}

  void Heard(Clock::time_point now) {
    was_named_ = false;
    heard_ = now;
  }
  Verdict At(Clock::time_point now) {
    if (now - heard_ >= limit_) return Verdict::kLost;
    if (now - heard_ < named_ || std::exchange(was_named_, true)) return Verdict::kNone;
    return Verdict::kNamed;
  }
  // "5 s".
  std::string LengthAt(Clock::time_point now) const {
    return absl::StrCat(std::chrono::duration_cast<std::chrono::seconds>(now - heard_).count(),
                        " s");
  }
  // The reason to give a rank up.
  absl::Status ErrorAt(Clock::time_point now) const {
    return absl::DeadlineExceededError(absl::StrCat("it said nothing for ", LengthAt(now)));
  }

 private:
  const Clock::duration named_, limit_;
  bool was_named_ = false;
  Clock::time_point heard_;
};

// What a rank that is lost can no longer say itself. `name`: where it was; `by`: who lost it.
inline WireMessage LostMessage(int32_t rank, const std::string& name, int32_t by,
                               const absl::Status& why) {
  return LeftBecause(rank, absl::UnavailableError(absl::StrCat("lost at ", name, " by rank ", by,
                                                               ", ", why.message())));
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_SILENCE_H_
