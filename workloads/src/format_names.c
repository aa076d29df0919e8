/* Names in trace files. */
#include "format_priv.h"

#include "cs/base/text.h"

bool cs__has_control(const char *text)
{
    for (size_t n; *text != '\0'; text += n > 0 ? n : 1) {
        const unsigned char byte = (unsigned char)text[0];
        const unsigned char next = (unsigned char)text[1];
        n = cs_text_shown_bytes(text);
        bool c1 = (byte >= 0x80 && byte < 0xa0) || (byte == 0xc2 && next >= 0x80 && next < 0xa0);
        if (n == 0 && (byte < 0x20 || byte == 0x7f || c1)) {
            return true; /* a terminal that is not set to UTF-8 obeys the byte itself */
        }
    }
    return false;
}

static bool is_utf8(const char *text)
{
    while (*text != '\0') {
        size_t n = cs_text_shown_bytes(text);
        if (n == 0) {
            return false;
        }
        text += n;
    }
    return true;
}

static cs_status check_name(const char *what, const char *name, bool utf8, struct cs_err *err)
{
    const char *wrong = name == NULL             ? NULL
                        : cs__has_control(name)  ? "holds a control character"
                        : utf8 && !is_utf8(name) ? "is no UTF-8"
                                                 : NULL;
    char shown[CS_TEXT_CLIP_BYTES];
    return wrong == NULL
               ? CS_OK
               : cs_err_set(err, CS_E_INPUT, CS_NOLOC, "the name '%s' of a %s %s: no reader takes it",
                            cs_text_clip(name, shown), what, wrong);
}

cs_status cs__names_check(const struct cs_trace *trace, bool utf8, struct cs_err *err)
{
    cs_status st = CS_OK;
    const struct {
        const char *what;
        int32_t n;
        const char *const *names;
    } lists[] = {{"stream", trace->n_streams, trace->stream_names},
                 {"event", trace->n_events, trace->event_names},
                 {"label", trace->n_labels, trace->labels}};
    for (int32_t k = 0; k < CS_COUNT(lists); k++) {
        for (int32_t i = 0; i < lists[k].n; i++) {
            CS_TRY(check_name(lists[k].what, lists[k].names[i], utf8, err));
        }
    }
    for (int32_t i = 0; i < trace->n_comms; i++) {
        CS_TRY(check_name("communicator", trace->comms[i].name, utf8, err));
    }
    for (int32_t i = 0; i < trace->n_chans; i++) {
        CS_TRY(check_name("channel", trace->chans[i].name, utf8, err));
    }
    for (int32_t i = 0; i < trace->n_blocks; i++) {
        CS_TRY(check_name("block", trace->blocks[i].name, utf8, err));
    }
    for (int32_t i = 0; i < trace->n_programs; i++) {
        CS_TRY(check_name("role", trace->programs[i].role, utf8, err));
    }
out:
    return st;
}
