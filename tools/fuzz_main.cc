// Runs a fuzz target over its corpus, and then over mutants of it for a moment: the main of a
// sluice_fuzz_test that is built without libFuzzer.
//   <target> DIRECTORY...
//   <target> --mutant=N DIRECTORY...      that one again, as a failure has named it
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

// What a pull request can spare for each target; libFuzzer (ci/fuzz.sh) has longer, and knows which
// mutants lead somewhere.
constexpr auto kMutantTime = std::chrono::milliseconds(200);
constexpr uint64_t kMostMutants = 2000;
constexpr size_t kMostBytes = 16384;

// A function of the number alone, so that a mutant can be had again.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  size_t Below(size_t bound) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return bound == 0 ? 0 : state_ % bound;
  }

 private:
  uint64_t state_;
};

void Overwrite(Random* random, Bytes* bytes) {
  constexpr uint64_t kValues[] = {0,
                                  1,
                                  0x7f,
                                  0x80,
                                  0xff,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  uint64_t{1} << 32,
                                  ~uint64_t{0},
                                  ~uint64_t{0} >> 1,
                                  uint64_t{1} << 63};
  if (bytes->empty()) return;
  const uint64_t value = kValues[random->Below(std::size(kValues))];
  const size_t at = random->Below(bytes->size());
  const size_t size = std::min(size_t{1} << random->Below(4), bytes->size() - at);
  std::memcpy(bytes->data() + at, &value, size);
}

void Mutate(Random* random, const std::vector<Bytes>& corpus, Bytes* bytes) {
  const size_t begin = random->Below(bytes->size() + 1);
  const size_t end = begin + random->Below(std::min<size_t>(bytes->size() - begin, 64) + 1);
  switch (random->Below(6)) {
    case 0:
      if (!bytes->empty()) (*bytes)[random->Below(bytes->size())] ^= 1u << random->Below(8);
      return;
    case 1:
      return Overwrite(random, bytes);
    case 2:
      bytes->erase(bytes->begin() + begin, bytes->begin() + end);
      return;
    case 3: {
      const Bytes again(bytes->begin() + begin, bytes->begin() + end);
      const size_t at = random->Below(bytes->size() + 1);
      bytes->insert(bytes->begin() + at, again.begin(), again.end());
      return;
    }
    case 4:
      bytes->resize(begin);
      return;
    default: {  // the end of another one
      const Bytes& other = corpus[random->Below(corpus.size())];
      bytes->resize(begin);
      bytes->insert(bytes->end(), other.begin() + random->Below(other.size() + 1), other.end());
    }
  }
}

Bytes MutantOf(const std::vector<Bytes>& corpus, uint64_t number) {
  Random random(number);
  Bytes bytes = corpus[random.Below(corpus.size())];
  for (size_t changes = 1 + random.Below(4); changes > 0; --changes) {
    Mutate(&random, corpus, &bytes);
  }
  bytes.resize(std::min(bytes.size(), kMostBytes));
  return bytes;
}

// A copy of its own, so that AddressSanitizer sees a read past the end.
void Run(const Bytes& input) {
  const Bytes bytes(input);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> paths;
  constexpr char kMutant[] = "--mutant=";
  const char* mutant = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kMutant, sizeof(kMutant) - 1) == 0) {
      mutant = argv[i] + sizeof(kMutant) - 1;
      continue;
    }
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      paths.push_back(entry.path());
    }
  }
  if (paths.empty()) {
    std::fprintf(stderr, "expected a directory with inputs, got none\n");
    return 1;
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string input((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 1;
    }
    corpus.emplace_back(input.begin(), input.end());
    if (mutant != nullptr) continue;
    std::fprintf(stderr, "%s: %zu bytes\n", path.c_str(), input.size());  // the last one: who died
    Run(corpus.back());
  }
  if (mutant != nullptr) {
    Run(MutantOf(corpus, std::strtoull(mutant, nullptr, 10)));
    return 0;
  }
  const auto end = std::chrono::steady_clock::now() + kMutantTime;
  uint64_t mutants = 0;
  while (mutants < kMostMutants && std::chrono::steady_clock::now() < end) {
    std::fprintf(stderr, "--mutant=%llu\n", static_cast<unsigned long long>(++mutants));
    Run(MutantOf(corpus, mutants));
  }
  std::printf("%zu inputs, %llu mutants\n", paths.size(), static_cast<unsigned long long>(mutants));
  return 0;
}
