// The real file tier behind the engine's seam.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "restow/base/error.h"
#include "restow/swap/tier.h"

namespace restow::swap {
namespace {

struct Folder {
  Folder() {
    std::string name = "/tmp/restow_open_tier_XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~Folder() { ::rmdir(path.c_str()); }
  std::string path;
};

TEST(OpenedFileTier, GivesBackWhatWasWrittenAndLeavesNothing) {
  Folder folder;
  {
    const auto tier = OpenFileTier(folder.path, -1);
    std::vector<char> out(100'000, 'x'), in(out.size());
    out[99'999] = 'y';
    const Tier::Extent extent = tier->Wait(tier->StartWrite(out.data(), out.size()));
    EXPECT_EQ(extent.bytes, out.size());
    const Tier::Ticket read = tier->StartRead(extent, in.data());
    tier->Wait(read);
    EXPECT_EQ(in, out);
    EXPECT_TRUE(tier->Poll(read));  // waited for already: finished, not an error
    tier->Release(extent);
    tier->Release(extent);  // of a blob that is gone: nothing happens
  }
  EXPECT_EQ(::rmdir(folder.path.c_str()), 0) << "something was left in the folder";
  ::mkdir(folder.path.c_str(), 0700);
}

TEST(OpenedFileTier, AboveTheCapTheWriteFailsAndTheBytesStay) {
  Folder folder;
  const auto tier = OpenFileTier(folder.path, 4096);
  const std::vector<char> out(1 << 20, 'x');
  EXPECT_THROW(tier->Wait(tier->StartWrite(out.data(), out.size())), Error);
  EXPECT_EQ(out.back(), 'x');
  const std::vector<char> small(1000, 'z');
  EXPECT_EQ(tier->Wait(tier->StartWrite(small.data(), small.size())).bytes, 1000u);
}

TEST(OpenedFileTier, AMissingFolderIsRefusedByName) {
  try {
    OpenFileTier("/nowhere/at/all", -1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all"), std::string::npos);
  }
}

}  // namespace
}  // namespace restow::swap
