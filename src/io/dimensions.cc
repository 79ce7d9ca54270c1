#include "io/dimensions.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/fields.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/base/units.h"
#include "restow/io/read.h"

namespace restow {
namespace {

constexpr int kSchedules = 3;
constexpr int kCpKinds = 2;

// Reads one value, a list of them, or auto. `one` reads a single value; `allowed` describes it.
template <class T, class One>
Dimension<T> ReadValues(const Node& node, const std::string& allowed, One one) {
  Dimension<T> dimension;
  if (node.is_null()) return dimension;
  const std::string expected = fmt::format("allowed: {}, a list of them, or auto", allowed);
  dimension.stated = true;
  dimension.where = node.where;
  const std::vector<Node> elements = Elements(node);
  if (elements.empty()) RefuseValue(node, "an empty list allows nothing; " + expected);
  for (const Node& element : elements) {
    if (IsAuto(element)) {
      if (elements.size() > 1) RefuseValue(node, "auto stands alone; " + expected);
      dimension.automatic = true;
      return dimension;
    }
    const T value = one(element, expected);
    const auto end = dimension.values.end();
    if (std::find(dimension.values.begin(), end, value) == end) dimension.values.push_back(value);
  }
  return dimension;
}

int OneNumber(const Node& node, int low, int high, const std::string& expected) {
  if (!node.is_integer()) RefuseValue(node, expected);
  const std::int64_t value = node.AsInteger();
  if (value < low || value > high) RefuseValue(node, expected);
  return static_cast<int>(value);
}

std::string NumberRange(int low, int high) {
  if (high == kLargestDegree) return "a positive whole number";
  return fmt::format("a whole number from {} to {}", low, high);
}

Axis OneAxis(const std::string& word, const Node& node, const std::string& expected) {
  static const std::vector<std::string> names = {"tp", "cp", "ep", "dp", "pp"};
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) RefuseValue(node, expected);
  return static_cast<Axis>(found - names.begin());
}

RankOrder OneOrder(const Node& node, const std::string& expected) {
  RankOrder order{};
  std::string_view rest;
  const std::string word = WordOf(node);
  rest = word;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t dash = rest.find('-');
    if ((dash == std::string_view::npos) != (i + 1 == order.size())) RefuseValue(node, expected);
    order[i] = OneAxis(std::string(rest.substr(0, dash)), node, expected);
    if (std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), order[i]) !=
        order.begin() + static_cast<std::ptrdiff_t>(i)) {
      RefuseValue(node, expected);
    }
    if (dash != std::string_view::npos) rest.remove_prefix(dash + 1);
  }
  return order;
}

constexpr const char* kOrderAllowed = "tp, cp, ep, dp and pp, each once, joined by '-'";

CpKind ReadCpKind(const Node& node) {
  return static_cast<CpKind>(ReadWord(node, WordsOf<CpKind>(kCpKinds), {"hybrid"}));
}

void ReadGranularity(const Node& node) {
  if (!node.is_null()) ReadWord(node, {"model"}, {"stage", "layer"});
}

bool IsSize(const Node& node) {
  try {
    ParseBytes(node.text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void ReadSwap(const Node& node) {
  if (node.is_null() || WordOf(node) == "off" || (node.is_bool() && !node.AsBool())) return;
  if (IsAuto(node) || (node.is_scalar() && IsSize(node))) {
    ThrowUnsupported(fmt::format("{} is {}, which is not available in this version; allowed: off",
                                 node.path, node.Written()),
                     node.where);
  }
  RefuseValue(node, "allowed: off, auto or a size per device (only off in this version)");
}

// `tp=[2, 4]` is what Python's and JSON's lists look like; brackets around the whole say nothing.
std::string_view WithoutBrackets(std::string_view text) {
  text = Trim(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  return Trim(text);
}

}  // namespace

const std::vector<IntDimension>& IntDimensions() {
  using S = SearchSpace;
  using C = CurrentStrategy;
  static const std::vector<IntDimension> dimensions = {
      {"tp", &S::tp, &C::tp, 1, kLargestDegree},
      {"cp", &S::cp, &C::cp, 1, kLargestDegree},
      {"pp", &S::pp, &C::pp, 1, kLargestDegree},
      {"vpp", &S::vpp, &C::vpp, 1, kLargestDegree},
      {"ep", &S::ep, &C::ep, 1, kLargestDegree},
      {"etp", &S::etp, &C::etp, 1, kLargestDegree},
      {"dp", &S::dp, &C::dp, 1, kLargestDegree},
      {"micro_batch", &S::micro_batch, &C::micro_batch, 1, kLargestDegree},
      {"zero", &S::zero, &C::zero, 0, 3},
      {"zero_span", &S::zero_span, &C::zero_span, 1, kLargestDegree},
  };
  return dimensions;
}

const std::vector<std::string>& DimensionNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const IntDimension& dimension : IntDimensions()) all.emplace_back(dimension.name);
    for (const char* name :
         {"sp", "cp_kind", "schedule", "recompute", "granularity", "swap", "order"}) {
      all.emplace_back(name);
    }
    return all;
  }();
  return names;
}

Schedule ReadSchedule(const Node& node) {
  return static_cast<Schedule>(
      ReadWord(node, WordsOf<Schedule>(kSchedules), {"zb-h1", "zb-v", "dualpipe", "dualpipe-v"}));
}

void ReadDimensionInto(const std::string& name, const Node& node, SearchSpace& space) {
  for (const IntDimension& d : IntDimensions()) {
    if (name != d.name) continue;
    space.*d.search = ReadValues<int>(node, NumberRange(d.low, d.high),
                                      [&d](const Node& one, const std::string& expected) {
                                        return OneNumber(one, d.low, d.high, expected);
                                      });
    return;
  }
  if (name == "sp") {
    space.sp =
        ReadValues<bool>(node, "true or false", [](const Node& one, const std::string& expected) {
          if (!one.is_bool()) RefuseValue(one, expected);
          return one.AsBool();
        });
  } else if (name == "cp_kind") {
    space.cp_kind =
        ReadValues<CpKind>(node, "ring, all-to-all",
                           [](const Node& one, const std::string&) { return ReadCpKind(one); });
  } else if (name == "schedule") {
    space.schedule =
        ReadValues<Schedule>(node, "gpipe, 1f1b, interleaved",
                             [](const Node& one, const std::string&) { return ReadSchedule(one); });
  } else if (name == "order") {
    space.order = ReadValues<RankOrder>(node, kOrderAllowed, OneOrder);
  } else if (name == "recompute") {
    space.recompute = ReadRecomputeDimension(node, node.path);
  } else if (name == "granularity") {
    ReadGranularity(node);
  } else if (name == "swap") {
    ReadSwap(node);
  }
}

void ReadCurrentInto(const std::string& name, const Node& node, CurrentStrategy& current) {
  for (const IntDimension& d : IntDimensions()) {
    if (name != d.name) continue;
    current.*d.current = OneNumber(
        node, d.low, d.high, fmt::format("one value is expected: {}", NumberRange(d.low, d.high)));
    return;
  }
  if (name == "sp") {
    current.sp = node.AsBool();
  } else if (name == "cp_kind") {
    current.cp_kind = ReadCpKind(node);
  } else if (name == "schedule") {
    current.schedule = ReadSchedule(node);
  } else if (name == "order") {
    current.order = OneOrder(node, fmt::format("one order is expected: {}", kOrderAllowed));
  } else if (name == "granularity") {
    ReadGranularity(node);
  } else if (name == "swap") {
    ReadSwap(node);
  }
}

void ApplyDimension(std::string_view argument, SearchSpace& space) {
  const std::size_t equals = argument.find('=');
  const std::string name = Lower(Trim(argument.substr(0, equals)));
  const std::vector<std::string>& names = DimensionNames();
  if (equals == std::string_view::npos) {
    ThrowUsage(fmt::format("argument '{}' is not of the form dimension=value{}", argument,
                           DidYouMean(name, names)));
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    ThrowUsage(fmt::format("argument '{}': '{}' is no dimension{}{} dimensions: {}", argument, name,
                           DidYouMean(name, names), NearestWord(name, names).empty() ? ";" : "",
                           JoinWords(names)));
  }
  Node value;
  value.kind = NodeKind::kScalar;
  value.where = {fmt::format("argument {}", argument), 0, 0};
  value.path = name;
  value.text = WithoutBrackets(argument.substr(equals + 1));
  value.quoted = value.text.empty();
  if (name == "recompute") {
    try {
      space.recompute = ReadRecomputeDimension(argument.substr(equals + 1), name);
      space.recompute.where = value.where;
    } catch (const Error& error) {
      throw Error(error.code(), error.message(), value.where);
    }
    return;
  }
  ReadDimensionInto(name, value, space);
}

}  // namespace restow
