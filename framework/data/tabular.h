// Rows of a table with a label, as click models learn from them: categorical values become rows of
// embedding tables, numbers are normalised. What is learned of the values, vocabularies, means and
// deviations, is learned of the training part alone. Any thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_TABULAR_H_
#define SLUICE_FRAMEWORK_DATA_TABULAR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/dataset.h"

namespace sluice {

// A categorical feature, and the rows that it has of a table: those behind the rows of the features
// named before it in that table, so that one lookup serves all of them.
struct CategoricalFeature {
  std::string name, table;
  int64_t rows = 2;
  // A row by hash, which values may share. Else by vocabulary: the first row is for values that
  // have none of their own, the others are the most frequent ones of the training part, seen there
  // at least `least` times.
  bool hashed = false;
  int64_t least = 1;
};

struct TabularSchema {
  std::vector<CategoricalFeature> features;
  std::vector<std::string> numbers = {};
};
// The rows and the features of a table.
int64_t RowsOf(const TabularSchema& schema, absl::string_view table);
int64_t FeaturesOf(const TabularSchema& schema, absl::string_view table);

// What stands for a value of a feature, and for several values together: a cross.
uint64_t CategoricalValue(absl::string_view text);
uint64_t CrossedValue(absl::Span<const uint64_t> values);

// A sample is one row:
//   <table> i32 [features of the table]   a row of it each, by name of the table
//   numbers f32 [numbers]                 in deviations from the mean, at most five; 0: missing
//   label f32 []                          0 or 1
class Tabular : public Dataset {
 public:
  int64_t num_samples() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

  absl::Span<const float> labels() const { return labels_; }
  // Of a sample: the rows that its features have of a table, by the place of the field.
  absl::Span<const int32_t> ids(int field, int64_t sample) const;

 private:
  friend class TabularBuilder;
  Tabular() = default;

  std::vector<SampleField> fields_;
  std::vector<std::vector<int32_t>> ids_;  // of each table, sample by sample
  std::vector<float> numbers_, labels_;
  DataIdentity identity_;
};

// What values and numbers become; of tabular.cc.
struct FeatureRows;
struct NumberScale;

// Collects rows, then makes data sets of them. One thread.
class TabularBuilder {
 public:
  explicit TabularBuilder(TabularSchema schema);

  // `values` and `numbers` as the schema has them; a number that is NaN is missing. InvalidArgument
  // where a label is neither 0 nor 1, or there are more or fewer of them.
  absl::Status Add(bool held_out, float label, absl::Span<const uint64_t> values,
                   absl::Span<const float> numbers);

  struct Parts {
    std::unique_ptr<Tabular> training, held_out;
    std::vector<int64_t> distinct;  // values of each feature in the training part
  };
  // InvalidArgument where either part has no row, or labels of one kind only.
  absl::StatusOr<Parts> Build(absl::string_view what) &&;

 private:
  struct Part {
    std::vector<uint64_t> values;
    std::vector<float> numbers, labels;
  };
  std::unique_ptr<Tabular> Encode(Part part, absl::Span<const FeatureRows> rows,
                                  absl::Span<const NumberScale> scales) const;

  const TabularSchema schema_;
  Part training_, held_out_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TABULAR_H_
