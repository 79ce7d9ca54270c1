// Small jobs and their faults, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "restow/base/error.h"
#include "restow/io/read.h"

namespace restow {

inline constexpr const char* kModelText =
    "model: {layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 256, vocab: 1000}\n";
inline constexpr const char* kClusterText = "cluster: {device: h100-sxm, devices: 16}\n";
inline constexpr const char* kTrainingText = "training: {sequence: 128, global_batch: 32}\n";

// A job on lines 1 (model), 2 (cluster) and 3 (training); `rest` starts on line 4.
inline std::string JobText(std::string_view rest = "", std::string_view training = kTrainingText,
                           std::string_view cluster = kClusterText) {
  return std::string(kModelText) + std::string(cluster) + std::string(training) + std::string(rest);
}

inline Job ReadText(const std::string& text, const ReadOptions& options = {},
                    Language language = Language::kYaml) {
  return ReadJob(ParseDocument(text, language, "job"), ".", options);
}

// What `action` complains of, with its code; fails the test when it does not.
struct Fault {
  ErrorCode code = ErrorCode::kInternal;
  std::string what;
};

template <class Action>
Fault FaultOf(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

inline Fault JobFault(const std::string& text, const ReadOptions& options = {}) {
  return FaultOf([&] { ReadText(text, options); });
}

inline std::string BadInput(const std::string& text, const ReadOptions& options = {}) {
  const Fault fault = JobFault(text, options);
  EXPECT_EQ(fault.code, ErrorCode::kBadInput) << fault.what;
  return fault.what;
}

}  // namespace restow
