// The trainer as several processes of this host, started by hand, as any launcher starts them: they
// write what one process writes, bit by bit, and end together whatever becomes of one of them.

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

// What is promised: a rank of this host that is lost ends the step of all others so soon, and one
// that stands still is named so soon. The others look at it once a beat.
constexpr auto kLost = std::chrono::seconds(1), kNamed = std::chrono::seconds(5),
               kBeat = std::chrono::seconds(1);

class ProcessesTest : public TrainerProcessTest {
 protected:
  ProcessesTest() : TrainerProcessTest("models/gpt/train") {}

  void SetUp() override {
    TrainerProcessTest::SetUp();
    fs::copy(fs::current_path() / "models/gpt/testdata/fixed.txt", folder() + "/text.txt");
  }

  static std::vector<std::string> Small(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "--preset=tiny",   "--layers=2",           "--hidden=16",
        "--heads=4",       "--sequence_length=16", "--steps=6",
        "--data=text.txt", "--sample_length=4",    "--mesh=data=2 model=2 pipe=2",
        "--eval_every=3",  "--save_every=4",       "--micro_batches=2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  void StartAll(int ranks, const std::vector<std::string>& arguments,
                const std::vector<std::vector<std::string>>& more = {{}}) {
    children_ = StartRanks(ranks, arguments, more);
  }
  EndedProcess WaitFor(int rank) { return Wait(children_[rank], absl::StrCat(rank)); }
  // Waits until rank 0 has printed it.
  void WaitUntilPrinted(const std::string& text) { WaitUntilRead({"stdout0"}, text); }
  // Until it stands in one of the files, behind their first bytes.
  void WaitUntilRead(const std::vector<std::string>& files, const std::string& text,
                     size_t behind = 0) {
    const auto read = [&] {
      std::string all;
      for (const std::string& file : files) {
        const std::string whole = Read(file);
        all += whole.substr(std::min(behind, whole.size()));
      }
      return all;
    };
    for (int i = 0; i < 1500 && read().find(text) == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_THAT(read(), HasSubstr(text));
  }
  pid_t child(int rank) const { return children_[rank]; }

  // The log without how fast it went.
  std::string Log(const std::string& run) const {
    std::string text;
    const std::string log = Read(run + "/log.jsonl");
    for (absl::string_view line : absl::StrSplit(log, '\n')) {
      absl::StrAppend(&text, line.substr(0, line.find(",\"tokens_per_second")), "\n");
    }
    return text;
  }
  // Where the tensors of two checkpoints differ; "" if nowhere.
  std::string Difference(const std::string& a, const std::string& b) const {
    const auto one = Checkpoint::Load(folder() + "/" + a),
               other = Checkpoint::Load(folder() + "/" + b);
    if (!one.ok() || !other.ok()) return absl::StrCat(a, " or ", b, " cannot be read");
    for (const TensorEntry& tensor : one->tensors()) {
      const auto x = one->Read(tensor.name), y = other->Read(tensor.name);
      if (!x.ok() || !y.ok() || x->bytes != y->bytes) return tensor.name;
    }
    return one->tensors().size() == other->tensors().size() ? "" : "number of tensors";
  }

 private:
  std::vector<pid_t> children_;
};

TEST_F(ProcessesTest, WriteWhatOneWrites) {
  ASSERT_EQ(Run(Small({"--out=one"})).code, 0);
  for (const int ranks : {2, 4}) {
    const std::string out = absl::StrCat("of", ranks);
    StartAll(ranks, Small({"--out=" + out, ranks == 2 ? "--net=tcp" : "--net=auto"}));
    for (int rank = 0; rank < ranks; ++rank) {
      const EndedProcess ended = WaitFor(rank);
      EXPECT_EQ(ended.code, 0) << ended.error;
      const bool tells = ended.out.find("rank 0 here, rank 1 at 127.0.0.1:") != std::string::npos;
      EXPECT_EQ(tells, rank == 0);
      EXPECT_EQ(ended.out.empty(), rank > 0);
    }
    EXPECT_EQ(Log(out), Log("one"));
    for (const char* step : {"step-000004", "step-000006"}) {
      EXPECT_EQ(Difference("one/checkpoints/" + std::string(step), out + "/checkpoints/" + step),
                "");
    }
  }
}

// Whichever rank is asked to stop, and whenever, once they have met: all end with code 0, either
// before the run has begun or as from Ctrl-C while it trains.
TEST_F(ProcessesTest, OneThatIsAskedToStopStopsAll) {
  int before = 0;
  for (int trial = 0; trial < 8; ++trial) {
    SCOPED_TRACE(trial);
    // Enough to compile that the first trials fall into it.
    StartAll(2, Small({absl::StrCat("--out=run", trial), "--steps=100000", "--save_every=0",
                       "--eval_every=0", "--measure_peak=false", "--layers=24",
                       "--mesh=data=2 model=2 pipe=4"}));
    // Rank 0 takes the folder once all have met.
    for (int i = 0; i < 5000 && !fs::exists(absl::StrCat(folder(), "/run", trial)); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(40 * trial));
    const int asked = trial % 2;
    ASSERT_EQ(kill(child(asked), SIGTERM), 0);
    for (int rank = 0; rank < 2; ++rank) {
      const EndedProcess ended = WaitFor(rank);
      EXPECT_EQ(ended.code, 0) << "rank " << rank << ": " << ended.error;
      if (ended.out.find("stopped before it began") == std::string::npos) continue;
      ++before;
      EXPECT_THAT(ended.out, HasSubstr(asked == 0 ? "began; nothing" : "began: rank 1 has left: "));
      EXPECT_FALSE(fs::exists(absl::StrCat(folder(), "/run", trial)));
    }
  }
  EXPECT_GE(before, 2);
}

// Devices with a memory of their own, as cards are, exchange what they have in that of hosts, which
// the processes map from each other.
TEST_F(ProcessesTest, WriteWhatOneWritesOnDevicesWithMemoryOfTheirOwn) {
  ASSERT_EQ(Run(Small({"--out=one"})).code, 0);
  StartAll(2, Small({"--out=two", "--mesh=data=2 model=2 pipe=2 @async"}));
  for (int rank = 0; rank < 2; ++rank) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 0) << ended.error;
  }
  EXPECT_EQ(Log("two"), Log("one"));
  EXPECT_EQ(Difference("one/checkpoints/step-000006", "two/checkpoints/step-000006"), "");
}

TEST_F(ProcessesTest, GoOnWithWhatAnyNumberOfThemSaved) {
  ASSERT_EQ(Run(Small({"--out=one"})).code, 0);
  StartAll(4, Small({"--out=some", "--steps=4"}));
  for (int rank = 0; rank < 4; ++rank) {
    const EndedProcess ended = WaitFor(rank);
    ASSERT_EQ(ended.code, 0) << ended.error;
  }
  StartAll(2, {"--resume=some", "--steps=6"});
  for (int rank = 0; rank < 2; ++rank) {
    const EndedProcess ended = WaitFor(rank);
    ASSERT_EQ(ended.code, 0) << ended.error;
  }
  ASSERT_EQ(Run({"--resume=some/checkpoints/step-000004", "--steps=6", "--out=again",
                 "--sample_length=0"})
                .code,
            0);
  EXPECT_EQ(Difference("some/checkpoints/step-000006", "again/checkpoints/step-000006"), "");
}

// Every run writes a text at its end, and --sample does it alone: ranks write together what one
// would, and the first one prints it.
TEST_F(ProcessesTest, WriteTheTextThatOneWrites) {
  const auto text = [](const std::string& out) {
    const size_t begin = out.find("---\n"), end = out.find("---\n", begin + 4);
    return begin == std::string::npos ? "" : out.substr(begin, end - begin);
  };
  // Longer than the model's sequences, so that both programs are used.
  const std::vector<std::string> longer = Small({"--out=one", "--sample_length=20"});
  const EndedProcess one = Run(longer);
  ASSERT_EQ(one.code, 0) << one.error;
  StartAll(2, Small({"--out=two", "--sample_length=20"}));
  const EndedProcess two = WaitFor(0);
  EXPECT_EQ(two.code, 0) << two.error;
  EXPECT_EQ(WaitFor(1).code, 0);
  EXPECT_EQ(text(two.out), text(one.out));
  EXPECT_GT(text(two.out).size(), 20u);
  const std::vector<std::string> sample = {"--resume=one", "--sample", "--prompt=ab"};
  const EndedProcess alone = Run(sample);
  ASSERT_EQ(alone.code, 0) << alone.error;
  // What others are told of the text counts for nothing.
  StartAll(4, sample, {{}, {"--prompt=cde", "--sample_length=3"}, {}});
  for (int rank = 0; rank < 4; ++rank) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 0) << ended.error;
    EXPECT_EQ(text(ended.out), rank == 0 ? text(alone.out) : "");
  }
  StartAll(2, sample, {{}, {"--resume=two"}});
  EXPECT_THAT(WaitFor(0).error, HasSubstr("--resume: expected one/checkpoints/"));
  EXPECT_EQ(WaitFor(1).code, 1);
}

// Of a pipeline each rank loads another number of variables.
TEST_F(ProcessesTest, GoOnWhereRanksHoldDifferentNumbersOfVariables) {
  const std::vector<std::string> three = {"--out=run", "--mesh=pipe=3", "--layers=3",
                                          "--micro_batches=3", "--batch=12"};
  for (const char* steps : {"--steps=4", "--steps=6"}) {
    auto arguments = three;
    arguments.push_back(steps);
    StartAll(3, steps == std::string("--steps=4")
                    ? Small(arguments)
                    : std::vector<std::string>{"--resume=run", steps});
    for (int rank = 0; rank < 3; ++rank) {
      const EndedProcess ended = WaitFor(rank);
      ASSERT_EQ(ended.code, 0) << ended.error;
    }
  }
}

TEST_F(ProcessesTest, ExplainWhichDevicesEachHas) {
  StartAll(3, Small({"--explain", "--explain_html=page.html"}));
  const EndedProcess first = WaitFor(0);
  EXPECT_THAT(first.out,
              HasSubstr("\ndevices    rank 0: 0 to 2, rank 1: 3 to 5, rank 2: 6 to 7\n"));
  // Where each is, in the text as on the page.
  for (const char* device :
       {"0:0 data=0 model=0 pipe=0, rank 0, host 0", "1:2 data=1 model=0 pipe=1, rank 1, host 0",
        "2:1 data=1 model=1 pipe=1, rank 2, host 0"}) {
    EXPECT_THAT(first.out, HasSubstr(device));
    EXPECT_THAT(Read("page.html"), HasSubstr(device));
  }
  for (const int rank : {1, 2}) {
    const EndedProcess other = WaitFor(rank);
    EXPECT_EQ(other.out, "");
    EXPECT_EQ(other.code, 0) << other.error;
  }
}

// As a launcher starts them: by its variables.
TEST_F(ProcessesTest, SayFirstWhoTheyAreAndWhatTheyHave) {
  const std::string address = FreeAddress();
  const std::string port = address.substr(address.find(':') + 1);
  const std::vector<std::pair<const char*, std::string>> alike = {{"WORLD_SIZE", "2"},
                                                                  {"LOCAL_WORLD_SIZE", "2"},
                                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                                  {"MASTER_PORT", port}};
  for (const auto& [name, value] : alike) setenv(name, value.c_str(), 1);
  std::vector<pid_t> ranks;
  for (const char* rank : {"0", "1"}) {
    setenv("RANK", rank, 1);
    setenv("LOCAL_RANK", rank, 1);
    ranks.push_back(Start(Small({"--out=run", "--steps=1"}), rank));
  }
  for (const char* name : {"RANK", "LOCAL_RANK"}) unsetenv(name);
  for (const auto& [name, value] : alike) unsetenv(name);
  const EndedProcess first = Wait(ranks[0], "0"), other = Wait(ranks[1], "1");
  EXPECT_EQ(first.code, 0) << first.error;
  EXPECT_EQ(other.code, 0) << other.error;
  EXPECT_EQ(other.out, "");
  const std::string said = first.out.substr(0, first.out.find("\nrun  "));
  EXPECT_THAT(said, ContainsRegex(absl::StrCat(
                        "\nmachine    data=2 model=2 pipe=2 on 2 processes; a launcher like "
                        "torchrun: rank 0 of 2, local 0 of 2, rendezvous at 127.0.0.1:",
                        port,
                        "\nranks      rank 0 here, rank 1 at 127.0.0.1:[0-9]+"
                        "\ndevices    rank 0: 0 to 3, rank 1: 4 to 7"
                        "\nlinks      host [0-9.]+ us, [0-9.]+ GB/s")));
}

// The others know within a second, and say which rank, where it was and why it is taken for lost,
// and what waited for it. So that something does for sure it is stopped in a step first.
TEST_F(ProcessesTest, EndTogetherWhenOneIsKilled) {
  StartAll(3, Small({"--out=run", "--steps=1000000", "--mesh=data=3", "--batch=12",
                     "--eval_every=0", "--wait_limit=0.5"}));
  WaitUntilPrinted("/1000000");
  bool in_step = false;
  for (int tries = 0; tries < 20 && !in_step; ++tries) {
    const size_t before = Read("stderr0").size();
    kill(child(1), SIGSTOP);
    WaitUntilRead({"stderr0"}, "nothing has moved on rank 0 ", before);
    WaitUntilRead({"stderr0"}, "all wait for rank 1 at ", before);
    in_step = Read("stderr0").find(" rank 1\n", before) != std::string::npos;
    if (in_step) break;
    kill(child(1), SIGCONT);
    WaitUntilRead({"stderr0"}, "goes on after ", before);
  }
  ASSERT_TRUE(in_step) << Read("stderr0");
  const auto begin = Clock::now();
  kill(child(1), SIGKILL);
  for (const int rank : {0, 2}) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error,
                ContainsRegex(absl::StrCat(
                    "train: rank 1 has left: lost at 127.0.0.1:[0-9]+ by rank [02], [^;]*; here "
                    "device ",
                    rank,
                    " [a-z]+: [^ ]+ .[a-z_]+., step [0-9]+, micro-batch [0-9]+, waits for [^;]* "
                    "rank [012]\n")));
  }
  EXPECT_LT(Clock::now() - begin, kLost);
  EXPECT_EQ(WaitFor(1).code, -SIGKILL);
}

TEST_F(ProcessesTest, SaveAndStopWhenOneIsAskedTo) {
  StartAll(2, Small({"--out=run", "--steps=1000000"}));
  WaitUntilPrinted("/1000000");
  kill(child(1), SIGTERM);
  EXPECT_THAT(WaitFor(0).out, HasSubstr("stopped; --resume=run goes on"));
  EXPECT_EQ(WaitFor(1).code, 0);
  EXPECT_TRUE(LatestCheckpoint(folder() + "/run/checkpoints").ok());
}

// A process that stands still keeps its connections: only its silence tells.
TEST_F(ProcessesTest, NameTheOneThatStandsStill) {
  StartAll(3, Small({"--out=run", "--steps=1000000", "--mesh=data=3", "--batch=12",
                     "--eval_every=0", "--wait_limit=1"}));
  WaitUntilPrinted("/1000000");
  for (const int still : {2, 0}) {
    const auto begin = Clock::now();
    kill(child(still), SIGSTOP);
    // By the lowest of the others, if it is not late itself.
    const std::vector<std::string> others = {still == 0 ? "stderr2" : "stderr0", "stderr1"};
    const std::string named = absl::StrCat(", process ", child(still), ", which gives no answer: ");
    WaitUntilRead(others, named);
    EXPECT_LT(Clock::now() - begin, kNamed);
    EXPECT_THAT(Read(others[0]) + Read(others[1]),
                HasSubstr(absl::StrCat("all wait for rank ", still, " at ")));
    EXPECT_THAT(Read("stderr1"), HasSubstr("nothing has moved on rank 1 at "));
    kill(child(still), SIGCONT);
    WaitUntilRead(others, "goes on after ");
  }
  kill(child(0), SIGTERM);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(WaitFor(rank).code, 0);
  EXPECT_THAT(Read("stderr2"), HasSubstr("this process stood still for "));
}

// Rank 0 sees it, and rank 1, which would wait for longer, ends as soon as it is told.
TEST_F(ProcessesTest, GiveUpOneThatStandsStill) {
  StartAll(3, Small({"--out=run", "--steps=1000000", "--mesh=data=3", "--batch=12"}),
           {{"--stall_limit=2"}, {"--stall_limit=60"}, {}});
  WaitUntilPrinted("/1000000");
  const auto begin = Clock::now();
  kill(child(2), SIGSTOP);
  for (const int rank : {0, 1}) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2) + kBeat + kLost);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error, AllOf(HasSubstr("rank 2 has left: lost at "),
                                   HasSubstr("by rank 0, it said nothing for ")));
  }
  kill(child(2), SIGKILL);
  WaitFor(2);
}

// It has a fifth of the time. Nothing stands still, and the trainer only says who is slow, and how.
TEST_F(ProcessesTest, NameTheOneThatIsSlow) {
  StartAll(2, Small({"--out=run", "--steps=1000000", "--mesh=data=2", "--batch=8", "--hidden=64",
                     "--sequence_length=64", "--eval_every=0", "--wait_limit=2"}));
  WaitUntilPrinted("/1000000");
  const std::string line = "the others wait for rank ";
  for (int i = 0; i < 600 && Read("stderr0").find(line) == std::string::npos; ++i) {
    kill(child(1), SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    kill(child(1), SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child(0), SIGTERM);
  for (const int rank : {0, 1}) EXPECT_EQ(WaitFor(rank).code, 0);
  EXPECT_THAT(Read("stderr0"), ContainsRegex(absl::StrCat(
                                   line, "1 at [^ ]+, process ", child(1),
                                   ", which did not run for [0-9]+ % of the time: it was stopped, "
                                   "or had no core; the one in the middle of all is busy for "
                                   "[0-9]+ %, in steps of ")));
  EXPECT_THAT(Read("stderr0"), Not(HasSubstr(line + "0 ")));
}

// Of how many pulls of a job the bytes come while a device of the rank that wants them computes.
class OverlapTest : public ProcessesTest {
 protected:
  using Spans = std::map<double, double>;  // end by begin, in microseconds

  static bool Includes(const Spans& computed, double time) {
    auto next = computed.lower_bound(time);
    return next != computed.begin() && time < (--next)->second;
  }

  // Of what the ranks of a pipeline pull while they train, as the job's trace has it: activations
  // and their gradients, not the few bytes that ride along with their tokens.
  double Overlap(const std::vector<std::string>& more) {
    constexpr int64_t kRidesAlong = 16384;
    std::vector<std::string> arguments = {
        "--out=run",      "--steps=5",         "--mesh=pipe=2",
        "--batch=64",     "--hidden=128",      "--sequence_length=64",
        "--eval_every=0", "--save_every=0",    "--sample_length=0",
        "--net=tcp",      "--trace=trace.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    StartAll(2, Small(arguments));
    for (const int rank : {0, 1}) {
      const EndedProcess ended = WaitFor(rank);
      EXPECT_EQ(ended.code, 0) << ended.error;
    }
    fs::remove_all(folder() + "/run");
    std::ifstream file(folder() + "/trace.json");
    const auto trace = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (trace.is_discarded()) return -1;
    std::map<std::pair<int, int>, std::string> tracks;
    std::map<int, Spans> computed;  // by rank
    int64_t pulls = 0, beside = 0;
    for (const auto& event : trace["traceEvents"]) {
      const std::pair<int, int> track(event["pid"], event.value("tid", 0));
      if (event["name"] == "thread_name") tracks[track] = event["args"]["name"];
    }
    const auto rank_of = [](const auto& event) { return event["pid"].template get<int>() / 10000; };
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X" || event["cat"] != "run") continue;
      if (tracks[{event["pid"], event["tid"]}].find(" compute") == std::string::npos) continue;
      const double begin = event["ts"];
      computed[rank_of(event)][begin] = begin + event["dur"].get<double>();
    }
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X" || event["cat"] != "pull") continue;
      if (event["args"]["program"] != "train" || event["args"]["bytes"] <= kRidesAlong) continue;
      ++pulls;
      const double end = event["ts"].get<double>() + event["dur"].get<double>();
      beside += Includes(computed[rank_of(event)], end) ? 1 : 0;
    }
    return pulls > 0 ? static_cast<double>(beside) / static_cast<double>(pulls) : -1;
  }
};

// A stage pulls a micro-batch while it computes another. With one micro-batch a step there is
// nothing that could hide the bytes: what is measured then says that the figure is of that. Of 8 it
// was 0.32 to 0.47 in 40 runs, under a load of 6 on two cores too; of one, up to 0.15. The common
// time would be the plainer figure, but one pull whose thread was stopped within it is a hundred
// others: from 0.06 to 0.77.
TEST_F(OverlapTest, BytesComeWhileAPipelineComputes) {
  EXPECT_GT(Overlap({"--micro_batches=8"}), 0.22);
  const double alone = Overlap({"--micro_batches=1"});
  EXPECT_GE(alone, 0);
  EXPECT_LT(alone, 0.22);
}

// A bit of one rank's memory, as if that had failed: the next look ends the run on both, before it
// is saved.
TEST_F(ProcessesTest, NameTheReplicaInWhichABitHasFlipped) {
  StartAll(2, Small({"--out=run", "--steps=1000000", "--mesh=data=2", "--eval_every=0",
                     "--save_every=10", "--check_replicas=10"}));
  WaitUntilPrinted("/1000000");
  const std::string files = absl::StrCat("/proc/", child(1), "/fd");
  std::string memory;
  for (const auto& file : fs::directory_iterator(files)) {
    std::error_code error;
    const std::string target = fs::read_symlink(file.path(), error).string();
    if (target.find("/memfd:sluice") == 0) memory = file.path();
  }
  ASSERT_NE(memory, "") << "it has no memory that others may map";
  // Variables are first. A kernel that updates them may write what it has read before.
  const auto flip = [&memory] {
    std::fstream file(memory, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    file.seekg(2).read(&byte, 1);
    byte = static_cast<char>(byte ^ 0x20);
    file.seekp(2).write(&byte, 1);
  };
  for (int tries = 0; tries < 50 && fs::exists(memory); ++tries) {
    flip();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  kill(child(0), SIGTERM);  // for where nobody notices
  for (const int rank : {0, 1}) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error,
                ContainsRegex("step [0-9]+0: variable [^ ]+: replicas differ: device"));
  }
}

// Rank 0 alone sees that the loss is none.
TEST_F(ProcessesTest, EndWithTheReasonOfTheOneThatFailed) {
  StartAll(2, Small({"--out=run", "--steps=1000", "--lr=100", "--clip=0", "--optimizer=sgd"}));
  for (const int rank : {0, 1}) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error, HasSubstr("expected a finite loss and gradient norm, got "));
    EXPECT_EQ(ended.error.find("rank 0 has left: step ") != std::string::npos, rank == 1)
        << ended.error;
  }
}

TEST_F(ProcessesTest, SayWhatOneOfThemCannot) {
  StartAll(2, Small({"--out=run"}), {{}, {"--lr=0.5"}});
  EXPECT_THAT(WaitFor(0).error, HasSubstr("--lr: expected 0.001, as on rank 0, got 0.5 on rank 1"));
  EXPECT_EQ(WaitFor(1).code, 1);
  StartAll(2, Small({"--out=run"}), {{}, {"--data=nothing.txt"}});
  EXPECT_THAT(WaitFor(0).error, HasSubstr("nothing.txt"));
  EXPECT_EQ(WaitFor(1).code, 1);
  Write("other.txt", std::string(5000, 'x'));
  StartAll(2, Small({"--out=run"}), {{}, {"--data=other.txt"}});
  EXPECT_THAT(WaitFor(0).error, HasSubstr(" with 20000 bytes of digest "));
  EXPECT_EQ(WaitFor(1).code, 1);
  EXPECT_FALSE(fs::exists(folder() + "/run"));
  Write("run", "");
  StartAll(2, Small({"--out=run"}));
  EXPECT_THAT(WaitFor(1).error, HasSubstr("rank 0: "));
  EXPECT_EQ(WaitFor(0).code, 1);
}

TEST_F(ProcessesTest, SayThatTheHostHasNoSuchRdmaDevice) {
  StartAll(2, Small({"--net=verbs", "--rdma_device=no_such_device"}));
  for (int rank = 0; rank < 2; ++rank) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error, HasSubstr("no RDMA device"));
    EXPECT_THAT(ended.error, HasSubstr("; run with --net=tcp"));
  }
}

TEST_F(ProcessesTest, KeepTheirSecret) {
  Write("secret", "a secret of 25 characters");
  Write("wrong", "another secret, as long..");
  StartAll(2, Small({"--out=run", "--secret_file=secret"}));
  EXPECT_THAT(WaitFor(0).error, HasSubstr("chmod 600"));
  EXPECT_EQ(WaitFor(1).code, 1);
  for (const char* file : {"secret", "wrong"}) chmod((folder() + "/" + file).c_str(), 0600);
  StartAll(2, Small({"--out=run", "--secret_file=secret"}));
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(WaitFor(rank).code, 0);
  StartAll(2, Small({"--out=other", "--rendezvous_limit=1"}),
           {{"--secret_file=secret"}, {"--secret_file=wrong"}});
  EXPECT_THAT(WaitFor(0).error, HasSubstr("missing: 1"));
  EXPECT_THAT(WaitFor(1).error, HasSubstr("does not know this job's secret"));
}

TEST_F(ProcessesTest, WriteTheSameOverSealedConnections) {
  Write("secret", "a secret of 25 characters");
  chmod((folder() + "/secret").c_str(), 0600);
  ASSERT_EQ(Run(Small({"--out=one"})).code, 0);
  StartAll(2, Small({"--out=sealed", "--net=tcp", "--secret_file=secret", "--seal"}));
  for (int rank = 0; rank < 2; ++rank) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 0) << ended.error;
    const bool tells = ended.out.find("; what goes over TCP is sealed") != std::string::npos;
    EXPECT_EQ(tells, rank == 0);
  }
  EXPECT_EQ(Log("sealed"), Log("one"));
  EXPECT_EQ(Difference("one/checkpoints/step-000006", "sealed/checkpoints/step-000006"), "");

  StartAll(2, Small({"--out=other", "--secret_file=secret", "--rendezvous_limit=1"}),
           {{"--seal"}, {}});
  EXPECT_THAT(WaitFor(0).error, HasSubstr("missing: 1"));
  EXPECT_THAT(WaitFor(1).error, HasSubstr("expected it with --seal, as rank 0 is"));
  StartAll(2, Small({"--out=other", "--seal"}));
  for (int rank = 0; rank < 2; ++rank) {
    const EndedProcess ended = WaitFor(rank);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error, HasSubstr("--seal: expected a secret"));
  }
}

}  // namespace
}  // namespace sluice
