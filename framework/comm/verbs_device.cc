#include "framework/comm/verbs_device.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/verbs_queue.h"

namespace sluice {
namespace {

constexpr int kCompletionsACall = 16;
// Others that the loop watches have their turn after so many.
constexpr int kCompletionsATurn = 256;
constexpr int kFirstPort = 1;

std::string Why(int error) { return std::strerror(error); }

// The edge that triggers is told once, so everything is read until there is no more.
void SetNonBlocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

std::string LimitText() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return absl::StrCat("; at most ", limit.rlim_cur, " bytes may be locked (ulimit -l)");
}

bool IsIpv4(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(std::begin(kPrefix), std::end(kPrefix), gid.raw);
}

absl::Status QueryPort(const VerbsLibrary& library, ibv_context* context, int port,
                       ibv_port_attr* facts) {
  *facts = {};
  // The function fills in what it knew when the struct was shorter, which is all that is read here.
  const int error = library.query_port(context, static_cast<uint8_t>(port),
                                       reinterpret_cast<_compat_ibv_port_attr*>(facts));
  if (error == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("port ", port, ": ", Why(error)));
}

}  // namespace

VerbsDevice::VerbsDevice(EventLoop* loop, const VerbsOptions& options, const VerbsLibrary& library)
    : loop_(*loop), options_(options), library_(library) {}

absl::StatusOr<std::unique_ptr<VerbsDevice>> VerbsDevice::Open(EventLoop* loop, int32_t queues,
                                                               const VerbsOptions& options) {
  const absl::StatusOr<const VerbsLibrary*> library = VerbsLibrary::Load();
  if (!library.ok()) return AddContext(library.status(), "no RDMA device");
  std::unique_ptr<VerbsDevice> device(new VerbsDevice(loop, options, **library));
  int count = 0;
  ibv_device** const devices = (*library)->get_device_list(&count);
  if (devices == nullptr || count == 0) {
    const std::string why = devices == nullptr ? Why(errno) : "this host has none";
    if (devices != nullptr) (*library)->free_device_list(devices);
    return absl::NotFoundError(absl::StrCat("no RDMA device: ", why));
  }
  const absl::Status opened = device->OpenNamed({devices, static_cast<size_t>(count)});
  (*library)->free_device_list(devices);
  RETURN_IF_ERROR(opened);
  RETURN_IF_ERROR(AddContext(device->MakeCompletions(queues), "RDMA device " + device->name_));
  SLUICE_LOG(INFO) << "RDMA by " << device->name_;
  return device;
}

absl::Status VerbsDevice::OpenNamed(absl::Span<ibv_device* const> devices) {
  const std::pair<std::string, std::string> wanted = absl::StrSplit(options_.device, ':');
  int port = 0;  // any
  if (!wanted.second.empty() && (!absl::SimpleAtoi(wanted.second, &port) || port < kFirstPort)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an RDMA device: expected NAME or NAME:PORT, got \"", options_.device, "\""));
  }
  std::vector<std::string> names;
  std::vector<std::string> reasons;
  for (ibv_device* device : devices) {
    names.push_back(library_.get_device_name(device));
    if (!wanted.first.empty() && wanted.first != names.back()) continue;
    const absl::Status opened = OpenPort(device, port);
    if (opened.ok()) return absl::OkStatus();
    CloseContext();
    reasons.push_back(absl::StrCat(names.back(), ", ", opened.message()));
  }
  if (reasons.empty()) {
    return absl::NotFoundError(absl::StrCat("no RDMA device \"", wanted.first, "\": this host has ",
                                            absl::StrJoin(names, ", ")));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no RDMA device that is active: ", absl::StrJoin(reasons, "; ")));
}

// `port` 0: the first that is active.
absl::Status VerbsDevice::OpenPort(ibv_device* device, int port) {
  context_ = library_.open_device(device);
  if (context_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("it cannot be opened: ", Why(errno)));
  }
  if (const int error = library_.query_device(context_, &limits_); error != 0) {
    return absl::FailedPreconditionError(Why(error));
  }
  const int first = port == 0 ? kFirstPort : port;
  const int last = port == 0 ? limits_.phys_port_cnt : port;
  absl::Status status = absl::FailedPreconditionError("it has no port");
  for (int p = first; p <= last; ++p) {
    ibv_port_attr facts;
    status = QueryPort(library_, context_, p, &facts);
    if (status.ok() && facts.state != IBV_PORT_ACTIVE) {
      status = absl::FailedPreconditionError(absl::StrCat(
          "port ", p, ": expected an active one, got ", library_.port_state_str(facts.state)));
    }
    if (!status.ok()) continue;
    port_ = static_cast<uint8_t>(p);
    name_ = absl::StrCat(library_.get_device_name(device), ":", p);
    return FindGid(facts);
  }
  return status;
}

// Over Ethernet ranks are reached by a gid that routers know as well (RoCE v2), the one of an IPv4
// address where there is one; over InfiniBand by the lid of their port.
absl::Status VerbsDevice::FindGid(const ibv_port_attr& port) {
  most_bytes_ = port.max_msg_sz;
  address_.lid = port.lid;
  address_.mtu = static_cast<uint8_t>(port.active_mtu);
  address_.reads = static_cast<uint8_t>(std::clamp(limits_.max_qp_rd_atom, 0, 255));
  by_gid_ = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  bool found = false;
  for (int i = 0; i < port.gid_tbl_len && by_gid_; ++i) {
    ibv_gid_entry entry = {};
    if (library_.query_gid(context_, port_, static_cast<uint32_t>(i), &entry, 0, sizeof(entry))) {
      continue;
    }
    const bool better = !found || IsIpv4(entry.gid);
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !better) continue;
    gid_index_ = static_cast<uint8_t>(i);
    std::copy_n(entry.gid.raw, address_.gid.size(), address_.gid.begin());
    found = true;
    if (IsIpv4(entry.gid)) break;
  }
  if (found || !by_gid_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("port ", port_, ": expected an address of RoCE v2, it has none"));
}

absl::Status VerbsDevice::MakeCompletions(int32_t queues) {
  const auto failed = [](const char* what) {
    return absl::ResourceExhaustedError(absl::StrCat("no ", what, ": ", Why(errno)));
  };
  domain_ = library_.alloc_pd(context_);
  if (domain_ == nullptr) return failed("protection domain");
  channel_ = library_.create_comp_channel(context_);
  if (channel_ == nullptr) return failed("completion channel");
  // There is room for the completions of all that may be posted.
  most_posted_ = std::min({options_.most_posted, static_cast<uint32_t>(limits_.max_qp_wr),
                           static_cast<uint32_t>(limits_.max_cqe / std::max(queues, 1))});
  if (most_posted_ == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("expected room for the completions of ",
                                                     queues, " queues, it has ", limits_.max_cqe));
  }
  completions_ = library_.create_cq(context_, static_cast<int>(most_posted_) * std::max(queues, 1),
                                    nullptr, channel_, /*comp_vector=*/0);
  if (completions_ == nullptr) return failed("completion queue");
  SetNonBlocking(channel_->fd);
  SetNonBlocking(context_->async_fd);
  return absl::OkStatus();
}

void VerbsDevice::CloseContext() {
  if (context_ != nullptr) library_.close_device(context_);
  context_ = nullptr;
}

VerbsDevice::~VerbsDevice() {
  for (ibv_mr* memory : memory_) library_.dereg_mr(memory);
  if (completions_ != nullptr) library_.destroy_cq(completions_);
  if (channel_ != nullptr) library_.destroy_comp_channel(channel_);
  if (domain_ != nullptr) library_.dealloc_pd(domain_);
  CloseContext();
}

// The least that will do: what others may do is read.
absl::Status VerbsDevice::Register(absl::Span<std::byte> memory) {
  ibv_mr* const registered = library_.reg_mr(domain_, memory.data(), memory.size(),
                                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  if (registered == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("RDMA device ", name_, ": ", memory.size(),
                     " bytes of memory cannot be registered: ", Why(errno), LimitText()));
  }
  memory_.push_back(registered);
  regions_.push_back({reinterpret_cast<uintptr_t>(memory.data()), memory.size(), registered->rkey});
  return absl::OkStatus();
}

MemoryPlace VerbsDevice::PlaceOf(absl::Span<const std::byte> bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  for (size_t i = 0; i < regions_.size(); ++i) {
    const VerbsRegion& region = regions_[i];
    if (address >= region.address && bytes.size() <= region.bytes &&
        address - region.address <= region.bytes - bytes.size()) {
      return {static_cast<int32_t>(i), address - region.address, bytes.size()};
    }
  }
  return {};
}

absl::Status VerbsDevice::Start() {
  ASSIGN_OR_RETURN(watches_[0], loop_.Add(channel_->fd, /*writes=*/false,
                                          [this](bool, bool) { OnCompletions(); }));
  ASSIGN_OR_RETURN(watches_[1], loop_.Add(context_->async_fd, /*writes=*/false,
                                          [this](bool, bool) { OnEvents(); }));
  OnCompletions();
  return absl::OkStatus();
}

void VerbsDevice::Close() {
  *alive_ = false;
  for (const EventLoop::Watch watch : watches_) loop_.Remove(watch);
  for (ibv_mr* memory : memory_) library_.dereg_mr(memory);
  memory_.clear();
}

// Looks until nothing has come for a while, asks to be told of what comes next, and looks once
// more: what came before it asked is not told.
void VerbsDevice::OnCompletions() {
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  unsigned int told = 0;
  while (library_.get_cq_event(channel_, &queue, &unused) == 0) ++told;
  if (told > 0) library_.ack_cq_events(completions_, told);
  auto last = EventLoop::Clock::now();
  bool asked = false;
  for (int done = 0; done < kCompletionsATurn;) {
    const int count = Complete();
    done += count;
    if (count > 0) {
      last = EventLoop::Clock::now();
      asked = false;
    } else if (asked) {
      return;
    } else if (posted_.load() == 0 || EventLoop::Clock::now() - last >= options_.poll) {
      ibv_req_notify_cq(completions_, /*solicited_only=*/0);
      asked = true;
    }
  }
  loop_.Post([this, alive = alive_] {
    if (*alive) OnCompletions();
  });
}

int VerbsDevice::Complete() {
  std::array<ibv_wc, kCompletionsACall> completions;
  const int count = ibv_poll_cq(completions_, completions.size(), completions.data());
  for (int i = 0; i < count; ++i) {
    --posted_;
    const ibv_wc& completion = completions[i];
    queues_[completion.wr_id >> 32]->OnCompletion(static_cast<int32_t>(completion.wr_id),
                                                  completion.status);
  }
  return std::max(count, 0);
}

// What concerns a queue pair its reads say too, with more of why.
void VerbsDevice::OnEvents() {
  ibv_async_event event;
  while (library_.get_async_event(context_, &event) == 0) {
    SLUICE_LOG(WARNING) << "RDMA device " << name_ << ": "
                        << library_.event_type_str(event.event_type);
    library_.ack_async_event(&event);
  }
}

}  // namespace sluice
