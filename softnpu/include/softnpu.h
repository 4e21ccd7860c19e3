/* softnpu.h - what the software device tells about itself, beyond the vendor's interface. */
#ifndef SOFTNPU_H
#define SOFTNPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTNPU_EXPORT __attribute__((visibility("default")))

/* Version of the device, e.g. "0.1.0"; never freed. */
SOFTNPU_EXPORT const char *softnpu_version(void);
/* aclnn calls that the device has run to their end in this process, on all streams. */
SOFTNPU_EXPORT uint64_t softnpu_launches(void);
/* The same by operator as JSON, {"aclnnAdd": 3, ...}, names sorted, only operators that ran. Writes at most
 * cap bytes, always terminated when cap > 0; returns the length that the whole text has, without the
 * terminator. */
SOFTNPU_EXPORT size_t softnpu_launch_table(char *json, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
