#include "framework/compiler/check_programs.h"

#include <string>

#include "framework/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// y = x w, where x is split by data and w as the annotation says.
void Build(const std::string& annotation, bool finish, Graph* graph) {
  const Tensor x = graph->Input("x", DType::kF32, {4, 8}, "data:S0");
  graph->Output("y", MatMul(x, Scope(graph).Param("w", {8, 6}, annotation)));
  if (finish) {
    ASSERT_EQ(graph->Finish(), absl::OkStatus());
  }
}

class CheckProgramsTest : public ::testing::Test {
 protected:
  absl::Status Check(const std::string& mesh) {
    return CheckPrograms({{"first", &first_}, {"second", &second_}}, *Mesh::Parse(mesh));
  }
  Graph first_, second_;
};

TEST_F(CheckProgramsTest, AnAxisThatNoProgramMentionsIsRefused) {
  Build("", true, &first_);
  Build("model:S1", true, &second_);
  // One program of the session may mention it.
  for (const char* mesh : {"data=2", "data=2 model=2", "model=3 data=2 pipe=2", "wibble=1"}) {
    EXPECT_EQ(Check(mesh), absl::OkStatus()) << mesh;
  }
  EXPECT_EQ(Check("dta=2").message(),
            "mesh axis \"dta\": no annotation of the model names it, so its 2 devices would do the "
            "same work; expected one of data, model, pipe; did you mean \"data\"?");
  // The name is wrong although the mesh has the right one, too, and where nothing is near.
  EXPECT_THAT(std::string(Check("data=2 modle=2").message()), HasSubstr("did you mean \"model\"?"));
  EXPECT_THAT(std::string(Check("data=2 wibble=2").message()),
              ::testing::EndsWith("expected one of data, model, pipe"));
}

TEST_F(CheckProgramsTest, AGraphThatWasNeverFinishedIsRefused) {
  Build("", true, &first_);
  Build("", false, &second_);
  EXPECT_EQ(Check("data=2").message(),
            "program second: expected a graph on which Finish() was called, got one that is not "
            "finished");
}

TEST_F(CheckProgramsTest, AnAnnotationThatIsNearlyOnAnAxisIsNamed) {
  Build("modle:S1", true, &first_);
  Build("model:S1", true, &second_);
  const auto misspelt = [this](const char* mesh) {
    return MisspeltAnnotations({{"first", &first_}, {"second", &second_}}, *Mesh::Parse(mesh));
  };
  EXPECT_THAT(misspelt("data=2 model=2"),
              ElementsAre("the annotation \"modle:S1\" of w has no effect: the mesh has no axis "
                          "\"modle\"; did you mean \"model\"?"));
  EXPECT_THAT(misspelt("data=2"), IsEmpty());  // the mesh has no such axis, which is fine
}

}  // namespace
}  // namespace sluice
