/* The C face from C: a device of callbacks, a step with every call, and what misuse says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "restow/swap/c_api.h"

static int failures = 0;

#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition);  \
      ++failures;                                                      \
    }                                                                  \
  } while (0)
#define OK(call)                                                                          \
  do {                                                                                    \
    const restow_status status_ = (call);                                                 \
    if (status_ != RESTOW_OK) {                                                           \
      printf("%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #call, (int)status_,              \
             restow_last_error());                                                        \
      ++failures;                                                                         \
    }                                                                                     \
  } while (0)

/* Device memory: counted bytes. All work happens at once, so every event is done. */
typedef struct memory {
  int references;
  size_t bytes;
  unsigned char data[];
} memory;

typedef struct device {
  int memories, events, host_blocks, copies_out, copies_in, copies_on_device;
  int fail_copies;
} device;

static int CurrentStream(void* context, uint64_t* stream) {
  (void)context;
  *stream = 1;
  return 0;
}
static int NewCopyStream(void* context, int inwards, uint64_t* stream) {
  (void)context;
  *stream = inwards ? 3 : 2;
  return 0;
}
static int Synchronize(void* context, uint64_t stream) {
  (void)context, (void)stream;
  return 0;
}
static int NewEvent(void* context, void** event) {
  ++((device*)context)->events;
  *event = malloc(1);
  return *event == NULL;
}
static void FreeEvent(void* context, void* event) {
  --((device*)context)->events;
  free(event);
}
static int Record(void* context, void* event, uint64_t stream) {
  (void)context, (void)event, (void)stream;
  return 0;
}
static int StreamWait(void* context, uint64_t stream, void* event) {
  (void)context, (void)stream, (void)event;
  return 0;
}
static int EventDone(void* context, void* event, int* done) {
  (void)context, (void)event;
  *done = 1;
  return 0;
}
static int HostWait(void* context, void* event) {
  (void)context, (void)event;
  return 0;
}
static memory* NewMemory(device* d, size_t bytes) {
  memory* m = malloc(sizeof(memory) + bytes);
  if (m == NULL) abort();
  m->references = 1;
  m->bytes = bytes;
  memset(m->data, 0xDB, bytes);
  ++d->memories;
  return m;
}
static int Allocate(void* context, size_t bytes, uint64_t stream, void** result) {
  (void)stream;
  *result = NewMemory(context, bytes);
  return 0;
}
static void Retain(void* context, void* m) {
  (void)context;
  ++((memory*)m)->references;
}
static void Release(void* context, void* m) {
  if (--((memory*)m)->references > 0) return;
  --((device*)context)->memories;
  free(m);
}
static void* Address(void* context, void* m) {
  (void)context;
  return ((memory*)m)->data;
}
static int AllocateHost(void* context, size_t bytes, int pinned, void** data) {
  if (pinned) return 7;
  ++((device*)context)->host_blocks;
  *data = malloc(bytes);
  return *data == NULL;
}
static void FreeHost(void* context, void* data, size_t bytes, int pinned) {
  (void)bytes, (void)pinned;
  --((device*)context)->host_blocks;
  free(data);
}
static int CopyOut(void* context, void* to, void* from, size_t offset, size_t bytes,
                   uint64_t stream) {
  (void)stream;
  if (((device*)context)->fail_copies) return 9;
  ++((device*)context)->copies_out;
  memcpy(to, ((memory*)from)->data + offset, bytes);
  return 0;
}
static int CopyIn(void* context, void* to, size_t offset, const void* from, size_t bytes,
                  uint64_t stream) {
  (void)stream;
  if (((device*)context)->fail_copies) return 9;
  ++((device*)context)->copies_in;
  memcpy(((memory*)to)->data + offset, from, bytes);
  return 0;
}
static int CopyOnDevice(void* context, void* to, size_t to_offset, void* from, size_t from_offset,
                        size_t bytes, uint64_t stream) {
  (void)stream;
  ++((device*)context)->copies_on_device;
  memcpy(((memory*)to)->data + to_offset, ((memory*)from)->data + from_offset, bytes);
  return 0;
}
static const char* DeviceError(void* context) {
  (void)context;
  return "the link is down";
}

static restow_device_ops Table(device* d) {
  restow_device_ops ops;
  memset(&ops, 0, sizeof(ops));
  ops.struct_size = sizeof(ops);
  ops.context = d;
  ops.pinned_memory = 1;
  ops.async_copies = 1;
  ops.copy_streams = 2;
  ops.frees_in_stream_order = 1;
  ops.current_stream = CurrentStream;
  ops.new_copy_stream = NewCopyStream;
  ops.synchronize = Synchronize;
  ops.new_event = NewEvent;
  ops.free_event = FreeEvent;
  ops.record = Record;
  ops.stream_wait = StreamWait;
  ops.event_done = EventDone;
  ops.host_wait = HostWait;
  ops.allocate = Allocate;
  ops.retain = Retain;
  ops.release = Release;
  ops.allocate_host = AllocateHost;
  ops.free_host = FreeHost;
  ops.copy_out = CopyOut;
  ops.copy_in = CopyIn;
  ops.last_error = DeviceError;
  ops.copy_on_device = CopyOnDevice;
  return ops;
}

enum { kLayers = 6, kBytes = 5000 };

static restow_slot* SaveAs(device* d, restow_region* region, uint64_t identity,
                           restow_decision decision, int* reason) {
  restow_storage storage;
  restow_slot* slot = NULL;
  memory* m = NewMemory(d, kBytes);
  memset(m->data, (int)identity, kBytes);
  memset(&storage, 0, sizeof(storage));
  storage.struct_size = sizeof(storage);
  storage.identity = identity;
  storage.bytes = storage.memory_bytes = kBytes;
  storage.memory = m;
  OK(restow_pack(region, &storage, decision, &slot, reason));
  Release(d, m);
  return slot;
}

static restow_slot* Save(device* d, restow_region* region, uint64_t identity, int* reason) {
  return SaveAs(d, region, identity, RESTOW_SWAP, reason);
}

static void Use(restow_slot* slot, int value) {
  restow_buffer* buffer = NULL;
  size_t offset = 1;
  OK(restow_unpack(slot, &buffer, &offset));
  if (buffer == NULL) return;
  const memory* m = restow_buffer_memory(buffer);
  EXPECT(offset + kBytes <= restow_buffer_bytes(buffer)); /* tensors that were fused share one */
  for (size_t i = 0; i < kBytes; ++i) {
    if (m->data[offset + i] == value) continue;
    EXPECT(m->data[offset + i] == value);
    break;
  }
  restow_buffer_release(buffer);
}

static restow_region* Begin(restow_engine* engine, const char* group) {
  restow_region_options options;
  restow_region* region = NULL;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.site = "layer";
  options.group = group;
  options.manual = group != NULL;
  options.min_bytes = -1;
  OK(restow_region_begin(engine, &options, &region));
  return region;
}

static restow_engine* NewEngine(device* d) {
  const restow_device_ops ops = Table(d);
  restow_device* handle = NULL;
  restow_engine* engine = NULL;
  restow_options options;
  options.struct_size = sizeof(options);
  OK(restow_options_init(&options));
  options.keep_last_region = 0;
  options.window_bytes = 2 * kBytes;
  OK(restow_device_create(&ops, &handle));
  OK(restow_engine_create(handle, &options, &engine));
  restow_device_release(handle); /* the engine keeps what it needs */
  return engine;
}

static void StepsComeBackRight(void) {
  device d = {0};
  restow_engine* engine = NewEngine(&d);
  for (int step = 0; step < 3; ++step) {
    restow_slot* slots[kLayers];
    for (int i = 0; i < kLayers; ++i) {
      int reason = -1;
      restow_region* region = Begin(engine, NULL);
      slots[i] = Save(&d, region, (uint64_t)(10 * step + i + 1), &reason);
      EXPECT(strlen(restow_reason_text(reason)) > 0);
      restow_region_end(region);
    }
    for (int i = kLayers; i-- > 0;) {
      Use(slots[i], 10 * step + i + 1);
      Use(slots[i], 10 * step + i + 1);
      restow_slot_release(slots[i]);
    }
    OK(restow_step(engine));
  }
  OK(restow_drain(engine));
  restow_stats stats = {.struct_size = sizeof(stats)};
  OK(restow_get_stats(engine, &stats));
  EXPECT(stats.units == 0 && stats.slots == 0 && stats.host_used_bytes == 0);
  EXPECT(stats.bytes_out == 3 * kLayers * kBytes);
  EXPECT(stats.pin_failures > 0);
  EXPECT(d.copies_in > 0 && d.memories == 0);
  const char* text = NULL;
  OK(restow_dump(engine, &text));
  EXPECT(strstr(text, "Offloading -- give up --> OnHost") != NULL);
  restow_engine_release(engine);
  EXPECT(d.host_blocks == 0 && d.events == 0);
}

static void GroupsAreSteered(void) {
  device d = {0};
  restow_engine* engine = NewEngine(&d);
  restow_region* region = Begin(engine, "stage0");
  restow_slot* slot = Save(&d, region, 3, NULL);
  restow_region_end(region);
  EXPECT(restow_wait_offload(engine, "stage0") == RESTOW_USAGE);
  EXPECT(strstr(restow_last_error(), "launch_offload") != NULL);
  OK(restow_launch_offload(engine, "stage0"));
  OK(restow_wait_offload(engine, "stage0"));
  EXPECT(d.memories == 0);
  OK(restow_launch_load(engine, "stage0"));
  OK(restow_wait_load(engine, "stage0"));
  EXPECT(d.memories == 1);
  Use(slot, 3);
  EXPECT(restow_launch_load(engine, "stage1") == RESTOW_USAGE);
  OK(restow_drop_group(engine, "stage0"));
  restow_slot_release(slot);
  restow_engine_release(engine);
}

typedef struct traced {
  int outwards, inwards;
  int64_t bytes;
} traced;

static void Count(void* context, const restow_trace_event* event) {
  traced* seen = context;
  if (event->inwards) {
    ++seen->inwards;
  } else {
    ++seen->outwards;
  }
  seen->bytes += event->bytes;
  EXPECT(strcmp(event->site, "small") == 0 && event->end_s >= event->begin_s);
}

static void SmallTensorsTravelInOneCopyAndTheTraceShowsIt(void) {
  device d = {0};
  restow_engine* engine = NewEngine(&d);
  restow_region_options options = {.struct_size = sizeof(options), .site = "small",
                                   .min_bytes = 2 * kBytes, .fuse = 1};
  restow_region* region = NULL;
  restow_slot* slots[3];
  traced seen = {0};
  OK(restow_start_trace(engine));
  OK(restow_region_begin(engine, &options, &region));
  for (int i = 0; i < 3; ++i) {
    slots[i] = SaveAs(&d, region, (uint64_t)i + 1, RESTOW_AUTOMATIC, NULL);
  }
  restow_region_end(region);
  OK(restow_drain(engine));
  EXPECT(d.copies_out == 1 && d.copies_on_device == 3 && d.memories == 0);
  for (int i = 3; i-- > 0;) {
    Use(slots[i], i + 1);
    restow_slot_release(slots[i]);
  }
  OK(restow_drain(engine));
  EXPECT(restow_stop_trace(engine, NULL, NULL) == RESTOW_USAGE);
  OK(restow_stop_trace(engine, Count, &seen));
  EXPECT(seen.outwards == 1 && seen.inwards == 1 && seen.bytes >= 2 * 3 * kBytes);
  restow_engine_release(engine);
  EXPECT(d.memories == 0 && d.events == 0 && d.host_blocks == 0);
}

static void AFailingDeviceIsNamed(void) {
  device d = {0};
  restow_engine* engine = NewEngine(&d);
  restow_region* region = Begin(engine, NULL);
  restow_slot* slot = Save(&d, region, 4, NULL);
  OK(restow_drain(engine));
  restow_region_end(region);
  d.fail_copies = 1;
  restow_buffer* buffer = NULL;
  size_t offset = 0;
  EXPECT(restow_unpack(slot, &buffer, &offset) == RESTOW_DEVICE);
  EXPECT(strstr(restow_last_error(), "the link is down") != NULL);
  EXPECT(buffer == NULL);
  d.fail_copies = 0;
  Use(slot, 4);
  restow_engine_release(engine); /* the slot outlives it */
  Use(slot, 4);
  restow_slot_release(slot);
  EXPECT(d.memories == 0 && d.events == 0 && d.host_blocks == 0);
}

static void MisuseIsRefused(void) {
  device d = {0};
  restow_device* handle = NULL;
  restow_device_ops ops = Table(&d);
  EXPECT(restow_device_create(NULL, &handle) == RESTOW_USAGE);
  ops.copy_out = NULL;
  EXPECT(restow_device_create(&ops, &handle) == RESTOW_USAGE);
  ops = Table(&d);
  ops.struct_size = 0;
  EXPECT(restow_device_create(&ops, &handle) == RESTOW_USAGE);
  EXPECT(strstr(restow_last_error(), "struct_size") != NULL);
  EXPECT(restow_step(NULL) == RESTOW_USAGE);
  EXPECT(strcmp(restow_last_error(), "engine is NULL") == 0);
  restow_slot_release(NULL);
  restow_engine_release(NULL);
  restow_engine* engine = NewEngine(&d);
  restow_region* region = Begin(engine, NULL);
  restow_storage storage = {.struct_size = sizeof(storage), .offset = 8, .bytes = 8,
                            .memory_bytes = 10, .memory = &d};
  restow_slot* slot = NULL;
  EXPECT(restow_pack(region, &storage, RESTOW_SWAP, &slot, NULL) == RESTOW_USAGE);
  restow_region_end(region);
  restow_engine_release(engine);
}

static void TheHostDeviceWrapsTheCallersMemory(void) {
  device d = {0};
  restow_device* handle = NULL;
  restow_engine* engine = NULL;
  restow_options options;
  options.struct_size = sizeof(options);
  OK(restow_options_init(&options));
  OK(restow_device_create_host(&d, Retain, Release, Address, &handle));
  OK(restow_engine_create(handle, &options, &engine));
  restow_device_release(handle);
  restow_region* region = Begin(engine, NULL);
  restow_slot* slot = Save(&d, region, 5, NULL);
  restow_region_end(region);
  OK(restow_drain(engine));
  EXPECT(d.memories == 0);
  restow_buffer* buffer = NULL;
  size_t offset = 0;
  OK(restow_unpack(slot, &buffer, &offset));
  EXPECT(restow_buffer_memory(buffer) == NULL);
  const unsigned char* data = restow_buffer_data(buffer);
  EXPECT(data != NULL && data[0] == 5 && data[kBytes - 1] == 5);
  restow_slot_release(slot);
  restow_buffer_release(buffer);
  restow_engine_release(engine);
}

int main(void) {
  StepsComeBackRight();
  GroupsAreSteered();
  SmallTensorsTravelInOneCopyAndTheTraceShowsIt();
  AFailingDeviceIsNamed();
  MisuseIsRefused();
  TheHostDeviceWrapsTheCallersMemory();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
