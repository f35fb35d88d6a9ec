// A library of two functions, as a test wants it: built several times, with another version each.
#include <cstddef>

extern "C" {

size_t fakeGetVersion() { return SLUICE_FAKE_VERSION; }

int fakeWriteVersion(int* version) {
  *version = SLUICE_FAKE_VERSION;
  return SLUICE_FAKE_ERROR;
}

int fakeDouble(int x) { return 2 * x; }

}  // extern "C"
