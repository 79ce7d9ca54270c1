// What a forked child inherits: no threads of the tier, but copies of its descriptors. The copies
// are closed in the child, so that the file's space goes when the parent's tier does.
#pragma once

namespace restow::swap::file_tier {

// Counts the forks between the first process and this one. Constant within a process.
// Threads: any.
unsigned ForkGeneration();

// While it lives, `fd` is closed in children. Requires: it goes before `fd` is closed here, since
// the number may then mean another file. Threads: any.
class ClosedInChildren {
 public:
  explicit ClosedInChildren(int fd);
  ClosedInChildren(const ClosedInChildren&) = delete;
  ClosedInChildren& operator=(const ClosedInChildren&) = delete;
  ~ClosedInChildren();

 private:
  int fd_;
};

}  // namespace restow::swap::file_tier
