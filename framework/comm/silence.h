// How long another rank has said nothing, and what follows from that. Who speaks each beat lives,
// however slow it is. Pure: the caller says what time it is.
#ifndef SLUICE_FRAMEWORK_COMM_SILENCE_H_
#define SLUICE_FRAMEWORK_COMM_SILENCE_H_

#include <algorithm>
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
  struct Times {
    Clock::duration beat;   // each rank speaks so often, and looks at others so often
    Clock::duration named;  // who says nothing for so long is named
    Clock::duration limit;  // and is given up
  };

  // Heard is called before anything is asked.
  explicit Silence(const Times& times) : times_(times) {}

  void Heard(Clock::time_point now) {
    was_named_ = false;
    heard_ = now;
  }
  // At each beat.
  Verdict At(Clock::time_point now) {
    Look(now);
    if (now - heard_ >= times_.limit) return Verdict::kLost;
    if (now - heard_ < times_.named || std::exchange(was_named_, true)) return Verdict::kNone;
    return Verdict::kNamed;
  }
  // How long from now on it may stay silent until it lacks some of its beats; zero: it does.
  Clock::duration UntilItMissesBeats(Clock::time_point now) {
    Look(now);
    return std::max(heard_ + kMissedBeats * times_.beat - now, Clock::duration::zero());
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
  static constexpr int kMissedBeats = 2;  // one may be late

  // Who did not even look was stopped itself and heard nobody: that counts as one beat.
  void Look(Clock::time_point now) {
    const auto away = now - std::max(asked_, heard_);
    if (away >= kMissedBeats * times_.beat) heard_ += away - times_.beat;
    asked_ = now;
  }

  const Times times_;
  bool was_named_ = false;
  Clock::time_point heard_, asked_;
};

// What a rank that is lost can no longer say itself. `name`: where it was; `by`: who lost it.
inline WireMessage LostMessage(int32_t rank, const std::string& name, int32_t by,
                               const absl::Status& why) {
  return LeftBecause(rank, absl::UnavailableError(absl::StrCat("lost at ", name, " by rank ", by,
                                                               ", ", why.message())));
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_SILENCE_H_
