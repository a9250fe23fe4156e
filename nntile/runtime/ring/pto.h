#pragma once
/* SPDX-License-Identifier: BSD-3-Clause
 * The PTO calls over the ring runtime, for C11 and C++. Link nntile_pto (pkg-config nntile-pto).
 *
 * Six calls are for orchestration functions; the others are for the program around them. No call
 * throws, prints or aborts. A runtime keeps its first error until pto_clear_error: an orchestration
 * function may ignore errors, and its caller asks once. A task that could not be submitted has a
 * negative id, whose descriptor is all zeros.
 *
 * What differs from the plan that the calls come from, and why:
 *  - A scope holds buffers, never tasks: a step with more tasks than the runtime has slots goes on.
 *  - A task is ordered behind earlier readers and writers of what it writes, not only behind the
 *    writer of what it reads. PARAM_OUTPUT overwrites what it names; a kernel that adds to it says
 *    PARAM_INOUT, or PARAM_ACCUMULATE where the order does not matter.
 *  - pto_free ends a buffer for later tasks; its memory comes back behind every task that names it,
 *    readers included. Naming it again is an error.
 *  - Descriptors are values: ids are given in turn from 0 and come round after max_tasks. The
 *    address of each operand is also left in TaskParam::address, the caller's own memory.
 *  - Implicit outputs are a buffer each; packed_buffer_base is that of the first, and a pointer,
 *    since ISO C does not convert integers. They end as pto_alloc's do.
 *  - pto_task_complete is for asynchronous kernels; any other task ends when its kernel returns.
 *    Work that went wrong ends by pto_task_fail, which the plan has not.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  PTO_MAX_PARAMS = 64,     /* of one task */
  PTO_MAX_KERNELS = 65536, /* ids are below it */
  PTO_MESSAGE_BYTES = 512  /* the longest message, its end included */
};

/* What a task does to an operand. */
typedef enum ParamType {
  PARAM_INPUT,      /* reads it */
  PARAM_OUTPUT,     /* overwrites it; with neither buffer nor region, in memory that submit gives */
  PARAM_INOUT,      /* reads and writes it */
  PARAM_ACCUMULATE, /* adds to it: such tasks exclude each other, in any order */
  PARAM_REPEAT      /* no operand: the kernel runs `size` times, as blocks 0 to size - 1, several at
                       one time: what they write must be disjoint. Those of an asynchronous kernel
                       start in turn */
} ParamType;

/* Bytes of a buffer: `count` runs of `size` bytes, from `offset` on, each `stride` bytes behind the
 * one before. Tasks are ordered by the bytes that they share. */
typedef struct TaskRegion {
  void* buffer_ptr;
  size_t offset; /* bytes */
  size_t size;   /* bytes */
  size_t count;  /* 0: one */
  size_t stride; /* bytes */
} TaskRegion;

/* Either `buffer` and `size`, or `region`. `buffer` may lie inside of a buffer. Memory that is
 * neither of pto_alloc nor of pto_adopt is the caller's: known as written, by what names it first,
 * until pto_free or pto_wait_all. */
typedef struct TaskParam {
  ParamType type;
  void* buffer;
  size_t size; /* bytes */
  TaskRegion region;
  void* address; /* set by pto_submit_task: where the kernel finds the operand */
} TaskParam;

/* What is known of a task when it is submitted. */
typedef struct TaskDescriptor {
  int32_t task_id;
  int32_t func_id;          /* the kernel's */
  int32_t core_type;        /* the worker type */
  void* packed_buffer_base; /* of the first implicit output, or NULL */
} TaskDescriptor;

/* A runtime. One thread drives it at a time; kernels call none of it but pto_task_complete
 * and pto_task_fail. */
typedef struct Runtime {
  TaskDescriptor* task_descriptors; /* by task id */
} Runtime;

typedef enum WorkerType { WORKER_CUBE, WORKER_VECTOR, WORKER_CPU } WorkerType;

/* Where a task stands. */
typedef enum TaskState {
  PTO_TASK_PENDING,   /* waits for other tasks */
  PTO_TASK_READY,     /* waits for a worker */
  PTO_TASK_RUNNING,   /* its kernel has begun; an asynchronous one may have returned */
  PTO_TASK_COMPLETED, /* has ended, well or not; tasks that use what it wrote have not */
  PTO_TASK_CONSUMED   /* they have, and all tasks before them; of more than eight tasks that wrote
                         parts of one buffer, all but eight may be said to be early */
} TaskState;

/* Codes of errors; pto_code_name has their names. */
typedef enum PtoCode {
  PTO_OK,
  PTO_NO_RUNTIME,    /* a NULL runtime */
  PTO_BAD_VALUE,     /* an argument outside of its domain: kernel, worker type, size, operands */
  PTO_BAD_LIFETIME,  /* freed twice or used after, unwritten and read, a scope or a task not begun */
  PTO_WRONG_THREAD,  /* another thread is inside a call */
  PTO_OUT_OF_MEMORY, /* memory, that is: for a task id submission waits */
  PTO_DEADLOCK,      /* memory that only the blocked caller could free */
  PTO_TASK_FAILED,   /* a task failed, or was cancelled since one that it needs had failed; its words
                        number tasks as they were submitted, from 1: "(task 8)" has id 7, or, where
                        ids have come round, 7 modulo max_tasks, unless ids were passed over whose
                        tasks had not ended */
  PTO_INTERNAL       /* anything else */
} PtoCode;

/* ---- The six calls ---- */

/* Memory of `size` bytes, aligned to 64, contents undefined; valid until pto_free or the end of the
 * scope that is innermost now (without one, of the runtime). NULL: an error. */
void* pto_alloc(Runtime* rt, size_t size);
/* No later task names this buffer. `buffer` is what pto_alloc, an implicit output or pto_adopt
 * gave, or the first address of the caller's own memory, which is forgotten, not freed. */
void pto_free(Runtime* rt, void* buffer);
void pto_scope_begin(Runtime* rt);
/* Submits a task of a registered kernel; it starts behind the tasks that it depends on. Gives its
 * id, or minus a PtoCode; then nothing is submitted. Waits for room, never for the task. */
int32_t pto_submit_task(Runtime* rt, int32_t kernel_id, int32_t worker_type, TaskParam* params,
                        int32_t num_params);
/* Ends the buffers of the scope that are left. Never waits. */
void pto_scope_end(Runtime* rt);
/* Ends a task of an asynchronous kernel that has begun. From any thread, once. */
void pto_task_complete(Runtime* rt, int32_t task_id);

/* ---- Kernels ---- */

/* One run of a kernel. The arrays have an element an operand, in order; all of it lives until the
 * kernel returns. */
typedef struct PtoCall {
  void* context; /* as registered */
  void* const* buffers;
  size_t const* sizes; /* bytes, of one run where there are several */
  int32_t num_buffers;
  int32_t task_id;
  int32_t block; /* of num_blocks, see PARAM_REPEAT */
  int32_t num_blocks;
  char* message; /* room of 192 bytes for words about a failure */
} PtoCall;

/* 0: it went well. Anything else fails the task: tasks that read what it writes are cancelled. */
typedef int32_t (*PtoKernel)(PtoCall const* call);

/* Names a kernel, once for an id. `context` outlives the runtime's tasks. */
int32_t pto_register_kernel(Runtime* rt, int32_t kernel_id, char const* name, PtoKernel kernel,
                            void* context);
/* The same for one that only starts the work: its task ends by pto_task_complete, by pto_task_fail,
 * or when it returns anything but 0. Its blocks all start before. */
int32_t pto_register_async_kernel(Runtime* rt, int32_t kernel_id, char const* name,
                                  PtoKernel kernel, void* context);
/* Fails a task of an asynchronous kernel that has begun, as if the kernel had returned `code`, which
 * is not 0. `message` says why: at most 191 bytes, copied; NULL or "": the code alone is named. From
 * any thread, once, in place of pto_task_complete. A PtoCode. */
int32_t pto_task_fail(Runtime* rt, int32_t task_id, int32_t code, char const* message);

/* ---- Runtimes: each returns a PtoCode where nothing else is said ---- */

/* Zeros are defaults. */
typedef struct PtoOptions {
  int32_t workers;       /* threads that execute tasks, the caller's among them; 0: one a core */
  int32_t max_tasks;     /* ids before they come round: submission waits while tasks that have not
                            ended have all of them. 0: 65,536 */
  uint64_t heap_size;    /* bytes for the buffers of scopes, at each of three depths, of which there
                            are at most 1,024, or max_buffers if that is more; pto_alloc waits where
                            there is no room. 0: as much as it takes */
  int32_t cube_workers;   /* of the workers, those that serve WORKER_CUBE, */
  int32_t vector_workers; /* and WORKER_VECTOR; the others serve WORKER_CPU. Both 0: all serve all */
  int32_t max_buffers;    /* that are known at a time, parts of them and ended ones included, and tasks
                             of blocks or asynchronous ones that have not ended: up to this many, where
                             scopes have heap_size bytes, no call takes memory from the system, but for
                             pto_alloc outside of scopes and for errors. 0: no memory is taken ahead */
} PtoOptions;

typedef struct PtoError {
  int32_t code;
  char message[PTO_MESSAGE_BYTES];
} PtoError;

/* NULL: an error, which is written to *error. Both arguments may be NULL. */
Runtime* pto_create(PtoOptions const* options, PtoError* error);
/* Waits for all tasks; then rt is no more. */
int32_t pto_destroy(Runtime* rt);
/* Names memory of the caller that tasks may then name in parts. It outlives their tasks. */
int32_t pto_adopt(Runtime* rt, void* base, size_t size);
/* Until the task has ended. */
int32_t pto_wait(Runtime* rt, int32_t task_id);
/* Until all have; then the caller may touch its memory, and that of buffers. */
int32_t pto_wait_all(Runtime* rt);

/* A TaskState, or minus a PtoCode. */
int32_t pto_task_state(Runtime* rt, int32_t task_id);
/* "PENDING" and so on; "?" for what is no state. */
char const* pto_state_name(int32_t state);

/* The first error since the last pto_clear_error, of any thread. PTO_OK: none. */
int32_t pto_last_error(Runtime* rt);
/* Its words; "" if there is none. Valid until pto_clear_error. */
char const* pto_error_message(Runtime* rt);
void pto_clear_error(Runtime* rt);
/* "PTO_OK" and so on; "?" for what is no code. */
char const* pto_code_name(int32_t code);

#ifdef __cplusplus
}
#endif
