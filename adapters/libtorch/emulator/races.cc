#include "emulator/races.h"

#include "emulator/memory.h"
#include "restow/base/error.h"

namespace restow::emulator {
namespace {

// A program that races every step must not fill the memory with reports.
constexpr std::size_t kMostRaces = 10'000;

std::string Describe(const Block& block, const Use* use) {
  std::string text = "tensor " + std::to_string(block.id) + ", ";
  if (use != nullptr) {
    text += std::string(use->dtype) + "[";
    for (std::size_t i = 0; i < use->sizes.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(use->sizes[i]);
    }
    text += "]";
  } else {
    text += std::to_string(block.bytes) + " bytes";
  }
  text += block.device == kHostMemory ? " of pinned host memory"
                                      : " of emu:" + std::to_string(block.device);
  return text + ", made by " + *block.maker;
}

void Report(Machine& m, const char* kind, const Block& block, const Use* use, Label first,
            const std::string& second) {
  if (m.races.size() >= kMostRaces) return;
  const std::string key =
      std::string(kind) + '\n' + std::to_string(block.id) + '\n' + *first + '\n' + second;
  if (!m.race_keys.insert(key).second) return;
  m.races.push_back({kind, Describe(block, use), *first, second});
}

const char* KindOf(const Block& block, const Access& first, AccessKind second, Actor actor) {
  const bool host = block.device == kHostMemory;
  if (second == AccessKind::kRead && first.kind != AccessKind::kAllocate) {
    return host && actor == kHost ? kHostReadEarly : kMissingWaitBeforeUse;
  }
  return host ? kHostReusedEarly : kMissingWaitBeforeReuse;
}

// One range of one use in a live block; true when it is read before its write is done.
bool CheckRange(Machine& m, Block& block, ByteRange range, const Use& use, const Operation& by) {
  const auto base = reinterpret_cast<std::uintptr_t>(block.data);
  const ByteRange inside{range.begin - base, std::min(range.end - base, block.bytes)};
  const auto report = [&](const std::vector<Access>& unseen, AccessKind kind) {
    for (const Access& first : unseen) {
      const char* const name = KindOf(block, first, kind, by.epoch.actor);
      Report(m, name, block, &use, first.label, *by.label);
    }
    return !unseen.empty();
  };
  bool early = false;
  if (use.read) {
    const Access access{AccessKind::kRead, by.epoch, by.label};
    early = report(block.history.Read(inside, access, *by.clock), AccessKind::kRead);
  }
  if (use.write) {
    const Access access{AccessKind::kWrite, by.epoch, by.label};
    report(block.history.Write(inside, access, *by.clock), AccessKind::kWrite);
  }
  return early;
}

// Opaque memory has a layout of its own: only its own elements can be addressed.
void CheckElements(const Block& block, const Use& use) {
  if (block.device == kHostMemory || block.elements.empty() || block.elements == use.dtype) return;
  ThrowUnsupported("emu's memory is opaque: a tensor of " + block.elements + " cannot be read as " +
                   use.dtype + "; copy tensors with copy_ instead of their bytes, or keep them");
}

}  // namespace

std::vector<ByteRange> CheckUses(Machine& m, const std::vector<Use>& uses, const Operation& by) {
  std::vector<ByteRange> early;
  for (const Use& use : uses) {
    for (const ByteRange& range : use.ranges) {
      if (const auto block = FindLive(m, range.begin)) {
        if (m.options.opaque) CheckElements(*block, use);
        if (CheckRange(m, *block, range, use, by)) early.push_back(range);
      } else if (const auto freed = FindFreed(m, range.begin)) {
        Report(m, kReadAfterFree, *freed, &use, Intern("free"), *by.label);
      }
    }
  }
  return early;
}

void ReportEarlyFree(Machine& m, const Block& block, const Access& first) {
  Report(m, kEarlyFree, block, nullptr, first.label,
         "free, ordered after " + ActorName(block.home));
}

}  // namespace restow::emulator
