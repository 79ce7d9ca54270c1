#include "restow/schema/validation.h"

namespace restow {

const char* Name(RunQuantity quantity) {
  return quantity == RunQuantity::kMemory ? "memory" : "time";
}

const char* Name(MemoryInstrument instrument) {
  switch (instrument) {
    case MemoryInstrument::kAllocated:
      return "allocated";
    case MemoryInstrument::kReserved:
      return "reserved";
    case MemoryInstrument::kProcess:
      return "process";
  }
  return "allocated";
}

}  // namespace restow
