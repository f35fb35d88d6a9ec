#include "framework/base/status.h"

#include <memory>

#include "gtest/gtest.h"

namespace sluice {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(n / 2);
}

absl::StatusOr<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(n));
  ASSIGN_OR_RETURN(std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

absl::Status CheckQuarter(int n, int* calls) {
  RETURN_IF_ERROR(Quarter(n).status());
  ++*calls;
  return absl::OkStatus();
}

TEST(StatusTest, ValuesAndErrorsPassThrough) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
  int calls = 0;
  EXPECT_TRUE(CheckQuarter(8, &calls).ok());
  EXPECT_FALSE(CheckQuarter(7, &calls).ok());
  EXPECT_EQ(calls, 1);
}

TEST(StatusTest, AddContextKeepsCodeAndPayload) {
  absl::Status status = absl::NotFoundError("no file");
  status.SetPayload("place", absl::Cord("line 3"));
  const absl::Status annotated = AddContext(status, "plan.txt");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(annotated.message(), "plan.txt: no file");
  EXPECT_EQ(*annotated.GetPayload("place"), "line 3");
  EXPECT_TRUE(AddContext(absl::OkStatus(), "x").ok());
}

}  // namespace
}  // namespace sluice
