/* line.c - loops that gather and scatter along one dimension. */
#include "softnpu/kernel/line.h"

typedef struct {
    uint64_t half[2];
} wide_t; /* 16 bytes that are only moved */
#define LINE_SIZES(X) X(0, uint8_t) X(1, uint16_t) X(2, uint32_t) X(3, uint64_t) X(4, wide_t)

#define LINE_MOVES(log, type)                                                                                \
    static void gather_##log(const struct line *l)                                                           \
    {                                                                                                        \
        for (int64_t i = 0; i < l->n; i++)                                                                   \
            *(type *)(l->dense + i * l->dense_step) =                                                        \
                *(const type *)(l->table + l->at[i * l->at_step] * l->table_step);                           \
    }                                                                                                        \
    static void scatter_##log(const struct line *l)                                                          \
    {                                                                                                        \
        for (int64_t i = 0; i < l->n; i++)                                                                   \
            *(type *)(l->table + l->at[i * l->at_step] * l->table_step) =                                    \
                *(const type *)(l->dense + i * l->dense_step);                                               \
    }
LINE_SIZES(LINE_MOVES)

#define LINE_JOIN(op, name, type, wide, expression)                                                          \
    static void op##_##name(const struct line *l)                                                            \
    {                                                                                                        \
        for (int64_t i = 0; i < l->n; i++) {                                                                 \
            type *to = (type *)(l->table + l->at[i * l->at_step] * l->table_step);                           \
            wide a = (wide)*to, b = (wide) * (const type *)(l->dense + i * l->dense_step);                   \
            wide joined = expression;                                                                        \
            *to = (type)joined;                                                                              \
        }                                                                                                    \
    }
#define LINE_ARITHMETIC(name, type, wide)                                                                    \
    LINE_JOIN(add, name, type, wide, a + b)                                                                  \
    LINE_JOIN(mul, name, type, wide, a *b)
#define LINE_ORDER(name, type, wide)                                                                         \
    LINE_JOIN(min, name, type, type, MAP_PICK(type, a, <, b))                                                \
    LINE_JOIN(max, name, type, type, MAP_PICK(type, a, >, b))
MAP_TYPES(LINE_ARITHMETIC)
MAP_ORDERED_TYPES(LINE_ORDER)

#define ENTRY_GATHER(log, type) [log] = gather_##log,
#define ENTRY_SCATTER(log, type) [log] = scatter_##log,
#define ENTRY_ADD(name, type, wide) [MAP_TYPE_##name] = add_##name,
#define ENTRY_MUL(name, type, wide) [MAP_TYPE_##name] = mul_##name,
#define ENTRY_MIN(name, type, wide) [MAP_TYPE_##name] = min_##name,
#define ENTRY_MAX(name, type, wide) [MAP_TYPE_##name] = max_##name,

const struct line_kernels KV(line_kernels) = {
    .gather = {LINE_SIZES(ENTRY_GATHER)},
    .scatter = {LINE_SIZES(ENTRY_SCATTER)},
    .join = {[MAP_ADD] = {MAP_TYPES(ENTRY_ADD)},
             [MAP_MUL] = {MAP_TYPES(ENTRY_MUL)},
             [MAP_MIN] = {MAP_ORDERED_TYPES(ENTRY_MIN)[MAP_TYPE_boolean] = min_u8},
             [MAP_MAX] = {MAP_ORDERED_TYPES(ENTRY_MAX)[MAP_TYPE_boolean] = max_u8}},
};
