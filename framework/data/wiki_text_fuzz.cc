// A dump of Wikipedia, or the markup of a page.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/base/text.h"
#include "framework/data/wiki_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool text = sluice::IsUtf8(bytes);
  for (const std::string& article : sluice::WikiArticles(bytes)) {
    SLUICE_CHECK(!article.empty() && article.back() == '\n');
  }
  const std::string plain = sluice::WithoutWikiMarkup(bytes);
  // Markup is ASCII: no character is ever cut.
  SLUICE_CHECK(!text || sluice::IsUtf8(plain));
  SLUICE_CHECK_LE(plain.size(), size + 1);
  return 0;
}
