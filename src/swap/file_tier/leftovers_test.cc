#include "swap/file_tier/leftovers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "swap/file_tier/directory.h"
#include "swap/file_tier/testing/temp_dir.h"

namespace restow::swap::file_tier {
namespace {

using ::testing::UnorderedElementsAre;

void Touch(const std::string& path) { std::ofstream(path) << "old"; }

int Remove(const TempDir& dir) {
  FileOps ops;
  return RemoveLeftovers(ops, OpenDirectory(dir.path()).get());
}

TEST(Leftovers, NamesAreKnownAgainAndNeverTheSame) {
  const std::string name = NewSwapFileName();
  EXPECT_TRUE(IsSwapFileName(name)) << name;
  EXPECT_TRUE(name.starts_with("restow-" + std::to_string(::getpid()) + "-"));
  EXPECT_NE(NewSwapFileName(), name);
}

TEST(Leftovers, OtherNamesAreNotTaken) {
  for (const char* name : {"restow-1-2-3.swa", "restow-1-2.swap", "restow-1-2-3-4.swap",
                           "restow-1--3.swap", "restow-1-2-.swap", "restow--2-3.swap",
                           "restow-1-2-x.swap", "restow-.swap", "restow.swap", "x-1-2-3.swap"}) {
    EXPECT_FALSE(IsSwapFileName(name)) << name;
  }
}

TEST(Leftovers, OnlyUnlockedSwapFilesGo) {
  const TempDir dir;
  Touch(dir.path() + "/restow-1-2-3.swap");
  Touch(dir.path() + "/restow-1-2-4.swap");
  Touch(dir.path() + "/restow-notes.txt");
  std::filesystem::create_symlink("restow-notes.txt", dir.path() + "/restow-1-2-5.swap");
  FileOps ops;
  const Descriptor alive(::open((dir.path() + "/restow-1-2-4.swap").c_str(), O_RDWR));
  ASSERT_EQ(ops.Lock(alive.get()), 0);
  EXPECT_EQ(Remove(dir), 1);
  EXPECT_THAT(dir.Entries(),
              UnorderedElementsAre("restow-1-2-4.swap", "restow-1-2-5.swap", "restow-notes.txt"));
}

TEST(Leftovers, FilesOfOtherUsersStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's file";
  const TempDir dir;
  const std::string file = dir.path() + "/restow-1-2-3.swap";
  Touch(file);
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  EXPECT_EQ(Remove(dir), 0);
  EXPECT_EQ(dir.Entries().size(), 1);
}

}  // namespace
}  // namespace restow::swap::file_tier
