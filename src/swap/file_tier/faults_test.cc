// What the tier does when the kernel or the disk fails, one fault at a time, and on a disk that is
// really full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <utility>
#include <vector>

#include "restow/base/error.h"
#include "restow/swap/file_tier.h"
#include "swap/file_tier/testing/scripted.h"
#include "swap/file_tier/testing/temp_dir.h"

namespace restow::swap {
namespace {

using file_tier::Fault;
using file_tier::FaultyOps;
using file_tier::kTransfer;
using file_tier::OptionsFor;
using file_tier::Script;
using file_tier::Scripted;
using file_tier::TempDir;
using file_tier::Text;
using file_tier::Transfer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A tier whose transfers fail as a script says, one blob of four transfers, and what came of it.
class FileTierFaults : public ::testing::Test {
 protected:
  void Start(const Script& script) {
    auto ops = std::make_unique<FaultyOps>();
    scripted.script = script;
    ops->decide = [this](const Transfer& transfer) { return scripted(transfer); };
    ops->allocate_error = [this] { return allocate_error.load(); };
    tier = std::make_unique<FileTier>(OptionsFor(dir.path()), std::move(ops));
    scripted.armed = true;
  }
  std::string TryWrite(FileExtent& extent) {
    try {
      extent = tier->Wait(tier->StartWrite(text.data(), text.size()));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string TryRead(const FileExtent& extent) {
    back.assign(extent.size, '?');
    try {
      tier->Wait(tier->StartRead(extent, back.data()));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // A step without faults goes through.
  void ExpectNextStepWorks() {
    FileExtent extent;
    EXPECT_EQ(TryWrite(extent), "");
    EXPECT_EQ(TryRead(extent), "");
    EXPECT_EQ(back, text);
    tier->Release(extent);
    EXPECT_EQ(tier->stats().live_bytes.value(), 0);
    EXPECT_EQ(tier->stats().unfinished, 0);
    EXPECT_THAT(dir.Entries(), IsEmpty());
  }

  const TempDir dir;
  const std::string text = Text(4 * kTransfer, 1);
  std::string back;
  Scripted scripted;
  std::atomic<int> allocate_error{0};
  std::unique_ptr<FileTier> tier;
};

TEST_F(FileTierFaults, AWriteErrorLeavesTheBytesWithTheCaller) {
  Start({true, 2, 1, {Fault::Kind::kError, EIO}});
  FileExtent extent;
  // The third of four transfers of 16 KiB; which one is third depends on the threads.
  EXPECT_THAT(TryWrite(extent),
              AllOf(HasSubstr(tier->facts().path + ": writing 16.0 KiB at offset "),
                    HasSubstr("failed: Input/output error; nothing is lost, the bytes are still in "
                              "memory. Remedy: look at the kernel's log (dmesg)")));
  EXPECT_EQ(tier->stats().failed_writes, 1);
  EXPECT_EQ(tier->stats().blobs, 0);
  ExpectNextStepWorks();
}

TEST_F(FileTierFaults, AFullDiskIsNoticedBeforeAnyByteIsWritten) {
  Start({});
  allocate_error = ENOSPC;
  FileExtent extent;
  EXPECT_THAT(TryWrite(extent), AllOf(HasSubstr("no space for 16.0 KiB at offset "),
                                      HasSubstr(": No space left on device; nothing is lost"),
                                      HasSubstr("Remedy: free space in '" + dir.path() + "'")));
  allocate_error = 0;
  ExpectNextStepWorks();
}

TEST_F(FileTierFaults, ADiskThatFillsDuringAWriteIsNoticedToo) {
  Start({true, 0, 1, {Fault::Kind::kError, ENOSPC}});
  FileExtent extent;
  EXPECT_THAT(TryWrite(extent), HasSubstr("failed: No space left on device; nothing is lost"));
  ExpectNextStepWorks();
}

TEST_F(FileTierFaults, AShortWriteIsCarriedOn) {
  Start({true, 1, 1, {Fault::Kind::kShort, 0}});
  ExpectNextStepWorks();
  EXPECT_EQ(tier->stats().short_transfers, 1);
}

TEST_F(FileTierFaults, AShortReadIsCarriedOn) {
  Start({false, 1, 1, {Fault::Kind::kShort, 0}});
  ExpectNextStepWorks();
  EXPECT_EQ(tier->stats().short_transfers, 1);
}

TEST_F(FileTierFaults, InterruptionsAreTriedAgain) {
  Start({true, 0, 50, {Fault::Kind::kError, EINTR}});
  ExpectNextStepWorks();
  EXPECT_EQ(scripted.hits, 50);
}

TEST_F(FileTierFaults, ADeviceThatNeverStopsSayingTryAgainIsAnError) {
  Start({true, 0, 1000000, {Fault::Kind::kError, EAGAIN}});
  FileExtent extent;
  EXPECT_THAT(TryWrite(extent), HasSubstr("failed: Resource temporarily unavailable"));
  scripted.armed = false;
  ExpectNextStepWorks();
}

TEST_F(FileTierFaults, AReadErrorIsTriedAgainOnce) {
  Start({false, 0, 1, {Fault::Kind::kError, EIO}});
  ExpectNextStepWorks();
  EXPECT_EQ(tier->stats().rereads, 1);
  EXPECT_EQ(tier->stats().failed_reads, 0);
}

TEST_F(FileTierFaults, AReadThatFailsTwiceFailsItsStepAndKeepsTheBlob) {
  // Every read of four transfers and their second tries.
  Start({false, 0, 8, {Fault::Kind::kError, EIO}});
  FileExtent extent;
  EXPECT_EQ(TryWrite(extent), "");
  EXPECT_THAT(TryRead(extent),
              AllOf(HasSubstr(tier->facts().path + ": reading 16.0 KiB at offset "),
                    HasSubstr("failed twice: Input/output error; the step that needs these bytes "
                              "cannot go on; later steps can")));
  scripted.armed = false;
  EXPECT_EQ(TryRead(extent), "");
  EXPECT_EQ(back, text);
  tier->Release(extent);
  ExpectNextStepWorks();
}

TEST_F(FileTierFaults, ABitFlippedOnTheWayBackIsReadAgain) {
  Start({false, 3, 1, {Fault::Kind::kFlip, 0}});
  ExpectNextStepWorks();
  EXPECT_EQ(tier->stats().rereads, 1);
}

TEST_F(FileTierFaults, ABitFlippedOnTheDiskIsNeverHandedOut) {
  Start({true, 0, 1, {Fault::Kind::kFlip, 0}});
  FileExtent extent;
  EXPECT_EQ(TryWrite(extent), "");
  EXPECT_THAT(TryRead(extent), AllOf(HasSubstr("were read twice with a wrong checksum"),
                                     HasSubstr(tier->facts().path), HasSubstr("at offset ")));
  tier->Release(extent);
  ExpectNextStepWorks();
}

TEST_F(FileTierFaults, WithoutChecksumsAFlippedBitComesThrough) {
  Start({true, 0, 1, {Fault::Kind::kFlip, 0}});
  if (!tier->facts().direct_io) GTEST_SKIP() << "checksums stay on without direct I/O";
  auto ops = std::make_unique<FaultyOps>();
  ops->decide = [this](const Transfer& transfer) { return scripted(transfer); };
  FileTierOptions options = OptionsFor(dir.path());
  options.checksums = false;
  tier = std::make_unique<FileTier>(options, std::move(ops));
  FileExtent extent;
  EXPECT_EQ(TryWrite(extent), "");
  EXPECT_EQ(TryRead(extent), "");
  EXPECT_NE(back, text);
}

TEST_F(FileTierFaults, AFileThatCannotBeUnlinkedGoesWithTheTierOrAtTheNextStart) {
  const auto start = [&](int unlink_error) {
    auto ops = std::make_unique<FaultyOps>();
    ops->unnamed_error = EOPNOTSUPP;
    ops->unlink_error = unlink_error;
    return std::make_unique<FileTier>(OptionsFor(dir.path()), std::move(ops));
  };
  auto first = start(EBUSY);
  ASSERT_EQ(dir.Entries().size(), 1);
  EXPECT_EQ(first->facts().path, dir.path() + "/" + dir.Entries()[0]);
  // Another start leaves it alone while its owner lives.
  EXPECT_EQ(start(0)->facts().leftovers_removed, 0);
  EXPECT_EQ(dir.Entries().size(), 1);
  first.reset();
  // This file system still refuses: as after a crash.
  EXPECT_EQ(dir.Entries().size(), 1);
  EXPECT_EQ(start(0)->facts().leftovers_removed, 1);
  EXPECT_THAT(dir.Entries(), IsEmpty());
}

// Writes until the disk is full, then goes on with what fits.
void ExpectAFullDiskLosesNothing(const std::string& dir, const std::string& message) {
  FileTierOptions options = OptionsFor(dir);
  FileTier tier(options);
  std::vector<std::pair<std::string, FileExtent>> blobs;
  std::string error;
  for (unsigned i = 0; error.empty() && i < 100; ++i) {
    const std::string text = Text(600000, i);
    try {
      blobs.emplace_back(text, tier.Wait(tier.StartWrite(text.data(), text.size())));
    } catch (const Error& full) {
      error = full.what();
    }
  }
  EXPECT_THAT(error, AllOf(HasSubstr(message), HasSubstr("nothing is lost")));
  EXPECT_GE(blobs.size(), 5);
  for (int round = 0; round < 2; ++round) {
    for (auto& [text, extent] : blobs) {
      std::string back(extent.size, '?');
      tier.Wait(tier.StartRead(extent, back.data()));
      EXPECT_EQ(back, text);
      tier.Release(extent);
      extent = tier.Wait(tier.StartWrite(text.data(), text.size()));
    }
  }
}

// A file system of 8 MiB where root may mount one, else a limit of 8 MiB on the file.
TEST(FileTierFullDisk, KeepsWhatItHasAndGoesOn) {
  const TempDir dir;
  // In a mount namespace of its own, so that nothing stays mounted if the test dies.
  const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       ::mount("none", dir.path().c_str(), "tmpfs", 0, "size=8m") == 0;
  std::printf("full disk: %s\n", mounted ? "a tmpfs of 8 MiB" : "RLIMIT_FSIZE of 8 MiB");
  if (mounted) {
    ExpectAFullDiskLosesNothing(dir.path(), "No space left on device");
    ::umount(dir.path().c_str());
    return;
  }
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{8 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  ExpectAFullDiskLosesNothing(dir.path(), "File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
}

TEST(FileTierFullDisk, ALimitOnFileSizesIsAnErrorAndNoSignal) {
  const TempDir dir;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{8 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  ExpectAFullDiskLosesNothing(dir.path(), "ulimit -f");
  ::setrlimit(RLIMIT_FSIZE, &before);
}

}  // namespace
}  // namespace restow::swap
