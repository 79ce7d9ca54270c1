/* The engine for other languages: the C face of restow/swap/engine.h, which says what things mean.
 *
 * Errors: functions return a restow_status; after any but RESTOW_OK, restow_last_error() is the
 * message, of the calling thread, until its next call. Outputs are written on success only.
 * Ownership: what a function creates through a `**` belongs to the caller, who ends it with the
 * function named beside it. NULL may be released. Strings given are copied; strings got belong to
 * the library and stay until the calling thread's next call, unless it says otherwise.
 * Threads: everything may be called from any thread. restow_unpack, restow_pack, restow_drain and
 * the group calls may wait; give up your interpreter's lock first. restow_slot_release never waits
 * for the device, but may call your `release`.
 * Sizes: a struct begins with its own size, so that later versions may add fields at the end.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RESTOW_API __attribute__((visibility("default")))
#else
#define RESTOW_API
#endif

typedef enum restow_status {
  RESTOW_OK = 0,
  RESTOW_INTERNAL = 1,    /* our bug */
  RESTOW_USAGE = 2,       /* a call that makes no sense: a wait without a launch, a NULL handle */
  RESTOW_BAD_INPUT = 3,   /* a value is wrong, or a file failed; the message names it */
  RESTOW_UNSUPPORTED = 4, /* not available in this build */
  RESTOW_DEVICE = 5,      /* a callback of the device failed; the message is the device's */
  RESTOW_OUT_OF_MEMORY = 6
} restow_status;

typedef struct restow_device restow_device; /* end with restow_device_release */
typedef struct restow_engine restow_engine; /* end with restow_engine_release */
typedef struct restow_region restow_region; /* end with restow_region_end */
typedef struct restow_slot restow_slot;     /* end with restow_slot_release */
typedef struct restow_buffer restow_buffer; /* end with restow_buffer_release */

RESTOW_API const char* restow_last_error(void);
RESTOW_API const char* restow_version(void); /* stays */

/* A device as a table of callbacks. Each returns 0, or anything else for a failure whose text
 * `last_error` then gives. Called from any thread, several at once, never under the engine's lock.
 * A `memory` is the caller's own handle of device memory, counted by `retain` and `release`.
 */
typedef struct restow_device_ops {
  size_t struct_size;
  void* context;

  int pinned_memory, async_copies; /* capabilities: 0 or 1 */
  int copy_streams;                /* 0, 1 or 2 */
  int frees_in_stream_order; /* memory allocated on a stream is reused by later work of it only */

  int (*current_stream)(void* context, uint64_t* stream);
  int (*new_copy_stream)(void* context, int inwards, uint64_t* stream);
  int (*synchronize)(void* context, uint64_t stream);

  int (*new_event)(void* context, void** event);
  void (*free_event)(void* context, void* event);
  int (*record)(void* context, void* event, uint64_t stream);
  int (*stream_wait)(void* context, uint64_t stream, void* event);
  int (*event_done)(void* context, void* event, int* done);
  int (*host_wait)(void* context, void* event);

  /* `*memory` comes with one reference. */
  int (*allocate)(void* context, size_t bytes, uint64_t stream, void** memory);
  void (*retain)(void* context, void* memory);
  void (*release)(void* context, void* memory);
  /* May be NULL. See Device::NoteUse. */
  int (*note_use)(void* context, void* memory, uint64_t stream);
  /* May be NULL. Where the bytes lie for the host; then files are written from there. */
  void* (*host_address)(void* context, void* memory);

  int (*allocate_host)(void* context, size_t bytes, int pinned, void** data);
  void (*free_host)(void* context, void* data, size_t bytes, int pinned);
  int (*copy_out)(void* context, void* to, void* from, size_t offset, size_t bytes,
                  uint64_t stream);
  int (*copy_in)(void* context, void* to, size_t offset, const void* from, size_t bytes,
                 uint64_t stream);
  /* May be NULL. The failure of the calling thread's last call; copied at once. */
  const char* (*last_error)(void* context);
  /* May be NULL; then small tensors are not fused. */
  int (*copy_on_device)(void* context, void* to, size_t to_offset, void* from, size_t from_offset,
                        size_t bytes, uint64_t stream);
} restow_device_ops;

/* `ops` is copied; its context must live until the last engine, slot and buffer is gone. */
RESTOW_API restow_status restow_device_create(const restow_device_ops* ops, restow_device** device);
/* Device memory is host memory: a job on CPUs. `retain` and `release` count your memory handles,
 * `address` says where their bytes lie; memory the engine makes itself has no handle of yours. */
RESTOW_API restow_status restow_device_create_host(void* context,
                                                   void (*retain)(void* context, void* memory),
                                                   void (*release)(void* context, void* memory),
                                                   void* (*address)(void* context, void* memory),
                                                   restow_device** device);
RESTOW_API void restow_device_release(restow_device* device);

typedef struct restow_options {
  size_t struct_size;
  int64_t window_bytes, host_cap_bytes, min_bytes, fused_bytes; /* -1: the default */
  int when_full;                                                /* 0 order, 1 wait, 2 keep */
  int keep_last_region;                                         /* 0 or 1 */
  int keep_after_use;
  const char* file_dir;                                /* NULL: no file tier */
  int64_t file_cap_bytes;                              /* -1: none */
  double watchdog_s;                                   /* 0: none */
  void (*on_trouble)(void* context, const char* text); /* may be NULL; any thread */
  void* trouble_context;
} restow_options;

/* Fills in defaults; `struct_size` must be set. */
RESTOW_API restow_status restow_options_init(restow_options* options);

RESTOW_API restow_status restow_engine_create(restow_device* device, const restow_options* options,
                                              restow_engine** engine);
/* Slots, regions and buffers may outlive it. */
RESTOW_API void restow_engine_release(restow_engine* engine);

typedef struct restow_region_options {
  size_t struct_size;
  const char* site;  /* names the place in the program */
  const char* group; /* NULL: none */
  int manual;        /* 1: moved by the group's calls only */
  int on_file;       /* 1: through to the file tier */
  int64_t min_bytes; /* -1: the engine's */
  int fuse;          /* 1: smaller ones travel in fused copies instead of staying */
} restow_region_options;

RESTOW_API restow_status restow_region_begin(restow_engine* engine,
                                             const restow_region_options* options,
                                             restow_region** region);
RESTOW_API void restow_region_end(restow_region* region);

typedef struct restow_storage {
  size_t struct_size;
  uint64_t identity; /* 0: never shared. Not given to another storage while the engine holds it */
  uint64_t version;
  size_t offset, bytes;
  void* memory; /* your handle; retained by the engine as long as it needs it */
  size_t memory_bytes;
} restow_storage;

typedef enum restow_decision {
  RESTOW_AUTOMATIC = 0,
  RESTOW_KEEP = 1,
  RESTOW_SWAP = 2
} restow_decision;

/* `reason` may be NULL. */
RESTOW_API restow_status restow_pack(restow_region* region, const restow_storage* storage,
                                     restow_decision decision, restow_slot** slot, int* reason);
RESTOW_API const char* restow_reason_text(int reason); /* stays */
/* `buffer` holds device memory that is ready for the calling thread's current stream; the saved
 * part begins at `offset` in it. */
RESTOW_API restow_status restow_unpack(restow_slot* slot, restow_buffer** buffer, size_t* offset);
RESTOW_API void restow_slot_release(restow_slot* slot);

/* Your handle, from pack or `allocate`; NULL for memory that the host device made. */
RESTOW_API void* restow_buffer_memory(const restow_buffer* buffer);
/* Where the bytes lie for the host, or NULL. */
RESTOW_API void* restow_buffer_data(const restow_buffer* buffer);
RESTOW_API size_t restow_buffer_bytes(const restow_buffer* buffer);
RESTOW_API void restow_buffer_release(restow_buffer* buffer);

RESTOW_API restow_status restow_step(restow_engine* engine);
RESTOW_API restow_status restow_forget(restow_engine* engine, uint64_t identity);
RESTOW_API restow_status restow_drain(restow_engine* engine);

RESTOW_API restow_status restow_launch_offload(restow_engine* engine, const char* group);
RESTOW_API restow_status restow_wait_offload(restow_engine* engine, const char* group);
RESTOW_API restow_status restow_launch_load(restow_engine* engine, const char* group);
RESTOW_API restow_status restow_wait_load(restow_engine* engine, const char* group);
RESTOW_API restow_status restow_drop_group(restow_engine* engine, const char* group);

typedef struct restow_stats {
  size_t struct_size;
  /* since the last reset */
  int64_t bytes_out, bytes_in, stalls;
  double stall_s;
  int64_t host_allocations, file_bytes, recomputed_regions;
  int64_t cancelled, demand_loads, kept_host_full, pin_failures, device_errors, tier_errors;
  /* now */
  int64_t units, slots, host_reserved_bytes, host_used_bytes, held_elsewhere_bytes, swapped_bytes;
} restow_stats;

RESTOW_API restow_status restow_get_stats(restow_engine* engine, restow_stats* stats);
RESTOW_API restow_status restow_reset_stats(restow_engine* engine);
RESTOW_API restow_status restow_count_recomputed_region(restow_engine* engine);
/* One copy. Seconds of the device's clock where its events carry time, else of the host's. */
typedef struct restow_trace_event {
  int inwards; /* 0: to the host, 1: back */
  uint64_t unit;
  const char* site; /* during the call */
  int64_t bytes;
  double begin_s, end_s;
} restow_trace_event;

RESTOW_API restow_status restow_start_trace(restow_engine* engine);
/* Calls `each` for every copy since the start, on the calling thread. */
RESTOW_API restow_status restow_stop_trace(restow_engine* engine,
                                           void (*each)(void* context,
                                                        const restow_trace_event* event),
                                           void* context);
/* XXH3, 64 bits: for noticing that memory changed. Touches no engine. */
RESTOW_API uint64_t restow_checksum(const void* data, size_t bytes);
/* The last transitions as text, until the calling thread's next call. */
RESTOW_API restow_status restow_dump(restow_engine* engine, const char** text);

#ifdef __cplusplus
}
#endif
