/* The XML side of reading a platform: libxml2's SAX interface, the accepted elements and attributes.
 *
 * libxml2 checks well-formedness, but SimGrid's generated scanner is stricter in the prolog; what it refuses
 * was measured with 3.32 and is refused here. No DTD is loaded, no entity is defined, nothing touches the
 * network, and every complaint goes into cs_err instead of standard error. */
#include "cs/base/text.h"
#include "reader_priv.h"

#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <string.h>

struct element_rule {
    const char *name;
    int32_t n_required; /* of the attributes, which come first */
    const char *attrs[CS__ATTRS_MAX];
};

static const struct element_rule rules[CS__N_ELEMENTS] = {
    [CS__EL_PLATFORM] = {"platform", 1, {"version"}},
    [CS__EL_ZONE] = {"zone", 2, {"id", "routing"}},
    [CS__EL_HOST] = {"host", 2, {"id", "speed", "core"}},
    [CS__EL_ROUTER] = {"router", 1, {"id"}},
    [CS__EL_LINK] = {"link", 3, {"id", "bandwidth", "latency", "sharing_policy"}},
    [CS__EL_BACKBONE] = {"backbone", 3, {"id", "bandwidth", "latency"}},
    [CS__EL_CLUSTER] = {"cluster",
                        7,
                        {"id", "prefix", "suffix", "radical", "speed", "bw", "lat", "core", "sharing_policy",
                         "topology", "topo_parameters", "bb_bw", "bb_lat", "bb_sharing_policy", "router_id",
                         "limiter_link", "loopback_bw", "loopback_lat"}},
    [CS__EL_HOST_LINK] = {"host_link", 3, {"id", "up", "down"}},
    [CS__EL_ROUTE] = {"route", 2, {"src", "dst", "symmetrical"}},
    [CS__EL_ZONE_ROUTE] = {"zoneRoute", 2, {"src", "dst", "symmetrical", "gw_src", "gw_dst"}},
    [CS__EL_LINK_CTN] = {"link_ctn", 1, {"id", "direction"}},
    [CS__EL_PROP] = {"prop", 2, {"id", "value"}},
};

int cs__reader_line(const struct cs_reader *reader)
{
    const xmlParserCtxt *parser = reader->parser;
    return parser && parser->input ? parser->input->line : 0;
}

struct cs_loc cs__reader_loc(const struct cs_reader *reader)
{
    return (struct cs_loc){.file = reader->file, .line = cs__reader_line(reader)};
}

static cs_status fail_v(struct cs_reader *reader, int line, cs_status code, const char *fmt, va_list ap)
{
    if (reader->status == CS_OK) {
        reader->status =
            cs_err_vset(reader->err, code, (struct cs_loc){.file = reader->file, .line = line}, fmt, ap);
        if (reader->parser) {
            xmlStopParser(reader->parser);
        }
    }
    return reader->status;
}

cs_status cs__reader_fail(struct cs_reader *reader, cs_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cs_status st = fail_v(reader, cs__reader_line(reader), code, fmt, ap);
    va_end(ap);
    return st;
}

cs_status cs__reader_fail_at(struct cs_reader *reader, int line, cs_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cs_status st = fail_v(reader, line, code, fmt, ap);
    va_end(ap);
    return st;
}

/* A failure that a helper has already put into err: remember it and stop. */
static void stop(struct cs_reader *reader, cs_status st)
{
    if (st != CS_OK && reader->status == CS_OK) {
        reader->status = st;
        xmlStopParser(reader->parser);
    }
}

/* Why a SimGrid element is not accepted; NULL for names SimGrid does not know either. */
static const char *why_not(const char *name)
{
    static const char *const known[][2] = {
        {"config", "SimGrid's settings are the simulator's, not the platform's"},
        {"AS", "write <zone>"},
        {"ASroute", "write <zoneRoute>"},
        {"bypassRoute", "write <route>"},
        {"bypassASroute", "write <zoneRoute>"},
        {"bypassZoneRoute", "write <zoneRoute>"},
        {"include", "SimGrid removed it"},
        {"storage", "SimGrid removed it"},
        {"storage_type", "SimGrid removed it"},
        {"mount", "SimGrid removed it"},
        {"random", "SimGrid removed it"},
        {"cabinet", "write <cluster>"},
        {"peer", "write <host> and <link>"},
        {"disk", "files are not simulated"},
        {"trace", "changes over time are options of a run"},
        {"trace_connect", "changes over time are options of a run"},
        {"actor", "actors are the simulator's"},
        {"process", "actors are the simulator's"},
    };
    for (int32_t i = 0; i < CS_COUNT(known); i++) {
        if (strcmp(known[i][0], name) == 0) {
            return known[i][1];
        }
    }
    return NULL;
}

static void fail_element(struct cs_reader *reader, const char *name)
{
    const char *names[CS__N_ELEMENTS + 1];
    for (int32_t e = 0; e < CS__N_ELEMENTS; e++) {
        names[e] = rules[e].name;
    }
    names[CS__N_ELEMENTS] = NULL;
    const char *reason = why_not(name);
    const char *near = cs_text_nearest(name, names);
    if (reason) {
        (void)cs__reader_fail(reader, CS_E_INPUT, "element <%s> is not supported: %s", name, reason);
    } else if (near) {
        (void)cs__reader_fail(reader, CS_E_INPUT, "unknown element <%s>, did you mean <%s>?", name, near);
    } else {
        (void)cs__reader_fail(reader, CS_E_INPUT, "unknown element <%s>", name);
    }
}

static void fail_attr(struct cs_reader *reader, const struct element_rule *rule, const char *name)
{
    const char *near = cs_text_nearest(name, rule->attrs);
    struct cs_strbuf list = {0};
    for (int32_t i = 0; rule->attrs[i]; i++) {
        cs_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", rule->attrs[i]);
    }
    (void)cs__reader_fail(reader, CS_E_INPUT, "<%s> has the unsupported attribute '%s'%s%s%s (supported: %s)",
                          rule->name, name, near ? ", did you mean '" : "", near ? near : "",
                          near ? "'?" : "", cs_strbuf_str(&list));
    cs_strbuf_release(&list);
}

/* Copy the start tag's attributes to reader->attrs, in the order of the element's table. */
static void read_attrs(struct cs_reader *reader, const struct element_rule *rule, int n,
                       const xmlChar **attrs)
{
    cs_arena_release(&reader->scratch);
    memset(reader->attrs, 0, sizeof reader->attrs);
    for (int i = 0; i < n && reader->status == CS_OK; i++, attrs += 5) {
        const char *name = (const char *)attrs[0];
        int32_t index = attrs[1] ? -1 : cs_text_index(name, rule->attrs);
        if (index < 0) {
            fail_attr(reader, rule, name);
            return;
        }
        size_t len = (size_t)(attrs[4] - attrs[3]);
        reader->attrs[index] = cs_arena_strndup(&reader->scratch, (const char *)attrs[3], len);
    }
    for (int32_t i = 0; i < rule->n_required && reader->status == CS_OK; i++) {
        if (!reader->attrs[i]) {
            (void)cs__reader_fail(reader, CS_E_INPUT, "<%s> lacks the attribute '%s'", rule->name,
                                  rule->attrs[i]);
        }
    }
}

static void on_start(void *user, const xmlChar *local, const xmlChar *prefix, const xmlChar *uri,
                     int n_namespaces, const xmlChar **namespaces, int n_attrs, int n_defaulted,
                     const xmlChar **attrs)
{
    (void)uri;
    (void)namespaces;
    (void)n_defaulted;
    struct cs_reader *reader = user;
    const char *name = (const char *)local;
    if (reader->status != CS_OK) {
        return;
    }
    if (prefix || n_namespaces > 0) {
        (void)cs__reader_fail(reader, CS_E_INPUT, "<%s> uses XML namespaces, which SimGrid does not know",
                              name);
        return;
    }
    int32_t element = 0;
    while (element < CS__N_ELEMENTS && strcmp(rules[element].name, name) != 0) {
        element++;
    }
    if (element == CS__N_ELEMENTS) {
        fail_element(reader, name);
        return;
    }
    if (reader->depth == CS__DEPTH_MAX) {
        (void)cs__reader_fail(reader, CS_E_LIMIT, "elements are nested deeper than %d", CS__DEPTH_MAX);
        return;
    }
    read_attrs(reader, &rules[element], n_attrs, attrs);
    if (reader->status == CS_OK) {
        stop(reader, cs__rules_start(reader, (enum cs_element)element));
    }
    reader->stack[reader->depth++] = (enum cs_element)element;
}

static void on_end(void *user, const xmlChar *local, const xmlChar *prefix, const xmlChar *uri)
{
    (void)local;
    (void)prefix;
    (void)uri;
    struct cs_reader *reader = user;
    if (reader->status != CS_OK) {
        return;
    }
    CS_ASSERT(reader->depth > 0);
    reader->depth--;
    stop(reader, cs__rules_end(reader, reader->stack[reader->depth]));
}

static void on_text(void *user, const xmlChar *text, int bytes)
{
    struct cs_reader *reader = user;
    const xmlParserCtxt *parser = reader->parser;
    const xmlChar *cur = parser->input->cur;
    bool reference = cur > parser->input->base && cur[-1] == ';'; /* &#32; is a space to libxml2 only */
    for (int i = 0; i < bytes && reader->status == CS_OK; i++) {
        if (!reference && strchr(" \t\r\n", text[i])) {
            continue;
        }
        int line = cs__reader_line(reader); /* of the text's end */
        for (int j = i; j < bytes; j++) {
            line -= text[j] == '\n';
        }
        (void)cs__reader_fail_at(reader, line, CS_E_INPUT, "text between elements is not allowed");
    }
}

static void on_cdata(void *user, const xmlChar *text, int bytes)
{
    (void)text;
    (void)bytes;
    (void)cs__reader_fail(user, CS_E_INPUT, "CDATA is not allowed");
}

static void on_doctype(void *user, const xmlChar *name, const xmlChar *external, const xmlChar *system)
{
    static const char *const known[] = {"https://simgrid.org/simgrid.dtd",
                                        "http://simgrid.gforge.inria.fr/simgrid/simgrid.dtd", NULL};
    struct cs_reader *reader = user;
    const xmlParserCtxt *parser = reader->parser;
    bool ok = name && strcmp((const char *)name, "platform") == 0 && !external && system &&
              cs_text_index((const char *)system, known) >= 0;
    bool subset = parser->input && parser->input->cur && parser->input->cur[0] == '[';
    if (subset) {
        (void)cs__reader_fail(reader, CS_E_INPUT,
                              "declarations inside the DOCTYPE (entities) are not allowed");
    } else if (!ok) {
        (void)cs__reader_fail(reader, CS_E_INPUT, "the DOCTYPE must be <!DOCTYPE platform SYSTEM \"%s\">",
                              known[0]);
    }
    reader->has_doctype = true;
}

/* Entities, should the parser get that far. */
static void on_entity(void *user, const xmlChar *name, int type, const xmlChar *public_id,
                      const xmlChar *system_id, xmlChar *content)
{
    (void)name;
    (void)type;
    (void)public_id;
    (void)system_id;
    (void)content;
    (void)cs__reader_fail(user, CS_E_INPUT, "entity declarations are not allowed");
}

static void on_reference(void *user, const xmlChar *name)
{
    (void)cs__reader_fail(user, CS_E_INPUT, "the entity '&%s;' is not allowed", (const char *)name);
}

/* libxml2's own complaints; its text ends in a newline. */
#if LIBXML_VERSION >= 21200
static void on_error(void *user, const xmlError *error)
#else
static void on_error(void *user, xmlError *error)
#endif
{
    struct cs_reader *reader = user;
    if (reader->status != CS_OK) {
        return;
    }
    const char *text = error->message ? error->message : "malformed";
    int len = (int)strcspn(text, "\r\n");
    (void)cs__reader_fail_at(reader, error->line > 0 ? error->line : cs__reader_line(reader), CS_E_INPUT,
                             "broken XML: %.*s", len, text);
}

/* An optional `encoding='UTF-8'` after the version; NULL when something else is there. */
static const char *skip_quoted(const char *at, const char *name, const char *value)
{
    size_t name_len = strlen(name);
    size_t value_len = strlen(value);
    if (strncmp(at, name, name_len) != 0 || at[name_len] != '=') {
        return NULL;
    }
    char quote = at[name_len + 1];
    if ((quote != '"' && quote != '\'') || strncmp(at + name_len + 2, value, value_len) != 0 ||
        at[name_len + 2 + value_len] != quote) {
        return NULL;
    }
    return at + name_len + value_len + 3;
}

/* SimGrid's scanner takes one form of the XML declaration, and no byte order mark. */
static cs_status check_declaration(struct cs_reader *reader, const char *text, size_t bytes)
{
    const char *nul = memchr(text, '\0', bytes);
    if (nul) {
        int line = 1;
        for (const char *c = text; c < nul; c++) {
            line += *c == '\n';
        }
        return cs__reader_fail_at(reader, line, CS_E_INPUT, "the file has a NUL byte: it is no XML text");
    }
    if (bytes == strspn(text, " \t\r\n")) {
        return cs__reader_fail_at(reader, 0, CS_E_INPUT, "the file is empty");
    }
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) {
        return cs__reader_fail_at(reader, 1, CS_E_INPUT,
                                  "the file begins with a byte order mark, which SimGrid refuses");
    }
    if (strncmp(text, "<?xml", 5) != 0 || !strchr(" \t\r\n", text[5])) {
        return CS_OK; /* no declaration: allowed */
    }
    const char *at = skip_quoted(text + 6, "version", "1.0");
    if (at && *at && strchr(" \t\r\n", *at)) {
        const char *upper = skip_quoted(at + 1, "encoding", "UTF-8");
        at = upper ? upper : skip_quoted(at + 1, "encoding", "utf-8");
    }
    if (!at || strncmp(at, "?>", 2) != 0) {
        return cs__reader_fail_at(reader, 1, CS_E_INPUT,
                                  "the XML declaration must be <?xml version=\"1.0\"?> or "
                                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    }
    return CS_OK;
}

cs_status cs__reader_parse(struct cs_reader *reader, const char *text, size_t bytes)
{
    if (check_declaration(reader, text, bytes) != CS_OK) {
        return reader->status;
    }
    xmlParserCtxtPtr parser = xmlCreateMemoryParserCtxt(text, (int)bytes);
    if (!parser) {
        return cs__reader_fail_at(reader, 0, CS_E_IO, "cannot start the XML parser");
    }
    /* NOENT: plain characters for &amp; and the like. Others cannot be declared, see on_doctype. */
    xmlCtxtUseOptions(parser, XML_PARSE_NONET | XML_PARSE_NOENT);
    memset(parser->sax, 0, sizeof *parser->sax);
    parser->sax->initialized = XML_SAX2_MAGIC;
    parser->sax->startElementNs = on_start;
    parser->sax->endElementNs = on_end;
    parser->sax->characters = on_text;
    parser->sax->cdataBlock = on_cdata;
    parser->sax->internalSubset = on_doctype;
    parser->sax->entityDecl = on_entity;
    parser->sax->reference = on_reference;
    parser->sax->serror = on_error;
    parser->userData = reader;
    reader->parser = parser;
    int failed = xmlParseDocument(parser);
    if (failed != 0 || !parser->wellFormed) {
        (void)cs__reader_fail(reader, CS_E_INPUT, "broken XML");
    }
    reader->parser = NULL;
    xmlFreeDoc(parser->myDoc);
    parser->myDoc = NULL;
    xmlFreeParserCtxt(parser);
    if (reader->status == CS_OK && !reader->has_doctype) {
        (void)cs__reader_fail_at(
            reader, 1, CS_E_INPUT,
            "the DOCTYPE is missing: <!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">");
    }
    return reader->status;
}
