// How fast the file tier writes and reads, beside fio on the same directory: the same block size,
// queue depth and direct I/O, in one run. Checks its answers first.
//
// A shared disk is faster in one minute than in the next. So short runs of the tier and of fio
// alternate, each round is a pair that stands for itself, who goes first changes from round to
// round, and the figure is the median of the rounds' ratios: what drifts cancels out.
//
//   file_tier_bench [FILE]    the figures also as JSON in FILE
//   RESTOW_BENCH_DIR          the directory; the current one without it. Not on tmpfs; takes 1 GiB
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "restow/base/error.h"
#include "restow/swap/file_tier.h"

namespace restow::swap {
namespace {

constexpr std::int64_t kTotal = 512 * kMiB;  // of each file; gone through again and again
// Virtual disks lend bandwidth after a pause: nothing is measured until that is used up.
constexpr int kLeadMs = 500, kMeasuredMs = 500;
constexpr double kLeadSeconds = kLeadMs / 1e3, kMeasuredSeconds = kMeasuredMs / 1e3;
constexpr int kDepth = 16;
// Blobs under way: more than transfers in flight, as in a job, so that the depth is always used.
constexpr std::size_t kQueued = 4 * kDepth;
constexpr std::size_t kChecked = 64;  // blobs compared byte by byte
constexpr int kRounds = 15;

void Require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "file_tier_bench: %s\n", what.c_str());
  std::exit(1);
}

enum class Way { kWrite, kRead };
constexpr std::array<Way, 2> kWays = {Way::kWrite, Way::kRead};

// Bytes/s of one round, both of which met the disk in the same mood.
struct Round {
  double ours = 0, fio = 0;
};

// One line of the table.
struct Line {
  std::string name;
  std::int64_t block = 0;
  Way way = Way::kWrite;
  std::vector<Round> rounds;
};

class Memory {
 public:
  explicit Memory(std::size_t size) : data_(static_cast<char*>(std::aligned_alloc(4096, size))) {
    Require(data_ != nullptr, "no memory");
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < size; i += 8) {
      const std::uint64_t word = random();
      std::memcpy(data_ + i, &word, 8);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(data_); }
  char* data() const { return data_; }

 private:
  char* data_;
};

double Since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// Blobs of one block, kDepth transfers in flight, like fio's requests.
class Tier {
 public:
  Tier(const std::string& dir, std::int64_t block, bool checksums, std::size_t shift)
      : block_(static_cast<std::size_t>(block)),
        out_(block_ * kQueued + 4096),
        in_(block_ * kQueued + 4096),
        shift_(shift),
        tier_(Options(dir, block, checksums)),
        extents_(count()) {
    Write();  // the file's space is taken and written once before anything is timed
    CheckAnswer();
  }

  double Measure(Way way) {
    return way == Way::kWrite ? Rate([this](std::size_t i) { return StartWrite(i); })
                              : Rate([this](std::size_t i) { return StartRead(i); });
  }

  const FileTierFacts& facts() const { return tier_.facts(); }

 private:
  static FileTierOptions Options(const std::string& dir, std::int64_t block, bool checksums) {
    FileTierOptions options;
    options.dir = dir;
    options.checksums = checksums;
    options.queue_depth = kDepth;
    options.transfer_bytes = Bytes(std::min<std::int64_t>(block, kMiB));
    options.byte_cap = Bytes(kTotal);
    return options;
  }

  char* Buffer(const Memory& memory, std::size_t i) const {
    return memory.data() + (i % kQueued) * block_ + shift_;
  }

  FileTicket StartWrite(std::size_t i) {
    if (extents_[i].id != 0) tier_.Release(extents_[i]);
    extents_[i] = {};
    return tier_.StartWrite(Buffer(out_, i), block_);
  }

  FileTicket StartRead(std::size_t i) { return tier_.StartRead(extents_[i], Buffer(in_, i)); }

  // Every blob once.
  void Write() {
    for (std::size_t i = 0; i < count(); ++i) extents_[i] = tier_.Wait(StartWrite(i));
  }

  // Blob after blob, kQueued under way; bytes per second behind the lead.
  template <class Start>
  double Rate(const Start& start) {
    struct UnderWay {
      std::size_t blob;
      FileTicket ticket;
    };
    std::deque<UnderWay> under_way;
    const auto collect = [&] {
      extents_[under_way.front().blob] = tier_.Wait(under_way.front().ticket);
      under_way.pop_front();
    };
    const auto begun = std::chrono::steady_clock::now();
    double measured_from = 0, now = 0;
    std::int64_t blocks = 0;
    for (std::size_t i = 0; now < kLeadSeconds + kMeasuredSeconds; ++i) {
      if (under_way.size() == kQueued) collect();
      under_way.push_back({i % count(), start(i % count())});
      now = Since(begun);
      if (now < kLeadSeconds) measured_from = now;
      if (now >= kLeadSeconds) ++blocks;
    }
    while (!under_way.empty()) collect();
    return static_cast<double>(blocks) * static_cast<double>(block_) / (now - measured_from);
  }

  // Blobs from all over the file, one at a time, into a buffer that held other bytes.
  void CheckAnswer() {
    for (std::size_t i = 0; i < count(); i += std::max<std::size_t>(1, count() / kChecked)) {
      std::memset(Buffer(in_, i), 0, block_);
      tier_.Wait(tier_.StartRead(extents_[i], Buffer(in_, i)));
      Require(std::memcmp(Buffer(in_, i), Buffer(out_, i), block_) == 0, "wrong bytes came back");
    }
  }

  std::size_t count() const { return static_cast<std::size_t>(kTotal) / block_; }

  std::size_t block_;
  Memory out_, in_;
  std::size_t shift_;
  FileTier tier_;
  std::vector<FileExtent> extents_;
};

// One pass of fio over a file that exists, as ours does. Terse output, version 3: field 7 is the
// read bandwidth, field 48 the write bandwidth, both in KiB/s (fio(1), "TERSE OUTPUT").
double Fio(const std::string& file, std::int64_t block, const FileTierFacts& facts, Way way) {
  const bool write = way == Way::kWrite;
  const std::string command = fmt::format(
      "fio --name=tier --filename={} --size={} --bs={} --iodepth={} --numjobs=1 --ioengine={} "
      "--direct={} --rw={} --overwrite=1 --fallocate=none --time_based --ramp_time={}ms "
      "--runtime={}ms "
      "--output-format=terse --terse-version=3",
      file, kTotal, block, kDepth, facts.ring ? "io_uring" : "libaio", facts.direct_io ? 1 : 0,
      write ? "write" : "read", kLeadMs, kMeasuredMs);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  Require(pipe != nullptr, "fio cannot be started");
  std::string text(65536, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  Require(::pclose(pipe) == 0, "fio failed: " + text);
  std::size_t at = text.find("3;fio");
  Require(at != std::string::npos, "fio's output is not understood: " + text);
  for (int field = 1; field < (write ? 48 : 7); ++field) at = text.find(';', at) + 1;
  return std::strtod(text.c_str() + at, nullptr) * 1024;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Median(const Line& line, double (*figure)(const Round&)) {
  std::vector<double> values;
  for (const Round& round : line.rounds) values.push_back(figure(round));
  return Median(values);
}

double Ours(const Line& line) {
  return Median(line, [](const Round& round) { return round.ours; });
}
double Fios(const Line& line) {
  return Median(line, [](const Round& round) { return round.fio; });
}
// Of the rounds' own ratios, not of medians.
double Ratio(const Line& line) {
  return Median(line, [](const Round& round) { return round.ours / round.fio; });
}

std::vector<Line> Compare(const std::string& dir, const std::string& name, std::int64_t block,
                          bool checksums, std::size_t shift) {
  Tier tier(dir, block, checksums, shift);
  const std::string file = fmt::format("{}/restow_file_tier_bench.{}.fio", dir, ::getpid());
  Fio(file, block, tier.facts(), Way::kWrite);  // makes the file
  std::vector<Line> lines;
  for (const Way way : kWays) {
    Line& line = lines.emplace_back(Line{name, block, way, {}});
    for (int i = 0; i < kRounds; ++i) {
      Round round;
      if (i % 2 == 0) round.ours = tier.Measure(way);
      round.fio = Fio(file, block, tier.facts(), way);
      if (i % 2 != 0) round.ours = tier.Measure(way);
      line.rounds.push_back(round);
    }
  }
  ::unlink(file.c_str());
  return lines;
}

void Print(const Line& line) {
  const auto [least, most] = std::minmax_element(
      line.rounds.begin(), line.rounds.end(),
      [](const Round& a, const Round& b) { return a.ours / a.fio < b.ours / b.fio; });
  fmt::print("{:<28} {:>6} KiB  {:<5} {:>8.1f} {:>8.1f}   {:>5.3f}  {:>5.2f} {:>5.2f}\n", line.name,
             line.block / 1024, line.way == Way::kWrite ? "write" : "read", Ours(line) / 1e6,
             Fios(line) / 1e6, Ratio(line), least->ours / least->fio, most->ours / most->fio);
  std::fflush(stdout);
}

std::string Json(const std::vector<Line>& lines, const FileTierFacts& facts) {
  std::string text = fmt::format(
      "{{\"io_uring\": {}, \"direct_io\": {}, \"queue_depth\": {}, \"file_bytes\": {}, "
      "\"rounds\": {}, \"rows\": [",
      facts.ring, facts.direct_io, kDepth, kTotal, kRounds);
  for (const Line& line : lines) {
    std::vector<std::string> ratios;
    for (const Round& round : line.rounds) {
      ratios.push_back(fmt::format("{:.4f}", round.ours / round.fio));
    }
    text += fmt::format(
        "{}\n  {{\"name\": \"{}\", \"way\": \"{}\", \"block_bytes\": {}, \"bytes_per_s\": {:.0f}, "
        "\"fio_bytes_per_s\": {:.0f}, \"ratio\": {:.4f}, \"ratios\": [{}]}}",
        &line == lines.data() ? "" : ",", line.name, line.way == Way::kWrite ? "write" : "read",
        line.block, Ours(line), Fios(line), Ratio(line), fmt::join(ratios, ", "));
  }
  return text + "\n]}\n";
}

std::string BenchDirectory() {
  const char* stated = std::getenv("RESTOW_BENCH_DIR");
  std::string dir = stated != nullptr ? stated : ".";
  struct statfs info {};
  Require(::statfs(dir.c_str(), &info) == 0, "no such directory: " + dir);
  Require(info.f_type != TMPFS_MAGIC, dir + " is on tmpfs, which is memory: set RESTOW_BENCH_DIR");
  return dir;
}

FileTierFacts FactsOf(const std::string& dir) {
  FileTierOptions options;
  options.dir = dir;
  return FileTier(options).facts();
}

int Main(const char* json) {
  const std::string dir = BenchDirectory();
  const FileTierFacts facts = FactsOf(dir);
  fmt::print("directory {}: {}, {}; queue depth {}, median of {} rounds in turns with fio\n", dir,
             facts.ring ? "io_uring" : "threads", facts.direct_io ? "direct I/O" : "page cache",
             kDepth, kRounds);
  if (!facts.notes.empty()) fmt::print("{}\n", facts.notes);
  fmt::print("{:<28} {:>10}  {:<5} {:>8} {:>8}   {:>5}  {:>5} {:>5}\n", "", "block", "", "MB/s",
             "fio", "ratio", "least", "most");
  std::vector<Line> lines;
  const auto add = [&](const char* name, std::int64_t block, bool checksums, std::size_t shift) {
    for (const Line& line : Compare(dir, name, block, checksums, shift)) {
      Print(line);
      lines.push_back(line);
    }
  };
  add("checksums, aligned", kMiB, true, 0);
  add("no checksums, aligned", kMiB, false, 0);
  add("checksums, copied", kMiB, true, 1);
  if (json == nullptr) return 0;
  std::FILE* file = std::fopen(json, "w");
  Require(file != nullptr, std::string("cannot write ") + json);
  fmt::print(file, "{}", Json(lines, facts));
  std::fclose(file);
  return 0;
}

}  // namespace
}  // namespace restow::swap

int main(int argc, char** argv) {
  try {
    return restow::swap::Main(argc > 1 ? argv[1] : nullptr);
  } catch (const restow::Error& error) {
    std::fprintf(stderr, "file_tier_bench: %s\n", error.what());
    return 1;
  }
}
