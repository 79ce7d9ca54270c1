#include "restow/swap/file_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "restow/base/error.h"
#include "swap/file_tier/testing/faulty_ops.h"
#include "swap/file_tier/testing/temp_dir.h"

namespace restow::swap {
namespace {

using file_tier::Fault;
using file_tier::FaultyOps;
using file_tier::TempDir;
using file_tier::Transfer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Text(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  std::minstd_rand random(seed + 1);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

template <class Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

FileExtent Write(FileTier& tier, const std::string& text) {
  return tier.Wait(tier.StartWrite(text.data(), text.size()));
}

std::string Read(FileTier& tier, const FileExtent& extent) {
  std::string text(extent.size, '?');
  tier.Wait(tier.StartRead(extent, text.data()));
  return text;
}

// The tier's file as the kernel has it: the one descriptor of this process that lies in `dir`.
struct stat FileIn(const std::string& dir) {
  struct stat info {};
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(dir + "/") || target.starts_with(dir + "/#")) {
      ::stat(entry.path().c_str(), &info);
    }
  }
  return info;
}

struct Mode {
  const char* name;
  FileBackend backend;
  DirectIo direct_io;
};
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

class FileTierModes : public ::testing::TestWithParam<Mode> {
 protected:
  FileTierOptions Options() const {
    FileTierOptions options;
    options.dir = dir.path();
    options.backend = GetParam().backend;
    options.direct_io = GetParam().direct_io;
    options.transfer_bytes = Bytes(16 * kKiB);
    return options;
  }
  const TempDir dir;
};

INSTANTIATE_TEST_SUITE_P(, FileTierModes,
                         ::testing::Values(Mode{"automatic", FileBackend::kAuto, DirectIo::kAuto},
                                           Mode{"threads", FileBackend::kThreads, DirectIo::kAuto},
                                           Mode{"cached", FileBackend::kAuto, DirectIo::kOff},
                                           Mode{"threads_cached", FileBackend::kThreads,
                                                DirectIo::kOff}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(FileTierModes, BlobsComeBackAsTheyWere) {
  FileTier tier(Options());
  std::vector<std::pair<std::string, FileExtent>> blobs;
  // Around the block (4,096) and the transfer (16,384), and several transfers.
  for (const int size : {0, 1, 511, 4095, 4096, 4097, 16383, 16384, 16385, 100000, 1 << 20}) {
    const std::string text = Text(static_cast<std::size_t>(size), static_cast<unsigned>(size));
    blobs.emplace_back(text, Write(tier, text));
  }
  std::reverse(blobs.begin(), blobs.end());
  for (const auto& [text, extent] : blobs) {
    EXPECT_EQ(Read(tier, extent), text) << text.size();
    EXPECT_EQ(Read(tier, extent), text) << "a second time: " << text.size();
    tier.Release(extent);
  }
  const FileTierStats stats = tier.stats();
  EXPECT_EQ(stats.writes, 11);
  EXPECT_EQ(stats.reads, 22);
  EXPECT_EQ(stats.bytes_read.value(), 2 * stats.bytes_written.value());
  EXPECT_EQ(stats.blobs, 0);
  EXPECT_EQ(stats.live_bytes.value(), 0);
  EXPECT_EQ(stats.unfinished, 0);
}

TEST_P(FileTierModes, BuffersMayLieAnywhere) {
  FileTier tier(Options());
  const std::string text = Text(64 * 1024 + 64, 3);
  std::string back(text.size() + 64, '?');
  for (std::size_t shift = 0; shift < 64; shift += 7) {
    const std::size_t size = 64 * 1024;
    const FileExtent extent = tier.Wait(tier.StartWrite(text.data() + shift, size));
    tier.Wait(tier.StartRead(extent, back.data() + 1));
    EXPECT_EQ(back.compare(1, size, text, shift, size), 0) << shift;
    EXPECT_EQ(back[0], '?');
    EXPECT_EQ(back[1 + size], '?');
    tier.Release(extent);
  }
}

TEST_P(FileTierModes, ManyTransfersAreUnderWayAtOnce) {
  FileTier tier(Options());
  std::vector<std::string> texts;
  for (unsigned i = 0; i < 200; ++i) texts.push_back(Text(1000 + 531 * i, i));
  std::vector<FileTicket> tickets;
  tickets.reserve(texts.size());
  for (const std::string& text : texts)
    tickets.push_back(tier.StartWrite(text.data(), text.size()));
  std::vector<FileExtent> extents;
  extents.reserve(texts.size());
  for (const FileTicket ticket : tickets) extents.push_back(tier.Wait(ticket));
  std::vector<std::string> back;
  for (const std::string& text : texts) back.emplace_back(text.size(), '?');
  for (std::size_t i = 0; i < texts.size(); ++i) {
    tickets[i] = tier.StartRead(extents[i], back[i].data());
    // Given up while the read is under way: the space is not used again before its end.
    tier.Release(extents[i]);
  }
  const std::string other(300000, 'x');
  const FileTicket later = tier.StartWrite(other.data(), other.size());
  for (const FileTicket ticket : tickets) tier.Wait(ticket);
  EXPECT_EQ(back, texts);
  EXPECT_EQ(Read(tier, tier.Wait(later)), other);
}

TEST_P(FileTierModes, SeveralThreadsShareATier) {
  FileTier tier(Options());
  const auto work = [&tier](unsigned seed) {
    std::minstd_rand random(seed);
    for (int i = 0; i < 50; ++i) {
      const std::string text = Text(random() % 50000, static_cast<unsigned>(random()));
      const FileTicket ticket = tier.StartWrite(text.data(), text.size());
      while (random() % 4 != 0 && !tier.Done(ticket)) std::this_thread::yield();
      const FileExtent extent = tier.Wait(ticket);
      ASSERT_EQ(Read(tier, extent), text);
      tier.Release(extent);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tier.stats().writes, 200);
  EXPECT_EQ(tier.stats().blobs, 0);
}

TEST_P(FileTierModes, OverAThousandStepsTheFileDoesNotGrow) {
  FileTierOptions options = Options();
  options.checksums = true;
  FileTier tier(options);
  std::minstd_rand random(11);
  // The same sizes in each step, started and released in another order each time.
  std::vector<std::string> texts;
  for (unsigned i = 0; i < 12; ++i) texts.push_back(Text(1 + random() % 40000, i));
  std::int64_t after_first = 0;
  off_t size_after_first = 0;
  for (int step = 0; step < 1000; ++step) {
    std::shuffle(texts.begin(), texts.end(), random);
    std::vector<FileTicket> tickets;
    for (const std::string& text : texts) {
      tickets.push_back(tier.StartWrite(text.data(), text.size()));
    }
    std::vector<FileExtent> extents;
    for (const FileTicket ticket : tickets) extents.push_back(tier.Wait(ticket));
    if (step % 100 == 0) {
      EXPECT_EQ(Read(tier, extents[5]), texts[5]);
    }
    std::shuffle(extents.begin(), extents.end(), random);
    for (const FileExtent& extent : extents) tier.Release(extent);
    if (step > 0) continue;
    after_first = tier.stats().file_bytes.value();
    size_after_first = FileIn(dir.path()).st_size;
  }
  EXPECT_GT(after_first, 0);
  EXPECT_EQ(tier.stats().file_bytes.value(), after_first);
  EXPECT_GE(size_after_first, after_first - 4095);
  EXPECT_EQ(FileIn(dir.path()).st_size, size_after_first);
}

TEST_P(FileTierModes, AboveTheCapAWriteIsRefusedAndNothingIsLost) {
  FileTierOptions options = Options();
  options.byte_cap = Bytes(64 * kKiB);
  FileTier tier(options);
  const std::string kept = Text(60 * 1024, 1), more = Text(5 * 1024, 2), fits = Text(4096, 3);
  const FileExtent extent = Write(tier, kept);
  const FileTicket refused = tier.StartWrite(more.data(), more.size());
  EXPECT_TRUE(tier.Done(refused));
  EXPECT_EQ(ErrorOf([&] { tier.Wait(refused); }),
            tier.facts().path +
                ": writing 5.00 KiB would pass the cap: 60.0 KiB of 64.0 KiB are in use; nothing "
                "is lost, "
                "the bytes are still in memory. Remedy: raise the cap of the file tier");
  EXPECT_EQ(tier.stats().refused, 1);
  EXPECT_EQ(tier.stats().failed_writes, 0);
  EXPECT_EQ(Read(tier, Write(tier, fits)), fits);
  EXPECT_EQ(Read(tier, extent), kept);
  EXPECT_LE(FileIn(dir.path()).st_size, 64 * kKiB);
  tier.Release(extent);
  EXPECT_EQ(Read(tier, Write(tier, more)), more);
}

TEST_P(FileTierModes, TheFileHasNoNameAndIsTheOwnersAlone) {
  FileTier tier(Options());
  EXPECT_THAT(dir.Entries(), IsEmpty());
  const struct stat info = FileIn(dir.path());
  EXPECT_TRUE(S_ISREG(info.st_mode));
  EXPECT_EQ(info.st_mode & 07777, 0600);
  EXPECT_EQ(info.st_nlink, 0);
}

TEST_P(FileTierModes, DestructionWaitsForWhatIsUnderWay) {
  const std::string text = Text(1 << 20, 5);
  std::vector<std::string> back(8, std::string(text.size(), '?'));
  {
    FileTier tier(Options());
    const FileExtent extent = Write(tier, text);
    for (std::string& each : back) tier.StartRead(extent, each.data());
  }
  // No transfer into the buffers is left: what is written here stays.
  for (std::string& each : back) std::fill(each.begin(), each.end(), '!');
  for (const std::string& each : back) EXPECT_EQ(each.find_first_not_of('!'), std::string::npos);
}

TEST_P(FileTierModes, TheThreadThatMadeATierMayEnd) {
  std::unique_ptr<FileTier> tier;
  std::thread([&] { tier = std::make_unique<FileTier>(Options()); }).join();
  const std::string text = Text(300000, 9);
  for (int i = 0; i < 10; ++i) {
    const FileExtent extent = Write(*tier, text);
    EXPECT_EQ(Read(*tier, extent), text);
    tier->Release(extent);
  }
  std::thread([&] { tier.reset(); }).join();
  EXPECT_THAT(dir.Entries(), IsEmpty());
}

TEST_P(FileTierModes, AChildIsRefusedAndTheParentGoesOn) {
  FileTier tier(Options());
  const std::string text = Text(100000, 8);
  const FileExtent extent = Write(tier, text);
  const pid_t child = ::fork();
  if (child == 0) {
    bool refused = FileIn(dir.path()).st_mode == 0;  // its copy of the file is closed
    std::string back(text.size(), '?');
    refused = refused && ErrorOf([&] {
                           tier.StartRead(extent, back.data());
                         }).find("made before a fork") != std::string::npos;
    tier.~FileTier();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(Read(tier, extent), text);
}

class FileTierTest : public ::testing::Test {
 protected:
  FileTierOptions Options() const {
    FileTierOptions options;
    options.dir = dir.path();
    options.transfer_bytes = Bytes(16 * kKiB);
    return options;
  }
  const TempDir dir;
};

TEST_F(FileTierTest, TicketsAndExtentsAreUsedOnce) {
  FileTier tier(Options());
  const std::string text = Text(5000, 1);
  const FileTicket ticket = tier.StartWrite(text.data(), text.size());
  const FileExtent extent = tier.Wait(ticket);
  EXPECT_THAT(ErrorOf([&] { tier.Wait(ticket); }), HasSubstr("no such ticket"));
  EXPECT_THAT(ErrorOf([&] { tier.Done(ticket); }), HasSubstr("no such ticket"));
  EXPECT_THAT(ErrorOf([&] { tier.Done({}); }), HasSubstr("no such ticket"));
  std::string back(text.size(), '?');
  FileExtent larger = extent;
  larger.size = 6000;
  EXPECT_THAT(ErrorOf([&] { tier.StartRead(larger, back.data()); }),
              HasSubstr("the extent holds 5000 bytes, not 6000"));
  tier.Release(extent);
  EXPECT_THAT(ErrorOf([&] { tier.Release(extent); }), HasSubstr("no such extent"));
  // Its slot and its space are in use again: still not the other blob's bytes.
  const FileExtent other = Write(tier, text);
  EXPECT_THAT(ErrorOf([&] { tier.StartRead(extent, back.data()); }), HasSubstr("no such extent"));
  EXPECT_EQ(Read(tier, other), text);
  EXPECT_THAT(ErrorOf([&] { tier.StartWrite(nullptr, 1); }), HasSubstr("the buffer is null"));
}

TEST_F(FileTierTest, OptionsOutOfRangeAreNamed) {
  const auto error = [&](auto change) {
    FileTierOptions options = Options();
    change(options);
    return ErrorOf([&] { FileTier tier(options); });
  };
  EXPECT_EQ(error([](auto& o) { o.byte_cap = Bytes(0); }),
            "FileTierOptions::byte_cap is 0; use 1 B or more");
  EXPECT_THAT(error([](auto& o) { o.threads = 65; }), HasSubstr("threads is 65"));
  EXPECT_THAT(error([](auto& o) { o.queue_depth = 0; }), HasSubstr("queue_depth is 0"));
  EXPECT_THAT(error([](auto& o) { o.alignment = Bytes(3000); }), HasSubstr("alignment is 3000"));
  EXPECT_THAT(error([](auto& o) { o.transfer_bytes = Bytes(5000); }),
              HasSubstr("transfer_bytes is 5000"));
  EXPECT_THAT(error([](auto& o) { o.dir += "/missing"; }), HasSubstr("'missing'"));
}

TEST_F(FileTierTest, DepthIsSharedOutOverThreads) {
  for (const int threads : {1, 3, 16, 64}) {
    for (const int depth : {1, 2, 16}) {
      FileTierOptions options = Options();
      options.threads = threads;
      options.queue_depth = depth;
      FileTier tier(options);
      const std::string text = Text(300000, 4);
      EXPECT_EQ(Read(tier, Write(tier, text)), text) << threads << " " << depth;
    }
  }
}

TEST_F(FileTierTest, WithoutIoUringThreadsAreUsedAndThisIsSaid) {
  auto ops = std::make_unique<FaultyOps>();
  ops->ring_error = EPERM;
  FileTier tier(Options(), std::move(ops));
  EXPECT_FALSE(tier.facts().ring);
  EXPECT_EQ(tier.facts().threads, 16);
  EXPECT_THAT(tier.facts().notes,
              HasSubstr("io_uring is not available (Operation not permitted); threads with pread "
                        "and pwrite are used."));
  const std::string text = Text(300000, 4);
  EXPECT_EQ(Read(tier, Write(tier, text)), text);
}

TEST_F(FileTierTest, WithoutDirectIoThePageCacheIsUsedAndThisIsSaid) {
  auto ops = std::make_unique<FaultyOps>();
  ops->direct_error = EINVAL;
  FileTierOptions options = Options();
  options.checksums = false;
  FileTier tier(options, std::move(ops));
  EXPECT_FALSE(tier.facts().direct_io);
  EXPECT_TRUE(tier.facts().checksums);
  EXPECT_THAT(tier.facts().notes, HasSubstr("Direct I/O is not used"));
  EXPECT_THAT(tier.facts().notes, HasSubstr("Checksums stay on"));
  const std::string text = Text(300000, 4);
  EXPECT_EQ(Read(tier, Write(tier, text)), text);
}

TEST_F(FileTierTest, WhatMustBeHadAndCannotIsAnError) {
  const auto error = [&](int direct_error, int ring_error) {
    auto ops = std::make_unique<FaultyOps>();
    ops->direct_error = direct_error;
    ops->ring_error = ring_error;
    FileTierOptions options = Options();
    if (direct_error != 0) options.direct_io = DirectIo::kOn;
    if (ring_error != 0) options.backend = FileBackend::kRing;
    return ErrorOf([&] { FileTier tier(options, std::move(ops)); });
  };
  EXPECT_EQ(error(EINVAL, 0), dir.path() +
                                  ": direct I/O cannot be had here: the file system refuses it: "
                                  "Invalid argument; use DirectIo::kAuto to go through the page "
                                  "cache");
  EXPECT_EQ(error(0, EPERM), dir.path() +
                                 ": io_uring is not available (Operation not permitted); use "
                                 "FileBackend::kAuto to go on with threads");
}

TEST_F(FileTierTest, WithoutUnnamedFilesTheNameIsGoneAtOnce) {
  auto ops = std::make_unique<FaultyOps>();
  ops->unnamed_error = EOPNOTSUPP;
  FileTier tier(Options(), std::move(ops));
  EXPECT_THAT(dir.Entries(), IsEmpty());
  EXPECT_EQ(FileIn(dir.path()).st_mode & 07777, 0600);
  const std::string text = Text(300000, 4);
  EXPECT_EQ(Read(tier, Write(tier, text)), text);
}

TEST_F(FileTierTest, ReservationIsNotNeeded) {
  auto ops = std::make_unique<FaultyOps>();
  ops->allocate_error = [] { return EOPNOTSUPP; };
  FileTier tier(Options(), std::move(ops));
  const std::string text = Text(300001, 4);
  EXPECT_EQ(Read(tier, Write(tier, text)), text);
}

// A cut in the middle, between a write that is under way and one that waits for its turn.
TEST_F(FileTierTest, ReadsOvertakeQueuedWrites) {
  std::vector<char> order;  // of transfers; one thread, so that no lock is needed
  auto ops = std::make_unique<FaultyOps>();
  ops->decide = [&](const Transfer& transfer) {
    order.push_back(transfer.write ? 'w' : 'r');
    return Fault{};
  };
  FileTierOptions options = Options();
  options.backend = FileBackend::kThreads;
  options.threads = options.queue_depth = 1;
  {
    FileTier tier(options, std::move(ops));
    const std::string text = Text(16 * 1024, 1), large = Text(200 * 16 * 1024, 2);
    const FileExtent extent = Write(tier, text);
    const FileTicket write = tier.StartWrite(large.data(), large.size());
    EXPECT_EQ(Read(tier, extent), text);
    tier.Wait(write);
  }
  ASSERT_EQ(order.size(), 202);
  EXPECT_NE(order.back(), 'r');
}

}  // namespace
}  // namespace restow::swap
