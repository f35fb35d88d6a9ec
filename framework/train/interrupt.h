// Ctrl-C, SIGTERM and a terminal that goes away (SIGHUP, unless the caller ignores it, as nohup
// does) ask a run to save and stop; a second one ends the process at once. While a value of this
// class lives it has these signals; main makes one, and everyone may ask.
#ifndef SLUICE_FRAMEWORK_TRAIN_INTERRUPT_H_
#define SLUICE_FRAMEWORK_TRAIN_INTERRUPT_H_

#include <signal.h>

namespace sluice {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  bool requested() const;

 private:
  struct sigaction interrupt_, terminate_, hang_up_;  // what was there before
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_INTERRUPT_H_
