#include "framework/data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// An open file.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int value() const { return value_; }

 private:
  const int value_;
};

}  // namespace

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message = absl::StrCat("data: cannot read ", path, ": ", strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
}

absl::Status ReadFileInto(const std::string& path, std::string* bytes) {
  // Without waiting for someone to write to a pipe, which is refused below.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.value() < 0) return CannotRead(path, errno);
  struct stat info;
  if (fstat(file.value(), &info) != 0) return CannotRead(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("data: expected a file, ", path, " is none"));
  }
  bytes->resize(info.st_size);
  size_t size = 0;
  while (size < bytes->size()) {
    const ssize_t got = read(file.value(), bytes->data() + size, bytes->size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) break;  // it has become shorter
    size += got;
  }
  bytes->resize(size);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::string bytes;
  RETURN_IF_ERROR(ReadFileInto(path, &bytes));
  return bytes;
}

}  // namespace sluice
