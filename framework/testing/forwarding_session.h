// A session of tests that hands everything on to another one: what a test is about it overrides.
#ifndef SLUICE_FRAMEWORK_TESTING_FORWARDING_SESSION_H_
#define SLUICE_FRAMEWORK_TESTING_FORWARDING_SESSION_H_

#include <functional>
#include <string>
#include <vector>

#include "framework/session/session.h"

namespace sluice {

class ForwardingSession : public Session {
 public:
  // It must outlive this.
  explicit ForwardingSession(Session* session) : session_(*session) {}

  absl::Status Close() override { return session_.Close(); }
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    return session_.Step(program, feeds);
  }
  absl::Status Next(Fetches* fetches) override { return session_.Next(fetches); }
  absl::Status status() const override { return session_.status(); }
  std::vector<VariableInfo> variables() const override { return session_.variables(); }
  absl::StatusOr<HostTensor> Read(absl::string_view variable) override {
    return session_.Read(variable);
  }
  absl::Status Write(absl::string_view variable, const HostTensor& value) override {
    return session_.Write(variable, value);
  }
  absl::StatusOr<std::vector<VariableBox>> boxes(absl::string_view variable) const override {
    return session_.boxes(variable);
  }
  absl::StatusOr<HostTensor> ReadBox(absl::string_view variable, const Box& box) override {
    return session_.ReadBox(variable, box);
  }
  absl::Status WriteBox(absl::string_view variable, const Box& box,
                        const HostTensor& value) override {
    return session_.WriteBox(variable, box, value);
  }
  absl::Status PrepareSnapshots(absl::Span<const SnapshotBox> boxes) override {
    return session_.PrepareSnapshots(boxes);
  }
  absl::Status BeginSnapshot() override { return session_.BeginSnapshot(); }
  void FinishSnapshot() override { session_.FinishSnapshot(); }
  absl::Status Agree(
      const std::string& mine,
      const std::function<absl::Status(absl::Span<const std::string>)>& judge) override {
    return session_.Agree(mine, judge);
  }
  absl::Status AgreeOnSave(
      const std::string& mine,
      const std::function<absl::Status(absl::Span<const std::string>)>& judge) override {
    return session_.AgreeOnSave(mine, judge);
  }
  absl::StatusOr<std::string> Share(const absl::StatusOr<std::string>& mine) override {
    return session_.Share(mine);
  }
  void Fail(const absl::Status& why) override { session_.Fail(why); }
  absl::Status CheckReplicas() override { return session_.CheckReplicas(); }
  void set_step(int64_t step) override { session_.set_step(step); }

 private:
  Session& session_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_FORWARDING_SESSION_H_
