/**
 * @file trace_equal.h
 * Two traces, field by field.
 */
#ifndef CS_TESTS_UNIT_TRACE_EQUAL_H
#define CS_TESTS_UNIT_TRACE_EQUAL_H

#include "cs/workloads/trace.h"

/** Ends the test when the contents differ in an index, a text or a bit of a number. */
void assert_traces_equal(const struct cs_trace *a, const struct cs_trace *b);

#endif
