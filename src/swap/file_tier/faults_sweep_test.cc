// Hundreds of faults drawn from a seed, each in a step of a dozen blobs: nothing is lost silently,
// no file is left, and the next step works.
//
//   RESTOW_FILE_TIER_FAULTS=4000 restow_swap_test --gtest_filter='FileTierFaultSweep.*'
// is the long sweep; RESTOW_FILE_TIER_SEED repeats one that failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <random>

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

enum class Kind {
  kShortWrite,
  kShortRead,
  kWriteError,
  kReadErrorOnce,
  kReadErrorTwice,
  kFullReserve,
  kFullWrite,
  kFlipOnDisk,
  kFlipInRead,
  kInterrupted,
  kKilled,
  kCount,
};

// What one fault may do to a step, at most and at least.
struct Effects {
  int failed_writes = 0, failed_reads = 0, rereads = 0, short_transfers = 0;
  friend bool operator==(const Effects&, const Effects&) = default;
};

void PrintTo(const Effects& effects, std::ostream* out) {
  *out << "failed writes " << effects.failed_writes << ", failed reads " << effects.failed_reads
       << ", rereads " << effects.rereads << ", short transfers " << effects.short_transfers;
}

struct Case {
  Script script;
  Effects expected;
  int reserve_failures = 0;
};

// `first` is below 12, and a step has at least 12 transfers each way.
Case CaseOf(Kind kind, int first, bool coin) {
  const auto error = [&](bool write, int number) {
    return Script{write, first, 1, {Fault::Kind::kError, number}};
  };
  switch (kind) {
    // Only a transfer of more than a block can be cut, and threads make any one the first: the step
    // has none but large ones.
    case Kind::kShortWrite:
      return {{true, 0, 1, {Fault::Kind::kShort, 0}}, {0, 0, 0, 1}};
    case Kind::kShortRead:
      return {{false, 0, 1, {Fault::Kind::kShort, 0}}, {0, 0, 0, 1}};
    case Kind::kWriteError:
      return {error(true, EIO), {1, 0, 0, 0}};
    case Kind::kFullWrite:
      return {error(true, ENOSPC), {1, 0, 0, 0}};
    // A reservation is asked for twice: with room to spare, then exactly.
    case Kind::kFullReserve:
      return {{true, 0, 0, {}}, {1, 0, 0, 0}, 2};
    case Kind::kReadErrorOnce:
      return {error(false, EIO), {0, 0, 1, 0}};
    // The first blob is one transfer, read before the others.
    case Kind::kReadErrorTwice:
      return {{false, 0, 2, {Fault::Kind::kError, EIO}}, {0, 1, 1, 0}};
    case Kind::kFlipOnDisk:
      return {{true, first, 1, {Fault::Kind::kFlip, 0}}, {0, 1, 1, 0}};
    case Kind::kFlipInRead:
      return {{false, first, 1, {Fault::Kind::kFlip, 0}}, {0, 0, 1, 0}};
    case Kind::kInterrupted:
      return {error(coin, first % 2 == 0 ? EINTR : EAGAIN), {}};
    case Kind::kKilled:
    case Kind::kCount:
      break;
  }
  return {};
}

// One fault in a step of a dozen blobs, under one combination of backend and direct I/O.
class Trial {
 public:
  Trial(const std::string& dir, unsigned seed) : dir_(dir), random_(seed) {}

  void Run(Kind kind) {
    if (kind == Kind::kKilled) return Kill();
    const Case fault = CaseOf(kind, Below(12), Below(2) == 0);
    only_large_ = kind == Kind::kShortWrite || kind == Kind::kShortRead;
    scripted_.script = fault.script;
    auto ops = std::make_unique<FaultyOps>();
    ops->decide = [this](const Transfer& transfer) { return scripted_(transfer); };
    ops->allocate_error = [this] { return reserve_failures_-- > 0 ? ENOSPC : 0; };
    FileTier tier(RandomOptions(), std::move(ops));
    reserve_failures_ = fault.reserve_failures;
    scripted_.armed = true;
    const Effects effects = RunStep(tier);
    scripted_.armed = false;
    EXPECT_EQ(scripted_.hits, fault.script.count);
    EXPECT_LE(reserve_failures_, 0);
    EXPECT_EQ(effects, fault.expected);
    ExpectNothingKept(tier);
    EXPECT_EQ(RunStep(tier), Effects{});
    ExpectNothingKept(tier);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  FileTierOptions RandomOptions() {
    FileTierOptions options = OptionsFor(dir_);
    options.backend = Below(2) == 0 ? FileBackend::kThreads : FileBackend::kAuto;
    options.direct_io = Below(3) == 0 ? DirectIo::kOff : DirectIo::kAuto;
    options.threads = Below(4);
    return options;
  }

  static void ExpectNothingKept(const FileTier& tier) {
    EXPECT_EQ(tier.stats().live_bytes.value(), 0);
    EXPECT_EQ(tier.stats().blobs, 0);
    EXPECT_EQ(tier.stats().unfinished, 0);
  }

  // Writes, reads and releases; every blob that was written and could be read is right.
  Effects RunStep(FileTier& tier) {
    Effects step;
    const FileTierStats before = tier.stats();
    std::vector<std::string> texts;
    std::vector<FileTicket> tickets;
    for (int i = 0; i < 12; ++i) {
      const int size = i == 0 || only_large_ ? 16384 : 1 + Below(3 * static_cast<int>(kTransfer));
      texts.push_back(Text(static_cast<std::size_t>(size), static_cast<unsigned>(Below(1000))));
    }
    const std::vector<std::string> copies = texts;
    for (const std::string& text : texts) {
      tickets.push_back(tier.StartWrite(text.data(), text.size()));
    }
    std::vector<std::pair<std::size_t, FileExtent>> written;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      try {
        written.emplace_back(i, tier.Wait(tickets[i]));
      } catch (const Error& error) {
        ++step.failed_writes;
        ExpectNamed(tier, error, "nothing is lost");
      }
    }
    EXPECT_EQ(texts, copies);
    for (const auto& [i, extent] : written) ReadBack(tier, extent, texts[i], step);
    const FileTierStats after = tier.stats();
    EXPECT_EQ(after.failed_writes - before.failed_writes, step.failed_writes);
    EXPECT_EQ(after.failed_reads - before.failed_reads, step.failed_reads);
    step.rereads = static_cast<int>(after.rereads - before.rereads);
    step.short_transfers = static_cast<int>(after.short_transfers - before.short_transfers);
    return step;
  }

  void ReadBack(FileTier& tier, const FileExtent& extent, const std::string& text, Effects& step) {
    std::string back(extent.size, '?');
    try {
      tier.Wait(tier.StartRead(extent, back.data()));
      EXPECT_EQ(back, text);
    } catch (const Error& error) {
      ++step.failed_reads;
      ExpectNamed(tier, error, "later steps can");
    }
    tier.Release(extent);
  }

  static void ExpectNamed(const FileTier& tier, const Error& error, const char* consequence) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(tier.facts().path + ": "), HasSubstr("at offset "),
                                    HasSubstr(consequence), HasSubstr("Remedy: ")));
  }

  // A child that steps until it is killed, on a file system that can have named files only and, one
  // time in two, cannot unlink them while open. The next start finds nothing or cleans up.
  void Kill() {
    const bool keeps_name = Below(2) == 0;
    const int steps = Below(4);
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto ops = std::make_unique<FaultyOps>();
      ops->unnamed_error = EOPNOTSUPP;
      ops->unlink_error = keeps_name ? EBUSY : 0;
      FileTier tier(RandomOptions(), std::move(ops));
      for (;;) {
        if (::write(pipe[1], "s", 1) != 1) ::_exit(1);
        RunStep(tier);
      }
    }
    char byte = 0;
    for (int i = 0; i <= steps; ++i) EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    ::close(pipe[0]);
    ::close(pipe[1]);
    FileTier tier(OptionsFor(dir_));
    EXPECT_EQ(tier.facts().leftovers_removed, keeps_name ? 1 : 0);
    EXPECT_EQ(RunStep(tier), Effects{});
  }

  const std::string dir_;
  std::minstd_rand random_;
  Scripted scripted_;
  std::atomic<int> reserve_failures_{0};
  bool only_large_ = false;
};

unsigned FromEnvironment(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

TEST(FileTierFaultSweep, LosesNothingSilentlyAndLeavesNoFile) {
  const unsigned seed = FromEnvironment("RESTOW_FILE_TIER_SEED", std::random_device{}());
  const unsigned faults = FromEnvironment("RESTOW_FILE_TIER_FAULTS", 200);
  std::printf("%u faults, RESTOW_FILE_TIER_SEED=%u\n", faults, seed);
  const TempDir dir;
  for (unsigned i = 0; i < faults && !::testing::Test::HasFailure(); ++i) {
    const auto kind = static_cast<Kind>(i % static_cast<unsigned>(Kind::kCount));
    SCOPED_TRACE(::testing::Message() << "fault " << i << " of kind " << static_cast<int>(kind));
    Trial(dir.path(), seed + i).Run(kind);
    ASSERT_THAT(dir.Entries(), IsEmpty());
  }
}

}  // namespace
}  // namespace restow::swap
