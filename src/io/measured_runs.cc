#include "restow/io/measured_runs.h"

#include <fmt/format.h>

#include <set>

#include "restow/base/text.h"
#include "restow/io/document.h"

namespace restow {
namespace {

struct Cell {
  std::string text;
  SourcePosition where;
};

// Splits text into rows of cells. Positions are those of a cell's first character.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name) : rest_(text), name_(name) {
    if (rest_.substr(0, 3) == "\xEF\xBB\xBF") rest_.remove_prefix(3);
  }

  // False at the end of the text.
  bool Next(std::vector<Cell>* row) {
    row->clear();
    while (!rest_.empty() && (rest_.front() == '\n' || rest_.front() == '\r')) Take();
    if (rest_.empty()) return false;
    while (true) {
      row->push_back(ReadCell());
      if (rest_.empty() || rest_.front() != ',') break;
      Take();
    }
    return true;
  }

 private:
  char Take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    column_ = c == '\n' ? 1 : column_ + 1;
    if (c == '\n') ++line_;
    return c;
  }

  Cell ReadCell() {
    Cell cell{{}, {name_, line_, column_}};
    if (!rest_.empty() && rest_.front() == '"') {
      ReadQuoted(&cell);
    } else {
      while (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n' &&
             rest_.front() != '\r') {
        cell.text += Take();
      }
    }
    cell.text = std::string(Trim(cell.text));
    return cell;
  }

  void ReadQuoted(Cell* cell) {
    Take();
    while (true) {
      if (rest_.empty()) ThrowBadInput("a quote opens here and never closes", cell->where);
      const char c = Take();
      if (c != '"') {
        cell->text += c;
      } else if (!rest_.empty() && rest_.front() == '"') {
        cell->text += Take();
      } else {
        break;
      }
    }
    if (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n' && rest_.front() != '\r') {
      ThrowBadInput("text follows a closing quote; a quote inside quotes is written twice",
                    {name_, line_, column_});
    }
  }

  std::string_view rest_;
  std::string name_;
  int line_ = 1, column_ = 1;
};

std::map<std::string, std::string> ParseSwitches(const Cell& cell) {
  std::map<std::string, std::string> switches;
  std::string_view rest = cell.text;
  while (!rest.empty()) {
    const std::size_t end = rest.find(';');
    const std::string_view part = Trim(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      ThrowBadInput(fmt::format("switches: '{}' is no key=value", part), cell.where);
    }
    switches[Lower(Trim(part.substr(0, equals)))] = std::string(Trim(part.substr(equals + 1)));
  }
  return switches;
}

std::vector<std::string> ReadHeader(const std::vector<Cell>& cells, const std::string& name) {
  std::vector<std::string> columns;
  std::set<std::string> seen;
  for (const Cell& cell : cells) {
    columns.push_back(Lower(cell.text));
    if (!seen.insert(columns.back()).second) {
      ThrowBadInput(fmt::format("the column '{}' stands twice", columns.back()), cell.where);
    }
  }
  if (seen.count("id") == 0) {
    ThrowBadInput(
        "this is no table of measured runs: its first row names no column 'id'; "
        "'restow calibrate --template' prints one",
        {name, 1, 1});
  }
  return columns;
}

}  // namespace

std::vector<MeasuredRun> ParseMeasuredRuns(std::string_view text, const std::string& name) {
  CsvReader reader(text, name);
  std::vector<Cell> cells;
  if (!reader.Next(&cells)) ThrowBadInput("the table is empty", {name, 0, 0});
  const std::vector<std::string> columns = ReadHeader(cells, name);
  std::vector<MeasuredRun> runs;
  std::set<std::string> ids;
  while (reader.Next(&cells)) {
    if (cells.size() != columns.size()) {
      ThrowBadInput(fmt::format("this row has {} cells; the header names {} columns", cells.size(),
                                columns.size()),
                    cells.front().where);
    }
    MeasuredRun run;
    run.where = cells.front().where;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == "switches") run.switches = ParseSwitches(cells[i]);
      run.fields[columns[i]] = cells[i].text;
    }
    run.id = run.at("id");
    if (run.id.empty()) ThrowBadInput("a run without an id", run.where);
    if (!ids.insert(run.id).second) {
      ThrowBadInput(fmt::format("the id '{}' stands twice", run.id), run.where);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MeasuredRun> ReadMeasuredRuns(const std::string& path) {
  return ParseMeasuredRuns(ReadFileText(path), path == "-" ? "<stdin>" : path);
}

const std::vector<std::string>& MeasuredRunColumns() {
  static const std::vector<std::string> columns = {"id",
                                                   "source",
                                                   "hardware",
                                                   "n_gpus",
                                                   "model_name",
                                                   "layers",
                                                   "hidden",
                                                   "ffn_hidden",
                                                   "heads",
                                                   "kv_heads",
                                                   "head_dim",
                                                   "vocab",
                                                   "n_experts",
                                                   "topk",
                                                   "moe_ffn",
                                                   "shared_experts",
                                                   "first_k_dense",
                                                   "mla",
                                                   "gated_mlp",
                                                   "tied_embed",
                                                   "seq_len",
                                                   "global_batch",
                                                   "micro_batch",
                                                   "dp",
                                                   "zero_stage_or_fsdp",
                                                   "tp",
                                                   "sp",
                                                   "cp",
                                                   "ep",
                                                   "pp",
                                                   "vpp",
                                                   "schedule",
                                                   "recompute",
                                                   "precision",
                                                   "measured_iter_time_s",
                                                   "measured_peak_mem_gib",
                                                   "oom",
                                                   "confidence",
                                                   "mem_metric",
                                                   "framework",
                                                   "release",
                                                   "switches"};
  return columns;
}

}  // namespace restow
