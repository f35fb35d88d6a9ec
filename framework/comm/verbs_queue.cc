#include "framework/comm/verbs_queue.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/pieces.h"

namespace sluice {
namespace {

constexpr uint32_t kPacketMask = (1u << 24) - 1;
constexpr uint8_t kHops = 64;
// More of them are gathered by their owner instead.
constexpr size_t kMostRuns = 64;

// A packet that somebody makes up must have the number that is expected next.
uint32_t FirstPacket() {
  uint32_t number = 0;
  SLUICE_CHECK(getrandom(&number, sizeof(number), 0) == sizeof(number));
  return number & kPacketMask;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsQueue>> VerbsQueue::Make(VerbsDevice* device,
                                                             const std::string& name,
                                                             Owner* owner) {
  std::unique_ptr<VerbsQueue> queue(new VerbsQueue(device, name, owner));
  RETURN_IF_ERROR(AddContext(queue->Create(), "RDMA device " + device->name()));
  queue->number_ = device->queues_.size();
  device->queues_.push_back(queue.get());
  return queue;
}

VerbsQueue::~VerbsQueue() { Close(); }

Frame VerbsQueue::Introduction() const {
  Frame frame;
  frame.type = FrameType::kVerbs;
  frame.verbs = address_;
  frame.regions = device_.regions();
  return frame;
}

absl::Status VerbsQueue::Create() {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = device_.completions_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = device_.most_posted_;
  attributes.cap.max_recv_wr = 1;  // nothing is ever received: some devices want a place for it
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  pair_ = device_.library_.create_qp(device_.domain_, &attributes);
  if (pair_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no queue pair: ", std::strerror(errno)));
  }
  address_ = device_.address();
  address_.queue_pair = pair_->qp_num;
  address_.packet = FirstPacket();
  return Initialize();
}

absl::Status VerbsQueue::Modify(ibv_qp_attr* attributes, int mask, const char* to) {
  const int error = device_.library_.modify_qp(pair_, attributes, mask | IBV_QP_STATE);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("a queue pair cannot ", to, ": ", std::strerror(error)));
}

absl::Status VerbsQueue::Initialize() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port_;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  return Modify(&attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "be used");
}

absl::Status VerbsQueue::BeginToServe(const VerbsAddress& other) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(address_.mtu, other.mtu));
  attributes.dest_qp_num = other.queue_pair;
  attributes.rq_psn = other.packet;
  attributes.max_dest_rd_atomic = address_.reads;
  attributes.ah_attr.port_num = device_.port_;
  attributes.ah_attr.dlid = other.lid;
  if (device_.by_gid_) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.hop_limit = kHops;
    attributes.ah_attr.grh.sgid_index = device_.gid_index_;
    std::copy(other.gid.begin(), other.gid.end(), attributes.ah_attr.grh.dgid.raw);
  }
  return Modify(&attributes,
                IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                "reach the other one");
}

absl::Status VerbsQueue::BeginToRead(const VerbsAddress& other) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = address_.packet;
  attributes.timeout = device_.options_.timeout;
  attributes.retry_cnt = device_.options_.retries;
  attributes.max_rd_atomic =
      static_cast<uint8_t>(std::clamp(device_.limits_.max_qp_init_rd_atom, 0, int{other.reads}));
  return Modify(&attributes,
                IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_MAX_QP_RD_ATOMIC,
                "read");
}

bool VerbsQueue::Connect(const VerbsAddress& other, std::vector<VerbsRegion> regions) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (pair_ == nullptr || connected_) return false;  // it was closed meanwhile, or is told twice
  absl::Status status = BeginToServe(other);
  if (status.ok()) status = BeginToRead(other);
  if (!status.ok()) {
    SLUICE_LOG(WARNING) << name_ << ": no RDMA, " << status.message()
                        << "; its bytes come over TCP";
    return false;
  }
  regions_ = std::move(regions);
  connected_ = true;
  return true;
}

bool VerbsQueue::Read(int32_t read, const PullRequest& request, const MemoryPlace& place,
                      std::byte* to) {
  std::vector<int32_t> ended;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool there = place.memory >= 0 && static_cast<size_t>(place.memory) < regions_.size();
    if (!connected_ || !failed_.ok() || pair_ == nullptr || !there) return false;
    const VerbsRegion& region = regions_[place.memory];
    const int32_t own = device_.PlaceOf({to, static_cast<size_t>(request.bytes)}).memory;
    const bool holds = place.bytes <= region.bytes && place.offset <= region.bytes - place.bytes;
    if (!holds || own < 0 || !CheckPieces(request, static_cast<int64_t>(place.bytes)).ok()) {
      return false;
    }
    // Addresses of the other rank, which are only counted with.
    const auto* const slot = reinterpret_cast<const std::byte*>(region.address + place.offset);
    std::vector<Part> parts;
    size_t runs = 0;
    ForEachRun(request, {slot, place.bytes}, [&](absl::Span<const std::byte> run) {
      if (++runs > kMostRuns) return;
      for (uint64_t done = 0; done < run.size();) {
        const uint64_t bytes = std::min(run.size() - done, device_.most_bytes_);
        parts.push_back({read, region.key, device_.memory_[own]->lkey,
                         reinterpret_cast<uintptr_t>(run.data()) + done, to, bytes});
        done += bytes;
        to += bytes;
      }
    });
    if (parts.empty() || runs > kMostRuns) return false;
    readings_[read] = {static_cast<int64_t>(parts.size()), absl::OkStatus(), request.edge};
    waiting_.insert(waiting_.end(), parts.begin(), parts.end());
    Post(&ended);
  }
  Tell(ended);
  return true;
}

void VerbsQueue::Post(std::vector<int32_t>* ended) {
  while (!waiting_.empty() && posted_ < device_.most_posted_) {
    const Part part = waiting_.front();
    ibv_sge local = {reinterpret_cast<uintptr_t>(part.to), static_cast<uint32_t>(part.bytes),
                     part.local_key};
    ibv_send_wr work = {};
    work.wr_id = number_ << 32 | static_cast<uint32_t>(part.read);
    work.sg_list = &local;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_READ;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = part.address;
    work.wr.rdma.rkey = part.key;
    ibv_send_wr* refused = nullptr;
    ++device_.posted_;
    if (const int error = ibv_post_send(pair_, &work, &refused); error != 0) {
      --device_.posted_;
      return Fail(part.read, absl::UnavailableError(std::strerror(error)), ended);
    }
    waiting_.pop_front();
    ++posted_;
  }
}

// What was posted comes back with an error, now that the queue pair has one: only then will nothing
// of it be written any more.
void VerbsQueue::Fail(int32_t read, const absl::Status& why, std::vector<int32_t>* ended) {
  if (!failed_.ok()) return;
  failed_ = why;
  const Edge& edge = readings_[read].edge;
  SLUICE_LOG(WARNING) << name_ << ": an RDMA read of register " << edge.source << " of device "
                      << edge.source_device << " failed, " << why.message()
                      << "; from here on its bytes come over TCP";
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  const absl::Status stopped = Modify(&attributes, 0, "be stopped");
  if (!stopped.ok()) SLUICE_LOG(WARNING) << stopped.message();
  while (!waiting_.empty()) {
    const int32_t dropped = waiting_.front().read;
    waiting_.pop_front();
    EndPart(dropped, ended);
  }
}

void VerbsQueue::EndPart(int32_t read, std::vector<int32_t>* ended) {
  Reading& reading = readings_[read];
  reading.status.Update(failed_);
  if (--reading.parts == 0) ended->push_back(read);
}

void VerbsQueue::OnCompletion(int32_t read, ibv_wc_status status) {
  std::vector<int32_t> ended;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (pair_ == nullptr) return;
    --posted_;
    // Of those that fail with the first the library says only that they were flushed.
    if (status != IBV_WC_SUCCESS) {
      Fail(read, absl::UnavailableError(device_.library_.wc_status_str(status)), &ended);
    }
    EndPart(read, &ended);
    Post(&ended);
  }
  Tell(ended);
}

void VerbsQueue::Tell(const std::vector<int32_t>& ended) {
  for (const int32_t read : ended) {
    absl::Status status;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      status = readings_[read].status;
    }
    owner_.OnReadEnded(read, status);
  }
}

void VerbsQueue::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (pair_ == nullptr) return;
  device_.library_.destroy_qp(pair_);
  pair_ = nullptr;
  waiting_.clear();
}

}  // namespace sluice
