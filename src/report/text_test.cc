#include "report/text.h"

#include <gmock/gmock.h>

namespace restow::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const TableStyle kPlainStyle;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(Text, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(Width("abc"), 3u);
  EXPECT_EQ(Width("\xC3\xA9t\xC3\xA9"), 3u);  // "été"
}

TEST(Text, PaddingFillsToTheWidthAndNeverCuts) {
  EXPECT_EQ(Left("ab", 4), "ab  ");
  EXPECT_EQ(Right("ab", 4), "  ab");
  EXPECT_EQ(Right("abcdef", 4), "abcdef");
}

TEST(Text, WrapBreaksBetweenWordsAndCutsOnlyWordsThatAreTooLong) {
  EXPECT_THAT(Wrap("aa bb cc", 5), ElementsAre("aa bb", "cc"));
  EXPECT_THAT(Wrap("abcdefgh i", 3), ElementsAre("abc", "def", "gh", "i"));
  EXPECT_THAT(Wrap("", 5), ElementsAre());
}

TEST(Text, NotesHangUnderTheirText) {
  TableStyle narrow;
  narrow.width = 16;
  EXPECT_EQ(Note(narrow, "label", "one two three"),
            "label     one\n          two\n          three\n");
  EXPECT_EQ(Note(narrow, "label", ""), "");
}

TEST(Text, TablesNeverExceedTheirWidthWhenAColumnStretches) {
  TableStyle style;
  style.width = 30;
  const std::vector<Column> columns = {{"layout", "", Align::kLeft, true},
                                       {"step", "s", Align::kRight, false}};
  const std::string table = DrawTable(
      style, columns, {{{"tp8 sp pp4 vpp5 ep32 dp2 zero1 mb1", "12.30"}, Ink::kPlain, ""}});
  for (const std::string& line : LinesOf(table)) EXPECT_LE(Width(line), 30u) << line;
  // Nothing is lost by wrapping, and the number stands on the first line of its row.
  EXPECT_THAT(LinesOf(table),
              ElementsAre("layout                    step", "                             s",
                          "------------------------------", "tp8 sp pp4 vpp5 ep32     12.30",
                          "dp2 zero1 mb1"));
}

TEST(Text, ColourTakesNoWidthAndIsOnlyUsedWhenAsked) {
  const std::vector<Column> columns = {{"a", "", Align::kLeft, false}};
  const std::vector<Row> rows = {{{"value"}, Ink::kGood, ""}};
  EXPECT_THAT(DrawTable(kPlainStyle, columns, rows), Not(HasSubstr("\x1b")));
  TableStyle color;
  color.color = true;
  EXPECT_THAT(DrawTable(color, columns, rows), HasSubstr("\x1b[1;32mvalue\x1b[0m"));
}

TEST(Text, BlocksStandBesideOneAnotherWhereTheyFit) {
  EXPECT_EQ(Beside("a\nbbb\n", "c\n", 2, kPlainStyle), "a    c\nbbb\n");
  TableStyle narrow;
  narrow.width = 5;
  EXPECT_EQ(Beside("aaa\n", "ccc\n", 2, narrow), "aaa\n\nccc\n");
}

}  // namespace
}  // namespace restow::report
