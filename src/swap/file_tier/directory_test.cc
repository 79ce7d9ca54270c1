#include "swap/file_tier/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "restow/base/error.h"
#include "swap/file_tier/testing/temp_dir.h"

namespace restow::swap::file_tier {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

ino_t Inode(const Descriptor& directory) {
  struct stat info {};
  ::fstat(directory.get(), &info);
  return info.st_ino;
}

ino_t Inode(const std::string& path) {
  struct stat info {};
  ::stat(path.c_str(), &info);
  return info.st_ino;
}

std::string MessageOf(const std::string& path) {
  try {
    OpenDirectory(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.where().file, path);
    return error.what();
  }
  return "no error";
}

TEST(Directory, OpensWhatThePathNames) {
  const TempDir dir;
  fs::create_directories(dir.path() + "/a/b");
  EXPECT_EQ(Inode(OpenDirectory(dir.path() + "/a//b/")), Inode(dir.path() + "/a/b"));
  EXPECT_EQ(Inode(OpenDirectory(dir.path() + "/a/b/../.")), Inode(dir.path() + "/a"));
  EXPECT_EQ(Inode(OpenDirectory("/")), Inode("/"));
  EXPECT_EQ(Inode(OpenDirectory(".")), Inode("."));
}

TEST(Directory, FollowsLinksOfThisUser) {
  const TempDir dir;
  fs::create_directories(dir.path() + "/a/b");
  fs::create_directory_symlink("a/b", dir.path() + "/relative");
  fs::create_directory_symlink(dir.path() + "/relative", dir.path() + "/absolute");
  EXPECT_EQ(Inode(OpenDirectory(dir.path() + "/relative")), Inode(dir.path() + "/a/b"));
  EXPECT_EQ(Inode(OpenDirectory(dir.path() + "/absolute/..")), Inode(dir.path() + "/a"));
}

TEST(Directory, RefusesALinkThatAnotherUserMade) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's link";
  const TempDir dir;
  fs::create_directory(dir.path() + "/target");
  const std::string link = dir.path() + "/link";
  fs::create_directory_symlink("target", link);
  ASSERT_EQ(::lchown(link.c_str(), 12345, 12345), 0);
  EXPECT_THAT(MessageOf(link), HasSubstr("'link' is a symbolic link made by user 12345; only links "
                                         "of this user or root are followed"));
  EXPECT_THAT(MessageOf(link + "/.."), HasSubstr("made by user 12345"));
}

TEST(Directory, SaysWhichPartIsMissing) {
  const TempDir dir;
  EXPECT_THAT(MessageOf(dir.path() + "/no/where"),
              HasSubstr("'no': No such file or directory; it must exist"));
  EXPECT_THAT(MessageOf(""), HasSubstr("No such file or directory"));
}

TEST(Directory, RefusesWhatIsNone) {
  const TempDir dir;
  fs::create_symlink("loop", dir.path() + "/loop");
  EXPECT_THAT(MessageOf(dir.path() + "/loop"), HasSubstr("Too many levels of symbolic links"));
  EXPECT_THAT(MessageOf("/dev/null"), HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace restow::swap::file_tier
