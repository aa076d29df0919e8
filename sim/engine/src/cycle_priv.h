/**
 * @file cycle_priv.h
 * Skipping equal periods of a schedule.
 *
 * One rank's starts of its commonest block are the boundaries. At each the whole state is noted relative to
 * the moment: where every actor stands, for how long its operation has been under way, how many events and
 * messages are pending. When as many boundaries in a row as a period has equal those one period before, the
 * system repeats itself: a max-plus linear system with equal state has an equal future (Baccelli et al.,
 * Synchronization and Linearity, 1992, ch. 3). The periods in which every program still calls the same blocks
 * are left out, and what one period adds to the sums is added as often.
 */
#ifndef CS_ENGINE_CYCLE_PRIV_H
#define CS_ENGINE_CYCLE_PRIV_H

#include "replay_priv.h"

#endif
