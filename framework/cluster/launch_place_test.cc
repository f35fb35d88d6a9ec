#include "framework/cluster/launch_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Values = std::map<std::string, std::string>;

absl::StatusOr<LaunchPlace> Read(const Values& values, absl::string_view rendezvous = "") {
  return ReadLaunchPlace(
      [&](const char* name) {
        const auto found = values.find(name);
        return found == values.end() ? nullptr : found->second.c_str();
      },
      rendezvous);
}

LaunchPlace Must(const Values& values, absl::string_view rendezvous = "") {
  absl::StatusOr<LaunchPlace> place = Read(values, rendezvous);
  EXPECT_TRUE(place.ok()) << place.status();
  return place.ok() ? *place : LaunchPlace();
}

// `values` with some replaced; an empty one is as if unset.
Values With(Values values, const Values& others) {
  for (const auto& [name, value] : others) values[name] = value;
  return values;
}

const Values& Ours() {
  static const auto* const values = new Values{
      {"SLUICE_RANK", "0"},        {"SLUICE_RANKS", "4"},
      {"SLUICE_LOCAL_RANK", "0"},  {"SLUICE_LOCAL_RANKS", "4"},
      {"SLUICE_RESTARTS", "2"},    {"SLUICE_RENDEZVOUS", "127.0.0.1:4711"},
      {"SLUICE_LISTENER_FD", "5"}, {"SLUICE_SECRET_FD", "6"},
  };
  return *values;
}

const Values& Torchrun() {
  static const auto* const values = new Values{
      {"RANK", "3"},
      {"WORLD_SIZE", "16"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "gnode10"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
  };
  return *values;
}

const Values& OpenMpi() {
  static const auto* const values = new Values{
      {"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "3"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
      {"PMIX_NAMESPACE", "1226440705"},    {"OMPI_MCA_ess_base_jobid", "1226440705"},
  };
  return *values;
}

const Values& Pmi() {
  static const auto* const values = new Values{
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  return *values;
}

const Values& Srun() {
  static const auto* const values = new Values{
      {"SLURM_JOB_ID", "4242"},        {"SLURM_STEP_ID", "1"},
      {"SLURM_PROCID", "9"},           {"SLURM_STEP_NUM_TASKS", "11"},
      {"SLURM_NTASKS", "11"},          {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
      {"SLURM_NODEID", "2"},           {"SLURM_LOCALID", "1"},
      {"SLURM_NODELIST", "elsewhere"}, {"SLURM_STEP_NODELIST", "gnode[010,20,25-27],m7"},
  };
  return *values;
}

const Values& Pet() {
  static const auto* const values = new Values{
      {"PET_NNODES", "2"},          {"PET_NODE_RANK", "1"},       {"PET_NPROC_PER_NODE", "4"},
      {"PET_MASTER_ADDR", "job-0"}, {"PET_MASTER_PORT", "29400"},
  };
  return *values;
}

const Values& IndexedJob() {
  static const auto* const values = new Values{
      {"JOB_COMPLETION_INDEX", "2"},
      {"WORLD_SIZE", "3"},
      {"MASTER_ADDR", "job-0.job"},
      {"MASTER_PORT", "29500"},
  };
  return *values;
}

Values PyTorchJob() {
  return {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m-0"}, {"MASTER_PORT", "23456"}};
}

TEST(LaunchPlace, OfOurLauncher) {
  const LaunchPlace place = Must(Ours());
  EXPECT_EQ(place.launcher, "//tools:launch");
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.ranks, 4);
  EXPECT_EQ(place.local_rank, 0);
  EXPECT_EQ(place.local_ranks, 4);
  EXPECT_EQ(place.restarts, 2);
  EXPECT_EQ(place.address, "127.0.0.1:4711");
  EXPECT_EQ(place.listener, 5);
  EXPECT_EQ(place.secret, 6);
  EXPECT_EQ(place.text,
            "//tools:launch: rank 0 of 4, local 0 of 4, rendezvous at 127.0.0.1:4711, restart 2");

  const LaunchPlace other = Must(With(Ours(), {{"SLUICE_RANK", "3"},
                                               {"SLUICE_LOCAL_RANK", "2"},
                                               {"SLUICE_LISTENER_FD", ""},
                                               {"SLUICE_SECRET_FD", ""},
                                               {"SLUICE_RESTARTS", ""}}));
  EXPECT_EQ(other.rank, 3);
  EXPECT_EQ(other.local_rank, 2);
  EXPECT_EQ(other.restarts, 0);
  EXPECT_EQ(other.listener, -1);
  EXPECT_EQ(other.secret, -1);
}

TEST(LaunchPlace, OfOneRankHasNoAddressButWhatItInherits) {
  const LaunchPlace place = Must(
      With(Ours(), {{"SLUICE_RANKS", "1"}, {"SLUICE_LOCAL_RANKS", "1"}, {"SLUICE_RESTARTS", "0"}}));
  EXPECT_EQ(place.text, "//tools:launch: rank 0 of 1, local 0 of 1");
  EXPECT_EQ(place.listener, 5);
  EXPECT_EQ(place.secret, 6);
}

TEST(LaunchPlace, OfTorchrun) {
  const LaunchPlace place = Must(With(Torchrun(), {{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  EXPECT_EQ(place.launcher, "torchrun");
  EXPECT_EQ(place.restarts, 1);
  EXPECT_EQ(place.text,
            "torchrun: rank 3 of 16, local 1 of 2, rendezvous at gnode10:29500, restart 1");
}

TEST(LaunchPlace, AvoidsThePortOfTorchrunsOwnStore) {
  const Values store = With(Torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(Must(store).address, "gnode10:29501");
  EXPECT_EQ(Must(With(store, {{"MASTER_PORT", "65535"}})).address, "gnode10:25536");
  EXPECT_EQ(Must(With(store, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).address,
            "gnode10:29500");
}

TEST(LaunchPlace, OfALauncherThatSaysNoLocalCount) {
  const LaunchPlace place =
      Must(With(Torchrun(), {{"LOCAL_WORLD_SIZE", ""}, {"TORCHELASTIC_RUN_ID", ""}}));
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_ranks, 0);
  EXPECT_EQ(place.text, "a launcher like torchrun: rank 3 of 16, rendezvous at gnode10:29500");
  const LaunchPlace single = Must({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}});
  EXPECT_EQ(single.text, "a launcher like torchrun: rank 0 of 1, local 0 of 1");
}

TEST(LaunchPlace, RanksOfOneHostMeetOnItsLoopback) {
  EXPECT_EQ(Must(With(Torchrun(), {{"LOCAL_WORLD_SIZE", "16"}})).address, "127.0.0.1:29500");
}

TEST(LaunchPlace, IPv6AddressesAreBracketed) {
  EXPECT_EQ(Must(With(Torchrun(), {{"MASTER_ADDR", "fd00::2"}})).address, "[fd00::2]:29500");
  EXPECT_EQ(Must(With(Torchrun(), {{"MASTER_ADDR", "[fd00::2]"}})).address, "[fd00::2]:29500");
}

TEST(LaunchPlace, OfMpirun) {
  const LaunchPlace place = Must(OpenMpi());
  EXPECT_EQ(place.launcher, "mpirun");
  // XXH3 of the job's name; docs/launching.md says where it comes from.
  EXPECT_EQ(place.text, "mpirun: rank 1 of 3, local 1 of 3, rendezvous at 127.0.0.1:27480");
  // Open MPI 5 has PMIx's name alone, an older 4 its own: the same job, the same port.
  EXPECT_EQ(Must(With(OpenMpi(), {{"PMIX_NAMESPACE", ""}})).address, place.address);
  EXPECT_EQ(Must(With(OpenMpi(), {{"OMPI_MCA_ess_base_jobid", ""}})).address, place.address);
  EXPECT_NE(Must(With(OpenMpi(), {{"PMIX_NAMESPACE", "1226440706"}})).address, place.address);
}

TEST(LaunchPlace, MpirunOverHostsNeedsAnAddress) {
  const Values hosts = With(OpenMpi(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  const absl::Status status = Read(hosts).status();
  EXPECT_EQ(status.message(),
            "--rendezvous: expected host:port of rank 0, as mpirun does not say its host for rank "
            "1 of 3, "
            "got nothing; MASTER_ADDR and MASTER_PORT would also do");
  EXPECT_EQ(Must(hosts, "n1:7000").address, "n1:7000");
  EXPECT_EQ(Must(With(hosts, {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "7001"}})).address, "n1:7001");
  EXPECT_EQ(Must(With(hosts, {{"MASTER_ADDR", "n1"}})).address, "n1:27480");
  // Without a name of the job there is no port either.
  const Values nameless =
      With(OpenMpi(), {{"PMIX_NAMESPACE", ""}, {"OMPI_MCA_ess_base_jobid", ""}});
  EXPECT_THAT(Read(nameless).status().message(), HasSubstr("does not say a port of the job"));
}

TEST(LaunchPlace, OfPmi) {
  EXPECT_EQ(Must(Pmi(), "127.0.0.1:7000").text,
            "PMI: rank 1 of 2, local 1 of 2, rendezvous at 127.0.0.1:7000");
  EXPECT_EQ(Must(With(Pmi(), {{"MASTER_PORT", "7001"}})).address, "127.0.0.1:7001");
  EXPECT_THAT(Read(Pmi()).status().message(), HasSubstr("--rendezvous: expected host:port"));
  EXPECT_EQ(Must({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "n1:7000").text,
            "PMI: rank 1 of 2, rendezvous at n1:7000");
}

TEST(LaunchPlace, PmiOfSrunIsSrun) {
  const Values pmi = With(Srun(), {{"PMI_RANK", "9"}, {"PMI_SIZE", "11"}});
  EXPECT_EQ(Must(pmi).text, Must(Srun()).text);
  // mpirun of MPICH inside an allocation: the step is that of its proxies, one a node.
  EXPECT_EQ(Must(With(pmi, {{"PMI_RANK", "8"}}), "n1:7000").launcher, "PMI");
  EXPECT_EQ(Must(With(pmi, {{"PMI_SIZE", "12"}}), "n1:7000").launcher, "PMI");
}

TEST(LaunchPlace, OfSrun) {
  const LaunchPlace place = Must(Srun());
  EXPECT_EQ(place.launcher, "srun");
  // 20000 + (31 * 4242 + 1) % 10000
  EXPECT_EQ(place.text, "srun: rank 9 of 11, local 1 of 3, rendezvous at gnode010:21503");
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_STEP_ID", "2"}})).address, "gnode010:21504");
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "3"}})).local_ranks, 4);
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "3"}})).local_ranks, 4);
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_RESTART_COUNT", "1"}})).restarts, 1);
  // What users of other frameworks write into their batch scripts.
  EXPECT_EQ(
      Must(With(Srun(), {{"MASTER_ADDR", "ib7"}, {"MASTER_PORT", "29500"}, {"WORLD_SIZE", "11"}}))
          .address,
      "ib7:29500");
}

TEST(LaunchPlace, AStepOnOneNodeMeetsOnItsLoopback) {
  const Values one = With(Srun(), {{"SLURM_STEP_TASKS_PER_NODE", "11"}, {"SLURM_NODEID", "0"}});
  EXPECT_EQ(Must(one).address, "127.0.0.1:21503");
}

TEST(LaunchPlace, AnAllocationIsNoLaunch) {
  // The shell of salloc, and its variables as Slurm 22.05 has them.
  const Values shell = {{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "2"}, {"SLURM_NODELIST", "vm"}};
  EXPECT_EQ(Must(shell).text,
            "one process, started by no launcher; SLURM_NTASKS=4 is of the allocation, and srun "
            "would start as many");
  EXPECT_EQ(Must(shell).ranks, 1);
  // The body of a batch script has a task's variables without a step's.
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_STEP_ID", ""}})).ranks, 1);
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_STEP_NUM_TASKS", ""}})).ranks, 1);
  // Batch and interactive steps: SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP.
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_STEP_ID", "4294967291"}})).ranks, 1);
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_STEP_ID", "4294967290"}})).ranks, 1);
  EXPECT_EQ(Must(With(Srun(), {{"SLURM_STEP_ID", "4294967279"}})).ranks, 11);
}

TEST(LaunchPlace, OfPodsOfAPyTorchJob) {
  EXPECT_EQ(Must(PyTorchJob()).text,
            "a PyTorchJob's pod: rank 1 of 2, local 0 of 1, rendezvous at m-0:23456");
}

TEST(LaunchPlace, OfPodsWithPetVariables) {
  EXPECT_EQ(Must(Pet()).text,
            "a pod with PET_NNODES: rank 1 of 2, local 0 of 1, rendezvous at job-0:29400");
  EXPECT_EQ(Must(With(Pet(), {{"PET_NODE_RANK", ""}, {"JOB_COMPLETION_INDEX", "0"}})).rank, 0);
  EXPECT_EQ(Must({{"PET_NNODES", "1"}}).ranks, 1);
}

TEST(LaunchPlace, OfPodsOfAnIndexedJob) {
  EXPECT_EQ(Must(IndexedJob()).text,
            "an indexed Job's pod: rank 2 of 3, local 0 of 1, rendezvous at job-0.job:29500");
  EXPECT_EQ(Must({{"JOB_COMPLETION_INDEX", "2"}}).text, "one process, started by no launcher");
}

TEST(LaunchPlace, Alone) {
  const LaunchPlace place = Must({});
  EXPECT_EQ(place.launcher, "");
  EXPECT_EQ(place.ranks, 1);
  EXPECT_EQ(place.local_ranks, 1);
  EXPECT_EQ(place.address, "");
  EXPECT_EQ(place.listener, -1);
  EXPECT_EQ(place.secret, -1);
  EXPECT_EQ(place.text, "one process, started by no launcher");
  EXPECT_EQ(Must({{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}}).ranks, 1);
}

TEST(LaunchPlace, TheInnermostLauncherIsTaken) {
  const std::vector<Values> order = {Ours(), Torchrun(),   OpenMpi(), Pmi(),
                                     Srun(), PyTorchJob(), Pet(),     IndexedJob()};
  for (size_t first = 0; first < order.size(); ++first) {
    Values all;
    for (size_t i = order.size(); i-- > first;) all = With(all, order[i]);
    // Not the halves that would make up a whole with those of another.
    if (first > 1) all["LOCAL_RANK"] = "";
    if (first > 5) all["RANK"] = "";
    const LaunchPlace expected = Must(order[first], first == 3 ? "n1:1" : "");
    EXPECT_EQ(Must(all, first == 3 ? "n1:1" : "").launcher, expected.launcher) << first;
  }
}

TEST(LaunchPlace, TheUsersAddressGoesFirst) {
  EXPECT_EQ(Must(Torchrun(), "[fd00::7]:80").address, "[fd00::7]:80");
  EXPECT_EQ(Must(Srun(), "n1:80").address, "n1:80");
  EXPECT_EQ(Must(With(PyTorchJob(), {{"MASTER_ADDR", ""}}), "n1:80").address, "n1:80");
  EXPECT_EQ(Must({}, "n1:80").address, "");
}

struct Bad {
  Values values;
  std::string message;  // whole
  std::string rendezvous = "";
};

// Malformed and missing values are named.
void ExpectNamed(const std::vector<Bad>& all) {
  for (const Bad& bad : all) {
    const absl::Status status = Read(bad.values, bad.rendezvous).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_EQ(status.message(), bad.message);
  }
}

TEST(LaunchPlaceErrors, OfOurLauncher) {
  ExpectNamed({
      {With(Ours(), {{"SLUICE_RANK", "4"}}),
       "SLUICE_RANK: expected a number from 0 to 3 (SLUICE_RANKS is 4), got \"4\""},
      {With(Ours(), {{"SLUICE_RANK", "-1"}}),
       "SLUICE_RANK: expected a number from 0 to 3 (SLUICE_RANKS is 4), got \"-1\""},
      {With(Ours(), {{"SLUICE_RANK", "+1"}}),
       "SLUICE_RANK: expected a number from 0 to 3 (SLUICE_RANKS is 4), got \"+1\""},
      {With(Ours(), {{"SLUICE_RANKS", "four"}}),
       "SLUICE_RANKS: expected how many ranks there are, got \"four\""},
      {With(Ours(), {{"SLUICE_RANKS", "0"}}),
       "SLUICE_RANKS: expected how many ranks there are, got \"0\""},
      {With(Ours(), {{"SLUICE_RANKS", "99999999999999999999"}}),
       "SLUICE_RANKS: expected how many ranks there are, got \"99999999999999999999\""},
      {With(Ours(), {{"SLUICE_RANKS", "1048577"}}),
       "SLUICE_RANKS: expected how many ranks there are, got \"1048577\""},
      {With(Ours(), {{"SLUICE_LOCAL_RANKS", "5"}}),
       "SLUICE_LOCAL_RANKS: expected at most 4, the ranks of the job, got \"5\""},
      {With(Ours(), {{"SLUICE_LOCAL_RANK", ""}}),
       "SLUICE_LOCAL_RANK: expected a number from 0 to 3 (SLUICE_LOCAL_RANKS is 4), got nothing "
       "(it is not set)"},
      {With(Ours(), {{"SLUICE_RENDEZVOUS", ""}}),
       "SLUICE_RENDEZVOUS: expected host:port, got nothing (it is not set)"},
      {With(Ours(), {{"SLUICE_RENDEZVOUS", "127.0.0.1"}}),
       "SLUICE_RENDEZVOUS: expected host:port, got \"127.0.0.1\""},
      {With(Ours(), {{"SLUICE_RESTARTS", "x"}}),
       "SLUICE_RESTARTS: expected how often the job was begun again, got \"x\""},
      {With(Ours(), {{"SLUICE_SECRET_FD", "2"}}),
       "SLUICE_SECRET_FD: expected an inherited descriptor from 3 on, got \"2\""},
      {With(Ours(), {{"SLUICE_RANK", "1"}}),
       "SLUICE_LISTENER_FD: expected nothing, as rank 0 alone listens, got \"5\""},
      {Ours(),
       "--rendezvous: expected none, as //tools:launch has rank 0 listen at 127.0.0.1:4711, got "
       "\"n1:1\"",
       "n1:1"},
      {{{"SLUICE_RENDEZVOUS", "n1:1"}},
       "SLUICE_RANKS: expected how many ranks there are, got nothing (it is not set)"},
  });
}

TEST(LaunchPlaceErrors, OfTorchrun) {
  ExpectNamed({
      {With(Torchrun(), {{"RANK", "16"}}),
       "RANK: expected a number from 0 to 15 (WORLD_SIZE is 16), got \"16\""},
      {With(Torchrun(), {{"LOCAL_RANK", "2"}}),
       "LOCAL_RANK: expected a number from 0 to 1 (LOCAL_WORLD_SIZE is 2), got \"2\""},
      {With(Torchrun(), {{"LOCAL_RANK", "16"}, {"LOCAL_WORLD_SIZE", ""}}),
       "LOCAL_RANK: expected a number from 0 to 15 (WORLD_SIZE is 16), got \"16\""},
      {With(Torchrun(), {{"MASTER_ADDR", ""}}),
       "MASTER_ADDR: expected the host of rank 0, got nothing (it is not set)"},
      {With(Torchrun(), {{"MASTER_ADDR", "a b"}}),
       "MASTER_ADDR: expected the host of rank 0, got \"a b\""},
      {With(Torchrun(), {{"MASTER_PORT", ""}}),
       "MASTER_PORT: expected the port of rank 0, from 1 to 65535, got nothing (it is not set)"},
      {With(Torchrun(), {{"MASTER_PORT", "65536"}}),
       "MASTER_PORT: expected the port of rank 0, from 1 to 65535, got \"65536\""},
      {With(Torchrun(), {{"MASTER_PORT", "0"}}),
       "MASTER_PORT: expected the port of rank 0, from 1 to 65535, got \"0\""},
      {With(Torchrun(), {{"TORCHELASTIC_RESTART_COUNT", "-1"}}),
       "TORCHELASTIC_RESTART_COUNT: expected how often the job was begun again, got \"-1\""},
      {With(Torchrun(), {{"RANK", ""}}),
       "RANK: expected a value beside WORLD_SIZE=16, got nothing (it is not set)"},
      {With(Torchrun(), {{"WORLD_SIZE", ""}}),
       "WORLD_SIZE: expected a value beside RANK=3, got nothing (it is not set)"},
      {{{"LOCAL_RANK", "0"}},
       "RANK: expected a value beside LOCAL_RANK=0, got nothing (it is not set)"},
  });
}

TEST(LaunchPlaceErrors, OfMpi) {
  ExpectNamed({
      {With(OpenMpi(), {{"OMPI_COMM_WORLD_SIZE", ""}}),
       "OMPI_COMM_WORLD_SIZE: expected how many ranks there are, got nothing (it is not set)"},
      {With(OpenMpi(), {{"OMPI_COMM_WORLD_RANK", "3"}}),
       "OMPI_COMM_WORLD_RANK: expected a number from 0 to 2 (OMPI_COMM_WORLD_SIZE is 3), got "
       "\"3\""},
      {With(OpenMpi(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", ""}}),
       "OMPI_COMM_WORLD_LOCAL_SIZE: expected how many ranks there are, got nothing (it is not "
       "set)"},
      {With(OpenMpi(), {{"MASTER_PORT", "x"}}),
       "MASTER_PORT: expected the port of rank 0, from 1 to 65535, got \"x\""},
      {With(Pmi(), {{"PMI_SIZE", ""}}),
       "PMI_SIZE: expected how many ranks there are, got nothing (it is not set)"},
      {With(Pmi(), {{"MPI_LOCALNRANKS", ""}}),
       "MPI_LOCALNRANKS: expected how many ranks there are, got nothing (it is not set)"},
  });
}

TEST(LaunchPlaceErrors, OfSlurm) {
  ExpectNamed({
      {With(Srun(), {{"SLURM_STEP_ID", "a"}}),
       "SLURM_STEP_ID: expected a step's number, got \"a\""},
      {With(Srun(), {{"SLURM_PROCID", "11"}}),
       "SLURM_PROCID: expected a number from 0 to 10 (SLURM_STEP_NUM_TASKS is 11), got \"11\""},
      {With(Srun(), {{"SLURM_STEP_TASKS_PER_NODE", "4(x3)"}}),
       "SLURM_STEP_TASKS_PER_NODE: expected 11 tasks in all (SLURM_STEP_NUM_TASKS), got \"4(x3)\""},
      {With(Srun(), {{"SLURM_STEP_TASKS_PER_NODE", "4(x2"}}),
       "SLURM_STEP_TASKS_PER_NODE: expected counts of tasks such as 4(x2),1, got \"4(x2\""},
      {With(Srun(), {{"SLURM_NODEID", "3"}}),
       "SLURM_NODEID: expected one of the step's 3 nodes, got \"3\""},
      {With(Srun(), {{"SLURM_LOCALID", "3"}}),
       "SLURM_LOCALID: expected a number from 0 to 2 (tasks of this node is 3), got \"3\""},
      {With(Srun(), {{"SLURM_JOB_ID", ""}}),
       "SLURM_JOB_ID: expected a job's number, got nothing (it is not set)"},
      {With(Srun(), {{"SLURM_STEP_NODELIST", "g[1"}}),
       "SLURM_STEP_NODELIST: expected nodes such as n[01-04],m7, got \"g[1\""},
  });
}

TEST(LaunchPlaceErrors, OfPods) {
  ExpectNamed({
      {With(Pet(), {{"PET_NNODES", "1:4"}}),
       "PET_NNODES: expected one number of nodes, as a run does not grow or shrink, got \"1:4\""},
      {With(Pet(), {{"PET_NNODES", ""}}),
       "PET_NNODES: expected how many ranks there are, got nothing (it is not set)"},
      {With(Pet(), {{"PET_NODE_RANK", ""}}),
       "PET_NODE_RANK: expected a number from 0 to 1 (PET_NNODES is 2), got nothing (it is not "
       "set)"},
      {With(IndexedJob(), {{"JOB_COMPLETION_INDEX", "3"}}),
       "JOB_COMPLETION_INDEX: expected a number from 0 to 2 (WORLD_SIZE is 3), got \"3\""},
  });
}

TEST(LaunchPlaceErrors, OfTheUser) {
  ExpectNamed({
      {{}, "--rendezvous: expected host:port, got \"n1\"", "n1"},
      {{}, "--rendezvous: expected host:port, got \":80\"", ":80"},
      {{}, "--rendezvous: expected host:port, got \"fd00::7:80\"", "fd00::7:80"},
      {{}, "--rendezvous: expected host:port, got \"n1:0\"", "n1:0"},
      {{}, "--rendezvous: expected host:port, got \"n1:65536\"", "n1:65536"},
  });
}

}  // namespace
}  // namespace sluice
