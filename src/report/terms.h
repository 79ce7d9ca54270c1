// Tables of memory and time by term. Private to src/report.
#pragma once

#include <string>

#include "report/text.h"

namespace restow::report {

// Terms of the worst rank's peak, largest first as they are declared: size and share.
std::string MemoryBlock(const Candidate& candidate, const TableStyle& style);
// Terms of the step: seconds, share, and what is hidden behind other work.
std::string TimeBlock(const Candidate& candidate, const TableStyle& style);
// Peak and phase of every stage; neighbours that are alike share a line.
std::string StageBlock(const Candidate& candidate, const TableStyle& style);
// The mode on each part of a multimodal model and what `selective` keeps there; "" for other
// models.
std::string SubmoduleNotes(const Candidate& candidate, const TableStyle& style);
// "activations 36.3 GiB, gradients 18.0 GiB and weights 9.0 GiB": the largest of the peak.
std::string LargestTerms(const Candidate& candidate);
// ", 7.3 GiB taken outside the allocator (communicators)" or "".
std::string OutsideText(const Candidate& candidate);
// "step 12.3 s, 4,312 tokens/s/device, MFU 51.2 %".
std::string SpeedLine(const Candidate& candidate);
// Whether it fits, by how much, and what the allocator is expected to hold.
std::string FitLines(const Candidate& candidate, const TableStyle& style);

}  // namespace restow::report
