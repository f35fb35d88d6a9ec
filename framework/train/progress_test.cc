#include "framework/train/progress.h"

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

Progress At(int64_t step) {
  return {.step = step,
          .steps = 2000,
          .loss = 2.10341,
          .gradient_norm = 0.9123,
          .learning_rate = 9.8e-4,
          .per_second = 21345,
          .unit = "tokens",
          .utilization = 0.412,
          .seconds_left = 92.3};
}

TEST(ProgressTest, Line) {
  EXPECT_EQ(ProgressLine(At(340)),
            "step  340/2000  loss 2.1034  norm 0.912  lr 9.80e-04  21.3k tokens/s  41% of peak  "
            "1:32 left");
  Progress unknown = At(2000);
  unknown.utilization = -1;
  unknown.per_second = 950;
  unknown.unit = Progress().unit;
  unknown.seconds_left = 0;
  EXPECT_EQ(ProgressLine(unknown),
            "step 2000/2000  loss 2.1034  norm 0.912  lr 9.80e-04  950 samples/s  0:00 left");
}

TEST(ProgressTest, Durations) {
  EXPECT_EQ(DurationText(7.4), "0:07");
  EXPECT_EQ(DurationText(754), "12:34");
  EXPECT_EQ(DurationText(11045), "3:04:05");
  EXPECT_EQ(DurationText(1e300), "?");
}

// What a printer writes.
template <typename Fn>
std::string Written(bool terminal, int columns, Fn fn) {
  char* text = nullptr;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  {
    ProgressPrinter printer(out, terminal, columns, 1);
    fn(&printer);
  }
  fclose(out);
  const std::string result(text, size);
  free(text);
  return result;
}

TEST(ProgressTest, FileGetsALineNowAndThen) {
  const std::string text = Written(false, 0, [](ProgressPrinter* printer) {
    for (int step = 1; step <= 30; ++step) printer->Update(At(step), 10 + step * 0.1);
    printer->Print("held-out loss 2");
    printer->Update(At(2000), 13.01);  // the last one always
  });
  EXPECT_EQ(text, ProgressLine(At(1)) + "\n" + ProgressLine(At(11)) + "\n" + ProgressLine(At(21)) +
                      "\nheld-out loss 2\n" + ProgressLine(At(2000)) + "\n");
}

TEST(ProgressTest, TerminalLineIsRewrittenAndCut) {
  const std::string text = Written(true, 11, [](ProgressPrinter* printer) {
    printer->Update(At(1), 0);
    printer->Update(At(2), 0.01);  // too soon
    printer->Print("kept");
    printer->Update(At(3), 1);
  });
  EXPECT_EQ(text, "\rstep    1/\x1b[K\r\x1b[Kkept\nstep    1/\rstep    3/\x1b[K\n");
}

}  // namespace
}  // namespace sluice
