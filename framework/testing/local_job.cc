#include "framework/testing/local_job.h"

#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "framework/wire/socket.h"

namespace sluice {

namespace {

// As a launcher hands it on.
absl::StatusOr<Descriptor> MakeSecret() {
  Descriptor file(memfd_create("secret", MFD_CLOEXEC));
  constexpr absl::string_view kSecret = "a secret of thirty-two bytes....";
  if (!file.open() || write(file.number(), kSecret.data(), kSecret.size()) !=
                          static_cast<ssize_t>(kSecret.size())) {
    return absl::UnavailableError("no memory for a secret");
  }
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalJob>> LocalJob::Start(int32_t ranks, bool read_memory,
                                                          bool seal) {
  ASSIGN_OR_RETURN(const Descriptor secret, MakeSecret());
  ASSIGN_OR_RETURN(Descriptor listener, Listen({"127.0.0.1", 0}));
  ASSIGN_OR_RETURN(const Endpoint endpoint, LocalEndpoint(listener.number()));
  std::vector<absl::StatusOr<std::unique_ptr<Job>>> joined(ranks);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    JobOptions options;
    options.place.rank = rank;
    options.place.ranks = ranks;
    options.place.address = EndpointText(endpoint);
    options.place.secret = secret.number();
    options.read_memory = read_memory;
    options.seal = seal;
    if (rank == 0) options.place.listener = listener.Release();
    threads.emplace_back([&joined, rank, options] { joined[rank] = Job::Join(options); });
  }
  for (std::thread& thread : threads) thread.join();
  auto job = std::make_unique<LocalJob>();
  for (auto& each : joined) {
    RETURN_IF_ERROR(each.status());
    ASSIGN_OR_RETURN(CommNet * net, (*each)->net());
    job->nets_.push_back(net);
    job->jobs_.push_back(*std::move(each));
  }
  return job;
}

}  // namespace sluice
