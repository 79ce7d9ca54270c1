// Text building for terminals: padding, wrapping, colour and small tables. Private to src/report.
// Widths are counted in characters of UTF-8 text; colour takes no width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "restow/report/table.h"

namespace restow::report {

enum class Ink { kPlain, kBold, kDim, kGood, kWarn, kBad };

// `text` in a colour where the style has colour, else as it is.
std::string Paint(const TableStyle& style, Ink ink, std::string_view text);

std::size_t Width(std::string_view text);
std::string Left(std::string_view text, std::size_t width);   // padded on the right
std::string Right(std::string_view text, std::size_t width);  // padded on the left

// Words of `text` in lines of at most `width` characters; a longer word stands alone, cut hard.
std::vector<std::string> Wrap(std::string_view text, std::size_t width);

// "label     text, wrapped under itself" with the label in `label_width` columns, newline-ended.
std::string Note(const TableStyle& style, std::string_view label, std::string_view text,
                 std::size_t label_width = 10);

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  std::string unit;  // second heading line
  Align align = Align::kRight;
  bool stretch = false;  // takes what is left of the width and wraps; at most one column
};

struct Row {
  std::vector<std::string> cells;
  Ink ink = Ink::kPlain;
  std::string below{};  // a further line under the row, across all columns; may be empty
};

// A table that is never wider than the style: the stretching column wraps.
std::string DrawTable(const TableStyle& style, const std::vector<Column>& columns,
                      const std::vector<Row>& rows);

// Two blocks of lines beside one another where both fit the width, else one under the other.
std::string Beside(const std::string& left, const std::string& right, std::size_t gap,
                   const TableStyle& style);

}  // namespace restow::report
