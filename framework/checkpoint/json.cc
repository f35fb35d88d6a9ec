#include "framework/checkpoint/json.h"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

// Copying and printing JSON recurse, so that a file of brackets alone would overflow the stack.
constexpr size_t kMostLevels = 16;

// The parser's own callback could look as well, while it builds, but after every object it walks
// all that the parent has so far, which is quadratic.
class StrictReader : public nlohmann::json_sax<Json> {
 public:
  bool is_object() const { return is_object_; }
  const std::string& twice() const { return twice_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override {
    is_object_ = is_object_ || keys_.empty();
    return Enter();
  }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    twice_ = key;
    return false;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool Enter() {
    keys_.emplace_back();
    return keys_.size() <= kMostLevels;
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;  // by level, of the object that is open there
  bool is_object_ = false;
  std::string twice_;
};

}  // namespace

absl::Status CheckJsonObject(absl::string_view text, absl::string_view file) {
  StrictReader reader;
  // The parser takes a NUL for the end of the text.
  const bool sound = !absl::StrContains(text, '\0') &&
                     Json::sax_parse(text.begin(), text.end(), &reader) && reader.is_object();
  if (sound) return absl::OkStatus();
  if (!reader.twice().empty()) {
    return absl::DataLossError(
        absl::StrCat(file, ": expected each key once, got ", reader.twice(), " twice"));
  }
  return absl::DataLossError(absl::StrCat(file, ": expected a JSON object of at most ", kMostLevels,
                                          " levels, got ", text.size(), " bytes that are none"));
}

}  // namespace sluice
