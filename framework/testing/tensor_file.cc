#include "framework/testing/tensor_file.h"

#include <vector>

#include "absl/status/statusor.h"
#include "framework/checkpoint/safetensors.h"
#include "gtest/gtest.h"

namespace sluice {

Tensors ReadTensorFile(const std::string& path) {
  Tensors tensors;
  const auto file = SafetensorsReader::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return tensors;
  for (const TensorEntry& entry : file->entries()) {
    const auto value = file->Read(entry.name);
    EXPECT_TRUE(value.ok()) << value.status();
    if (value.ok()) tensors[entry.name] = *value;
  }
  return tensors;
}

void WriteTensorFile(const std::string& path, const Tensors& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, value] : tensors) entries.push_back({name, value.dtype, value.shape});
  const auto source = [&](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    return tensors.at(entry.name);
  };
  EXPECT_EQ(WriteSafetensors(path, entries, {}, source), absl::OkStatus());
}

void ExpectSameTensors(const Tensors& got, const Tensors& expected) {
  EXPECT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const auto found = got.find(name);
    ASSERT_TRUE(found != got.end()) << name;
    EXPECT_EQ(found->second.shape, value.shape) << name;
    EXPECT_TRUE(found->second.bytes == value.bytes) << name;
  }
}

}  // namespace sluice
