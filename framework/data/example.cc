#include "framework/data/example.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/data/of_record.pb.h"
#include "framework/data/tf_example.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::string>;

// A list of numbers, whose protobuf list is `field`.
template <typename T>
Feature Numbers(const google::protobuf::RepeatedField<T>& field) {
  return std::vector<T>(field.begin(), field.end());
}

// The bytes are moved, as pictures are large.
template <typename ProtoFeature>
Feature TakeBytes(ProtoFeature* feature) {
  Bytes values;
  for (std::string& value : *feature->mutable_bytes_list()->mutable_value()) {
    values.push_back(std::move(value));
  }
  return values;
}

Feature Take(tf::Feature* feature) {
  switch (feature->kind_case()) {
    case tf::Feature::kBytesList:
      return TakeBytes(feature);
    case tf::Feature::kFloatList:
      return Numbers<float>(feature->float_list().value());
    case tf::Feature::kInt64List:
      return Numbers<int64_t>(feature->int64_list().value());
    case tf::Feature::KIND_NOT_SET:
      break;
  }
  return {};
}

Feature Take(oneflow::Feature* feature) {
  switch (feature->kind_case()) {
    case oneflow::Feature::kBytesList:
      return TakeBytes(feature);
    case oneflow::Feature::kFloatList:
      return Numbers<float>(feature->float_list().value());
    case oneflow::Feature::kInt64List:
      return Numbers<int64_t>(feature->int64_list().value());
    case oneflow::Feature::kDoubleList:
      return Numbers<double>(feature->double_list().value());
    case oneflow::Feature::kInt32List:
      return Numbers<int32_t>(feature->int32_list().value());
    case oneflow::Feature::KIND_NOT_SET:
      break;
  }
  return {};
}

template <typename Map>
Example TakeAll(Map* map) {
  Example example;
  for (auto& [name, feature] : *map) example.emplace(name, Take(&feature));
  return example;
}

template <typename Values, typename List>
void PutValues(const Values& values, List* list) {
  list->mutable_value()->Add(values.begin(), values.end());
}

// The lists that both have.
template <typename ProtoFeature>
void PutShared(const Feature& feature, ProtoFeature* to) {
  if (const auto* bytes = std::get_if<Bytes>(&feature)) PutValues(*bytes, to->mutable_bytes_list());
  if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
    PutValues(*floats, to->mutable_float_list());
  }
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&feature)) {
    PutValues(*integers, to->mutable_int64_list());
  }
}

absl::Status Put(const Feature& feature, tf::Feature* to) {
  PutShared(feature, to);
  if (const auto* small = std::get_if<std::vector<int32_t>>(&feature)) {
    PutValues(*small, to->mutable_int64_list());
  }
  if (!std::holds_alternative<std::vector<double>>(feature)) return absl::OkStatus();
  return absl::InvalidArgumentError("expected bytes, f32 or i64, as a TFRecord has, got f64");
}

absl::Status Put(const Feature& feature, oneflow::Feature* to) {
  PutShared(feature, to);
  if (const auto* small = std::get_if<std::vector<int32_t>>(&feature)) {
    PutValues(*small, to->mutable_int32_list());
  }
  if (const auto* doubles = std::get_if<std::vector<double>>(&feature)) {
    PutValues(*doubles, to->mutable_double_list());
  }
  return absl::OkStatus();
}

template <typename Map>
absl::Status PutAll(const Example& example, Map* to) {
  for (const auto& [name, feature] : example) {
    RETURN_IF_ERROR(AddContext(Put(feature, &(*to)[name]), name));
  }
  return absl::OkStatus();
}

// In order of the names, so that the same example always has the same bytes.
std::string BytesOf(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

absl::Status NoMessage(const char* what, absl::string_view record) {
  return absl::DataLossError(
      absl::StrCat("expected ", what, ", got ", record.size(), " bytes that are none"));
}

absl::Status NotOfType(absl::string_view name, const char* expected, const Feature& got) {
  return absl::InvalidArgumentError(absl::StrCat("feature ", name, ": expected ", expected,
                                                 ", got ", FeatureSize(got), " of ",
                                                 FeatureTypeName(got)));
}

}  // namespace

absl::string_view FeatureTypeName(const Feature& feature) {
  constexpr absl::string_view kNames[] = {"none", "bytes", "f32", "i64", "f64", "i32"};
  return kNames[feature.index()];
}

int64_t FeatureSize(const Feature& feature) {
  return std::visit(
      [](const auto& values) -> int64_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::monostate>) {
          return 0;
        } else {
          return static_cast<int64_t>(values.size());
        }
      },
      feature);
}

absl::StatusOr<Example> ParseExample(Framing framing, absl::string_view record) {
  const int size = static_cast<int>(record.size());
  if (framing == Framing::kTfRecord) {
    tf::Example message;
    if (!message.ParseFromArray(record.data(), size)) {
      return NoMessage("a tf.train.Example", record);
    }
    return TakeAll(message.mutable_features()->mutable_feature());
  }
  oneflow::OFRecord message;
  if (!message.ParseFromArray(record.data(), size)) return NoMessage("an OFRecord", record);
  return TakeAll(message.mutable_feature());
}

absl::StatusOr<std::string> ExampleBytes(Framing framing, const Example& example) {
  if (framing == Framing::kTfRecord) {
    tf::Example message;
    RETURN_IF_ERROR(PutAll(example, message.mutable_features()->mutable_feature()));
    return BytesOf(message);
  }
  oneflow::OFRecord message;
  RETURN_IF_ERROR(PutAll(example, message.mutable_feature()));
  return BytesOf(message);
}

absl::StatusOr<const Feature*> FindFeature(const Example& example, absl::string_view name) {
  const auto found = example.find(std::string(name));
  if (found != example.end()) return &found->second;
  const std::string names =
      absl::StrJoin(example, ", ", [](std::string* to, const auto& entry) { *to += entry.first; });
  return absl::NotFoundError(
      absl::StrCat("expected a feature ", name, ", got ", names.empty() ? "none" : names));
}

absl::StatusOr<const std::string*> FindBytes(const Example& example, absl::string_view name) {
  ASSIGN_OR_RETURN(const Feature* const feature, FindFeature(example, name));
  const auto* values = std::get_if<Bytes>(feature);
  if (values == nullptr || values->size() != 1) return NotOfType(name, "1 of bytes", *feature);
  return &values->front();
}

absl::StatusOr<int64_t> FindInteger(const Example& example, absl::string_view name) {
  ASSIGN_OR_RETURN(const Feature* const feature, FindFeature(example, name));
  if (FeatureSize(*feature) == 1) {
    if (const auto* large = std::get_if<std::vector<int64_t>>(feature)) return large->front();
    if (const auto* small = std::get_if<std::vector<int32_t>>(feature)) return small->front();
  }
  return NotOfType(name, "1 of i64 or i32", *feature);
}

}  // namespace sluice
