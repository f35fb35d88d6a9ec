// Reading what statements of a plan's text are made of: lists, shards, named fields. Internal to
// plan/text. A scanner is used by one parser.
#ifndef SLUICE_FRAMEWORK_PLAN_TEXT_FIELDS_H_
#define SLUICE_FRAMEWORK_PLAN_TEXT_FIELDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/text_names.h"

namespace sluice::plan_text {

class FieldScanner {
 protected:
  using Kind = TextScanner::Kind;
  using Longs = google::protobuf::RepeatedField<int64_t>;

  FieldScanner(absl::string_view text, absl::string_view name)
      : scanner_(text, name, kIdentifierExtra) {}

  // Does this field of the statement follow, on the same line?
  bool More(absl::string_view field) {
    return !scanner_.Peek().first_on_line && scanner_.Accept(field);
  }
  bool LineGoesOn() const {
    return !scanner_.AtEnd() && !scanner_.Peek().first_on_line && !scanner_.At(";");
  }

  template <typename T>
  absl::Status Number(absl::string_view what, T* out) {
    ASSIGN_OR_RETURN(const int64_t value, scanner_.Integer(what));
    *out = static_cast<T>(value);
    return {};
  }
  // Reads the fields of a statement, in any order, up to the end of the line.
  struct Field {
    absl::string_view name;
    std::function<absl::Status()> read;
  };
  absl::Status Fields(const std::vector<Field>& fields);
  // A field that is a number or a text of the message.
  template <typename Message, typename T>
  Field Of(absl::string_view name, Message* message, void (Message::*set)(T)) {
    return {name, [=, this]() -> absl::Status {
              int64_t value = 0;
              RETURN_IF_ERROR(Number(absl::StrCat("a number after ", name), &value));
              (message->*set)(static_cast<T>(value));
              return {};
            }};
  }
  Field Text(absl::string_view name, std::string* out) {
    return {name, [=, this] { return NameTo(name, out); }};
  }
  Field Lists(absl::string_view name, Longs* out) {
    return {name, [=, this] { return List(out); }};
  }
  Field Does(absl::string_view name, std::function<absl::Status()> read) {
    return {name, std::move(read)};
  }
  absl::Status NameTo(absl::string_view what, std::string* out) {
    ASSIGN_OR_RETURN(*out, Name(what));
    return {};
  }

  absl::StatusOr<std::string> Name(absl::string_view what) {
    if (scanner_.Peek().kind == Kind::kString) return scanner_.String(what);
    return scanner_.Identifier(what);
  }

  template <typename Values>
  absl::Status List(Values* out) {
    RETURN_IF_ERROR(scanner_.Expect("["));
    while (!scanner_.Accept("]")) {
      if (!out->empty()) RETURN_IF_ERROR(scanner_.Expect(","));
      int64_t value = 0;
      RETURN_IF_ERROR(Number("a number", &value));
      out->Add(value);
    }
    return {};
  }

  absl::Status DTypeWord(int32_t* out);

  absl::Status ReductionWord(int32_t* out);

  absl::Status Shard(plan::Shard* shard);

  TextScanner scanner_;
};

}  // namespace sluice::plan_text

#endif  // SLUICE_FRAMEWORK_PLAN_TEXT_FIELDS_H_
