#include "framework/base/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace sluice {
namespace {

// Set once by main, read by every line: the one thing in the project that is global, as stderr is.
std::atomic<LogSeverity> least_severity{LogSeverity::kINFO};
std::atomic<int> log_rank{-1};

const char* Basename(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash == nullptr ? file : slash + 1;
}

void WriteAll(const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(STDERR_FILENO, text.data() + written, text.size() - written);
    if (n <= 0) return;  // stderr is gone, and there is nobody left to tell
    written += n;
  }
}

}  // namespace

void SetLogSeverity(LogSeverity severity) { least_severity = severity; }
void SetLogRank(int rank) { log_rank = rank; }

LogLine::LogLine(LogSeverity severity, const char* file, int line) : severity_(severity) {
  timeval now;
  gettimeofday(&now, nullptr);
  tm local;
  localtime_r(&now.tv_sec, &local);
  char prefix[48];
  std::snprintf(prefix, sizeof(prefix), "%c %02d:%02d:%02d.%03d ",
                "IWEF"[static_cast<int>(severity)], local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<int>(now.tv_usec / 1000));
  stream_ << prefix;
  if (const int rank = log_rank; rank >= 0) stream_ << "rank " << rank << ' ';
  stream_ << Basename(file) << ':' << line << "] ";
}

LogLine::~LogLine() {
  if (severity_ >= least_severity) {
    stream_ << '\n';
    WriteAll(stream_.str());
  }
  if (severity_ == LogSeverity::kFATAL) std::abort();
}

std::unique_ptr<std::string> log_internal::NotOk(const absl::Status& status, const char* text) {
  if (status.ok()) return nullptr;
  return std::make_unique<std::string>("check failed: " + std::string(text) + " is OK (" +
                                       status.ToString() + ") ");
}

}  // namespace sluice
