// The whole compile pipeline: graph, compiler, plan, workers, kernels, against the interpreter.
#include "framework/session/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/comm/in_process_net.h"
#include "framework/graph/interpreter.h"
#include "framework/session/test_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Batch {
  HostTensor ids = HostTensor(DType::kI32, {kTestModelBatch}),
             labels = HostTensor(DType::kI32, {kTestModelBatch});
  HostTensor rate = HostTensor(DType::kF32, {}), step = HostTensor(DType::kI32, {});
  explicit Batch(int64_t n) {
    for (int64_t i = 0; i < kTestModelBatch; ++i) {
      ids.data<int32_t>()[i] = static_cast<int32_t>((n * 3 + i * 7) % kTestModelWords);
      labels.data<int32_t>()[i] = static_cast<int32_t>((n * 3 + i * 5) % kTestModelWidth);
    }
    *rate.data<float>() = 0.05f;
    *step.data<int32_t>() = static_cast<int32_t>(n + 1);
  }
  Feeds Train() const {
    return {{"ids", &ids}, {"labels", &labels}, {"learning_rate", &rate}, {"step", &step}};
  }
  Feeds Eval() const { return {{"ids", &ids}, {"labels", &labels}}; }
};

struct Layout {
  const char* mesh;
  int64_t micro = 1;
  int64_t script_length = 0;
};

int StagesOf(const Layout& layout) { return absl::StrContains(layout.mesh, "pipe=2") ? 2 : 1; }

// A session, with the graphs it was compiled from.
struct Trained {
  Graph train, eval;
  std::unique_ptr<Session> session;
  explicit Trained(const Layout& layout, SessionOptions options = {}) {
    EXPECT_EQ(BuildTestModel(&train, StagesOf(layout), true), absl::OkStatus());
    EXPECT_EQ(BuildTestModel(&eval, StagesOf(layout), false), absl::OkStatus());
    options.mesh = layout.mesh;
    options.micro_batches = layout.micro;
    options.script_length = layout.script_length;
    options.seed = 5;
    auto started = Session::Start({{"train", &train}, {"eval", &eval}}, options);
    EXPECT_EQ(started.status(), absl::OkStatus()) << layout.mesh;
    if (started.ok()) session = *std::move(started);
  }
};

constexpr Layout kLayouts[] = {{"data=1"},
                               {"data=1", 3},
                               {"data=2"},
                               {"data=4"},
                               {"data=3", 2},
                               {"model=2"},
                               {"pipe=2", 3},
                               {"data=2 model=2"},
                               {"data=2", 1, 1},
                               {"data=2 model=2 pipe=2", 2},
                               {"model=4 pipe=2", 2, 1}};

double Difference(const Array& expected, const HostTensor& got) {
  EXPECT_EQ(expected.shape, got.shape);
  const Array values = ToArray(got);
  double difference = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    difference = std::max(difference, std::abs(expected.values[i] - values.values[i]));
    if (std::isnan(values.values[i])) return std::numeric_limits<double>::infinity();
  }
  return difference;
}

TEST(SessionTest, EveryLayoutTrainsAsTheInterpreterDoes) {
  constexpr int64_t kSteps = 8;
  for (const Layout& layout : kLayouts) {
    Trained run(layout);
    ASSERT_NE(run.session, nullptr) << layout.mesh;
    ArrayMap variables = InitialVariables(run.train, 5);
    for (int64_t n = 0; n < kSteps; ++n) {
      const Batch batch(n);
      ASSERT_EQ(run.session->Step("train", batch.Train()), absl::OkStatus());
    }
    for (int64_t n = 0; n < kSteps; ++n) {
      const Batch batch(n);
      InterpretOptions options;
      options.seed = 5;
      options.step = n;
      const auto expected = Interpret(run.train,
                                      {{"ids", ToArray(batch.ids)},
                                       {"labels", ToArray(batch.labels)},
                                       {"learning_rate", ToArray(batch.rate)},
                                       {"step", ToArray(batch.step)}},
                                      &variables, options);
      ASSERT_EQ(expected.status(), absl::OkStatus());
      const auto got = run.session->Next();
      ASSERT_EQ(got.status(), absl::OkStatus());
      for (const auto& output : *expected) {
        EXPECT_LT(Difference(output.second, got->at(output.first)), 2e-6)
            << layout.mesh << " step " << n << " " << output.first;
      }
    }
    for (const auto& variable : variables) {
      EXPECT_LT(Difference(variable.second, *run.session->Read(variable.first)), 5e-6)
          << layout.mesh << " " << variable.first;
    }
    EXPECT_EQ(run.session->CheckReplicas(), absl::OkStatus()) << layout.mesh;
  }
}

// Trains and evaluates in turn; what each step fetched.
std::vector<Fetches> TrainAndEvaluate(Session* session) {
  std::vector<Fetches> results;
  for (int64_t n = 0; n < 4; ++n) {
    EXPECT_EQ(session->Step("train", Batch(n).Train()), absl::OkStatus());
    EXPECT_EQ(session->Step("eval", Batch(n + 1).Eval()), absl::OkStatus());
    for (int i = 0; i < 2; ++i) {
      auto result = session->Next();
      EXPECT_EQ(result.status(), absl::OkStatus());
      if (result.ok()) results.push_back(*std::move(result));
    }
  }
  return results;
}

// Two programs share variables, and a rank that has ended one goes on with the other while the
// others are not as far.
TEST(SessionTest, RanksGoFromProgramToProgramTogether) {
  constexpr int kRanks = 3;
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.mesh);
    Trained one(layout);
    const std::vector<Fetches> expected = TrainAndEvaluate(one.session.get());
    InProcessNet net(kRanks, {});
    std::vector<Fetches> got[kRanks];
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        SessionOptions options;
        options.net = net.endpoint(rank);
        Trained run(layout, options);
        if (run.session != nullptr) got[rank] = TrainAndEvaluate(run.session.get());
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(got[0].size(), expected.size());
    for (size_t n = 0; n < expected.size(); ++n) {
      for (const auto& [name, value] : expected[n]) {
        EXPECT_EQ(got[0][n].at(name).bytes, value.bytes) << name << " of result " << n;
      }
      EXPECT_TRUE(got[1][n].empty() && got[2][n].empty());
    }
  }
}

// Neither waits for the other: both are told.
TEST(SessionTest, RanksThatBeginStepsOfOtherProgramsAreStopped) {
  InProcessNet net(2, {});
  absl::Status statuses[2];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      SessionOptions options;
      options.net = net.endpoint(rank);
      Trained run({"data=2"}, options);
      ASSERT_NE(run.session, nullptr);
      const Batch batch(0);
      statuses[rank] = rank == 0 ? run.session->Step("train", batch.Train())
                                 : run.session->Step("eval", batch.Eval());
      if (statuses[rank].ok()) statuses[rank] = run.session->Next().status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("ranks do not begin the same steps"), HasSubstr("program eval"),
                      HasSubstr("program train")));
  }
}

// Calls `run` on every rank of a session, and closes it.
void OnRanks(int ranks, const std::function<void(int rank, Session* session)>& run,
             std::chrono::milliseconds wait_limit = std::chrono::seconds(10)) {
  InProcessNet net(ranks, {});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SessionOptions options;
      options.net = net.endpoint(rank);
      options.wait_limit = wait_limit;
      Trained trained({"data=3"}, options);
      ASSERT_NE(trained.session, nullptr);
      run(rank, trained.session.get());
      // Also once the first is over: others have been told so.
      ASSERT_EQ(trained.session->Close(), absl::OkStatus());
      const auto second = Session::Start({{"train", &trained.train}}, options);
      EXPECT_THAT(std::string(second.status().message()), HasSubstr("a net that no session has"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The one that was first goes on as if nobody had asked.
TEST(SessionTest, ANetServesOneSession) {
  InProcessNet net(2, {});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      SessionOptions options;
      options.net = net.endpoint(rank);
      Trained run({"data=2"}, options);
      ASSERT_NE(run.session, nullptr);
      options.mesh = "data=2";
      const auto second = Session::Start({{"eval", &run.eval}}, options);
      EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(second.status().message()),
                  HasSubstr(rank == 0 ? "rank 0 of 2: expected a net" : "rank 1 of 2: expected a"));
      EXPECT_EQ(run.session->Step("train", Batch(0).Train()), absl::OkStatus());
      EXPECT_EQ(run.session->Next().status(), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Each gets the answers to its own questions, whatever the other does meanwhile.
TEST(SessionTest, WhoSavesAsksBesideTheSessionsThread) {
  OnRanks(3, [](int rank, Session* session) {
    const auto ask = [&](const std::string& who, int n) {
      const std::string mine = absl::StrCat(who, n);
      const auto judge = [&mine](absl::Span<const std::string> ranks) {
        for (const std::string& each : ranks) {
          if (each != mine) return absl::InternalError(absl::StrCat(mine, " met ", each));
        }
        return absl::OkStatus();
      };
      return who == "step" ? session->Agree(mine, judge) : session->AgreeOnSave(mine, judge);
    };
    std::thread saver([&] {
      for (int n = 0; n < 100; ++n) {
        EXPECT_EQ(ask("save", n), absl::OkStatus());
        if (n % 10 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    for (int n = 0; n < 300; ++n) {
      EXPECT_EQ(ask("step", n), absl::OkStatus());
      EXPECT_EQ(*session->Share(rank == 0 ? absl::StrCat(n) : "not mine"), absl::StrCat(n));
    }
    saver.join();
    const absl::StatusOr<std::string> none = absl::NotFoundError("no"), other = "not mine";
    EXPECT_EQ(session->Share(rank == 0 ? none : other).status(), none.status());
  });
}

// No step is under way then, and no question of the session's either.
TEST(SessionTest, WhoKeepsASaveWaitingIsNamed) {
  constexpr std::chrono::milliseconds kLimit(200);
  testing::internal::CaptureStderr();
  OnRanks(
      3,
      [&](int rank, Session* session) {
        if (rank == 1) std::this_thread::sleep_for(10 * kLimit);
        const auto fine = [](absl::Span<const std::string>) { return absl::OkStatus(); };
        EXPECT_EQ(session->AgreeOnSave("", fine), absl::OkStatus());
      },
      kLimit);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("it waits for all ranks to agree"));
  EXPECT_THAT(log, HasSubstr("all wait for rank 1"));
}

// A rank that leaves has answered what it was asked before, however late that comes; nobody waits
// for more.
TEST(SessionTest, WhoSavesIsToldThatARankHasLeft) {
  for (int round = 0; round < 20; ++round) {
    OnRanks(3, [](int rank, Session* session) {
      const auto fine = [](absl::Span<const std::string>) { return absl::OkStatus(); };
      for (int n = 0; n < 3; ++n) EXPECT_EQ(session->AgreeOnSave("", fine), absl::OkStatus());
      if (rank == 1) return;
      EXPECT_THAT(std::string(session->AgreeOnSave("", fine).message()), HasSubstr(" has left"));
    });
  }
}

// Trains on one mesh, saves, loads on another, and there goes on as if nothing had happened.
TEST(SessionTest, ACheckpointOfOneMeshGoesOnOnAnother) {
  const std::string dir = testing::TempDir() + "/session_checkpoint";
  Trained first({"data=2 model=2 pipe=2", 2});
  const auto train = [](Session& session, int64_t from, int64_t to) {
    session.set_step(from);
    for (int64_t n = from; n < to; ++n) {
      EXPECT_EQ(session.Step("train", Batch(n).Train()), absl::OkStatus());
      EXPECT_EQ(session.Next().status(), absl::OkStatus());
    }
  };
  const auto eval = [](Session& session) {
    EXPECT_EQ(session.Step("eval", Batch(100).Eval()), absl::OkStatus());
    return *session.Next()->at("loss").data<float>();
  };
  train(*first.session, 0, 4);
  std::vector<TensorEntry> entries;
  for (const VariableInfo& info : first.session->variables()) {
    entries.push_back({info.name, info.dtype, info.shape});
  }
  const auto path =
      SaveCheckpoint(dir, {4, 5, 4 * kTestModelBatch, {}}, entries,
                     [&](const TensorEntry& e) { return first.session->Read(e.name); });
  ASSERT_EQ(path.status(), absl::OkStatus());
  train(*first.session, 4, 8);
  const float expected = eval(*first.session);
  for (const Layout& layout : {Layout{"data=3"}, Layout{"model=2"}, Layout{"data=1"},
                               Layout{"model=2 @async"}, Layout{"data=2 @cpu,async"}}) {
    Trained second(layout);
    const auto checkpoint = Checkpoint::Load(*path);
    ASSERT_EQ(checkpoint.status(), absl::OkStatus());
    for (const TensorEntry& entry : checkpoint->tensors()) {
      ASSERT_EQ(second.session->Write(entry.name, *checkpoint->Read(entry.name)), absl::OkStatus());
    }
    train(*second.session, checkpoint->meta().step, 8);
    EXPECT_NEAR(eval(*second.session), expected, 1e-5) << layout.mesh;
  }
}

// What lies in memories of devices' own is saved through copies, and is what CPUs would have saved.
TEST(SessionTest, DevicesWithMemoriesOfTheirOwnSaveTheSameBits) {
  std::map<std::string, HostTensor> saved[2];
  for (const bool async : {false, true}) {
    Trained run({async ? "data=2 model=2 pipe=2 @async" : "data=2 model=2 pipe=2", 2});
    ASSERT_NE(run.session, nullptr);
    for (int64_t n = 0; n < 4; ++n) {
      ASSERT_EQ(run.session->Step("train", Batch(n).Train()), absl::OkStatus());
    }
    const std::string dir = testing::TempDir() + (async ? "/async_save" : "/cpu_save");
    std::vector<TensorEntry> entries;
    for (const VariableInfo& info : run.session->variables()) {
      entries.push_back({info.name, info.dtype, info.shape});
    }
    // Two steps are still under way: reading waits for them.
    const auto path =
        SaveCheckpoint(dir, {4, 5, 4 * kTestModelBatch, {}}, entries,
                       [&](const TensorEntry& entry) { return run.session->Read(entry.name); });
    ASSERT_EQ(path.status(), absl::OkStatus());
    const auto checkpoint = Checkpoint::Load(*path);
    ASSERT_EQ(checkpoint.status(), absl::OkStatus());
    for (const TensorEntry& entry : entries) {
      saved[async ? 1 : 0][entry.name] = *checkpoint->Read(entry.name);
    }
  }
  for (const auto& [name, value] : saved[0])
    EXPECT_EQ(saved[1].at(name).bytes, value.bytes) << name;
}

TEST(SessionTest, ATokenOutOfRangeEndsTheStepOnEveryLayout) {
  for (const Layout& layout : kLayouts) {
    Trained run(layout);
    absl::Status status;
    for (int64_t n = 0; n < 20 && status.ok(); ++n) {
      Batch batch(n);
      if (n == 3) batch.ids.data<int32_t>()[kTestModelBatch - 1] = kTestModelWords;
      status = run.session->Step("train", batch.Train());
      if (status.ok() && n > 0) status = run.session->Next().status();
    }
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("program train, step 3, device "), HasSubstr(" first (embedding)"),
                      HasSubstr("10")))
        << layout.mesh;
    EXPECT_EQ(run.session->Read("first/table").status(), status);
    EXPECT_EQ(run.session->Step("eval", Batch(0).Eval()), status);
  }
}

TEST(SessionTest, CheckNanNamesTheFirstInstruction) {
  SessionOptions options;
  options.check_nan = true;
  Trained run({"data=2 model=2 pipe=2", 2}, options);
  HostTensor table = *run.session->Read("first/table");
  table.data<float>()[0] = std::nanf("");
  ASSERT_EQ(run.session->Write("first/table", table), absl::OkStatus());
  Batch batch(0);
  for (int64_t i = 0; i < kTestModelBatch; ++i) batch.ids.data<int32_t>()[i] = 0;
  ASSERT_EQ(run.session->Step("train", batch.Train()), absl::OkStatus());
  EXPECT_THAT(std::string(run.session->Next().status().message()),
              AllOf(HasSubstr("step 0"), HasSubstr("(embedding)"), HasSubstr("NaN")));
}

// The data of a page that --explain_html wrote.
nlohmann::json ReadPage(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string begin = "id=\"data\">";
  const size_t from = text.find(begin);
  EXPECT_NE(from, std::string::npos) << path;
  if (from == std::string::npos) return {};
  const size_t data = from + begin.size();
  return nlohmann::json::parse(text.substr(data, text.find("</script>", data) - data));
}

TEST(SessionTest, ThePageOfATracedRunHasWhatWasMeasuredOnEveryStream) {
  SessionOptions options;
  options.explain_html = ::testing::TempDir() + "/plan.html";
  options.trace = ::testing::TempDir() + "/trace.json";
  {
    Trained run({"data=2 pipe=2", 2}, options);
    const nlohmann::json before = ReadPage(options.explain_html);
    ASSERT_EQ(before["programs"].size(), 2);
    EXPECT_FALSE(before["programs"][0].contains("measured"));
    for (int64_t n = 0; n < 6; ++n) {
      const Batch batch(n);
      ASSERT_EQ(run.session->Step("train", batch.Train()), absl::OkStatus());
      ASSERT_EQ(run.session->Next().status(), absl::OkStatus());
    }
  }
  const nlohmann::json page = ReadPage(options.explain_html);
  EXPECT_FALSE(page["programs"][1].contains("measured"));  // never ran
  const nlohmann::json& train = page["programs"][0];
  const nlohmann::json& measured = train["measured"];
  EXPECT_EQ(measured["steps"].size(), 6);
  EXPECT_GE(measured["step"], 2);
  ASSERT_EQ(measured["streams"].size(), train["streams"].size());
  for (size_t s = 0; s < train["streams"].size(); ++s) {
    // As many spans as the plan has instructions a step, each of an instruction that is there.
    size_t instances = 0;
    for (const auto& actor : train["actors"]) {
      const auto& representative = train["actors"][actor[4].get<int>()];
      if (actor[2] == s) instances += representative[5].size() * actor[3].get<int>();
    }
    EXPECT_GT(instances, 0);
    EXPECT_EQ(measured["streams"][s].size(), instances) << "stream " << s;
    for (const auto& span : measured["streams"][s]) {
      ASSERT_LT(span[2], train["actors"][span[0].get<int>()][5].size());
    }
  }
  for (const auto& wait : measured["debts"]) {
    EXPECT_GE(wait[2], 0) << "who owes " << page["strings"][wait[1].get<int>()];
    EXPECT_GT(wait[3], 0);
  }
}

}  // namespace
}  // namespace sluice
