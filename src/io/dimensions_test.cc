#include "io/dimensions.h"

#include <gmock/gmock.h>

#include "io/test_jobs.h"

namespace restow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SearchSpace Apply(const std::string& argument) {
  SearchSpace space;
  ApplyDimension(argument, space);
  return space;
}

std::string ArgumentFault(const std::string& argument, ErrorCode code = ErrorCode::kBadInput) {
  const Fault fault = FaultOf([&] { Apply(argument); });
  EXPECT_EQ(fault.code, code) << fault.what;
  return fault.what;
}

Job Search(const std::string& search) { return ReadText(JobText("search: {" + search + "}\n")); }
std::string SearchFault(const std::string& search) {
  return BadInput(JobText("search: {" + search + "}\n"));
}

TEST(Dimensions, AreOneValueAListOrAutoInFiles) {
  const SearchSpace one = Search("tp: 2").search;
  EXPECT_TRUE(one.tp.one_value());
  EXPECT_THAT(one.tp.values, ElementsAre(2));
  EXPECT_EQ(ToString(one.tp.where), "job:4:14");
  EXPECT_THAT(Search("tp: [4, 2, 4]").search.tp.values, ElementsAre(4, 2));
  EXPECT_THAT(Search("tp: \"2,4\"").search.tp.values, ElementsAre(2, 4));
  const SearchSpace any = Search("tp: auto, pp: [auto]").search;
  EXPECT_TRUE(any.tp.stated && any.tp.automatic && any.tp.values.empty());
  EXPECT_TRUE(any.pp.automatic);
  EXPECT_FALSE(any.cp.stated);
  EXPECT_FALSE(Search("tp: null").search.tp.stated);
}

TEST(Dimensions, AreOneValueAListOrAutoInArguments) {
  EXPECT_THAT(Apply("tp=2,4,8").tp.values, ElementsAre(2, 4, 8));
  EXPECT_THAT(Apply("tp=[4, 8]").tp.values, ElementsAre(4, 8));
  EXPECT_THAT(Apply(" micro_batch = 1 ").micro_batch.values, ElementsAre(1));
  EXPECT_TRUE(Apply("dp=auto").dp.automatic);
  EXPECT_THAT(Apply("sp=true").sp.values, ElementsAre(true));
  EXPECT_THAT(Apply("sp=false,true").sp.values, ElementsAre(false, true));
  EXPECT_THAT(Apply("zero=0,3").zero.values, ElementsAre(0, 3));
  EXPECT_THAT(Apply("cp_kind=ring,all-to-all").cp_kind.values,
              ElementsAre(CpKind::kRing, CpKind::kAllToAll));
  EXPECT_THAT(Apply("schedule=1f1b,interleaved").schedule.values,
              ElementsAre(Schedule::k1F1B, Schedule::kInterleaved));
  EXPECT_THAT(Apply("order=tp-ep-cp-dp-pp").order.values,
              ElementsAre(RankOrder{Axis::kTp, Axis::kEp, Axis::kCp, Axis::kDp, Axis::kPp}));
}

TEST(Dimensions, AnArgumentReplacesWhatTheFileSays) {
  ReadOptions options;
  options.dimensions = {"tp=8"};
  const Job job = ReadText(JobText("search: {tp: [1, 2], pp: 2}\n"), options);
  EXPECT_THAT(job.search.tp.values, ElementsAre(8));
  EXPECT_THAT(job.search.pp.values, ElementsAre(2));
}

TEST(Dimensions, WrongValuesAreRefusedWhereTheyStand) {
  EXPECT_EQ(
      SearchFault("tp: [2, 0]"),
      "job:4:18: search.tp[1] is 0; allowed: a positive whole number, a list of them, or auto");
  for (const char* value : {"-1", "2.5", "x", "\"2\"", "[]", "[2, null]", "{a: 1}", "[[2]]", "true",
                            "1048577", "99999999999999999999", "[auto, 2]", "\"\"", ".nan"}) {
    EXPECT_THAT(SearchFault("tp: " + std::string(value)),
                HasSubstr("allowed: a positive whole number, a list of them, or auto"))
        << value;
  }
  EXPECT_EQ(ArgumentFault("tp=2,x"),
            "argument tp=2,x: tp is x; allowed: a positive whole number, a list of them, or auto");
  EXPECT_THAT(ArgumentFault("tp="), HasSubstr("tp is \"\"; allowed"));
  EXPECT_THAT(ArgumentFault("tp=2,"), HasSubstr("tp is \"\"; allowed"));
  EXPECT_THAT(ArgumentFault("tp=[]"), HasSubstr("allowed"));
  EXPECT_THAT(ArgumentFault("zero=4"), HasSubstr("zero is 4; allowed: a whole number from 0 to 3"));
  EXPECT_THAT(ArgumentFault("zero_span=0"), HasSubstr("a positive whole number"));
  EXPECT_THAT(ArgumentFault("sp=2"), HasSubstr("sp is 2; allowed: true or false"));
  EXPECT_THAT(ArgumentFault("order=tp-cp-ep-dp"), HasSubstr("each once, joined by '-'"));
  EXPECT_THAT(ArgumentFault("order=tp-tp-ep-dp-pp"), HasSubstr("each once"));
  EXPECT_THAT(ArgumentFault("order=tp-cp-ep-dp-pp-tp"), HasSubstr("each once"));
  EXPECT_THAT(ArgumentFault("schedule=1f1"), HasSubstr("did you mean '1f1b'?"));
}

TEST(Dimensions, UnknownOnesAreAUsageErrorInArgumentsAndBadInputInFiles) {
  const std::string what = ArgumentFault("tpp=2", ErrorCode::kUsage);
  EXPECT_THAT(what, HasSubstr("argument 'tpp=2': 'tpp' is no dimension; did you mean 'tp'?"));
  EXPECT_THAT(ArgumentFault("tp", ErrorCode::kUsage), HasSubstr("not of the form dimension=value"));
  EXPECT_THAT(SearchFault("tpp: 2"),
              HasSubstr("job:4:10: unknown key 'tpp' in search; did you mean "
                        "'tp'?"));
}

TEST(Dimensions, OneGivenTwiceOnTheCommandLineIsAUsageError) {
  ReadOptions options;
  options.dimensions = {"tp=2", "tp=4"};
  const Fault fault = JobFault(JobText(), options);
  EXPECT_EQ(fault.code, ErrorCode::kUsage);
  EXPECT_EQ(fault.what, "'tp' is given twice");
}

TEST(Dimensions, WhatComesLaterIsNotAvailableRatherThanWrong) {
  for (const char* value : {"schedule: zb-h1", "schedule: [1f1b, zb-v]", "schedule: dualpipe",
                            "schedule: dualpipe-v", "cp_kind: hybrid", "swap: auto", "swap: 2GiB",
                            "granularity: stage", "granularity: layer"}) {
    const Fault fault = JobFault(JobText("search: {" + std::string(value) + "}\n"));
    EXPECT_EQ(fault.code, ErrorCode::kUnsupported) << value;
    EXPECT_THAT(fault.what, HasSubstr("not available in this version")) << value;
    EXPECT_THAT(fault.what, HasSubstr("job:4:")) << value;
  }
  EXPECT_EQ(FaultOf([] { Apply("swap=auto"); }).code, ErrorCode::kUnsupported);
  for (const char* value : {"swap: off", "swap: no", "swap: \"off\"", "swap: null"}) {
    EXPECT_NO_THROW(Search(value)) << value;
  }
  EXPECT_THAT(SearchFault("swap: 5"), HasSubstr("allowed: off, auto or a size per device"));
  EXPECT_THAT(SearchFault("swap: maybe"), HasSubstr("allowed: off, auto or a size per device"));
}

TEST(Dimensions, WhatRunsTodayIsOneValueEach) {
  const Job job =
      ReadText(JobText("current: {tp: 8, sp: true, pp: 2, vpp: 2, zero: 1, schedule: "
                       "interleaved, cp_kind: ring, order: tp-cp-ep-dp-pp, "
                       "micro_batch: 4, recompute: full}\n"));
  EXPECT_EQ(job.current->tp, 8);
  EXPECT_EQ(job.current->sp, true);
  EXPECT_EQ(job.current->zero, 1);
  EXPECT_EQ(job.current->schedule, Schedule::kInterleaved);
  EXPECT_EQ(job.current->order, kDefaultOrder);
  EXPECT_EQ(job.current->recompute->mode, Recompute::kFull);
  EXPECT_FALSE(job.current->ep.has_value());
  EXPECT_THAT(BadInput(JobText("current: {tp: [2, 4]}\n")),
              HasSubstr("current.tp is [2, 4]; one value is expected"));
  EXPECT_THAT(BadInput(JobText("current: {tp: auto}\n")), HasSubstr("one value is expected"));
}

}  // namespace
}  // namespace restow
