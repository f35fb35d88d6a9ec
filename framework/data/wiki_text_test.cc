#include "framework/data/wiki_text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

TEST(WikiTextTest, ShowsWhatAReaderSees) {
  const struct {
    const char *markup, *text;
  } cases[] = {
      {"'''Bold''' and ''italic'', it's", "Bold and italic, it's\n"},
      {"[[a link]], [[target|seen]]s, [[x|[[y|z]]]]", "a link, seens, z\n"},
      {"see [http://a.b/c?d=e the page] and [http://a.b] it", "see the page and it\n"},
      {"a [not an address] b [0, 1] c ]] d", "a [not an address] b [0, 1] c ]] d\n"},
      {"{{infobox|a={{b|c}}|d}}text{{x}} more", "text more\n"},
      {"[[a|b|c]] {{a}}{|", "c {|\n"},
      {"{|\n|\n{{box\n|x=1\n|}}\ny\n|}\nafter {| it |} b", "after {| it |} b\n"},
      {"a<ref name=y /> b<ref>c</ref>d <refine>e</refine>f<ref>g</ref>h", "a bd efh\n"},
      {"a {{never closed\nb", "a never closed\nb\n"},
      {"before\n{| border=1\n|-\n| cell\n{|\n| inner\n|}\n|}\nafter", "before\nafter\n"},
      {"{{box\n|a={{{1}}}\n|}}b", "b\n"},
      {"[[Image:x.jpg|thumb|a [[link]] in {{it}}]]b[[Category:C]][[de:Anarchie]][[zh-min-nan:X]]",
       "b\n"},
      {"a<ref name=\"x\">[[note]]</ref> b<ref name=y /> c<math>x < y</math>d<refine>e",
       "a b cde\n"},
      {"a<!-- comment\n{{ -->b<br />c <div class='x'>d</div> 1 < 2 > 0", "ab c d 1 < 2 > 0\n"},
      {"a<!-- no end, b<ref>no end", "a<!-- no end, bno end\n"},
      {"== Heading ==\n* item\n*# deeper\n: indented\n----\n\n;term\n|stray\n",
       "Heading\nitem\ndeeper\nindented\nterm\n"},
      {"__NOTOC__a __b__", "a __b__\n"},
      {"a&nbsp;&ndash;&nbsp;b &#945;&#x3b1; &unknown; &#0; &#xd800; &",
       "a – b αα &unknown; &#0; &#xd800; &\n"},
      {"a   b\t c", "a b c\n"},
      {"...\n''''\n", ""},
      {"", ""},
  };
  for (const auto& [markup, text] : cases) EXPECT_EQ(WithoutWikiMarkup(markup), text) << markup;
}

TEST(WikiTextTest, TakesArticlesOutOfADump) {
  const auto page = [](const std::string& title, const std::string& text) {
    return absl::StrCat("<page>\n<title>", title,
                        "</title>\n<revision><text xml:space=\"preserve\">", text,
                        "</text></revision></page>\n");
  };
  const std::string dump = absl::StrCat(
      "<mediawiki xml:lang=\"en\">\n<siteinfo/>\n",
      page("One", "first &quot;[[a|b]]&quot; &amp;alpha; &amp;#945;"),
      page("Two", " #REDIRECT [[One]]"), page("Talk:One", "talk"), page("Empty", "{{stub}}"),
      "<page><title>No text</title></page>", page("Three", "&lt;ref&gt;x&lt;/ref&gt;third"),
      "<page><title>Cut</title><text xml:space=\"preserve\">as far as");
  EXPECT_TRUE(IsWikiDump(dump));
  EXPECT_FALSE(IsWikiDump("text of <mediawiki"));
  EXPECT_THAT(WikiArticles(dump), ElementsAre("first \"b\" &alpha; α\n", "third\n", "as far as\n"));
  EXPECT_THAT(WikiArticles(dump.substr(0, 90)), ElementsAre());
}

// Each of these takes hours where what is open is looked for anew from each place.
TEST(WikiTextTest, TakesLinearTimeWhateverIsThere) {
  for (const std::string piece :
       {"{{", "[[", "[[a|", "<ref>", "<ref ", "<!--", "[http://", "{|\n", "&", "[[a]", "''"}) {
    std::string markup;
    for (int i = 0; i < 400000; ++i) markup += piece;
    EXPECT_LE(WithoutWikiMarkup(markup).size(), markup.size() + 1);
  }
  std::string nested;
  for (int i = 0; i < 400000; ++i) nested += "[[ab ";
  for (int i = 0; i < 400000; ++i) nested += "]]";
  EXPECT_LE(WithoutWikiMarkup(nested).size(), nested.size() + 1);
}

}  // namespace
}  // namespace sluice
