/**
 * @file activities.h
 * What a replay gave to SimGrid, recorded call by call, and given to SimGrid again by a program that does
 * nothing else: the yardstick for the engine's own cost.
 *
 * The linker puts the recorder between the engine and SimGrid (--wrap): starting an actor, sleeping, sending,
 * and every semaphore's life. The loop starts the same actors, each of which makes its own calls in their
 * order, with the same arguments, on the same platform, so SimGrid simulates the same step.
 */
#ifndef CS_BENCH_ACTIVITIES_H
#define CS_BENCH_ACTIVITIES_H

#include <stdbool.h>
#include <stdint.h>

/** Memory for at most n_max calls, shared with the engine's child process. */
void activities_open(int64_t n_max);
void activities_close(void);

/** Record what runs from now on, or stop. Recording costs time: measure the engine without. */
void activities_record(bool on);

/** Calls recorded; -1 when there were more than n_max. */
int64_t activities_count(void);

/** Do the recorded calls in a child process of their own. `config` are --cfg items, `n_config` of them;
 *  `home` a host's name. Seconds from the child's start to the last call, loading of the platform included.
 */
double activities_repeat_s(const char *platform_path, const char *home, const char *const *config,
                           int32_t n_config, double *simulated_s);

#endif
