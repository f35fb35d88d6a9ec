#include "framework/session/plan_session.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/attributes/attributes.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/graph/interpreter.h"
#include "framework/plan/shard_proto.h"
#include "framework/runtime/port_copy.h"
#include "framework/runtime/variable_snapshot.h"
#include "framework/session/replica_digests.h"

namespace sluice {
namespace {

// Of a shard that StartPlan has found sound.
Shard ShardOf(const plan::VariableShard& shard) { return *ShardFromProto(shard.shard()); }

using Judge = std::function<absl::Status(absl::Span<const std::string>)>;

Answer AnswerOf(const Judge& judge) {
  return [&judge](absl::Span<const std::string> ranks) -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(judge(ranks));
    return "";
  };
}

class PlanSession final : public Session {
 public:
  explicit PlanSession(std::unique_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {
    for (const plan::Variable& variable : plan().variables()) {
      places_.emplace(variable.name(), static_cast<int>(infos_.size()));
      infos_.push_back({variable.name(), static_cast<DType>(variable.dtype()),
                        Shape(absl::MakeConstSpan(variable.shape())), variable.layout()});
    }
    int most_feeds = 0;
    for (const plan::Program& program : plan().programs()) {
      most_feeds = std::max(most_feeds, program.feeds_size());
    }
    ordered_.resize(most_feeds);
  }

  absl::Status Initialize(uint64_t seed, const Stop& stop);

  absl::Status Close() override { return runtime_->Close(); }
  absl::Status Step(absl::string_view program, const Feeds& feeds) override;
  absl::Status Next(Fetches* fetches) override;
  absl::Status status() const override { return runtime_->status(); }
  void Fail(const absl::Status& why) override { runtime_->Fail(why); }
  std::vector<VariableInfo> variables() const override { return infos_; }
  absl::StatusOr<HostTensor> Read(absl::string_view variable) override;
  absl::Status Write(absl::string_view variable, const HostTensor& value) override;
  absl::StatusOr<std::vector<VariableBox>> boxes(absl::string_view variable) const override;
  absl::StatusOr<HostTensor> ReadBox(absl::string_view variable, const Box& box) override;
  absl::Status WriteBox(absl::string_view variable, const Box& box,
                        const HostTensor& value) override;
  absl::Status PrepareSnapshots(absl::Span<const SnapshotBox> boxes) override;
  absl::Status BeginSnapshot() override;
  void FinishSnapshot() override { runtime_->snapshot()->Finish(); }
  absl::Status Agree(const std::string& mine, const Judge& judge) override {
    return runtime_->Ask(Asker::kSession, mine, AnswerOf(judge)).status();
  }
  absl::Status AgreeOnSave(const std::string& mine, const Judge& judge) override {
    return runtime_->Ask(Asker::kSaver, mine, AnswerOf(judge)).status();
  }
  absl::StatusOr<std::string> Share(const absl::StatusOr<std::string>& mine) override {
    return runtime_->Ask(Asker::kSession, "", [&mine](auto) { return mine; });
  }
  absl::Status CheckReplicas() override;
  void set_step(int64_t step) override { step_ = step; }

 private:
  const plan::Plan& plan() const { return runtime_->plan(); }
  // Waits until nothing runs; the error if the state is torn.
  absl::Status Settle() {
    runtime_->Quiesce();
    return runtime_->status();
  }
  absl::StatusOr<int> FindProgram(absl::string_view name) const;
  absl::StatusOr<int> FindVariable(absl::string_view name) const;
  // Those that hold each element once; FailedPrecondition where this rank does not hold all.
  absl::StatusOr<std::vector<int>> ShardsOfWhole(int variable) const;
  std::string ReplicaDigests();
  // The first shard of a variable with this box.
  absl::StatusOr<int> FindBox(int variable, const Box& box) const;
  absl::Status OrderFeeds(const plan::Program& program, const Feeds& feeds);
  // Has snapshots copy a shard.
  using CopyShard = std::function<void(const std::byte* shard)>;
  void AddToSnapshots(int variable, int shard, CopyShard copy,
                      std::vector<VariableSnapshot::ShardCopy>* in_place);
  // A shard's bytes: in place where they are the host's, else a copy, until the next call.
  const std::byte* BytesOf(int variable, int shard);
  // Where to write a shard, which no snapshot waits for any more, and that it has been written.
  std::byte* ToWrite(int variable, int shard);
  void Written(int variable, int shard);

  std::unique_ptr<Runtime> runtime_;
  std::vector<VariableInfo> infos_;
  std::map<std::string, int, std::less<>> places_;  // of variables, by name
  std::vector<Feed> ordered_;                       // the feeds of a step, in the program's order
  std::vector<std::byte> staging_;  // of one shard, where a device's memory is not the host's
  std::vector<std::function<void()>> copied_at_once_;  // by snapshots: shards of devices' memories
  int64_t step_ = 0;
};

// The names of messages, for errors.
template <typename T>
std::string Names(const T& items) {
  return items.empty() ? "none"
                       : absl::StrJoin(items, ", ", [](std::string* out, const auto& item) {
                           absl::StrAppend(out, item.name());
                         });
}

// Of rows as many as are wanted.
TensorType TypeOf(const Feed& feed, const Shape& wanted) {
  if (feed.tensor != nullptr) return {feed.tensor->dtype, feed.tensor->shape};
  if (feed.rows.dataset == nullptr) return {};
  const SampleField& field = feed.rows.dataset->fields()[feed.rows.field];
  Shape shape = {wanted.rank() == 0 ? 0 : wanted[0]};
  for (const int64_t extent : field.shape) shape.Append(extent);
  return {field.dtype, shape};
}

// By shard of a variable: the first one here with the same box.
std::vector<int> FirstOfBox(const plan::Variable& variable) {
  std::map<std::vector<int64_t>, int> seen;
  std::vector<int> first;
  for (int i = 0; i < variable.shards_size(); ++i) {
    std::vector<int64_t> key;
    for (const Range& range : ShardOf(variable.shards(i)).BoxAt(0)) {
      key.push_back(range.begin);
      key.push_back(range.end);
    }
    first.push_back(seen.emplace(std::move(key), i).first->second);
  }
  return first;
}

// The initial values of a shard, some rows at a time: in f64 a whole table would be the largest
// thing that the session ever holds.
absl::Status WriteInitial(const std::string& name, const VariableAttributes& init,
                          const Shape& shape, const Shard& shard, uint64_t seed, const Stop& stop,
                          std::byte* bytes) {
  constexpr int64_t kElements = 1 << 18;
  const Box whole = shard.BoxAt(0);
  const int64_t rows = shard.local.rank() == 0 ? 1 : shard.local[0];
  const int64_t some = std::max<int64_t>(1, kElements / (shard.NumElements() / rows));
  for (int64_t row = 0; row < rows; row += some) {
    RETURN_IF_ERROR(CheckStop(stop));
    Box box = whole;
    if (shard.local.rank() > 0) {
      box[0] = {whole[0].begin + row, whole[0].begin + std::min(rows, row + some)};
    }
    const HostTensor tensor = FromArray(InitialShard(name, init, shape, box, seed), shard.dtype);
    std::memcpy(bytes, tensor.bytes.data(), tensor.bytes.size());
    bytes += tensor.bytes.size();
  }
  return absl::OkStatus();
}

const std::byte* PlanSession::BytesOf(int variable, int shard) {
  const std::byte* const bytes = runtime_->VariableShard(variable, shard);
  if (bytes != nullptr) return bytes;
  staging_.resize(ShardOf(plan().variables(variable).shards(shard)).NumBytes());
  runtime_->CopyOut(variable, shard, absl::MakeSpan(staging_));
  return staging_.data();
}

std::byte* PlanSession::ToWrite(int variable, int shard) {
  FinishSnapshot();
  std::byte* const bytes = runtime_->VariableShard(variable, shard);
  if (bytes != nullptr) return bytes;
  staging_.resize(ShardOf(plan().variables(variable).shards(shard)).NumBytes());
  return staging_.data();
}

void PlanSession::Written(int variable, int shard) {
  if (runtime_->VariableShard(variable, shard) != nullptr) return;
  runtime_->CopyIn(variable, shard, staging_);
}

absl::Status PlanSession::Initialize(uint64_t seed, const Stop& stop) {
  for (int v = 0; v < plan().variables_size(); ++v) {
    const plan::Variable& variable = plan().variables(v);
    for (const plan::VariableShard& shard : variable.shards()) {
      RETURN_IF_ERROR(ShardFromProto(shard.shard()).status());
    }
    ASSIGN_OR_RETURN(const auto init, ParseAttributes<VariableAttributes>(variable.init()));
    const std::vector<int> first = FirstOfBox(variable);
    for (int p = 0; p < variable.shards_size(); ++p) {
      const Shard shard = ShardOf(variable.shards(p));
      if (shard.NumBytes() == 0) continue;
      if (first[p] != p) {
        RETURN_IF_ERROR(CheckStop(stop));
        runtime_->CopyIn(v, p, {BytesOf(v, first[p]), static_cast<size_t>(shard.NumBytes())});
        continue;
      }
      RETURN_IF_ERROR(
          WriteInitial(variable.name(), init, infos_[v].shape, shard, seed, stop, ToWrite(v, p)));
      Written(v, p);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PlanSession::FindProgram(absl::string_view name) const {
  for (int i = 0; i < plan().programs_size(); ++i) {
    if (plan().programs(i).name() == name) return i;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no program \"", name, "\"; there are ", Names(plan().programs())));
}

absl::StatusOr<int> PlanSession::FindVariable(absl::string_view name) const {
  const auto found = places_.find(name);
  if (found != places_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("no variable \"", name, "\" in the programs"));
}

absl::Status PlanSession::OrderFeeds(const plan::Program& program, const Feeds& feeds) {
  for (const auto& feed : feeds) {
    bool known = false;
    for (const plan::Port& port : program.feeds()) known |= port.name() == feed.first;
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("program ", program.name(), " has no feed \"",
                                                     feed.first, "\"; expected ",
                                                     Names(program.feeds())));
    }
  }
  for (int i = 0; i < program.feeds_size(); ++i) {
    const plan::Port& port = program.feeds(i);
    ordered_[i] = Feed();
    for (const auto& feed : feeds) {
      if (feed.first == port.name()) ordered_[i] = feed.second;
    }
    const auto dtype = static_cast<DType>(port.dtype());
    const Shape shape(absl::MakeConstSpan(port.shape()));
    const TensorType got = TypeOf(ordered_[i], shape);
    if (ordered_[i].empty() || got.dtype != dtype || got.shape != shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "program ", program.name(), ", feed ", port.name(), ": expected ", DTypeName(dtype),
          shape.ToString(), ", got ",
          ordered_[i].empty() ? "none" : absl::StrCat(DTypeName(got.dtype), got.shape.ToString())));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanSession::Step(absl::string_view program, const Feeds& feeds) {
  RETURN_IF_ERROR(status());
  ASSIGN_OR_RETURN(const int index, FindProgram(program));
  RETURN_IF_ERROR(OrderFeeds(plan().programs(index), feeds));
  RETURN_IF_ERROR(runtime_->Enqueue(
      index, absl::MakeConstSpan(ordered_).subspan(0, plan().programs(index).feeds_size()), step_));
  if (index == 0) ++step_;
  return absl::OkStatus();
}

absl::Status PlanSession::Next(Fetches* fetches) {
  ASSIGN_OR_RETURN(const StepResult result, runtime_->Next());
  const plan::Program& program = plan().programs(result.program);
  const auto stale = [&](const auto& fetch) {
    for (const plan::Port& port : program.fetches()) {
      if (port.name() == fetch.first) return false;
    }
    return true;
  };
  for (auto at = fetches->begin(); at != fetches->end();) {
    at = stale(*at) ? fetches->erase(at) : std::next(at);
  }
  for (int i = 0; i < program.fetches_size(); ++i) {
    // A copy into memory that is there already allocates nothing.
    (*fetches)[program.fetches(i).name()] = (*result.fetches)[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> PlanSession::ShardsOfWhole(int variable) const {
  const plan::Variable& planned = plan().variables(variable);
  const std::vector<int> first = FirstOfBox(planned);
  std::vector<int> shards;
  int64_t elements = 0;
  for (int p = 0; p < planned.shards_size(); ++p) {
    if (first[p] != p) continue;
    shards.push_back(p);
    elements += ShardOf(planned.shards(p)).NumElements();
  }
  if (elements >= infos_[variable].shape.NumElements()) return shards;
  return absl::FailedPreconditionError(absl::StrCat(
      "variable ", planned.name(), ": rank ", plan().rank(), " holds ", elements, " of ",
      infos_[variable].shape.NumElements(), " elements; expected all, or ReadBox"));
}

absl::StatusOr<HostTensor> PlanSession::Read(absl::string_view variable) {
  RETURN_IF_ERROR(Settle());
  ASSIGN_OR_RETURN(const int v, FindVariable(variable));
  ASSIGN_OR_RETURN(const std::vector<int> shards, ShardsOfWhole(v));
  HostTensor value(infos_[v].dtype, infos_[v].shape);
  for (const int p : shards) {
    PortCopy(ShardOf(plan().variables(v).shards(p))).Fetch(BytesOf(v, p), 0, value.bytes.data());
  }
  return value;
}

absl::Status PlanSession::Write(absl::string_view variable, const HostTensor& value) {
  RETURN_IF_ERROR(Settle());
  ASSIGN_OR_RETURN(const int v, FindVariable(variable));
  if (value.dtype != infos_[v].dtype || value.shape != infos_[v].shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", variable, ": expected ", DTypeName(infos_[v].dtype),
        infos_[v].shape.ToString(), ", got ", DTypeName(value.dtype), value.shape.ToString()));
  }
  const plan::Variable& planned = plan().variables(v);
  for (int p = 0; p < planned.shards_size(); ++p) {
    PortCopy(ShardOf(planned.shards(p))).Feed(value.bytes.data(), 0, ToWrite(v, p));
    Written(v, p);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<VariableBox>> PlanSession::boxes(absl::string_view variable) const {
  ASSIGN_OR_RETURN(const int v, FindVariable(variable));
  const plan::Variable& planned = plan().variables(v);
  const std::vector<int> first = FirstOfBox(planned);
  std::vector<VariableBox> boxes;
  std::vector<int> box_of(first.size());
  for (int p = 0; p < planned.shards_size(); ++p) {
    if (first[p] == p) {
      box_of[p] = static_cast<int>(boxes.size());
      boxes.push_back({ShardOf(planned.shards(p)).BoxAt(0), false});
    }
    if (!planned.shards(p).replica()) boxes[box_of[first[p]]].saved = true;
  }
  return boxes;
}

absl::StatusOr<int> PlanSession::FindBox(int variable, const Box& box) const {
  const plan::Variable& planned = plan().variables(variable);
  for (int p = 0; p < planned.shards_size(); ++p) {
    if (ShardOf(planned.shards(p)).BoxAt(0) == box) return p;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "variable ", planned.name(), ": rank ", plan().rank(), " does not hold ", BoxToString(box)));
}

absl::StatusOr<HostTensor> PlanSession::ReadBox(absl::string_view variable, const Box& box) {
  RETURN_IF_ERROR(Settle());
  ASSIGN_OR_RETURN(const int v, FindVariable(variable));
  ASSIGN_OR_RETURN(const int p, FindBox(v, box));
  HostTensor value(infos_[v].dtype, ShapeOf(box));
  if (!value.bytes.empty()) std::memcpy(value.bytes.data(), BytesOf(v, p), value.bytes.size());
  return value;
}

absl::Status PlanSession::WriteBox(absl::string_view variable, const Box& box,
                                   const HostTensor& value) {
  RETURN_IF_ERROR(Settle());
  ASSIGN_OR_RETURN(const int v, FindVariable(variable));
  ASSIGN_OR_RETURN(const int found, FindBox(v, box));
  if (value.dtype != infos_[v].dtype || value.shape != ShapeOf(box)) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", variable, ", box ", BoxToString(box), ": expected ",
                     DTypeName(infos_[v].dtype), ShapeOf(box).ToString(), ", got ",
                     DTypeName(value.dtype), value.shape.ToString()));
  }
  const plan::Variable& planned = plan().variables(v);
  for (int p = found; p < planned.shards_size() && !value.bytes.empty(); ++p) {
    if (ShardOf(planned.shards(p)).BoxAt(0) != box) continue;
    std::memcpy(ToWrite(v, p), value.bytes.data(), value.bytes.size());
    Written(v, p);
  }
  return absl::OkStatus();
}

void PlanSession::AddToSnapshots(int variable, int shard, CopyShard copy,
                                 std::vector<VariableSnapshot::ShardCopy>* in_place) {
  if (ShardOf(plan().variables(variable).shards(shard)).NumBytes() == 0) return;
  const std::byte* const bytes = runtime_->VariableShard(variable, shard);
  if (bytes != nullptr) {
    in_place->push_back({variable, shard, [bytes, copy = std::move(copy)] { copy(bytes); }});
    return;
  }
  copied_at_once_.push_back(
      [this, variable, shard, copy = std::move(copy)] { copy(BytesOf(variable, shard)); });
}

absl::Status PlanSession::PrepareSnapshots(absl::Span<const SnapshotBox> boxes) {
  RETURN_IF_ERROR(Settle());
  FinishSnapshot();
  copied_at_once_.clear();
  std::vector<VariableSnapshot::ShardCopy> copies;
  for (const SnapshotBox& each : boxes) {
    ASSIGN_OR_RETURN(const int v, FindVariable(each.variable));
    if (const absl::StatusOr<int> p = FindBox(v, each.box); p.ok()) {
      const int64_t bytes = Volume(each.box) * SizeOf(infos_[v].dtype);
      AddToSnapshots(
          v, *p, [to = each.to, bytes](const std::byte* shard) { std::memcpy(to, shard, bytes); },
          &copies);
      continue;
    }
    if (each.box != WholeBox(infos_[v].shape)) RETURN_IF_ERROR(FindBox(v, each.box).status());
    ASSIGN_OR_RETURN(const std::vector<int> shards, ShardsOfWhole(v));
    for (const int p : shards) {
      AddToSnapshots(
          v, p,
          [to = each.to, whole = PortCopy(ShardOf(plan().variables(v).shards(p)))](
              const std::byte* shard) { whole.Fetch(shard, 0, to); },
          &copies);
    }
  }
  runtime_->snapshot()->Prepare(std::move(copies));
  return absl::OkStatus();
}

absl::Status PlanSession::BeginSnapshot() {
  RETURN_IF_ERROR(Settle());
  FinishSnapshot();
  for (const std::function<void()>& copy : copied_at_once_) copy();
  runtime_->snapshot()->Begin();
  return absl::OkStatus();
}

std::string PlanSession::ReplicaDigests() {
  std::string text;
  for (int v = 0; v < plan().variables_size(); ++v) {
    const plan::Variable& variable = plan().variables(v);
    for (int p = 0; p < variable.shards_size(); ++p) {
      const Shard shard = ShardOf(variable.shards(p));
      text +=
          ReplicaLine({v, BoxToString(shard.BoxAt(0)), StableHash(BytesOf(v, p), shard.NumBytes()),
                       variable.shards(p).device()});
    }
  }
  return text;
}

absl::Status PlanSession::CheckReplicas() {
  RETURN_IF_ERROR(Settle());
  return Agree(ReplicaDigests(), [this](absl::Span<const std::string> ranks) {
    std::vector<absl::string_view> names;
    for (const plan::Variable& variable : plan().variables()) names.push_back(variable.name());
    return CompareReplicas(ranks, names);
  });
}

}  // namespace

absl::StatusOr<Fetches> Session::Next() {
  Fetches fetches;
  RETURN_IF_ERROR(Next(&fetches));
  return fetches;
}

absl::StatusOr<std::unique_ptr<Session>> StartPlan(plan::Plan plan, const RuntimeOptions& options) {
  if (options.net != nullptr) RETURN_IF_ERROR(options.net->Take());
  std::unique_ptr<PlanSession> session;
  absl::Status status;
  if (auto runtime = Runtime::Start(std::move(plan), options); runtime.ok()) {
    session = std::make_unique<PlanSession>(*std::move(runtime));
    status = session->Initialize(options.seed, options.stop);
  } else {
    status = runtime.status();
  }
  if (status.ok()) return absl::StatusOr<std::unique_ptr<Session>>(std::move(session));
  if (options.net != nullptr) RefuseToJoin(options.net, status);
  return status;
}

}  // namespace sluice
