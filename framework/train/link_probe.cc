#include "framework/train/link_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLeastTrips = 8, kMostTrips = 64;
constexpr auto kTripsLimit = std::chrono::milliseconds(100);  // once there are the least
constexpr size_t kPingBytes = 64;
constexpr int64_t kLeastBytes = int64_t{256} << 10, kMostBytes = int64_t{16} << 20;
constexpr int kStreams = 3;  // of the size that takes long enough
// Sizes double up to the most.
constexpr int kMostStreams = 6 + kStreams;
static_assert(kLeastBytes << 6 == kMostBytes);
// Nothing takes longer than the deadline of a probe, and the most bytes come in a nanosecond at
// best.
constexpr int64_t kMostLatency = 60'000'000'000, kMostRate = 100'000'000'000'000'000;
constexpr auto kLongEnough = std::chrono::milliseconds(10);

absl::Status SendCount(Connection* connection, int64_t count, Deadline deadline) {
  std::array<std::byte, sizeof(count)> bytes;
  std::memcpy(bytes.data(), &count, sizeof(count));
  return connection->Write(bytes, deadline);
}

absl::StatusOr<int64_t> ReceiveCount(Connection* connection, Deadline deadline) {
  std::array<std::byte, sizeof(int64_t)> bytes;
  RETURN_IF_ERROR(connection->Read(absl::MakeSpan(bytes), deadline));
  int64_t count = 0;
  std::memcpy(&count, bytes.data(), sizeof(count));
  return count;
}

absl::StatusOr<Clock::duration> RoundTrip(Connection* connection, bool last, Deadline deadline) {
  std::array<std::byte, kPingBytes> ping = {};
  ping[0] = std::byte{last};
  const auto begin = Clock::now();
  RETURN_IF_ERROR(connection->Write(ping, deadline));
  RETURN_IF_ERROR(connection->Read(absl::MakeSpan(ping), deadline));
  return Clock::now() - begin;
}

// The other end says that it has all by one count.
absl::StatusOr<Clock::duration> Stream(Connection* connection, const std::vector<std::byte>& bytes,
                                       Deadline deadline) {
  const auto begin = Clock::now();
  RETURN_IF_ERROR(SendCount(connection, static_cast<int64_t>(bytes.size()), deadline));
  RETURN_IF_ERROR(connection->Write(bytes, deadline));
  ASSIGN_OR_RETURN(const int64_t come, ReceiveCount(connection, deadline));
  if (come == static_cast<int64_t>(bytes.size())) return Clock::now() - begin;
  return absl::InvalidArgumentError(
      absl::StrCat("a measured link: expected ", bytes.size(), " bytes to have come, got ", come));
}

absl::StatusOr<Clock::duration> MedianTrip(Connection* connection, Deadline deadline) {
  std::vector<Clock::duration> trips;
  const auto begin = Clock::now();
  for (bool last = false; !last;) {
    const size_t with_this = trips.size() + 1;
    last = with_this >= kMostTrips ||
           (with_this >= kLeastTrips && Clock::now() - begin >= kTripsLimit);
    ASSIGN_OR_RETURN(const Clock::duration trip, RoundTrip(connection, last, deadline));
    trips.push_back(trip);
  }
  const auto median = trips.begin() + static_cast<int64_t>(trips.size()) / 2;
  std::nth_element(trips.begin(), median, trips.end());
  return *median;
}

absl::StatusOr<Link> Ask(Connection* connection, Deadline deadline) {
  ASSIGN_OR_RETURN(const Clock::duration trip, MedianTrip(connection, deadline));
  const auto nanoseconds = [](Clock::duration time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  };
  Link link;
  link.latency_nanoseconds = std::max<int64_t>(1, nanoseconds(trip) / 2);
  // TCP needs some round trips until it sends as fast as it can.
  const Clock::duration enough = kLongEnough + 5 * trip;
  int64_t size = kLeastBytes;
  for (int streams = 0; streams < kStreams;) {
    ASSIGN_OR_RETURN(const Clock::duration time,
                     Stream(connection, std::vector<std::byte>(size), deadline));
    const bool longest = time >= enough || size >= kMostBytes;
    const auto streaming = static_cast<double>(std::max<int64_t>(1, nanoseconds(time - trip)));
    if (longest) {
      link.bytes_per_second =
          std::max(link.bytes_per_second, static_cast<double>(size) / streaming * 1e9);
      ++streams;
      // One is enough of what takes a good part of a second.
      if (time >= 10 * kLongEnough) break;
    } else {
      size *= 2;
    }
  }
  RETURN_IF_ERROR(SendCount(connection, 0, deadline));
  return link;
}

absl::Status Answer(Connection* connection, Deadline deadline) {
  std::array<std::byte, kPingBytes> ping = {};
  for (size_t trips = 0; ping[0] == std::byte{0}; ++trips) {
    if (trips == kMostTrips) {
      return absl::InvalidArgumentError(
          absl::StrCat("a measured link: expected at most ", kMostTrips, " round trips, got more"));
    }
    RETURN_IF_ERROR(connection->Read(absl::MakeSpan(ping), deadline));
    RETURN_IF_ERROR(connection->Write(ping, deadline));
  }
  std::vector<std::byte> bytes;
  for (int streams = 0;; ++streams) {
    ASSIGN_OR_RETURN(const int64_t size, ReceiveCount(connection, deadline));
    if (size == 0) return absl::OkStatus();
    if (size < 0 || size > kMostBytes || streams == kMostStreams) {
      return absl::InvalidArgumentError(
          absl::StrCat("a measured link: expected at most ", kMostStreams, " streams of 1 to ",
                       kMostBytes, " bytes, got ", streams + 1, ", this of ", size));
    }
    bytes.resize(static_cast<size_t>(size));
    RETURN_IF_ERROR(connection->Read(absl::MakeSpan(bytes), deadline));
    RETURN_IF_ERROR(SendCount(connection, size, deadline));
  }
}

double Rounded(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  double best = power;
  for (const double step : {2.0, 5.0, 10.0}) {
    const double other = step * power;
    if (std::abs(std::log(other / value)) < std::abs(std::log(best / value))) best = other;
  }
  return std::round(best);
}

}  // namespace

std::optional<std::pair<int32_t, int32_t>> ProbePair(absl::Span<const int32_t> host_of_rank,
                                                     LinkKind kind) {
  const auto ranks = static_cast<int32_t>(host_of_rank.size());
  for (int32_t a = 0; a < ranks; ++a) {
    for (int32_t b = a + 1; b < ranks; ++b) {
      const bool same = host_of_rank[a] == host_of_rank[b];
      if (kind == (same ? LinkKind::kHost : LinkKind::kNetwork)) return std::pair{a, b};
    }
  }
  return std::nullopt;
}

absl::StatusOr<Link> MeasureLink(Connection* connection, bool asks, Deadline deadline) {
  if (asks) return Ask(connection, deadline);
  RETURN_IF_ERROR(Answer(connection, deadline));
  return Link();
}

absl::Status SendLink(Connection* connection, const Link& link, Deadline deadline) {
  RETURN_IF_ERROR(SendCount(connection, link.latency_nanoseconds, deadline));
  return SendCount(connection, static_cast<int64_t>(link.bytes_per_second), deadline);
}

absl::StatusOr<Link> ReceiveLink(Connection* connection, Deadline deadline) {
  Link link;
  ASSIGN_OR_RETURN(link.latency_nanoseconds, ReceiveCount(connection, deadline));
  ASSIGN_OR_RETURN(const int64_t rate, ReceiveCount(connection, deadline));
  if (link.latency_nanoseconds < 0 || link.latency_nanoseconds > kMostLatency || rate < 0 ||
      rate > kMostRate) {
    return absl::InvalidArgumentError(
        absl::StrCat("a measured link: expected at most ", kMostLatency, " ns and ", kMostRate,
                     " B/s, got ", link.latency_nanoseconds, " and ", rate));
  }
  link.bytes_per_second = static_cast<double>(rate);
  return link;
}

Link RoundLink(const Link& link) {
  const auto latency = std::max<int64_t>(1, link.latency_nanoseconds);
  return {static_cast<int64_t>(Rounded(static_cast<double>(latency))),
          Rounded(std::max(1.0, link.bytes_per_second))};
}

}  // namespace sluice
