/* Text repairs that messages and clipping share. */
#ifndef CS_BASE_TEXT_PRIV_H
#define CS_BASE_TEXT_PRIV_H

#include <stddef.h>

/* Replace what would break a one-line message or a terminal: line breaks and tabs by a space, other control
 * characters and bytes that are not UTF-8 by '?'. */
void cs__text_clean(char *text);
/* The text in buf was cut off at its end: put "..." there, not inside a UTF-8 character. buf_bytes > 3. */
void cs__text_mark_cut(char *buf, size_t buf_bytes);

#endif
