// Where it is trained: one kind of device, how many, and the links between them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "restow/base/quantity.h"

namespace restow {

enum class DType { kFp32, kBf16, kFp16, kFp8, kFp4 };

// "fp32", "bf16", ...
const char* Name(DType dtype);

// One accelerator. Rates are data-sheet peaks; what is reached of them is in Calibration.
struct Device {
  std::string name;                      // "h100-sxm"
  std::string silicon;                   // key of the calibration: "h100"
  std::map<DType, FlopsPerSecond> peak;  // dense
  Bytes memory;                          // what a process can allocate at most
  BytesPerSecond memory_bandwidth;
  BytesPerSecond host_link;  // one direction; 0: none
  Bytes host_memory;         // of one node
  int compute_units = 0;     // multiprocessors (cube cores on Ascend)
  bool full_mesh =
      false;           // scale-up fabric is point to point: a group of g uses g-1 of size-1 links
  std::string source;  // where the figures come from
};

// A level of the interconnect: `size` devices reach one another over it.
struct Level {
  std::string name;
  int size = 0;              // devices inside one domain of this level; the last covers all
  BytesPerSecond bandwidth;  // one direction, per device
  Seconds latency;           // 0: the calibration's
};

struct Cluster {
  Device device;
  int devices = 0;
  int per_node = 0;
  std::vector<Level> levels;  // from the inside out, sizes strictly growing
};

}  // namespace restow
