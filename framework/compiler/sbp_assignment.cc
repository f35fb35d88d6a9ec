#include "framework/compiler/sbp_assignment.h"

#include "absl/strings/str_cat.h"

namespace sluice {

std::string DescribeSignature(const Grid& grid, int axis, const Signature& signature) {
  return absl::StrCat(grid.axes()[axis].name, ":", ToString(signature));
}

std::string DescribeSignatures(const Choice& choice, const Grid& grid) {
  std::string text;
  for (size_t a = 0; a < choice.signatures.size(); ++a) {
    if (grid.axes()[a].shards == 1) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    DescribeSignature(grid, static_cast<int>(a), choice.signatures[a]));
  }
  return text.empty() ? "B" : text;
}

}  // namespace sluice
