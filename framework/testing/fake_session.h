// A session of tests that computes nothing and has no variables: what a test is about it overrides.
#ifndef SLUICE_FRAMEWORK_TESTING_FAKE_SESSION_H_
#define SLUICE_FRAMEWORK_TESTING_FAKE_SESSION_H_

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
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_FAKE_SESSION_H_
