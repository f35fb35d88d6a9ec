// What a record of a TFRecord or OFRecord file says: named lists of values of one type each. Pure.
#ifndef SLUICE_FRAMEWORK_DATA_EXAMPLE_H_
#define SLUICE_FRAMEWORK_DATA_EXAMPLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/framed_records.h"

namespace sluice {

// The first where a feature is named and has no list.
using Feature = std::variant<std::monostate, std::vector<std::string>, std::vector<float>,
                             std::vector<int64_t>, std::vector<double>, std::vector<int32_t>>;
using Example = std::map<std::string, Feature>;

// "bytes", "f32", "i64", "f64", "i32", or "none".
absl::string_view FeatureTypeName(const Feature& feature);
int64_t FeatureSize(const Feature& feature);  // values of its list

// tf.train.Example in TFRecord files, OFRecord in the others. DataLoss: bytes that are none.
absl::StatusOr<Example> ParseExample(Framing framing, absl::string_view record);
// Features in order of their names. An Example of TensorFlow has neither f64 nor i32: the second
// becomes i64, the first is refused, InvalidArgument.
absl::StatusOr<std::string> ExampleBytes(Framing framing, const Example& example);

// The list of a feature. NotFound says what there is; InvalidArgument, which type it has. i64 is
// found where i32 is asked for, and the other way, by FindInteger alone.
absl::StatusOr<const Feature*> FindFeature(const Example& example, absl::string_view name);
absl::StatusOr<const std::string*> FindBytes(const Example& example, absl::string_view name);
absl::StatusOr<int64_t> FindInteger(const Example& example, absl::string_view name);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_EXAMPLE_H_
