#include "restow/io/document.h"

#include <gtest/gtest.h>

#include <string>

namespace restow {
namespace {

std::string Fault(std::string_view text, Language language = Language::kYaml) {
  try {
    ParseDocument(text, language, "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(Document, EveryYamlValueKeepsItsPlaceAndText) {
  const Node root = ParseDocument("a: 1\nb:\n  - off\n  - \"off\"\n", Language::kYaml, "f.yaml");
  const Node& b = *root.Find("b");
  EXPECT_EQ(ToString(root.Find("a")->where), "f.yaml:1:4");
  EXPECT_EQ(ToString(b.items[0].where), "f.yaml:3:5");
  EXPECT_EQ(b.items[0].path, "b[0]");
  EXPECT_FALSE(b.items[0].quoted);
  EXPECT_TRUE(b.items[1].quoted);
  EXPECT_TRUE(b.items[0].is_bool());
  EXPECT_FALSE(b.items[1].is_bool());
}

TEST(Document, EveryJsonValueKeepsItsPlaceAndText) {
  const Node root = ParseDocument("{\"a\": 12,\n \"b\": [true, \"x\\\"y\", {\"c\": null}]}",
                                  Language::kJson, "f.json");
  EXPECT_EQ(ToString(root.Find("a")->where), "f.json:1:7");
  const Node& b = *root.Find("b");
  EXPECT_EQ(ToString(b.items[0].where), "f.json:2:8");
  EXPECT_EQ(ToString(b.items[1].where), "f.json:2:14");
  EXPECT_EQ(b.items[1].text, "x\"y");
  EXPECT_EQ(ToString(b.items[2].Find("c")->where), "f.json:2:28");
  EXPECT_TRUE(b.items[2].Find("c")->is_null());
}

TEST(Document, DuplicateKeysAreRefusedInBothLanguages) {
  EXPECT_EQ(Fault("a: 1\na: 2\n"), "f:2:1: the key 'a' is given twice");
  EXPECT_EQ(Fault("{\"a\": 1, \"a\": 2}", Language::kJson), "f:1:10: the key 'a' is given twice");
}

TEST(Document, TruncatedAndBinaryAndEmptyFilesAreRefused) {
  EXPECT_NE(Fault("{\"a\": [1, ", Language::kJson).find("f:1:1"), std::string::npos);
  EXPECT_NE(Fault("a: [1, 2\n").find("not readable as YAML"), std::string::npos);
  EXPECT_EQ(Fault(std::string_view("a\0b", 3)), "f: the file is binary, not text");
  EXPECT_EQ(Fault(""), "f: the file is empty");
  EXPECT_EQ(Fault("  \n\n", Language::kJson), "f: the file is empty");
}

TEST(Document, ASecondYamlDocumentIsRefusedNotIgnored) {
  EXPECT_EQ(Fault("a: 1\n---\nb: 2\n"),
            "f:3:1: a second document starts here; one is read: remove the '---' between them");
  EXPECT_EQ(Fault("---\na: 1\n"), "");
}

TEST(Document, DepthIsLimited) {
  EXPECT_NE(Fault(std::string(100, '[') + std::string(100, ']'), Language::kJson)
                .find("nested deeper than 64 levels"),
            std::string::npos);
}

TEST(Document, AYamlBombIsRefused) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below;
    for (int k = 0; k < 9; ++k) bomb += ", " + below;
    bomb += "]\n";
  }
  EXPECT_NE(Fault(bomb).find("more than 200000 values"), std::string::npos);
}

TEST(Document, NonFiniteJsonNumbersAreReadButNotUsed) {
  const Node root = ParseDocument("{\"limit\": [0.0, Infinity], \"x\": NaN, \"s\": \"NaN\"}",
                                  Language::kJson, "f.json");
  EXPECT_EQ(root.Find("limit")->items[1].text, "Infinity");
  EXPECT_THROW(root.Find("x")->AsNumber(), Error);
  EXPECT_EQ(root.Find("s")->AsString(), "NaN");
}

TEST(Document, NumbersBeyond63BitsAreRefused) {
  const Node root =
      ParseDocument("a: 9223372036854775808\nb: 9223372036854775807\n", Language::kYaml, "f");
  EXPECT_EQ(root.Find("b")->AsInteger(), INT64_MAX);
  EXPECT_THROW(root.Find("a")->AsInteger(), Error);
  EXPECT_THROW(root.Find("b")->AsInt(0, 100), Error);
}

TEST(Document, WrittenShowsTheValueAsItStands) {
  const Node root = ParseDocument("a: \"false\"\nb: [off, {c: 1}]\nc:\n", Language::kYaml, "f");
  EXPECT_EQ(root.Find("a")->Written(), "\"false\"");
  EXPECT_EQ(root.Find("b")->Written(), "[off, {c: 1}]");
  EXPECT_EQ(root.Find("c")->Written(), "null");
}

TEST(Files, WhatCannotBeWrittenLeavesNothing) {
  EXPECT_THROW(WriteFileText("/nonexistent/folder/file", "x"), Error);
}

}  // namespace
}  // namespace restow
