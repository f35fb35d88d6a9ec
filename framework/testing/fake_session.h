// A session of tests that computes nothing and has no variables: what a test is about it overrides.
#ifndef SLUICE_FRAMEWORK_TESTING_FAKE_SESSION_H_
#define SLUICE_FRAMEWORK_TESTING_FAKE_SESSION_H_

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "framework/session/session.h"

namespace sluice {

class FakeSession : public Session {
 public:
  absl::Status Close() override { return absl::OkStatus(); }
  absl::Status status() const override { return absl::OkStatus(); }
  void Fail(const absl::Status&) override {}
  std::vector<VariableInfo> variables() const override { return {}; }
  absl::StatusOr<HostTensor> Read(absl::string_view) override { return HostTensor(); }
  absl::Status Write(absl::string_view, const HostTensor&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<VariableBox>> boxes(absl::string_view) const override {
    return std::vector<VariableBox>();
  }
  absl::StatusOr<HostTensor> ReadBox(absl::string_view variable, const Box&) override {
    return Read(variable);
  }
  absl::Status WriteBox(absl::string_view variable, const Box&, const HostTensor& value) override {
    return Write(variable, value);
  }
  absl::Status PrepareSnapshots(absl::Span<const SnapshotBox> boxes) override {
    snapshot_.assign(boxes.begin(), boxes.end());
    return absl::OkStatus();
  }
  // At once.
  absl::Status BeginSnapshot() override {
    for (const SnapshotBox& each : snapshot_) {
      const absl::StatusOr<HostTensor> value = ReadBox(each.variable, each.box);
      if (!value.ok()) return value.status();
      std::copy(value->bytes.begin(), value->bytes.end(), each.to);
    }
    return absl::OkStatus();
  }
  void FinishSnapshot() override {}
  absl::Status Agree(
      const std::string& mine,
      const std::function<absl::Status(absl::Span<const std::string>)>& judge) override {
    return judge({mine});
  }
  absl::Status AgreeOnSave(
      const std::string& mine,
      const std::function<absl::Status(absl::Span<const std::string>)>& judge) override {
    return judge({mine});
  }
  absl::StatusOr<std::string> Share(const absl::StatusOr<std::string>& mine) override {
    return mine;
  }
  absl::Status CheckReplicas() override { return absl::OkStatus(); }
  void set_step(int64_t) override {}

 private:
  std::vector<SnapshotBox> snapshot_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_FAKE_SESSION_H_
