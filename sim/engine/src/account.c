#include "replay_priv.h"

#include <float.h>
#include <math.h>

/* Roundings of the times that a share of a step is made of. */
#define ROUNDINGS 8

/* Position of `t` seconds in a delay: how much of it was computing, how much crossed nodes. Points are few;
 * inside one operation everything is proportional. */
static void delay_at(const struct cs__step *step, double scale, double t, double *computing_s,
                     double *cross_s)
{
    t /= scale;
    int32_t low = 0;
    int32_t high = step->n_points - 1;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (step->points[mid].end_s < t) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    const struct cs__point *p = &step->points[low];
    static const struct cs__point zero = {0, 0, 0, 0};
    const struct cs__point *before = low > 0 ? p - 1 : &zero;
    double length_s = p->end_s - before->end_s;
    double share_frac = length_s > 0 ? (t - before->end_s) / length_s : 1;
    share_frac = share_frac < 0 ? 0 : share_frac > 1 ? 1 : share_frac;
    *computing_s = scale * (before->computing_s + share_frac * (p->computing_s - before->computing_s));
    *cross_s = scale * (before->cross_s + share_frac * (p->cross_s - before->cross_s));
}

static void advance_delay(struct cs__account *a, double now_s, double dt_s)
{
    double computing[2];
    double cross[2];
    delay_at(a->delay, a->delay_scale, a->last_s - a->delay_start_s, &computing[0], &cross[0]);
    delay_at(a->delay, a->delay_scale, now_s - a->delay_start_s, &computing[1], &cross[1]);
    double computing_s = computing[1] - computing[0];
    double other_s = dt_s - computing_s;
    /* Both are differences of times: what their rounding leaves is no communication. */
    other_s = fabs(other_s) <= ROUNDINGS * DBL_EPSILON * now_s ? 0 : other_s;
    a->sum.computing_s += computing_s;
    a->sum.exposed_comm_s += other_s;
    a->sum.comm_s += a->n_moving > 0 ? dt_s : other_s;
    a->sum.cross_comm_s += a->n_cross > 0 ? dt_s : cross[1] - cross[0];
}

void cs__account_advance(struct cs__account *a, double now_s)
{
    double dt_s = now_s - a->last_s;
    if (dt_s <= 0) {
        return;
    }
    if (a->delay) {
        advance_delay(a, now_s, dt_s);
    } else if (a->n_moving > 0) {
        a->sum.comm_s += dt_s;
        a->sum.exposed_comm_s += dt_s;
        a->sum.cross_comm_s += a->n_cross > 0 ? dt_s : 0;
    } else if (a->pipeline_wait) {
        a->sum.bubble_s += dt_s;
    } else {
        a->sum.idle_s += dt_s;
        a->sum.beside_s += a->n_beside > 0 ? dt_s : 0;
    }
    a->last_s = now_s;
}

void cs__account_delay(struct cs__account *a, const struct cs__step *step, double scale, double now_s)
{
    cs__account_advance(a, now_s);
    a->delay = step;
    a->delay_start_s = now_s;
    a->delay_scale = scale;
}

void cs__account_wait(struct cs__account *a, bool pipeline, double now_s)
{
    cs__account_advance(a, now_s);
    a->delay = NULL;
    a->pipeline_wait = pipeline;
}

void cs__account_move(struct cs__account *a, int32_t delta, bool cross, double now_s)
{
    cs__account_advance(a, now_s);
    a->n_moving += delta;
    a->n_cross += cross ? delta : 0;
}

void cs__account_beside(struct cs__account *a, int32_t delta, double now_s)
{
    cs__account_advance(a, now_s);
    a->n_beside += delta;
}

void cs__account_cross(struct cs__account *a, int32_t delta, double now_s)
{
    cs__account_advance(a, now_s);
    a->n_cross += delta;
}
