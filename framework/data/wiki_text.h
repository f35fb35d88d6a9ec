// Articles of Wikipedia out of a dump (XML, as enwik8 is one), as plain text. Pure.
#ifndef SLUICE_FRAMEWORK_DATA_WIKI_TEXT_H_
#define SLUICE_FRAMEWORK_DATA_WIKI_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

bool IsWikiDump(absl::string_view bytes);

// The articles of a dump in their order, each without its markup, a paragraph, heading or list item
// a line. Redirects, pages of other kinds (Talk:, Category:, ..) and empty ones are left out; of a
// page that is cut off what is there is taken.
std::vector<std::string> WikiArticles(absl::string_view dump);

// What a reader would see of a page's markup, without templates, tables, references, formulas,
// pictures and links to other languages. Time is linear in its length, whatever it holds.
std::string WithoutWikiMarkup(absl::string_view markup);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_WIKI_TEXT_H_
