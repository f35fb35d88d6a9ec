#include "framework/attributes/attributes.h"

#include <cmath>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/text.h"

namespace sluice {
namespace {

constexpr absl::string_view kNameCharacters = "./-";

// ---- one overload a field type ----

std::string Print(bool value) { return value ? "true" : "false"; }
std::string Print(int64_t value) { return absl::StrCat(value); }
std::string Print(double value) { return std::isnan(value) ? "nan" : NumberText(value); }
std::string Print(const std::vector<double>& value) {
  return absl::StrCat(
      "[",
      absl::StrJoin(value, ",", [](std::string* out, double number) { *out += Print(number); }),
      "]");
}
std::string Print(const Shape& value) { return value.ToString(); }
std::string Print(DType value) { return std::string(DTypeName(value)); }
std::string Print(Reduction value) { return std::string(ReductionName(value)); }
std::string Print(const std::string& value) {
  TextScanner scanner(value, "", kNameCharacters);
  const bool is_name =
      scanner.Peek().kind == TextScanner::Kind::kIdentifier && scanner.Peek().text == value;
  return is_name ? value : Quoted(value);
}

absl::Status Parse(TextScanner& scanner, bool* value) {
  *value = scanner.Accept("true");
  if (*value || scanner.Accept("false")) return absl::OkStatus();
  return scanner.Error(absl::StrCat("expected true or false, got ", Quoted(scanner.Peek().text)));
}
absl::Status Parse(TextScanner& scanner, int64_t* value) {
  ASSIGN_OR_RETURN(*value, scanner.Integer("an integer"));
  return absl::OkStatus();
}
absl::Status Parse(TextScanner& scanner, double* value) {
  ASSIGN_OR_RETURN(*value, scanner.Number("a number"));
  return absl::OkStatus();
}
absl::Status Parse(TextScanner& scanner, std::string* value) {
  const bool quoted = scanner.Peek().kind == TextScanner::Kind::kString;
  ASSIGN_OR_RETURN(*value, quoted ? scanner.String("a text") : scanner.Identifier("a text"));
  return absl::OkStatus();
}
absl::Status Parse(TextScanner& scanner, Shape* value) {
  RETURN_IF_ERROR(scanner.Expect("["));
  *value = Shape();
  if (scanner.Accept("]")) return absl::OkStatus();
  int64_t most = int64_t{1} << 48;  // elements left for the extents to come: counts fit in 64 bits
  do {
    const TextScanner::Token token = scanner.Peek();
    ASSIGN_OR_RETURN(const int64_t extent, scanner.Integer("an extent"));
    if (extent > most || extent < -most) return scanner.ErrorAt(token, "expected a smaller extent");
    if (extent != 0) most /= std::abs(extent);
    value->Append(extent);
  } while (scanner.Accept(","));
  return scanner.Expect("]");
}
absl::Status Parse(TextScanner& scanner, std::vector<double>* value) {
  RETURN_IF_ERROR(scanner.Expect("["));
  value->clear();
  if (scanner.Accept("]")) return absl::OkStatus();
  do {
    ASSIGN_OR_RETURN(value->emplace_back(), scanner.Number("a number"));
  } while (scanner.Accept(","));
  return scanner.Expect("]");
}
absl::Status Parse(TextScanner& scanner, DType* value) {
  const TextScanner::Token token = scanner.Peek();
  ASSIGN_OR_RETURN(const std::string name, scanner.Identifier("an element type"));
  const absl::StatusOr<DType> dtype = ParseDType(name);
  if (!dtype.ok()) return scanner.ErrorAt(token, dtype.status().message());
  *value = *dtype;
  return absl::OkStatus();
}
absl::Status Parse(TextScanner& scanner, Reduction* value) {
  for (Reduction r : {Reduction::kNone, Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    if (!scanner.Accept(ReductionName(r))) continue;
    *value = r;
    return absl::OkStatus();
  }
  return scanner.Error(
      absl::StrCat("expected none, sum, max or min, got ", Quoted(scanner.Peek().text)));
}

// ---- visitors ----

struct FieldPrinter {
  std::vector<std::string> names, values;
  template <typename T>
  void operator()(const char* name, const T& value) {
    names.push_back(name);
    values.push_back(Print(value));
  }
};

// Reads the value of the one field that is called `wanted`.
struct FieldReader {
  const std::string& wanted;
  TextScanner& scanner;
  bool found = false;
  absl::Status status;
  template <typename T>
  void operator()(const char* name, T& value) {
    if (wanted != name) return;
    found = true;
    status = AddContext(Parse(scanner, &value), wanted);
  }
};

template <typename T>
FieldPrinter FieldsOf(T attributes) {
  FieldPrinter printer;
  attributes.Visit(printer);
  return printer;
}

absl::Status UnknownField(const TextScanner& scanner, const TextScanner::Token& at,
                          const std::vector<std::string>& known) {
  const std::string list =
      known.empty() ? "takes none" : absl::StrCat("takes ", absl::StrJoin(known, ", "));
  return scanner.ErrorAt(at, absl::StrCat("there is no attribute ", Quoted(at.text), " here, it ",
                                          list, DidYouMean(at.text, known)));
}

template <typename T>
absl::Status ParseInto(absl::string_view text, T* attributes) {
  TextScanner scanner(text, "attributes", kNameCharacters);
  T parsed = *attributes;
  std::vector<std::string> seen;
  while (!scanner.AtEnd()) {
    const TextScanner::Token at = scanner.Peek();
    ASSIGN_OR_RETURN(const std::string name, scanner.Identifier("the name of an attribute"));
    for (const std::string& earlier : seen) {
      if (earlier == name) return scanner.ErrorAt(at, absl::StrCat(name, " is given twice"));
    }
    seen.push_back(name);
    RETURN_IF_ERROR(scanner.Expect("="));
    FieldReader reader{name, scanner, false, absl::OkStatus()};
    parsed.Visit(reader);
    if (!reader.found) return UnknownField(scanner, at, FieldsOf(parsed).names);
    RETURN_IF_ERROR(reader.status);
  }
  *attributes = parsed;
  return absl::OkStatus();
}

}  // namespace

std::string PrintAttributes(const Attributes& attributes) {
  return std::visit(
      [](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        const FieldPrinter fields = FieldsOf(held), defaults = FieldsOf(T());
        std::vector<std::string> words;
        for (size_t i = 0; i < fields.names.size(); ++i) {
          if (fields.values[i] == defaults.values[i]) continue;
          words.push_back(absl::StrCat(fields.names[i], "=", fields.values[i]));
        }
        return absl::StrJoin(words, " ");
      },
      attributes);
}

absl::Status ParseAttributesInto(absl::string_view text, Attributes* attributes) {
  return std::visit([text](auto& held) { return ParseInto(text, &held); }, *attributes);
}

int64_t* RandomKeyOf(Attributes* attributes) {
  return std::visit(
      [](auto& held) -> int64_t* {
        if constexpr (std::is_same_v<decltype(held), AttentionAttributes&>) {
          return held.rate == 0 ? nullptr : &held.key;
        } else if constexpr (requires { held.key; }) {
          return &held.key;
        } else {
          return nullptr;
        }
      },
      *attributes);
}

}  // namespace sluice
