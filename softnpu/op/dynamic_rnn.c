/* dynamic_rnn.c - recurrent networks of the older operator path: one layer and direction a call, weights with
 * a column a gate. torch_npu takes it for LSTMs of several layers, LSTM cells and 16-bit GRUs. Arithmetic is
 * f32. */
#include "softnpu/op/rnn_cell.h"
#include "softnpu/op/rnn_util.h"
#include "softnpu/op/view.h"

#include <string.h>

/* Sizes of a call: x is [steps, batch, width], states are [steps, batch, hidden]. */
struct sizes {
    int64_t steps, batch, width, hidden, columns;
    bool reverse;
};

/* x and the states may lack the dimension of a single step. */
static struct sizes sizes_of(const aclTensor *x, const aclTensor *states, int gates, const char *direction)
{
    const int64_t *last = states->dim + states->rank - 1;
    struct sizes s = {states->rank == 3 ? states->dim[0] : 1,
                      last[-1],
                      x->dim[x->rank - 1],
                      last[0],
                      gates * last[0],
                      false};
    s.reverse = direction && !strcmp(direction, "REDIRECTIONAL");
    return s;
}

static int need_sequences(const op_call *c, int states)
{
    const aclTensor *x = c->arg[0].t, *h = c->arg[states].t;
    char a[256], b[256];
    if (x->rank >= 1 && (h->rank == 2 || h->rank == 3)) {
        struct sizes s = sizes_of(x, h, 1, NULL);
        if (sn_numel(x) == s.steps * s.batch * s.width) return 0;
    }
    return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                   "x %s must be [steps, batch, width] and %s %s [steps, batch, hidden]", sn_shape_str(x, a),
                   c->row->param[states].name, sn_shape_str(h, b));
}

/* A sequence mask has an element a state; a placeholder has at most one. */
static int need_no_mask(const op_call *c, int arg)
{
    const aclTensor *mask = c->arg[arg].t;
    if (!mask || sn_numel(mask) <= 1) return 0;
    return op_fail(c, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "sequences of different lengths are not supported");
}

static int need_order(const op_call *c, int arg, const char *one, const char *other)
{
    const char *order = c->arg[arg].str;
    if (!order || !*order || !strcmp(order, one) || !strcmp(order, other)) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "gate order %s is not supported, only %s", order, one);
}

static int need_numel(const op_call *c, int arg, int64_t n)
{
    if (sn_numel(c->arg[arg].t) == n) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %lld elements, expected %lld", c->row->param[arg].name,
                   (long long)sn_numel(c->arg[arg].t), (long long)n);
}

static float *input(op_call *c, int arg)
{
    return op_in(c, c->arg[arg].t, ACL_FLOAT);
}
static bool given(const op_call *c, int arg)
{
    return c->arg[arg].t && sn_numel(c->arg[arg].t) > 0;
}

/* A copy that may be changed; zeros where there is no such argument. */
static float *copied(op_call *c, int arg, int64_t n)
{
    float *x = rnn_floats(c, n);
    if (given(c, arg)) memcpy(x, input(c, arg), (size_t)n * sizeof *x);
    return x;
}

static int64_t step_at(const struct sizes *s, int64_t n)
{
    return s->reverse ? s->steps - 1 - n : n;
}

/* Gate number g of activations [steps, batch, columns], as a view. */
static aclTensor gate_view(const struct sizes *s, float *gates, int g)
{
    aclTensor whole;
    sn_wrap(&whole, ACL_FLOAT, 3, (int64_t[]){s->steps, s->batch, s->columns}, gates);
    return view_narrow(&whole, 2, g * s->hidden, s->hidden);
}

/* States that the steps started from. */
static float *before(op_call *c, const struct sizes *s, const float *states, const float *first)
{
    int64_t state = s->batch * s->hidden;
    float *x = rnn_floats(c, s->steps * state);
    for (int64_t n = 0; n < s->steps; n++)
        memcpy(x + step_at(s, n) * state, n ? states + step_at(s, n - 1) * state : first,
               (size_t)state * sizeof *x);
    return x;
}

/* ---- LSTM -------------------------------------------------------------------------------------------- */

/* w: both weights one above the other, or the first of two arguments. Arguments from `rest` on: seq_length,
 * init_h, init_c, y. */
struct lstm_args {
    int8_t w, bias, rest;
    bool joined;
};
static const struct lstm_args rnn_v1 = {1, 2, 3, true}, rnn_v2 = {1, 3, 4, false};

static int check_lstm(op_call *c)
{
    const struct lstm_args *a = c->row->aux;
    int y = a->rest + 3, r = need_sequences(c, y);
    if (r || (r = need_no_mask(c, a->rest))) return r;
    if ((r = need_order(c, c->row->nparam - 2, "ifjo", "ifco"))) return r;
    struct sizes s = sizes_of(c->arg[0].t, c->arg[y].t, 4, c->arg[c->row->nparam - 3].str);
    for (int i = y; i < y + 8; i++)
        if ((r = op_need_shape(c, i, (int64_t[]){s.steps, s.batch, s.hidden}, 3))) return r;
    if (a->joined) return need_numel(c, a->w, (s.width + s.hidden) * s.columns);
    r = need_numel(c, a->w, s.width * s.columns);
    return r ? r : need_numel(c, a->w + 1, s.hidden * s.columns);
}

static int run_lstm(op_call *c)
{
    const struct lstm_args *a = c->row->aux;
    int y = a->rest + 3;
    struct sizes s = sizes_of(c->arg[0].t, c->arg[y].t, 4, c->arg[c->row->nparam - 3].str);
    int64_t state = s.batch * s.hidden, all = s.steps * state;
    const float *w_x = input(c, a->w), *w_h = a->joined ? w_x + s.width * s.columns : input(c, a->w + 1);
    float *gates = rnn_floats(c, s.steps * s.batch * s.columns), *h = rnn_floats(c, all),
          *cell = rnn_floats(c, all);
    float *tanhc = rnn_floats(c, all), forget = (float)c->arg[c->row->nparam - 1].d;
    const float *h_before = copied(c, a->rest + 1, state), *c_before = copied(c, a->rest + 2, state);
    rnn_product(c, s.steps * s.batch, s.columns, s.width, input(c, 0), false, w_x, false, 0, gates);
    if (given(c, a->bias)) rnn_add_bias(gates, s.steps * s.batch, s.columns, input(c, a->bias));
    for (int64_t r = 0; forget != 0 && r < s.steps * s.batch; r++)
        for (int64_t k = 0; k < s.hidden; k++) gates[r * s.columns + s.hidden + k] += forget;
    for (int64_t n = 0; n < s.steps; n++) {
        int64_t t = step_at(&s, n);
        float *g = gates + t * s.batch * s.columns;
        rnn_product(c, s.batch, s.columns, s.hidden, h_before, false, w_h, false, 1, g);
        lstm_cell(s.batch, s.hidden, g, c_before, cell + t * state, tanhc + t * state, h + t * state);
        h_before = h + t * state;
        c_before = cell + t * state;
    }
    const float *states[] = {h, h, cell};
    for (int i = 0; i < 3; i++) op_out_done(c, c->arg[y + i].t, ACL_FLOAT, states[i]);
    static const int8_t order[] = {0, 2, 1, 3}; /* outputs i, j, f, o; the cell's gates are i, f, g (j), o */
    for (int i = 0; i < 4 && all; i++) {
        aclTensor view = gate_view(&s, gates, order[i]);
        op_copy(c, c->arg[y + 3 + i].t, &view);
    }
    op_out_done(c, c->arg[y + 7].t, ACL_FLOAT, tanhc);
    return 0;
}

/* h: argument of the kept states h, c, then dy, dh, dc, i, j, f, o, tanhc; out: first output. */
struct grad_args {
    int8_t w, h, out;
    bool joined;
};
static const struct grad_args rnn_grad_v1 = {1, 6, 21, true}, rnn_grad_v2 = {1, 6, 21, false};

static int check_lstm_grad(op_call *c)
{
    const struct grad_args *a = c->row->aux;
    int r = need_sequences(c, a->h);
    if (r || (r = need_no_mask(c, a->h + 10))) return r;
    if ((r = need_order(c, c->row->nparam - 1, "ifjo", "ifco"))) return r;
    struct sizes s = sizes_of(c->arg[0].t, c->arg[a->h].t, 4, c->arg[c->row->nparam - 2].str);
    int64_t all = s.steps * s.batch * s.hidden;
    for (int i = a->h; i < a->h + 10; i++)
        if ((r = need_numel(c, i, i == a->h + 3 || i == a->h + 4 ? s.batch * s.hidden : all))) return r;
    for (int i = a->h - 2; i < a->h; i++)
        if ((r = need_numel(c, i, s.batch * s.hidden))) return r;
    return 0;
}

static int run_lstm_grad(op_call *c)
{
    const struct grad_args *a = c->row->aux;
    struct sizes s = sizes_of(c->arg[0].t, c->arg[a->h].t, 4, c->arg[c->row->nparam - 2].str);
    int64_t state = s.batch * s.hidden, rows = s.steps * s.batch;
    const float *w_x = input(c, a->w), *w_h = a->joined ? w_x + s.width * s.columns : input(c, a->w + 1);
    const float *dy = input(c, a->h + 2), *tanhc = input(c, a->h + 9), *x = input(c, 0);
    float *dh = copied(c, a->h + 3, state), *dc = copied(c, a->h + 4, state);
    float *gates = rnn_floats(c, rows * s.columns), *dgates = rnn_floats(c, rows * s.columns);
    static const int8_t order[] = {0, 2, 1, 3};
    for (int i = 0; i < 4 && rows; i++) {
        aclTensor view = gate_view(&s, gates, order[i]);
        op_copy(c, &view, c->arg[a->h + 5 + i].t);
    }
    float *h_before = before(c, &s, input(c, a->h), input(c, a->h - 2));
    float *c_before = before(c, &s, input(c, a->h + 1), input(c, a->h - 1));
    for (int64_t n = s.steps; n-- > 0;) {
        int64_t t = step_at(&s, n), at = t * state, gate = t * s.batch * s.columns;
        for (int64_t k = 0; k < state; k++) dh[k] += dy[at + k];
        lstm_cell_backward(s.batch, s.hidden, gates + gate, c_before + at, tanhc + at, dh, dc, dgates + gate);
        rnn_product(c, s.batch, s.hidden, s.columns, dgates + gate, false, w_h, true, 0, dh);
    }
    float *dw = rnn_floats(c, (s.width + s.hidden) * s.columns), *dx = rnn_floats(c, rows * s.width);
    float *db = rnn_floats(c, s.columns);
    rnn_product(c, s.width, s.columns, rows, x, true, dgates, false, 0, dw);
    rnn_product(c, s.hidden, s.columns, rows, h_before, true, dgates, false, 0, dw + s.width * s.columns);
    rnn_product(c, rows, s.width, s.columns, dgates, false, w_x, true, 0, dx);
    rnn_add_rows(db, dgates, rows, s.columns);
    const float *outs[] = {dw,
                           a->joined ? db : dw + s.width * s.columns,
                           a->joined ? dx : db,
                           a->joined ? dh : dx,
                           a->joined ? dc : dh,
                           dc};
    for (int i = 0; i < (a->joined ? 5 : 6); i++) op_out_done(c, c->arg[a->out + i].t, ACL_FLOAT, outs[i]);
    return 0;
}

/* ---- GRU --------------------------------------------------------------------------------------------- */

static int check_gru(op_call *c)
{
    int r = need_sequences(c, 8);
    if (r || (r = need_no_mask(c, 5)) || (r = need_order(c, 14, "rzh", "rzh"))) return r;
    if (!c->arg[15].i) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "reset_after must be true");
    struct sizes s = sizes_of(c->arg[0].t, c->arg[8].t, 3, c->arg[13].str);
    for (int i = 7; i < 13; i++)
        if ((r = op_need_shape(c, i, (int64_t[]){s.steps, s.batch, s.hidden}, 3))) return r;
    r = need_numel(c, 1, s.width * s.columns);
    return r ? r : need_numel(c, 2, s.hidden * s.columns);
}

static int run_gru(op_call *c)
{
    struct sizes s = sizes_of(c->arg[0].t, c->arg[8].t, 3, c->arg[13].str);
    int64_t state = s.batch * s.hidden, all = s.steps * state, rows = s.steps * s.batch;
    float *gates = rnn_floats(c, rows * s.columns), *hidden = rnn_floats(c, s.batch * s.columns);
    float *h = rnn_floats(c, all), *hn = rnn_floats(c, all);
    const float *h_before = copied(c, 6, state);
    rnn_product(c, rows, s.columns, s.width, input(c, 0), false, input(c, 1), false, 0, gates);
    if (given(c, 3)) rnn_add_bias(gates, rows, s.columns, input(c, 3));
    for (int64_t n = 0; n < s.steps; n++) {
        int64_t t = step_at(&s, n), at = t * state;
        rnn_product(c, s.batch, s.columns, s.hidden, h_before, false, input(c, 2), false, 0, hidden);
        if (given(c, 4)) rnn_add_bias(hidden, s.batch, s.columns, input(c, 4));
        gru_cell(s.batch, s.hidden, gates + t * s.batch * s.columns, hidden, h_before, h + at);
        for (int64_t r = 0; r < s.batch; r++)
            memcpy(hn + at + r * s.hidden, hidden + r * s.columns + 2 * s.hidden,
                   (size_t)s.hidden * sizeof *hn);
        h_before = h + at;
    }
    op_out_done(c, c->arg[7].t, ACL_FLOAT, h);
    op_out_done(c, c->arg[8].t, ACL_FLOAT, h);
    static const int8_t order[] = {1, 0, 2}; /* outputs update, reset, new; the cell's gates are r, z, n */
    for (int i = 0; i < 3 && all; i++) {
        aclTensor view = gate_view(&s, gates, order[i]);
        op_copy(c, c->arg[9 + i].t, &view);
    }
    op_out_done(c, c->arg[12].t, ACL_FLOAT, hn);
    return 0;
}

static int check_gru_grad(op_call *c)
{
    int r = need_sequences(c, 5);
    if (r || (r = need_no_mask(c, 12)) || (r = need_order(c, 21, "rzh", "rzh"))) return r;
    struct sizes s = sizes_of(c->arg[0].t, c->arg[5].t, 3, c->arg[20].str);
    int64_t state = s.batch * s.hidden;
    static const int8_t whole[] = {6, 8, 9, 10, 11}, last[] = {4, 7};
    for (size_t i = 0; i < sizeof whole; i++)
        if ((r = need_numel(c, whole[i], s.steps * state))) return r;
    for (size_t i = 0; i < sizeof last; i++)
        if ((r = need_numel(c, last[i], state))) return r;
    return 0;
}

static int run_gru_grad(op_call *c)
{
    struct sizes s = sizes_of(c->arg[0].t, c->arg[5].t, 3, c->arg[20].str);
    int64_t state = s.batch * s.hidden, rows = s.steps * s.batch;
    float *gates = rnn_floats(c, rows * s.columns), *dx_gates = rnn_floats(c, rows * s.columns);
    float *dh_gates = rnn_floats(c, rows * s.columns), *dh = copied(c, 7, state);
    const float *dy = input(c, 6), *hn = input(c, 11), *w_x = input(c, 1), *w_h = input(c, 2);
    static const int8_t order[] = {1, 0, 2};
    for (int i = 0; i < 3 && rows; i++) {
        aclTensor view = gate_view(&s, gates, order[i]);
        op_copy(c, &view, c->arg[8 + i].t);
    }
    float *h_before = before(c, &s, input(c, 5), input(c, 4));
    for (int64_t n = s.steps; n-- > 0;) {
        int64_t t = step_at(&s, n), at = t * state, gate = t * s.batch * s.columns;
        for (int64_t k = 0; k < state; k++) dh[k] += dy[at + k];
        gru_cell_backward(s.batch, s.hidden, gates + gate, hn + at, h_before + at, dh, dx_gates + gate,
                          dh_gates + gate);
        rnn_product(c, s.batch, s.hidden, s.columns, dh_gates + gate, false, w_h, true, 1, dh);
    }
    float *dw_x = rnn_floats(c, s.width * s.columns), *dw_h = rnn_floats(c, s.hidden * s.columns);
    float *db_x = rnn_floats(c, s.columns), *db_h = rnn_floats(c, s.columns),
          *dx = rnn_floats(c, rows * s.width);
    rnn_product(c, s.width, s.columns, rows, input(c, 0), true, dx_gates, false, 0, dw_x);
    rnn_product(c, s.hidden, s.columns, rows, h_before, true, dh_gates, false, 0, dw_h);
    rnn_product(c, rows, s.width, s.columns, dx_gates, false, w_x, true, 0, dx);
    rnn_add_rows(db_x, dx_gates, rows, s.columns);
    rnn_add_rows(db_h, dh_gates, rows, s.columns);
    const float *outs[] = {dw_x, dw_h, db_x, db_h, dx, dh};
    for (int i = 0; i < 6; i++) op_out_done(c, c->arg[14 + i].t, ACL_FLOAT, outs[i]);
    return 0;
}

#define OP_INTERNAL
#define OP_FILE "softnpu/op/dynamic_rnn.inc"
#define OP_TABLE op_rows_dynamic_rnn
#include "softnpu/op/rows.h"
