/* ipc.h - memory and events that other processes on the machine may open.
 *
 * Every process that exports something has one shared table (a memory object named "softnpu-ipc"). A key
 * names the process, a slot of its table and a random number; who opens a key finds the table, and the
 * device's memory object, among the exporter's open files in /proc. So only processes of the same user can,
 * nothing is left behind by a process that ends, and the exporter must be alive when a key is opened. */
#ifndef SOFTNPU_IPC_H
#define SOFTNPU_IPC_H

#include "softnpu/runtime/internal.h"

struct rt_event_state {
    atomic_ullong recorded; /* generations asked for; 0: never */
    atomic_ullong done;     /* generations completed */
    atomic_ullong time_ns;  /* when the latest was completed */
};

enum { IPC_KEY_SIZE = 65, IPC_EVENT_HANDLE_SIZE = 64 };

/* Puts state into the shared table and writes its key; NULL with a message if the table is full. */
struct rt_event_state *rt_ipc_event_share(const struct rt_event_state *state,
                                          char key[IPC_EVENT_HANDLE_SIZE]);
/* The state behind a key of this or another process; NULL with a message recorded and *code set. */
struct rt_event_state *rt_ipc_event_open(const char key[IPC_EVENT_HANDLE_SIZE], int *code);
void rt_ipc_event_close(struct rt_event_state *state);

#endif
