/* rnn.c - LSTM and GRU over sequences, forward and backward, and the fused LSTM cell. Arithmetic is f32. */
#include "softnpu/kernel/vmath.h"
#include "softnpu/op/rnn_cell.h"
#include "softnpu/op/rnn_util.h"
#include "softnpu/op/view.h"

#include <string.h>

/* Argument numbers, so that both directions of both networks share the frame. saved: first of the lists kept
 * for the backward pass. */
struct rnn {
    int8_t gates, params, hx, sizes, bias, layers, bidirectional, batch_first, saved;
};
static const struct rnn lstm_forward = {4, 1, 2, 3, 4, 5, 8, 9, 13},
                        gru_forward = {3, 1, 2, 3, 4, 5, 8, 9, 12},
                        lstm_backward = {4, 2, 1, 13, 14, 15, 18, 19, 6},
                        gru_backward = {3, 1, 2, 10, 11, 12, 13, 14, 5};
/* How GRU and LSTM keep their activations: one list each of the gates, then (GRU) hn, h or (LSTM) h, c,
 * tanhc. */

/* Sizes of a call. A pass is one direction of one layer; time runs backwards in odd passes of a bidirectional
 * net. */
struct frame {
    const struct rnn *at;
    int64_t steps, batch, width, hidden, passes, directions, gate_columns;
    bool bias;
};

/* ---- checks ------------------------------------------------------------------------------------------ */

static bool is_packed(const op_call *c, const struct rnn *at)
{
    const aclTensor *sizes = c->arg[at->sizes].t;
    return sizes && sn_numel(sizes) > 0;
}

static int frame_of(op_call *c, struct frame *f)
{
    const struct rnn *at = c->row->aux;
    const aclTensor *input = c->arg[0].t;
    const aclTensorList *params = c->arg[at->params].tl;
    bool packed = is_packed(c, at), batch_first = c->arg[at->batch_first].i && !packed;
    if (input->rank != (packed ? 2 : 3))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "input must have %d dimensions, not %d", packed ? 2 : 3,
                       (int)input->rank);
    *f = (struct frame){
        .at = at, .bias = c->arg[at->bias].i, .directions = c->arg[at->bidirectional].i ? 2 : 1};
    int64_t layers = c->arg[at->layers].i;
    f->passes = layers < 1 || layers > INT16_MAX ? 0 : layers * f->directions;
    f->steps = packed ? sn_numel(c->arg[at->sizes].t) : input->dim[batch_first ? 1 : 0];
    f->batch = packed ? input->dim[0] / f->steps : input->dim[batch_first ? 0 : 1];
    f->width = input->dim[input->rank - 1];
    if (f->passes < 1 || (int64_t)params->n != f->passes * (f->bias ? 4 : 2))
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "params holds %llu tensors, expected %lld",
                       (unsigned long long)params->n, (long long)(f->passes * (f->bias ? 4 : 2)));
    if (packed && input->dim[0] % f->steps)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%lld rows do not divide into %lld steps",
                       (long long)input->dim[0], (long long)f->steps);
    f->gate_columns = params->v[0]->dim[0];
    f->hidden = f->gate_columns / at->gates;
    return 0;
}

/* Weights of pass p: [gates * hidden, width of its input], [gates * hidden, hidden], biases [gates * hidden].
 */
static int64_t pass_width(const struct frame *f, int64_t pass)
{
    return pass < f->directions ? f->width : f->directions * f->hidden;
}

static int need_params(op_call *c, const struct frame *f)
{
    const aclTensorList *params = c->arg[f->at->params].tl;
    int each = f->bias ? 4 : 2;
    for (uint64_t i = 0; i < params->n; i++) {
        const aclTensor *t = params->v[i];
        int64_t kind = (int64_t)i % each, columns = kind == 0 ? pass_width(f, (int64_t)i / each) : f->hidden;
        bool fits =
            t->dim[0] == f->gate_columns && (kind < 2 ? t->rank == 2 && t->dim[1] == columns : t->rank == 1);
        if (!fits || t->dtype != c->arg[0].t->dtype)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "params[%llu] does not fit a hidden size of %lld",
                           (unsigned long long)i, (long long)f->hidden);
    }
    return 0;
}

static int check_forward(op_call *c, int lists, int states)
{
    struct frame f;
    int r = frame_of(c, &f);
    if (r || (r = need_params(c, &f))) return r;
    bool packed = is_packed(c, f.at), batch_first = c->arg[9].i && !packed, train = c->arg[7].i;
    if (train && c->arg[6].d > 0 && c->arg[5].i > 1)
        return op_fail(c, ACLNN_ERR_PARAM_INVALID,
                       "dropout %g between layers needs a seed, which the call has not", c->arg[6].d);
    int64_t out[] = {batch_first ? f.batch : f.steps, batch_first ? f.steps : f.batch,
                     f.directions * f.hidden};
    if ((r = op_need_shape(c, 10, out, 3))) return r;
    for (int i = 0; i < states; i++)
        if ((r = op_need_shape(c, 11 + i, (int64_t[]){f.passes, f.batch, f.hidden}, 3))) return r;
    for (int i = 0; train && i < lists; i++)
        if ((int64_t)c->arg[f.at->saved + i].tl->n != f.passes)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s must hold %lld tensors",
                           c->row->param[f.at->saved + i].name, (long long)f.passes);
    return 0;
}
static int check_lstm(op_call *c)
{
    if (c->arg[2].tl->n != 2) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "hx must hold h and c");
    return check_forward(c, 7, 2);
}
static int check_gru(op_call *c)
{
    return check_forward(c, 5, 1);
}

static int check_rnn_backward(op_call *c)
{
    struct frame f;
    int r = frame_of(c, &f);
    if (r || (r = need_params(c, &f))) return r;
    for (int i = f.at->saved; i < f.at->sizes; i++)
        if ((int64_t)c->arg[i].tl->n != f.passes)
            return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s must hold %lld tensors", c->row->param[i].name,
                           (long long)f.passes);
    return 0;
}

/* The rows of a packed batch are walked as if padded, which needs steps of one size. */
static int need_even_steps(op_call *c, const struct frame *f)
{
    if (!is_packed(c, f->at)) return 0;
    const int64_t *size = op_in(c, c->arg[f->at->sizes].t, ACL_INT64);
    for (int64_t t = 0; t < f->steps; t++)
        if (size[t] != f->batch)
            return op_fail(c, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                           "packed sequences of different lengths are not supported");
    return 0;
}

static const float *param(op_call *c, const struct frame *f, int64_t pass, int which)
{
    return op_in(c, c->arg[f->at->params].tl->v[pass * (f->bias ? 4 : 2) + which], ACL_FLOAT);
}

/* Time-major copy of a tensor that may be batch-major. */
static float *time_major(op_call *c, const struct frame *f, const aclTensor *t)
{
    bool batch_first = c->arg[f->at->batch_first].i && t->rank == 3 && !is_packed(c, f->at);
    if (!batch_first) return op_in(c, t, ACL_FLOAT);
    aclTensor view = view_permute(t, (int64_t[]){1, 0, 2});
    return op_in(c, &view, ACL_FLOAT);
}
static void store_time_major(op_call *c, const struct frame *f, const aclTensor *t, const float *x)
{
    bool batch_first = c->arg[f->at->batch_first].i && t->rank == 3 && !is_packed(c, f->at);
    aclTensor view = batch_first ? view_permute(t, (int64_t[]){1, 0, 2}) : *t, from;
    sn_wrap(&from, ACL_FLOAT, view.rank, view.dim, (void *)(uintptr_t)x);
    if (sn_numel(t)) op_copy(c, t == &view ? t : &view, &from);
}

/* State number `which` of all passes, [passes, batch, hidden]. */
static const float *initial(op_call *c, const struct frame *f, int which)
{
    bool list = c->row->param[f->at->hx].kind == OPK_TL;
    return op_in(c, list ? c->arg[f->at->hx].tl->v[which] : c->arg[f->at->hx].t, ACL_FLOAT);
}

/* The step that comes n-th in a pass. */
static int64_t step_at(const struct frame *f, int64_t pass, int64_t n)
{
    return f->directions == 2 && pass % 2 ? f->steps - 1 - n : n;
}

/* What a pass keeps: [steps, batch, gate columns] of activations, and states of [steps, batch, hidden]. */
struct kept {
    float *gates, *h, *c, *tanhc, *hn;
};

/* Columns [first, first + hidden) of rows of `columns` numbers, to or from a tensor. */
static aclTensor columns_of(const struct frame *f, float *x, int64_t columns, int64_t first)
{
    aclTensor whole;
    sn_wrap(&whole, ACL_FLOAT, 3, (int64_t[]){f->steps, f->batch, columns}, x);
    return view_narrow(&whole, 2, first, f->hidden);
}

static void save(op_call *c, const struct frame *f, int64_t pass, int list, float *x, int64_t columns,
                 int64_t first)
{
    aclTensor view = columns_of(f, x, columns, first);
    const aclTensor *to = c->arg[f->at->saved + list].tl->v[pass];
    if (sn_numel(to)) op_copy(c, to, &view);
}
static void restore(op_call *c, const struct frame *f, int64_t pass, int list, float *x, int64_t columns,
                    int64_t first)
{
    aclTensor view = columns_of(f, x, columns, first), from = *c->arg[f->at->saved + list].tl->v[pass];
    if (sn_numel(&view) == 0) return;
    if (from.rank == 2) { /* one step, squeezed away */
        memmove(from.dim + 1, from.dim, 2 * sizeof *from.dim);
        memmove(from.stride + 1, from.stride, 2 * sizeof *from.stride);
        from.dim[0] = 1;
        from.rank = 3;
    }
    op_copy(c, &view, &from);
}

/* ---- forward ----------------------------------------------------------------------------------------- */

/* One pass over x [steps, batch, width]; its hidden states go to k->h. Returns the last state in *h_end (and
 * *c_end). */
static void run_pass(op_call *c, const struct frame *f, int64_t pass, const float *x, const float *h0,
                     const float *c0, struct kept *k, float *h_end, float *c_end)
{
    int64_t rows = f->steps * f->batch, state = f->batch * f->hidden, columns = f->gate_columns;
    bool gru = f->at->gates == 3;
    const float *w_h = param(c, f, pass, 1), *h = h0, *cell = c0;
    float *hidden = gru ? rnn_floats(c, f->batch * columns) : NULL;
    rnn_product(c, rows, columns, pass_width(f, pass), x, false, param(c, f, pass, 0), true, 0, k->gates);
    if (f->bias) rnn_add_bias(k->gates, rows, columns, param(c, f, pass, 2));
    if (f->bias && !gru) rnn_add_bias(k->gates, rows, columns, param(c, f, pass, 3));
    for (int64_t n = 0; n < f->steps; n++) {
        int64_t t = step_at(f, pass, n), at = t * state;
        float *gates = k->gates + t * f->batch * columns;
        if (gru) {
            rnn_product(c, f->batch, columns, f->hidden, h, false, w_h, true, 0, hidden);
            if (f->bias) rnn_add_bias(hidden, f->batch, columns, param(c, f, pass, 3));
            gru_cell(f->batch, f->hidden, gates, hidden, h, k->h + at);
            for (int64_t r = 0; r < f->batch; r++)
                memcpy(k->hn + at + r * f->hidden, hidden + r * columns + 2 * f->hidden,
                       (size_t)f->hidden * sizeof(float));
        } else {
            rnn_product(c, f->batch, columns, f->hidden, h, false, w_h, true, 1, gates);
            lstm_cell(f->batch, f->hidden, gates, cell, k->c + at, k->tanhc + at, k->h + at);
            cell = k->c + at;
        }
        h = k->h + at;
    }
    memcpy(h_end, h, (size_t)state * sizeof *h);
    if (c_end) memcpy(c_end, cell, (size_t)state * sizeof *cell);
}

static struct kept new_kept(op_call *c, const struct frame *f)
{
    int64_t states = f->steps * f->batch * f->hidden;
    return (struct kept){rnn_floats(c, f->steps * f->batch * f->gate_columns), rnn_floats(c, states),
                         rnn_floats(c, states), rnn_floats(c, states), rnn_floats(c, states)};
}

static void save_pass(op_call *c, const struct frame *f, int64_t pass, const struct kept *k)
{
    /* iOut, jOut, fOut, oOut stand for the gates i, g, f, o */
    static const int8_t order[2][4] = {{0, 2, 1, 3}, {0, 1, 2, -1}};
    int gates = f->at->gates;
    for (int i = 0; i < gates; i++)
        save(c, f, pass, i, k->gates, f->gate_columns, order[gates == 3][i] * f->hidden);
    float *const rest[2][3] = {{k->h, k->c, k->tanhc}, {k->hn, k->h, NULL}};
    for (int i = 0; i < 3 && rest[gates == 3][i]; i++)
        save(c, f, pass, gates + i, rest[gates == 3][i], f->hidden, 0);
}

/* All layers. The output of a layer is the next one's input. */
static int run_forward(op_call *c, bool lstm)
{
    struct frame f;
    int r = frame_of(c, &f);
    if (r || (r = need_even_steps(c, &f))) return r;
    int64_t state = f.batch * f.hidden, wide = f.directions * f.hidden;
    const float *x = time_major(c, &f, c->arg[0].t), *h0 = initial(c, &f, 0),
                *c0 = lstm ? initial(c, &f, 1) : NULL;
    float *h_end = rnn_floats(c, f.passes * state), *c_end = lstm ? rnn_floats(c, f.passes * state) : NULL;
    for (int64_t layer = 0; layer < f.passes / f.directions; layer++) {
        float *y = rnn_floats(c, f.steps * f.batch * wide);
        for (int64_t d = 0; d < f.directions; d++) {
            int64_t pass = layer * f.directions + d;
            struct kept k = new_kept(c, &f);
            run_pass(c, &f, pass, x, h0 + pass * state, lstm ? c0 + pass * state : NULL, &k,
                     h_end + pass * state, lstm ? c_end + pass * state : NULL);
            if (c->arg[7].i) save_pass(c, &f, pass, &k);
            for (int64_t i = 0; i < f.steps * f.batch; i++)
                memcpy(y + i * wide + d * f.hidden, k.h + i * f.hidden, (size_t)f.hidden * sizeof *y);
        }
        x = y;
    }
    store_time_major(c, &f, c->arg[10].t, x);
    op_out_done(c, c->arg[11].t, ACL_FLOAT, h_end);
    if (lstm) op_out_done(c, c->arg[12].t, ACL_FLOAT, c_end);
    return 0;
}
static int run_lstm(op_call *c)
{
    return run_forward(c, true);
}
static int run_gru(op_call *c)
{
    return run_forward(c, false);
}

/* ---- backward ---------------------------------------------------------------------------------------- */

static struct kept restore_pass(op_call *c, const struct frame *f, int64_t pass)
{
    static const int8_t order[2][4] = {{0, 2, 1, 3}, {0, 1, 2, -1}};
    struct kept k = new_kept(c, f);
    int gates = f->at->gates;
    for (int i = 0; i < gates; i++)
        restore(c, f, pass, i, k.gates, f->gate_columns, order[gates == 3][i] * f->hidden);
    float *const rest[2][3] = {{k.h, k.c, k.tanhc}, {k.hn, k.h, NULL}};
    for (int i = 0; i < 3 && rest[gates == 3][i]; i++)
        restore(c, f, pass, gates + i, rest[gates == 3][i], f->hidden, 0);
    return k;
}

static int need_gradient(const op_call *c, int arg, int64_t n)
{
    const aclTensor *t = c->arg[arg].t;
    if (!t || sn_numel(t) == 0 || sn_numel(t) == n) return 0;
    return op_fail(c, ACLNN_ERR_PARAM_INVALID, "%s has %lld elements, expected %lld", c->row->param[arg].name,
                   (long long)sn_numel(t), (long long)n);
}

/* A gradient that may be missing: [n] floats, zeros then. A copy, since the passes change it. */
static float *gradient(op_call *c, int arg, int64_t n)
{
    float *g = rnn_floats(c, n);
    if (c->arg[arg].t && sn_numel(c->arg[arg].t))
        memcpy(g, op_in(c, c->arg[arg].t, ACL_FLOAT), (size_t)n * sizeof *g);
    return g;
}

/* The states that the steps of a pass started from, [steps, batch, hidden]. */
static float *states_before(op_call *c, const struct frame *f, int64_t pass, const float *states,
                            const float *first)
{
    int64_t state = f->batch * f->hidden;
    float *before = rnn_floats(c, f->steps * state);
    for (int64_t n = 0; n < f->steps; n++) {
        const float *from = n ? states + step_at(f, pass, n - 1) * state : first;
        memcpy(before + step_at(f, pass, n) * state, from, (size_t)state * sizeof *before);
    }
    return before;
}

/* The pass's parameter gradients from those of its pre-activations: dgx of the input's, dgh of the hidden
 * state's. */
static void store_params(op_call *c, const struct frame *f, int64_t pass, const float *x, const float *before,
                         const float *dgx, const float *dgh, int out)
{
    int64_t rows = f->steps * f->batch, columns = f->gate_columns, width = pass_width(f, pass);
    const aclTensor *const *to = (const aclTensor *const *)c->arg[out].tl->v + pass * (f->bias ? 4 : 2);
    float *w_x = rnn_floats(c, columns * width), *w_h = rnn_floats(c, columns * f->hidden);
    rnn_product(c, columns, width, rows, dgx, true, x, false, 0, w_x);
    rnn_product(c, columns, f->hidden, rows, dgh, true, before, false, 0, w_h);
    op_out_done(c, to[0], ACL_FLOAT, w_x);
    op_out_done(c, to[1], ACL_FLOAT, w_h);
    for (int i = 0; f->bias && i < 2; i++) {
        float *sum = rnn_floats(c, columns);
        rnn_add_rows(sum, i ? dgh : dgx, rows, columns);
        op_out_done(c, to[2 + i], ACL_FLOAT, sum);
    }
}

/* One pass backwards: dy [steps, batch, directions * hidden] of its layer; dh and dc are changed into the
 * gradients of the first states; adds to dx [steps, batch, width]. */
static void run_pass_backward(op_call *c, const struct frame *f, int64_t pass, const float *x,
                              const float *dy, const float *h0, const float *c0, float *dh, float *dc,
                              float *dx, int out)
{
    int64_t rows = f->steps * f->batch, state = f->batch * f->hidden, columns = f->gate_columns;
    int64_t wide = f->directions * f->hidden, first = f->directions == 2 ? pass % 2 * f->hidden : 0;
    struct kept k = restore_pass(c, f, pass);
    float *before = states_before(c, f, pass, k.h, h0),
          *cells = c0 ? states_before(c, f, pass, k.c, c0) : NULL;
    float *dgx = rnn_floats(c, rows * columns), *dgh = c0 ? dgx : rnn_floats(c, rows * columns);
    const float *w_h = param(c, f, pass, 1);
    for (int64_t n = f->steps; n-- > 0;) {
        int64_t t = step_at(f, pass, n), at = t * state, gate = t * f->batch * columns;
        for (int64_t r = 0; r < f->batch; r++)
            for (int64_t i = 0; i < f->hidden; i++)
                dh[r * f->hidden + i] += dy[(t * f->batch + r) * wide + first + i];
        if (c0)
            lstm_cell_backward(f->batch, f->hidden, k.gates + gate, cells + at, k.tanhc + at, dh, dc,
                               dgx + gate);
        else
            gru_cell_backward(f->batch, f->hidden, k.gates + gate, k.hn + at, before + at, dh, dgx + gate,
                              dgh + gate);
        rnn_product(c, f->batch, f->hidden, columns, dgh + gate, false, w_h, false, c0 ? 0 : 1, dh);
    }
    rnn_product(c, rows, pass_width(f, pass), columns, dgx, false, param(c, f, pass, 0), false, 1, dx);
    store_params(c, f, pass, x, before, dgx, dgh, out);
}

/* The input of a layer: the outputs of the one below. */
static const float *layer_input(op_call *c, const struct frame *f, int64_t layer)
{
    if (layer == 0) return time_major(c, f, c->arg[0].t);
    int64_t wide = f->directions * f->hidden;
    float *x = rnn_floats(c, f->steps * f->batch * wide);
    for (int64_t d = 0; d < f->directions; d++) {
        struct kept k = restore_pass(c, f, (layer - 1) * f->directions + d);
        for (int64_t i = 0; i < f->steps * f->batch; i++)
            memcpy(x + i * wide + d * f->hidden, k.h + i * f->hidden, (size_t)f->hidden * sizeof *x);
    }
    return x;
}

/* out: first output argument (dx, dh, [dc], params). */
static int run_backward(op_call *c, bool lstm, int grads, int out)
{
    struct frame f;
    int r = frame_of(c, &f);
    if (r || (r = need_even_steps(c, &f))) return r;
    int64_t state = f.batch * f.hidden, rows = f.steps * f.batch, wide = f.directions * f.hidden;
    if ((r = need_gradient(c, grads, rows * wide)) || (r = need_gradient(c, grads + 1, f.passes * state)) ||
        (lstm && (r = need_gradient(c, grads + 2, f.passes * state))))
        return r;
    const float *h0 = initial(c, &f, 0), *c0 = lstm ? initial(c, &f, 1) : NULL;
    float *dh = gradient(c, grads + 1, f.passes * state),
          *dc = lstm ? gradient(c, grads + 2, f.passes * state) : NULL;
    const aclTensor *given = c->arg[grads].t;
    float *dy = given && sn_numel(given) ? time_major(c, &f, given) : rnn_floats(c, rows * wide);
    for (int64_t layer = f.passes / f.directions; layer-- > 0;) {
        const float *x = layer_input(c, &f, layer);
        float *dx = rnn_floats(c, rows * pass_width(&f, layer * f.directions));
        for (int64_t d = 0; d < f.directions; d++) {
            int64_t pass = layer * f.directions + d, at = pass * state;
            run_pass_backward(c, &f, pass, x, dy, h0 + at, lstm ? c0 + at : NULL, dh + at,
                              lstm ? dc + at : NULL, dx, out + (lstm ? 3 : 2));
        }
        dy = dx;
    }
    store_time_major(c, &f, c->arg[out].t, dy);
    op_out_done(c, c->arg[out + 1].t, ACL_FLOAT, dh);
    if (lstm) op_out_done(c, c->arg[out + 2].t, ACL_FLOAT, dc);
    return 0;
}
static int run_lstm_backward(op_call *c)
{
    return run_backward(c, true, 3, 21);
}
static int run_gru_backward(op_call *c)
{
    return run_backward(c, false, 3, 15);
}

/* ---- fused LSTM cell --------------------------------------------------------------------------------- */

static int check_cell(op_call *c)
{
    const aclTensor *cx = c->arg[2].t;
    if (cx->rank != 2) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "cx must have 2 dimensions");
    int64_t gates[] = {cx->dim[0], 4 * cx->dim[1]};
    int r = op_need_shape(c, 0, gates, 2);
    if (r || (r = op_need_shape(c, 1, gates, 2)) || (r = op_need_shape(c, 7, gates, 2))) return r;
    for (int i = 3; i < 5; i++)
        if (c->arg[i].t && (r = op_need_shape(c, i, gates + 1, 1))) return r;
    if ((r = op_need_same_shape(c, 2, 5))) return r;
    return op_need_same_shape(c, 2, 6);
}

static int run_cell(op_call *c)
{
    const aclTensor *cx = c->arg[2].t;
    int64_t rows = cx->dim[0], hidden = cx->dim[1], n = rows * hidden;
    float *gates = rnn_floats(c, 4 * n), *h = rnn_floats(c, n), *cell = rnn_floats(c, n),
          *tanhc = rnn_floats(c, n);
    if (n == 0) return 0;
    for (int i = 0; i < 2; i++) {
        const float *part = op_in(c, c->arg[i].t, ACL_FLOAT);
        for (int64_t k = 0; k < 4 * n; k++) gates[k] += part[k];
        if (c->arg[3 + i].t) rnn_add_bias(gates, rows, 4 * hidden, op_in(c, c->arg[3 + i].t, ACL_FLOAT));
    }
    lstm_cell(rows, hidden, gates, op_in(c, cx, ACL_FLOAT), cell, tanhc, h);
    op_out_done(c, c->arg[5].t, ACL_FLOAT, h);
    op_out_done(c, c->arg[6].t, ACL_FLOAT, cell);
    op_out_done(c, c->arg[7].t, ACL_FLOAT, gates);
    return 0;
}

static int check_cell_backward(op_call *c)
{
    const aclTensor *cx = c->arg[2].t;
    if (cx->rank != 2) return op_fail(c, ACLNN_ERR_PARAM_INVALID, "cx must have 2 dimensions");
    int64_t gates[] = {cx->dim[0], 4 * cx->dim[1]};
    int r = op_need_same_shape(c, 2, 3);
    if (r || (r = need_gradient(c, 0, sn_numel(cx))) || (r = need_gradient(c, 1, sn_numel(cx))) ||
        (r = op_need_shape(c, 4, gates, 2)) || (r = op_need_shape(c, 6, gates, 2)))
        return r;
    if (c->arg[5].i && (r = op_need_shape(c, 8, gates + 1, 1))) return r;
    return op_need_same_shape(c, 2, 7);
}

static int run_cell_backward(op_call *c)
{
    const aclTensor *cx = c->arg[2].t;
    int64_t rows = cx->dim[0], hidden = cx->dim[1], n = rows * hidden;
    float *dh = gradient(c, 0, n), *dc = gradient(c, 1, n), *dgates = rnn_floats(c, 4 * n),
          *tanhc = rnn_floats(c, n);
    aclTensor t;
    if (n == 0) return 0;
    sn_wrap(&t, ACL_FLOAT, 2, cx->dim, tanhc);
    op_copy(c, &t, c->arg[3].t);
    vmath_f32(VM_TANH, n, tanhc, tanhc);
    lstm_cell_backward(rows, hidden, op_in(c, c->arg[4].t, ACL_FLOAT), op_in(c, cx, ACL_FLOAT), tanhc, dh, dc,
                       dgates);
    op_out_done(c, c->arg[6].t, ACL_FLOAT, dgates);
    op_out_done(c, c->arg[7].t, ACL_FLOAT, dc);
    if (!c->arg[5].i) return 0;
    float *sum = rnn_floats(c, 4 * hidden);
    rnn_add_rows(sum, dgates, rows, 4 * hidden);
    op_out_done(c, c->arg[8].t, ACL_FLOAT, sum);
    return 0;
}

#define OP_FILE "softnpu/op/rnn.inc"
#define OP_TABLE op_rows_rnn
#include "softnpu/op/rows.h"
