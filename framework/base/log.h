// Lines for people on stderr, and checks of our own invariants. Any thread; a line is written
// whole.
//   SLUICE_LOG(INFO) << "4 devices";          I 14:03:22.118 rank 2 worker.cc:57] 4 devices
//   SLUICE_CHECK(n > 0) << "n is " << n;      prints file, condition and text, then aborts; never
//   compiled out SLUICE_CHECK_EQ(a.size(), 3) << name;     prints both values too; integers compare
//   by value
// What a user, a file or a cluster can get wrong is no invariant: return an absl::Status instead.
#ifndef SLUICE_FRAMEWORK_BASE_LOG_H_
#define SLUICE_FRAMEWORK_BASE_LOG_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "framework/base/status.h"

namespace sluice {

enum class LogSeverity { kINFO, kWARNING, kERROR, kFATAL };

// Lines below `severity` are dropped. Default: kINFO, everything.
void SetLogSeverity(LogSeverity severity);
// Names this process in every line; a negative rank, the default, names none.
void SetLogRank(int rank);

// One line, written when it is destroyed; kFATAL then aborts. Used through the macros.
class LogLine {
 public:
  LogLine(LogSeverity severity, const char* file, int line);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  std::ostringstream stream_;
};

namespace log_internal {

// Binds weaker than << and stronger than ?:, so that SLUICE_CHECK is one expression of type void.
struct Voidify {
  void operator&(std::ostream&) {}
};

template <typename T>
constexpr bool kComparesByValue =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;

struct Equal {
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    if constexpr (kComparesByValue<A> && kComparesByValue<B>) {
      return std::cmp_equal(a, b);
    } else {
      return a == b;
    }
  }
};
struct Less {
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    if constexpr (kComparesByValue<A> && kComparesByValue<B>) {
      return std::cmp_less(a, b);
    } else {
      return a < b;
    }
  }
};

template <typename T>
void Print(std::ostream& out, const T& value) {
  if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (std::is_enum_v<T>) {
    out << static_cast<int64_t>(value);
  } else {
    out << "(a value without operator<<)";
  }
}

// Null if `holds`; else what was compared, with both values.
template <typename A, typename B>
std::unique_ptr<std::string> Compared(bool holds, const A& a, const B& b, const char* text) {
  if (holds) [[likely]]
    return nullptr;
  std::ostringstream out;
  out << "check failed: " << text << " (";
  Print(out, a);
  out << " vs. ";
  Print(out, b);
  out << ") ";
  return std::make_unique<std::string>(out.str());
}
#define SLUICE_DEFINE_COMPARED_(name, expression)                               \
  template <typename A, typename B>                                             \
  std::unique_ptr<std::string> name(const A& a, const B& b, const char* text) { \
    return Compared(expression, a, b, text);                                    \
  }
SLUICE_DEFINE_COMPARED_(ComparedEQ, Equal()(a, b))
SLUICE_DEFINE_COMPARED_(ComparedNE, !Equal()(a, b))
SLUICE_DEFINE_COMPARED_(ComparedLT, Less()(a, b))
SLUICE_DEFINE_COMPARED_(ComparedGT, Less()(b, a))
SLUICE_DEFINE_COMPARED_(ComparedLE, (Less()(a, b) || Equal()(a, b)))
SLUICE_DEFINE_COMPARED_(ComparedGE, (Less()(b, a) || Equal()(a, b)))
#undef SLUICE_DEFINE_COMPARED_

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
// Null if OK; else what failed, with the error.
std::unique_ptr<std::string> NotOk(const absl::Status& status, const char* text);

}  // namespace log_internal
}  // namespace sluice

#define SLUICE_LOG(severity) \
  ::sluice::LogLine(::sluice::LogSeverity::k##severity, __FILE__, __LINE__).stream()

#define SLUICE_CHECK(condition)                       \
  (__builtin_expect(static_cast<bool>(condition), 1)) \
      ? static_cast<void>(0)                          \
      : ::sluice::log_internal::Voidify() & SLUICE_LOG(FATAL) << "check failed: " #condition " "

// `while`, not `if`: no dangling else, and the body never returns.
#define SLUICE_CHECK_FAILURE_(failure) \
  while (auto sluice_failure = failure) SLUICE_LOG(FATAL) << *sluice_failure
#define SLUICE_CHECK_OK(expression) \
  SLUICE_CHECK_FAILURE_(            \
      ::sluice::log_internal::NotOk(::sluice::log_internal::StatusOf(expression), #expression))
#define SLUICE_CHECK_OP_(name, a, b, op) \
  SLUICE_CHECK_FAILURE_(::sluice::log_internal::Compared##name(a, b, #a " " #op " " #b))
#define SLUICE_CHECK_EQ(a, b) SLUICE_CHECK_OP_(EQ, a, b, ==)
#define SLUICE_CHECK_NE(a, b) SLUICE_CHECK_OP_(NE, a, b, !=)
#define SLUICE_CHECK_LT(a, b) SLUICE_CHECK_OP_(LT, a, b, <)
#define SLUICE_CHECK_LE(a, b) SLUICE_CHECK_OP_(LE, a, b, <=)
#define SLUICE_CHECK_GT(a, b) SLUICE_CHECK_OP_(GT, a, b, >)
#define SLUICE_CHECK_GE(a, b) SLUICE_CHECK_OP_(GE, a, b, >=)

#endif  // SLUICE_FRAMEWORK_BASE_LOG_H_
