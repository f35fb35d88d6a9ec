#include "framework/train/interrupt.h"

#include <unistd.h>

#include <cstring>

namespace sluice {
namespace {

// A signal handler can reach nothing but a global.
volatile sig_atomic_t requests = 0;

void Handle(int signal) {
  if (requests > 0) _exit(128 + signal);
  requests = 1;
}

}  // namespace

Interrupt::Interrupt() {
  requests = 0;
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
  sigaction(SIGHUP, nullptr, &hang_up_);
  if (hang_up_.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGHUP, &hang_up_, nullptr);
}

bool Interrupt::requested() const { return requests > 0; }

}  // namespace sluice
