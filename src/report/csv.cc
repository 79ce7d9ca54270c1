// Comma-separated values (RFC 4180): a header with units in its names, then one row each.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "restow/report/table.h"

namespace restow {
namespace {

// Names and values of one row, in order.
using Fields = std::vector<std::pair<std::string, std::string>>;

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

template <class Pick>
std::string Line(const Fields& fields, Pick pick) {
  std::string line;
  for (const auto& field : fields) {
    // By the field's place: a first field that is empty is a field, too.
    if (&field != &fields.front()) line += ',';
    line += Quoted(pick(field));
  }
  return line + "\r\n";
}

std::string Header(const Fields& fields) {
  return Line(fields, [](const auto& field) { return field.first; });
}

std::string Values(const Fields& fields) {
  return Line(fields, [](const auto& field) { return field.second; });
}

void Add(Fields& fields, const std::string& name, std::int64_t value) {
  fields.emplace_back(name, fmt::format("{}", value));
}

void Add(Fields& fields, const std::string& name, double value) {
  fields.emplace_back(name, fmt::format("{}", value));
}

void AddLayout(Fields& fields, const Layout& layout) {
  Add(fields, "tp", std::int64_t{layout.tp});
  fields.emplace_back("sp", layout.sp ? "true" : "false");
  Add(fields, "cp", std::int64_t{layout.cp});
  fields.emplace_back("cp_kind", layout.cp > 1 ? Name(layout.cp_kind) : "");
  Add(fields, "pp", std::int64_t{layout.pp});
  Add(fields, "vpp", std::int64_t{layout.vpp});
  fields.emplace_back("schedule", Name(layout.schedule));
  Add(fields, "ep", std::int64_t{layout.ep});
  Add(fields, "etp", std::int64_t{layout.etp});
  Add(fields, "dp", std::int64_t{layout.dp});
  Add(fields, "zero", std::int64_t{layout.zero});
  Add(fields, "zero_span", std::int64_t{layout.zero_span});
  Add(fields, "micro_batch", std::int64_t{layout.micro_batch});
  Add(fields, "micro_batches", std::int64_t{layout.micro_batches});
  fields.emplace_back("order", Name(layout.order));
}

void AddTerms(Fields& fields, const Candidate& c) {
  for (int i = 0; i < kMemoryTerms; ++i) {
    Add(fields, fmt::format("memory_{}_bytes", Name(static_cast<MemoryTerm>(i))),
        c.memory[static_cast<std::size_t>(i)].value());
  }
  for (int i = 0; i < kTimeTerms; ++i) {
    Add(fields, fmt::format("time_{}_s", Name(static_cast<TimeTerm>(i))),
        c.time[static_cast<std::size_t>(i)].value());
  }
  for (int i = 0; i < kTimeTerms; ++i) {
    Add(fields, fmt::format("hidden_{}_s", Name(static_cast<TimeTerm>(i))),
        c.hidden[static_cast<std::size_t>(i)].value());
  }
}

void AddCandidate(Fields& fields, const Candidate& c) {
  fields.emplace_back("rank", c.rank > 0 ? fmt::format("{}", c.rank) : "");
  AddLayout(fields, c.layout);
  fields.emplace_back("recompute", RecomputeText(c.recompute));
  fields.emplace_back("fits", c.fits ? "true" : "false");
  Add(fields, "step_s", c.step.value());
  Add(fields, "tokens_per_s_per_device", c.tokens_per_s_per_device);
  Add(fields, "mfu_pct", c.mfu);
  Add(fields, "peak_bytes", c.peak.value());
  Add(fields, "peak_reserved_low_bytes", c.reserved_low.value());
  Add(fields, "peak_reserved_high_bytes", c.reserved_high.value());
  Add(fields, "capacity_bytes", c.capacity.value());
  Add(fields, "limit_bytes", c.limit.value());
  Add(fields, "worst_rank", std::int64_t{c.worst_rank});
  Add(fields, "worst_stage", std::int64_t{c.worst_stage});
  fields.emplace_back("worst_phase", Name(c.worst_phase));
  AddTerms(fields, c);
}

Fields CandidateFields(const Candidate& candidate) {
  Fields fields;
  AddCandidate(fields, candidate);
  return fields;
}

Fields LabelledFields(const char* name, const std::string& label, const Candidate& candidate) {
  Fields fields = {{name, label}};
  AddCandidate(fields, candidate);
  return fields;
}

// The header is the same for every row, so that of the first stands for all.
std::string Whole(const std::vector<Fields>& rows, const Fields& shape) {
  std::string text = Header(shape);
  for (const Fields& row : rows) text += Values(row);
  return text;
}

}  // namespace

std::string PlanCsv(const PlanReport& report) {
  std::vector<Fields> rows;
  for (const Candidate& candidate : report.ranked) rows.push_back(CandidateFields(candidate));
  return Whole(rows, CandidateFields(Candidate{}));
}

std::string PriceCsv(const PriceReport& report) {
  const Fields row = CandidateFields(report.candidate);
  return Whole({row}, row);
}

std::string ExplanationCsv(const Explanation& explanation) {
  std::vector<Fields> rows;
  if (explanation.candidate) rows.push_back(LabelledFields("change", "", *explanation.candidate));
  for (const NearestChange& nearest : explanation.nearest) {
    rows.push_back(LabelledFields("change", nearest.change, nearest.candidate));
  }
  return Whole(rows, LabelledFields("change", "", Candidate{}));
}

std::string ComparisonCsv(const Comparison& comparison) {
  const Fields a = LabelledFields("side", "a", comparison.a);
  return Whole({a, LabelledFields("side", "b", comparison.b)}, a);
}

}  // namespace restow
