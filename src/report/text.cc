#include "report/text.h"

#include <algorithm>
#include <utility>

namespace restow::report {
namespace {

constexpr std::string_view kGap = "  ";

const char* Code(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kBold:
      return "\x1b[1m";
    case Ink::kDim:
      return "\x1b[2m";
    case Ink::kGood:
      return "\x1b[1;32m";
    case Ink::kWarn:
      return "\x1b[33m";
    case Ink::kBad:
      return "\x1b[1;31m";
  }
  return "";
}

// Bytes that continue a character of UTF-8 take no column.
bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The bytes of the first `width` characters.
std::size_t Prefix(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  for (std::size_t taken = 0; at < text.size() && taken < width; ++taken) {
    ++at;
    while (at < text.size() && Continues(text[at])) ++at;
  }
  return at;
}

std::string TrimRight(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<std::string> Lines(const std::string& block) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < block.size();) {
    const std::size_t end = std::min(block.find('\n', at), block.size());
    lines.push_back(block.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Columns that colour codes take in memory but not on the screen.
std::size_t VisibleWidth(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && line[i] != 'm') ++i;
      continue;
    }
    plain += line[i];
  }
  return Width(plain);
}

std::size_t WidestLine(const std::vector<std::string>& lines) {
  std::size_t width = 0;
  for (const std::string& line : lines) width = std::max(width, VisibleWidth(line));
  return width;
}

std::vector<std::size_t> ColumnWidths(const TableStyle& style, const std::vector<Column>& columns,
                                      const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  std::size_t total = kGap.size() * (columns.size() - 1);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::size_t width = std::max(Width(columns[c].title), Width(columns[c].unit));
    for (const Row& row : rows) width = std::max(width, Width(row.cells[c]));
    widths.push_back(width);
    total += width;
  }
  const std::size_t limit = static_cast<std::size_t>(style.width);
  for (std::size_t c = 0; c < columns.size() && total > limit; ++c) {
    if (!columns[c].stretch) continue;
    const std::size_t least = Width(columns[c].title);
    const std::size_t excess = total - limit;
    widths[c] = widths[c] > excess + least ? widths[c] - excess : least;
  }
  return widths;
}

std::string Line(const std::vector<Column>& columns, const std::vector<std::size_t>& widths,
                 const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (c > 0) line += kGap;
    line +=
        columns[c].align == Align::kLeft ? Left(cells[c], widths[c]) : Right(cells[c], widths[c]);
  }
  return TrimRight(line);
}

// The row's lines: the stretching cell's first line stands with the others, the rest below it.
std::vector<std::string> RowLines(const std::vector<Column>& columns,
                                  const std::vector<std::size_t>& widths, const Row& row) {
  std::vector<std::string> cells = row.cells;
  std::vector<std::string> wrapped;
  std::size_t stretch = 0;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (!columns[c].stretch) continue;
    stretch = c;
    wrapped = Wrap(cells[c], widths[c]);
    cells[c] = wrapped.empty() ? "" : wrapped.front();
  }
  std::vector<std::string> lines = {Line(columns, widths, cells)};
  for (std::size_t i = 1; i < wrapped.size(); ++i) {
    std::vector<std::string> rest(columns.size());
    rest[stretch] = wrapped[i];
    lines.push_back(Line(columns, widths, rest));
  }
  return lines;
}

}  // namespace

std::string Paint(const TableStyle& style, Ink ink, std::string_view text) {
  if (!style.color || ink == Ink::kPlain || text.empty()) return std::string(text);
  return std::string(Code(ink)).append(text).append("\x1b[0m");
}

std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

std::string Left(std::string_view text, std::size_t width) {
  const std::size_t own = Width(text);
  return std::string(text) + std::string(own < width ? width - own : 0, ' ');
}

std::string Right(std::string_view text, std::size_t width) {
  const std::size_t own = Width(text);
  return std::string(own < width ? width - own : 0, ' ') + std::string(text);
}

std::vector<std::string> Wrap(std::string_view text, std::size_t width) {
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!line.empty() && Width(line) + 1 + Width(word) > width) {
      lines.push_back(line);
      line.clear();
    }
    while (Width(word) > width) {
      const std::size_t cut = Prefix(word, width);
      lines.emplace_back(word.substr(0, cut));
      word.remove_prefix(cut);
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string Note(const TableStyle& style, std::string_view label, std::string_view text,
                 std::size_t label_width) {
  const std::size_t width = static_cast<std::size_t>(style.width) - label_width;
  std::string note;
  for (const std::string& line : Wrap(text, width)) {
    note += note.empty() ? Paint(style, Ink::kBold, Left(label, label_width))
                         : std::string(label_width, ' ');
    note += line + "\n";
  }
  return note;
}

std::string DrawTable(const TableStyle& style, const std::vector<Column>& columns,
                      const std::vector<Row>& rows) {
  const std::vector<std::size_t> widths = ColumnWidths(style, columns, rows);
  std::vector<std::string> titles, units;
  std::size_t total = kGap.size() * (columns.size() - 1);
  bool any_unit = false;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    titles.push_back(columns[c].title);
    units.push_back(columns[c].unit);
    any_unit = any_unit || !columns[c].unit.empty();
    total += widths[c];
  }
  std::string table = Paint(style, Ink::kBold, Line(columns, widths, titles)) + "\n";
  if (any_unit) table += Paint(style, Ink::kDim, Line(columns, widths, units)) + "\n";
  table += Paint(style, Ink::kDim, std::string(total, '-')) + "\n";
  for (const Row& row : rows) {
    for (const std::string& line : RowLines(columns, widths, row)) {
      table += Paint(style, row.ink, line) + "\n";
    }
    if (row.below.empty()) continue;
    for (const std::string& line : Wrap(row.below, static_cast<std::size_t>(style.width) - 7)) {
      table += "       " + line + "\n";
    }
  }
  return table;
}

std::string Beside(const std::string& left, const std::string& right, std::size_t gap,
                   const TableStyle& style) {
  const std::vector<std::string> a = Lines(left), b = Lines(right);
  const std::size_t column = WidestLine(a) + gap;
  if (column + WidestLine(b) > static_cast<std::size_t>(style.width)) return left + "\n" + right;
  std::string joined;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string first = i < a.size() ? a[i] : "";
    const std::string second = i < b.size() ? b[i] : "";
    std::string line = first;
    line.append(column - VisibleWidth(first), ' ').append(second);
    joined.append(TrimRight(std::move(line))).append("\n");
  }
  return joined;
}

}  // namespace restow::report
