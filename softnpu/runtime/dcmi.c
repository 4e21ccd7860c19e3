/* dcmi.c - the management library's few functions that the plugin asks for processor affinity: every device
 * is a card of its own, and all processors are equally near. */
#include "softnpu/runtime/internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DCMI_OK = 0, DCMI_ERR_PARAMETER = -8001, DCMI_ERR_NO_DEVICE = -8008 };

ACL_EXPORT int dcmi_init(void);
ACL_EXPORT int dcmiv2_init(void);
ACL_EXPORT int dcmi_get_card_num_list(int *n, int *cards, int room);
ACL_EXPORT int dcmiv2_get_device_list(int *n, int *devices, int room);
ACL_EXPORT int dcmi_get_device_id_in_card(int card, int *devices, int *mcu, int *cpu);
ACL_EXPORT int dcmi_get_affinity_cpu_info_by_device_id(int card, int device, char *cpus, int *length);
ACL_EXPORT int dcmiv2_get_affinity_cpu_info_by_device_id(int device, char *cpus, int *length);
ACL_EXPORT int dcmiv2_get_affinity_cpu_info_by_dev_id(int device, char *cpus, int *length);

int dcmi_init(void)
{
    return DCMI_OK;
}
int dcmiv2_init(void)
{
    return DCMI_OK;
}

int dcmi_get_card_num_list(int *n, int *cards, int room)
{
    if (!n || !cards || room < 1) return DCMI_ERR_PARAMETER;
    *n = rt_device_count();
    for (int i = 0; i < *n && i < room; i++) cards[i] = i;
    return DCMI_OK;
}

int dcmiv2_get_device_list(int *n, int *devices, int room)
{
    return dcmi_get_card_num_list(n, devices, room);
}

static bool exists(int device)
{
    return device >= 0 && device < rt_device_count();
}

/* A card has one device, number 0, and neither a controller nor a processor that could be asked. */
int dcmi_get_device_id_in_card(int card, int *devices, int *mcu, int *cpu)
{
    if (!devices || !mcu || !cpu) return DCMI_ERR_PARAMETER;
    if (!exists(card)) return DCMI_ERR_NO_DEVICE;
    *devices = 1;
    *mcu = *cpu = -1;
    return DCMI_OK;
}

/* "0-7"; *length: room on entry if it is positive, length of the text on return. */
int dcmiv2_get_affinity_cpu_info_by_device_id(int device, char *cpus, int *length)
{
    if (!cpus || !length) return DCMI_ERR_PARAMETER;
    if (!exists(device)) return DCMI_ERR_NO_DEVICE;
    char text[32];
    long last = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    *length = snprintf(text, sizeof text, "0-%ld", last);
    memcpy(cpus, text, (size_t)*length + 1); /* the interface gives at least 256 bytes */
    return DCMI_OK;
}

int dcmiv2_get_affinity_cpu_info_by_dev_id(int device, char *cpus, int *length)
{
    return dcmiv2_get_affinity_cpu_info_by_device_id(device, cpus, length);
}

int dcmi_get_affinity_cpu_info_by_device_id(int card, int device, char *cpus, int *length)
{
    return device ? DCMI_ERR_NO_DEVICE : dcmiv2_get_affinity_cpu_info_by_device_id(card, cpus, length);
}
