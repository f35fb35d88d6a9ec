// Times the writing of text by a GPT: a token by decode, which goes on with keys and values of the
// steps before, beside a token by a whole forward pass. Both are programs of one session and take
// turns, so that what else the machine does meets both.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/gpt_sizes.h"
#include "framework/base/status.h"
#include "framework/session/session.h"
#include "framework/train/command.h"
#include "models/gpt/gpt.h"

ABSL_FLAG(std::string, size, "small", "tiny, default or small");
ABSL_FLAG(int64_t, length, 1024, "tokens that the model sees at once");
ABSL_FLAG(std::string, mesh, "data=1", "the devices");
ABSL_FLAG(int64_t, rounds, 5, "turns of each; the text grows by a part of the length in each");

namespace sluice {
namespace {

const char kHelp[] = "Times tokens that a GPT writes, with kept keys and values and without.\n";

absl::StatusOr<double> SecondsOf(Session* session, const char* program, const Feeds& feeds) {
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(session->Step(program, feeds));
  RETURN_IF_ERROR(session->Next().status());
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Run() {
  ASSIGN_OR_RETURN(GptConfig config, GptOfSize(absl::GetFlag(FLAGS_size)));
  config.sequence_length = absl::GetFlag(FLAGS_length);
  const int64_t length = config.sequence_length, rounds = absl::GetFlag(FLAGS_rounds);
  Graph decode, prefill;
  RETURN_IF_ERROR(BuildGptDecode(config, &decode));
  RETURN_IF_ERROR(BuildGptPrefill(config, &prefill));
  SessionOptions options;
  options.mesh = absl::GetFlag(FLAGS_mesh);
  ASSIGN_OR_RETURN(const auto session,
                   Session::Start({{"decode", &decode}, {"prefill", &prefill}}, options));
  HostTensor token(DType::kI32, {1, 1}), tokens(DType::kI32, {1, length});
  HostTensor place(DType::kI32, {1});
  const Feeds row = {{"token", &token}, {"position", &place}};
  const Feeds all = {{"tokens", &tokens}, {"last", &place}};
  std::vector<double> rows, wholes;
  for (int64_t round = 0; round < rounds; ++round) {
    place.data<int32_t>()[0] = static_cast<int32_t>(length - 1);
    for (int i = 0; i < 2; ++i) {  // the first one of a turn finds the other program's bytes
      ASSIGN_OR_RETURN(const double seconds, SecondsOf(session.get(), "prefill", all));
      if (i > 0) wholes.push_back(seconds);
    }
    for (int64_t i = length * round / rounds; i < length * (round + 1) / rounds; ++i) {
      place.data<int32_t>()[0] = static_cast<int32_t>(i);
      ASSIGN_OR_RETURN(const double seconds, SecondsOf(session.get(), "decode", row));
      rows.push_back(seconds);
    }
  }
  double sum = 0;
  for (const double seconds : rows) sum += seconds;
  const double mean = sum / static_cast<double>(rows.size());
  const double last = Median({rows.end() - length / rounds / 4, rows.end()});
  absl::PrintF(
      "%.1fM parameters, length %d, %s: decode %.2f ms a token, %.2f ms at the end; a whole pass "
      "%.1f ms: %.1f times as long, %.1f at the end\n",
      static_cast<double>(GptParameters(config)) / 1e6, length, options.mesh, 1e3 * mean,
      1e3 * last, 1e3 * Median(wholes), Median(wholes) / mean, Median(wholes) / last);
  return session->Close();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"gpt_decode",
       sluice::kHelp,
       {{"Flags",
         {{"size", "NAME", ""}, {"length", "N", ""}, {"mesh", "AXES", ""}, {"rounds", "N", ""}}}},
       {},
       sluice::Run},
      argc, argv);
}
