// Streams' queues: what is carried out when, under the schedule chosen.
//
// Queued are copies and waits for other streams. Operators are not: they run when launched, after
// everything queued before them on their stream, so they need no deferred shapes. Under the late
// schedule a copy's bytes therefore move only when the host waits for it, or an operator or wait
// that the program itself ordered after it runs.
#pragma once

#include "emulator/machine.h"

namespace restow::emulator {

// Queues `task` at the end of `stream` and carries out what the schedule wants now.
void Push(Machine& m, Lock& lock, StreamState& stream, Task task);
// Carries out the stream's tasks up to `place`, and what they wait for.
void RunUntil(Machine& m, Lock& lock, StreamState& stream, std::uint64_t place);
void RunAll(Machine& m, Lock& lock);
// The random schedule's draw: some tasks of some streams are carried out.
void RunDrawn(Machine& m, Lock& lock);
// Ends the threads of Schedule::kThreads; queues must be empty.
void StopWorkers(Machine& m, Lock& lock);

}  // namespace restow::emulator
