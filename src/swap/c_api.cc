#include "restow/swap/c_api.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "restow/base/error.h"
#include "restow/swap/engine.h"
#include "restow/swap/host_device.h"
#include "restow/swap/tier.h"
#include "swap/c_device.h"

// Memory of the caller on a host device: his handle, counted by his callbacks.
namespace {

struct Foreign {
  void* context = nullptr;
  void (*retain)(void*, void*) = nullptr;
  void (*release)(void*, void*) = nullptr;
  void* (*address)(void*, void*) = nullptr;
};

}  // namespace

struct restow_device {
  std::shared_ptr<restow::swap::Device> device;
  std::shared_ptr<restow::swap::HostDevice> host;  // where it is one
  Foreign foreign;
};

struct restow_engine {
  restow_device device;
  restow::swap::Engine engine;
};

struct restow_region {
  restow_device device;
  restow::swap::Region region;
};

struct restow_slot {
  restow_device device;
  restow::swap::Slot slot;
};

struct restow_buffer {
  restow_device device;
  restow::swap::DeviceBuffer memory;
};

namespace {

using restow::Error;
using restow::ErrorCode;
using restow::ThrowUsage;
namespace swap = restow::swap;

thread_local std::string last_error;
thread_local std::string last_text;

restow_status CodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return RESTOW_USAGE;
    case ErrorCode::kBadInput:
      return RESTOW_BAD_INPUT;
    case ErrorCode::kUnsupported:
      return RESTOW_UNSUPPORTED;
    default:
      return RESTOW_INTERNAL;
  }
}

restow_status Fail(restow_status status, const char* message) {
  try {
    last_error = message;
  } catch (...) {
  }
  return status;
}

// Runs `body`; no exception passes.
template <class Body>
restow_status Guarded(Body body) {
  try {
    last_error.clear();
    body();
    return RESTOW_OK;
  } catch (const Error& error) {
    return Fail(CodeOf(error.code()), error.what());
  } catch (const swap::CallbackFailure& error) {
    return Fail(RESTOW_DEVICE, error.what());
  } catch (const std::bad_alloc&) {
    return Fail(RESTOW_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return Fail(RESTOW_INTERNAL, error.what());
  } catch (...) {
    return Fail(RESTOW_INTERNAL, "an exception of an unknown type");
  }
}

template <class T>
T& Need(T* pointer, const char* name) {
  if (pointer == nullptr) ThrowUsage(std::string(name) + " is NULL");
  return *pointer;
}

// A copy of what the caller's version of a struct holds; fields he does not know keep the default.
template <class T>
T Read(const T* given, T defaults, const char* name) {
  const std::size_t size = Need(given, name).struct_size;
  if (size < sizeof(std::size_t) || size > 65536) {
    ThrowUsage(std::string(name) + ".struct_size is " + std::to_string(size) +
               "; set it to sizeof the struct");
  }
  std::memcpy(&defaults, given, std::min(size, sizeof(T)));
  return defaults;
}

restow_options Defaults() {
  const swap::Options options;
  restow_options defaults{};
  defaults.struct_size = sizeof(restow_options);
  defaults.window_bytes = defaults.host_cap_bytes = defaults.min_bytes = -1;
  defaults.fused_bytes = defaults.file_cap_bytes = -1;
  defaults.keep_last_region = options.keep_last_region ? 1 : 0;
  defaults.keep_after_use = options.keep_after_use ? 1 : 0;
  return defaults;
}

void Set(restow::Bytes& field, std::int64_t value) {
  if (value >= 0) field = restow::Bytes(value);
}

swap::Options Translate(const restow_options& given) {
  swap::Options options;
  Set(options.window, given.window_bytes);
  Set(options.host_cap, given.host_cap_bytes);
  Set(options.min_bytes, given.min_bytes);
  Set(options.fused_bytes, given.fused_bytes);
  if (given.when_full < 0 || given.when_full > 2) {
    ThrowUsage("when_full is " + std::to_string(given.when_full) + "; 0, 1 and 2 are allowed");
  }
  options.when_full = static_cast<swap::WhenFull>(given.when_full);
  options.keep_last_region = given.keep_last_region != 0;
  options.keep_after_use = given.keep_after_use != 0;
  options.watchdog_s = given.watchdog_s;
  if (given.file_dir != nullptr) {
    options.tier = swap::OpenFileTier(given.file_dir, given.file_cap_bytes);
  }
  if (given.on_trouble != nullptr) {
    options.on_trouble = [call = given.on_trouble, context = given.trouble_context](
                             const std::string& text) { call(context, text.c_str()); };
  }
  return options;
}

// The caller's memory as the device sees it.
swap::DeviceBuffer Adopt(const restow_device& device, const restow_storage& storage) {
  if (!device.host) return swap::AdoptHandle(*device.device, storage.memory, storage.memory_bytes);
  const Foreign& foreign = device.foreign;
  foreign.retain(foreign.context, storage.memory);
  const std::shared_ptr<void> owner(
      storage.memory, [foreign](void* memory) { foreign.release(foreign.context, memory); });
  void* data = foreign.address(foreign.context, storage.memory);
  return device.host->Wrap(data, storage.memory_bytes, owner);
}

}  // namespace

const char* restow_last_error(void) { return last_error.c_str(); }
const char* restow_version(void) { return "0.1.0"; }

restow_status restow_device_create(const restow_device_ops* ops, restow_device** device) {
  return Guarded([&] {
    Need(device, "device");
    const restow_device_ops table = Read(ops, restow_device_ops{}, "ops");
    *device = new restow_device{swap::MakeCallbackDevice(table), nullptr, {}};
  });
}

restow_status restow_device_create_host(void* context, void (*retain)(void*, void*),
                                        void (*release)(void*, void*),
                                        void* (*address)(void*, void*), restow_device** device) {
  return Guarded([&] {
    Need(device, "device");
    if (retain == nullptr || release == nullptr || address == nullptr) {
      ThrowUsage("retain, release and address may not be NULL");
    }
    const auto host = swap::MakeHostDevice();
    *device = new restow_device{host, host, {context, retain, release, address}};
  });
}

void restow_device_release(restow_device* device) { delete device; }

restow_status restow_options_init(restow_options* options) {
  return Guarded([&] {
    const std::size_t size = Need(options, "options").struct_size;
    const restow_options filled = Read(options, Defaults(), "options");
    static_cast<void>(filled);
    restow_options defaults = Defaults();
    defaults.struct_size = size;
    std::memcpy(options, &defaults, std::min(size, sizeof(defaults)));
  });
}

restow_status restow_engine_create(restow_device* device, const restow_options* options,
                                   restow_engine** engine) {
  return Guarded([&] {
    Need(device, "device");
    Need(engine, "engine");
    const restow_options given =
        options == nullptr ? Defaults() : Read(options, Defaults(), "options");
    *engine = new restow_engine{*device, {device->device, Translate(given)}};
  });
}

void restow_engine_release(restow_engine* engine) { delete engine; }

restow_status restow_region_begin(restow_engine* engine, const restow_region_options* options,
                                  restow_region** region) {
  return Guarded([&] {
    Need(engine, "engine");
    Need(region, "region");
    restow_region_options defaults{};
    defaults.min_bytes = -1;
    const restow_region_options given = Read(options, defaults, "options");
    swap::RegionOptions where;
    where.site = given.site == nullptr ? "" : given.site;
    where.group = given.group == nullptr ? "" : given.group;
    where.steering = given.manual != 0 ? swap::Steering::kManual : swap::Steering::kAutomatic;
    where.place = given.on_file != 0 ? swap::Place::kFile : swap::Place::kHost;
    where.min_bytes = given.min_bytes;
    where.fuse = given.fuse != 0;
    *region = new restow_region{engine->device, engine->engine.Begin(where)};
  });
}

void restow_region_end(restow_region* region) { delete region; }

restow_status restow_pack(restow_region* region, const restow_storage* storage,
                          restow_decision decision, restow_slot** slot, int* reason) {
  return Guarded([&] {
    Need(region, "region");
    Need(slot, "slot");
    const restow_storage given = Read(storage, restow_storage{}, "storage");
    Need(static_cast<char*>(given.memory), "storage.memory");
    if (given.offset > given.memory_bytes || given.bytes > given.memory_bytes - given.offset) {
      ThrowUsage("bytes [" + std::to_string(given.offset) + ", " +
                 std::to_string(given.offset + given.bytes) + ") are not in memory of " +
                 std::to_string(given.memory_bytes) + " bytes");
    }
    if (decision < RESTOW_AUTOMATIC || decision > RESTOW_SWAP) {
      ThrowUsage("decision is " + std::to_string(static_cast<int>(decision)) +
                 "; RESTOW_AUTOMATIC, RESTOW_KEEP and RESTOW_SWAP are allowed");
    }
    swap::Storage packed;
    packed.identity = given.identity;
    packed.version = given.version;
    packed.offset = given.offset;
    packed.bytes = given.bytes;
    packed.memory = Adopt(region->device, given);
    auto made = std::make_unique<restow_slot>();
    made->device = region->device;
    made->slot = region->region.Pack(packed, static_cast<swap::Decision>(decision));
    if (reason != nullptr) *reason = static_cast<int>(made->slot.reason());
    *slot = made.release();
  });
}

const char* restow_reason_text(int reason) {
  if (reason < 0 || reason > static_cast<int>(swap::Reason::kKeptDeviceError)) return "";
  return swap::Sentence(static_cast<swap::Reason>(reason));
}

restow_status restow_unpack(restow_slot* slot, restow_buffer** buffer, std::size_t* offset) {
  return Guarded([&] {
    Need(slot, "slot");
    Need(buffer, "buffer");
    auto made = std::make_unique<restow_buffer>();
    made->device = slot->device;
    swap::Slot::Unpacked got = slot->slot.Unpack();
    made->memory = std::move(got.memory);
    Need(offset, "offset") = got.offset;
    *buffer = made.release();
  });
}

void restow_slot_release(restow_slot* slot) { delete slot; }

void* restow_buffer_memory(const restow_buffer* buffer) {
  if (buffer == nullptr || buffer->device.host) return nullptr;
  return swap::HandleOf(*buffer->memory);
}

void* restow_buffer_data(const restow_buffer* buffer) {
  if (buffer == nullptr || !buffer->device.device->capabilities().host_addressable) return nullptr;
  return buffer->device.device->HostAddress(*buffer->memory);
}

std::size_t restow_buffer_bytes(const restow_buffer* buffer) {
  return buffer == nullptr ? 0 : buffer->memory->bytes();
}

void restow_buffer_release(restow_buffer* buffer) { delete buffer; }

restow_status restow_step(restow_engine* engine) {
  return Guarded([&] { Need(engine, "engine").engine.Step(); });
}
restow_status restow_forget(restow_engine* engine, std::uint64_t identity) {
  return Guarded([&] { Need(engine, "engine").engine.Forget(identity); });
}
restow_status restow_drain(restow_engine* engine) {
  return Guarded([&] { Need(engine, "engine").engine.Drain(); });
}
restow_status restow_launch_offload(restow_engine* engine, const char* group) {
  return Guarded([&] { Need(engine, "engine").engine.LaunchOffload(&Need(group, "group")); });
}
restow_status restow_wait_offload(restow_engine* engine, const char* group) {
  return Guarded([&] { Need(engine, "engine").engine.WaitOffload(&Need(group, "group")); });
}
restow_status restow_launch_load(restow_engine* engine, const char* group) {
  return Guarded([&] { Need(engine, "engine").engine.LaunchLoad(&Need(group, "group")); });
}
restow_status restow_wait_load(restow_engine* engine, const char* group) {
  return Guarded([&] { Need(engine, "engine").engine.WaitLoad(&Need(group, "group")); });
}
restow_status restow_drop_group(restow_engine* engine, const char* group) {
  return Guarded([&] { Need(engine, "engine").engine.DropGroup(&Need(group, "group")); });
}

restow_status restow_get_stats(restow_engine* engine, restow_stats* stats) {
  return Guarded([&] {
    const restow_stats asked = Read(stats, restow_stats{}, "stats");
    const swap::Stats now = Need(engine, "engine").engine.stats();
    restow_stats out{};
    out.struct_size = asked.struct_size;
    out.bytes_out = now.bytes_out;
    out.bytes_in = now.bytes_in;
    out.stalls = now.stalls;
    out.stall_s = now.stall_s;
    out.host_allocations = now.host_allocations;
    out.file_bytes = now.file_bytes;
    out.recomputed_regions = now.recomputed_regions;
    out.cancelled = now.cancelled;
    out.demand_loads = now.demand_loads;
    out.kept_host_full = now.kept_host_full;
    out.pin_failures = now.pin_failures;
    out.device_errors = now.device_errors;
    out.tier_errors = now.tier_errors;
    out.units = now.units;
    out.slots = now.slots;
    out.host_reserved_bytes = now.host_reserved_bytes;
    out.host_used_bytes = now.host_used_bytes;
    out.held_elsewhere_bytes = now.held_elsewhere_bytes;
    out.swapped_bytes = now.swapped_bytes;
    std::memcpy(stats, &out, std::min(asked.struct_size, sizeof(out)));
  });
}

restow_status restow_reset_stats(restow_engine* engine) {
  return Guarded([&] { Need(engine, "engine").engine.ResetStats(); });
}
restow_status restow_count_recomputed_region(restow_engine* engine) {
  return Guarded([&] { Need(engine, "engine").engine.CountRecomputedRegion(); });
}

restow_status restow_start_trace(restow_engine* engine) {
  return Guarded([&] { Need(engine, "engine").engine.StartTrace(); });
}
restow_status restow_stop_trace(restow_engine* engine,
                                void (*each)(void* context, const restow_trace_event* event),
                                void* context) {
  return Guarded([&] {
    if (each == nullptr) ThrowUsage("each is NULL");
    for (const swap::TraceEvent& copy : Need(engine, "engine").engine.StopTrace()) {
      const restow_trace_event event = {copy.direction == swap::Direction::kIn ? 1 : 0,
                                        copy.unit,
                                        copy.site.c_str(),
                                        copy.bytes,
                                        copy.begin_s,
                                        copy.end_s};
      each(context, &event);
    }
  });
}

uint64_t restow_checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

restow_status restow_dump(restow_engine* engine, const char** text) {
  return Guarded([&] {
    Need(text, "text");
    last_text = Need(engine, "engine").engine.Dump();
    *text = last_text.c_str();
  });
}
