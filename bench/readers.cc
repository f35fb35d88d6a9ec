// Bytes a second that the readers of data files give, beside what binds them: copying as many bytes
// in memory, or, of packed files, the library unpacking them in one call. Files are in the system's
// cache. Prints a line of JSON a format for bench/report.py.

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/limits.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/data/delimited_text.h"
#include "framework/data/example.h"
#include "framework/data/file.h"
#include "framework/data/framed_records.h"
#include "framework/data/hugectr_raw.h"
#include "framework/data/npy.h"
#include "framework/data/packed.h"
#include "framework/data/record_io.h"
#include "framework/data/token_file.h"
#include "framework/train/command.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(int64_t, mib, 32, "of a file, unpacked");
ABSL_FLAG(double, seconds, 0.5, "for each time that is taken");

namespace sluice {
namespace {

// Text that packs as text does: words of a thousand, some more often than others.
std::string Words(int64_t bytes) {
  std::string text;
  text.reserve(bytes);
  uint64_t state = 1;
  const auto draw = [&] {
    return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33;
  };
  std::vector<std::string> words;
  for (int i = 0; i < 1000; ++i) {
    std::string& word = words.emplace_back();
    for (uint64_t n = 2 + draw() % 8; n > 0; --n) word += static_cast<char>('a' + draw() % 26);
  }
  while (static_cast<int64_t>(text.size()) < bytes) {
    const uint64_t most = 1 + draw() % words.size();
    absl::StrAppend(&text, words[draw() % most], text.size() % 11 == 0 ? "\n" : " ");
  }
  text.resize(bytes);
  return text;
}

// Seconds of one copy.
double CopyTime(const std::string& bytes) {
  std::string to(bytes.size(), '\0');
  return TimeOf(absl::GetFlag(FLAGS_seconds),
                [&] { std::memcpy(to.data(), bytes.data(), bytes.size()); });
}

double InflateTime(const std::string& bytes) {
  std::string packed(compressBound(bytes.size()), '\0'), plain(bytes.size(), '\0');
  auto* const to = reinterpret_cast<uint8_t*>(packed.data());
  uLongf size = packed.size();
  SLUICE_CHECK(compress(to, &size, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) ==
               Z_OK);
  return TimeOf(absl::GetFlag(FLAGS_seconds), [&] {
    uLongf unpacked = plain.size();
    SLUICE_CHECK(uncompress(reinterpret_cast<uint8_t*>(plain.data()), &unpacked, to, size) == Z_OK);
  });
}

std::string Zstandard(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
  return packed;
}

double UnzstdTime(const std::string& bytes) {
  const std::string packed = Zstandard(bytes);
  std::string plain(bytes.size(), '\0');
  return TimeOf(absl::GetFlag(FLAGS_seconds), [&] {
    const size_t size = ZSTD_decompress(plain.data(), plain.size(), packed.data(), packed.size());
    SLUICE_CHECK_EQ(size, plain.size());
  });
}

// Prints how fast `read` gives `bytes`.
void Report(const std::string& format, int64_t bytes, double limit_seconds, const char* goal,
            const char* note, const std::function<absl::Status()>& read) {
  SLUICE_CHECK_OK(read());
  const double seconds = TimeOf(absl::GetFlag(FLAGS_seconds), [&] { SLUICE_CHECK_OK(read()); });
  const nlohmann::json line = {{"name", "readers/" + format},
                               {"unit", "bytes/s"},
                               {"value", static_cast<double>(bytes) / seconds},
                               {"limit", static_cast<double>(bytes) / limit_seconds},
                               {"goal", goal},
                               {"note", note}};
  absl::PrintF("%s\n", line.dump());
}

class Files {
 public:
  Files()
      : folder_(std::filesystem::temp_directory_path() / absl::StrCat("readers-", getpid())),
        bytes_(absl::GetFlag(FLAGS_mib) << 20),
        text_(Words(bytes_)),
        copy_(CopyTime(text_)) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void Measure() {
    Records("pictures", 100000);
    Records("small", 200);
    RecordIo();
    Arrays();
    Tables();
    Tokens();
    Packed();
  }

 private:
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string Part(int64_t begin, int64_t size) const { return text_.substr(begin, size); }

  void Records(const char* kind, int64_t size) const {
    for (const Framing framing : {Framing::kTfRecord, Framing::kOfRecord}) {
      std::string bytes;
      for (int64_t at = 0; at + size <= bytes_; at += size) {
        const Example example = {{"encoded", std::vector<std::string>{Part(at, size)}},
                                 {"label", std::vector<int64_t>{at % 1000}}};
        AppendFramed(framing, *ExampleBytes(framing, example), &bytes);
      }
      const char* const name = framing == Framing::kTfRecord ? "tfrecord" : "ofrecord";
      const std::string path = Write("records", bytes);
      Report(absl::StrCat(name, "/", kind), bytes_, copy_, "0.1 of limit",
             "records, checksums, features; beside memory", [&]() -> absl::Status {
               ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
               ASSIGN_OR_RETURN(const FramedRecords records,
                                FramedRecords::Open(framing, std::move(file)));
               std::string record;
               for (int64_t i = 0; i < records.num_records(); ++i) {
                 RETURN_IF_ERROR(records.Read(i, &record));
                 RETURN_IF_ERROR(ParseExample(framing, record).status());
               }
               return absl::OkStatus();
             });
    }
  }

  void RecordIo() const {
    constexpr int64_t kSize = 100000;
    std::vector<std::pair<int64_t, PictureRecord>> records;
    for (int64_t at = 0; at + kSize <= bytes_; at += kSize) {
      records.emplace_back(at / kSize, PictureRecord{{1}, 0, 0, Part(at, kSize)});
    }
    const std::string path = (folder_ / "a.rec").string();
    SLUICE_CHECK_OK(WriteRecords(path, records));
    Report("recordio/pictures", bytes_, copy_, "0.1 of limit", "beside memory",
           [&]() -> absl::Status {
             ASSIGN_OR_RETURN(const RecordFile file, RecordFile::Open(path));
             for (const int64_t key : file.keys()) RETURN_IF_ERROR(file.Read(key).status());
             return absl::OkStatus();
           });
  }

  void Arrays() const {
    const NpyArray array = {'f', 4, {bytes_ / 4}, text_};
    const std::string npy = Write("a.npy", NpyBytes(array));
    Report("npy", bytes_, copy_, "0.2 of limit", "beside memory",
           [&] { return ReadNpy(npy).status(); });
    const std::string npz = Write("a.npz", *NpzBytes({{"a", array}}, /*deflate=*/true));
    Report("npz", bytes_, InflateTime(text_), "0.8 of limit", "beside zlib",
           [&] { return ReadNpz(npz).status(); });
  }

  void Tables() const {
    const RawColumns columns;
    const int64_t whole = bytes_ / columns.SampleBytes() * columns.SampleBytes();
    std::string raw(whole, '\0');
    std::string line = "1";
    for (int i = 0; i < 13; ++i) absl::StrAppend(&line, "\t", 7 * i);
    for (int i = 0; i < 26; ++i)
      absl::StrAppend(&line, "\t", absl::StrFormat("%08x", 77777777 * i));
    line += "\n";
    std::string log;
    while (static_cast<int64_t>(log.size()) < bytes_) log += line;
    const std::string raw_path = Write("a.raw", raw), log_path = Write("a.tsv", log);
    Report("hugectr_raw", whole, copy_, "0.2 of limit", "beside memory", [&]() -> absl::Status {
      ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(raw_path));
      ASSIGN_OR_RETURN(const HugeCtrRaw samples, HugeCtrRaw::Open(columns, std::move(file)));
      constexpr int64_t kAtOnce = 1 << 12;
      for (int64_t first = 0; first < samples.num_samples(); first += kAtOnce) {
        RETURN_IF_ERROR(
            samples.Read(first, std::min(kAtOnce, samples.num_samples() - first)).status());
      }
      return absl::OkStatus();
    });
    Report("tsv", static_cast<int64_t>(log.size()),
           copy_ * static_cast<double>(log.size()) / static_cast<double>(bytes_), "0.05 of limit",
           "fields found, none read; beside memory", [&]() -> absl::Status {
             ASSIGN_OR_RETURN(const std::string text, ReadFile(log_path));
             ASSIGN_OR_RETURN(
                 const DelimitedText table,
                 DelimitedText::Open("log", text,
                                     {.delimiter = '\t', .quotes = false, .names = false}));
             return table.ForEachRow(
                 [](int64_t, absl::Span<const absl::string_view>) { return absl::OkStatus(); });
           });
  }

  void Tokens() const {
    std::string tokens = text_;  // which as it is would be refused as text
    for (size_t i = 0; i < tokens.size(); i += 2) tokens[i] = '\0';
    const std::string path = Write("tokens.bin", tokens);
    Report("tokens", bytes_, copy_, "0.2 of limit", "u16 to i32; beside memory",
           [&] { return ReadTokenFile(path).status(); });
  }

  void Packed() const {
    const std::string zst = Write("a.zst", Zstandard(text_)), gz = (folder_ / "a.gz").string();
    const gzFile file = gzopen(gz.c_str(), "wb");
    SLUICE_CHECK(file != nullptr);
    SLUICE_CHECK_EQ(gzwrite(file, text_.data(), static_cast<unsigned>(text_.size())),
                    static_cast<int>(text_.size()));
    SLUICE_CHECK_EQ(gzclose(file), Z_OK);
    const auto unpack = [](const std::string& path) { return OpenUnpacked(path).status(); };
    Report("gzip", bytes_, InflateTime(text_), "0.8 of limit", "beside zlib",
           [&] { return unpack(gz); });
    Report("zstd", bytes_, UnzstdTime(text_), "0.5 of limit", "beside libzstd",
           [&] { return unpack(zst); });
  }

  const std::filesystem::path folder_;
  const int64_t bytes_;
  const std::string text_;
  const double copy_;  // seconds of copying all of it
};

absl::Status Measure() {
  const int64_t mib = absl::GetFlag(FLAGS_mib);
  if (mib < 1 || mib > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("--mib: expected 1 to 1024, got ", mib));
  }
  Files().Measure();
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"readers",
                             "Times the readers of data files; see bench/README.md.\n",
                             {{"Flags", {{"mib", "N", ""}, {"seconds", "X", ""}}}},
                             {},
                             sluice::Measure},
                            argc, argv);
}
