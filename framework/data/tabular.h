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
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/data/file.h"
#include "framework/data/spooled_file.h"

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

// How values of one feature become rows of its table, and how numbers are normalised; of
// tabular.cc.
struct FeatureRows;
struct NumberScale;

// A sample is one row:
//   <table> i32 [features of the table]   a row of it each, by name of the table
//   numbers f32 [numbers]                 in deviations from the mean, at most five; 0: missing
//   label f32 []                          0 or 1
// Where they do not fit into memory samples lie in a file, of which each is read by itself.
class Tabular : public Dataset {
 public:
  ~Tabular() override;
  int64_t num_samples() const override { return samples_.size() / RowBytes(); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

  int64_t ones() const { return ones_; }  // samples with label 1
  absl::StatusOr<std::vector<float>> Labels(absl::Span<const int64_t> samples) const;

 private:
  friend class TabularBuilder;
  Tabular(const TabularSchema& schema, RandomAccessFile samples, int64_t ones);
  int64_t RowBytes() const { return 4 * columns_; }
  // What is kept of values and numbers becomes what a sample has of them, in place.
  void Translate(int field, const Range& range, std::byte* values) const;
  absl::Status Identify(const Stop& stop);

  std::vector<SampleField> fields_;
  std::vector<int64_t> begins_;  // of each field, among the columns
  int64_t columns_ = 0;          // 32 bits each: all fields of a sample, one behind the other
  RandomAccessFile samples_;
  int64_t ones_;
  // By columns of ids; shared by both parts. Of numbers.
  std::shared_ptr<const std::vector<FeatureRows>> rows_;
  std::vector<NumberScale> scales_;
  DataIdentity identity_;
};

// Collects rows, then makes data sets of them. One thread.
class TabularBuilder {
 public:
  // `what` the rows are of, for errors. Samples are kept as the options say.
  TabularBuilder(TabularSchema schema, std::string what, const SpoolOptions& options = {});
  ~TabularBuilder();

  // `values` and `numbers` as the schema has them; a number that is NaN is missing. InvalidArgument
  // where a label is neither 0 nor 1, a number is infinite, which is named, or there are more or
  // fewer of them. ResourceExhausted: there
  // is no room for what is larger than memory.
  absl::Status Add(bool held_out, float label, absl::Span<const uint64_t> values,
                   absl::Span<const float> numbers);

  struct Parts {
    std::unique_ptr<Tabular> training, held_out;
  };
  // InvalidArgument where either part has no row, or labels of one kind only.
  absl::StatusOr<Parts> Build(const Stop& stop = {}) &&;

 private:
  struct Part {
    SpooledFile samples;
    int64_t ones = 0, zeros = 0;
  };
  absl::Status LearnScales(const Tabular& training, const Stop& stop);

  const TabularSchema schema_;
  const std::string what_;
  std::vector<int64_t> order_;     // of features: by table
  std::vector<FeatureRows> rows_;  // of each, in that order
  std::vector<NumberScale> scales_;
  std::vector<char> row_;  // the last that was added, as it is kept
  Part training_, held_out_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TABULAR_H_
