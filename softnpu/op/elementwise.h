/* elementwise.h - what the elementwise families share: the type a call computes in, and its operands. */
#ifndef SOFTNPU_OP_ELEMENTWISE_H
#define SOFTNPU_OP_ELEMENTWISE_H

#include "softnpu/kernel/half_loops.h"
#include "softnpu/op/op.h"

/* How the type that a call computes in follows from its inputs. */
enum ew_policy {
    EWP_SAME,   /* the inputs' promoted type */
    EWP_FLOAT,  /* the same, but FLOAT (DOUBLE if the output is) for integers and bool */
    EWP_TRUTH,  /* as EWP_SAME, and the result is BOOL */
    EWP_DOUBLE, /* as EWP_TRUTH, but DOUBLE for integers and bool */
};

/* Row of a loop table by data type; -1 for types that no loop computes in (after sn_compute). */
int ew_type(aclDataType t);
/* Result type of two inputs, each a tensor or a scalar, as torch.result_type has it: a tensor without
 * dimensions counts for less than one with. ACL_DT_UNDEFINED if there is none. */
aclDataType ew_promote_args(const op_call *c, int a, int b);
aclDataType ew_promote_tensors(const aclTensor *a, const aclTensor *b);
/* The type to compute in: policy applied to the promoted type t; out may be NULL. */
aclDataType ew_computed(aclDataType t, enum ew_policy policy, const aclTensor *out);
/* The tensor that the call writes: its last output, else its in-place argument. */
int ew_output(const op_call *c);
/* True when argument i is a tensor, false when it is a scalar. */
bool ew_is_tensor(const op_call *c, int i);
/* Operand of argument i, computed as type t. */
struct ew_operand ew_of(const op_call *c, int i, aclDataType t);
/* Output shape is the broadcast shape of the n tensor arguments in args (scalars are skipped). An in-place
 * call's output is one of them, so that nothing else makes it larger. */
int ew_need_broadcast(const op_call *c, const int *args, int n, int out);
/* Puts the loop that works on 16-bit numbers themselves in place of the float loop, where there is one and
 * all of the n operands (the first is the output) are of that one type: widening and rounding happen in its
 * registers. half: the loop's entries of kernel/half_loops.h. Returns the loop to run. */
ew_loop ew_half(struct ew_operand *o, int n, const ew_loop *half, ew_loop whole);
/* 161002 naming the type when a table has no loop for it. */
int ew_no_loop(const op_call *c, aclDataType t);

#endif
