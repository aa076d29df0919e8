#include "cs/reports/svg.h"

/* Colours that people with the usual kinds of colour blindness tell apart (Okabe and Ito, 2008). */
static const char style[] =
    "<style>text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}.small{font-size:10px}"
    ".strong{font-weight:bold;stroke:#222;stroke-width:2}text.strong{stroke:none}"
    ".axis{stroke:#444;stroke-width:1}.grid{stroke:#ddd;stroke-width:1}.thin{stroke:#888;stroke-width:.6}"
    "rect{fill:#f4f4f4;stroke:#666}rect.strong{fill:#dbe9f6;stroke:#246}rect.page{fill:#fff;stroke:none}"
    ".s0{stroke:#0072b2;fill:#0072b2}.s1{stroke:#d55e00;fill:#d55e00}.s2{stroke:#009e73;fill:#009e73}"
    ".s3{stroke:#cc79a7;fill:#cc79a7}.s4{stroke:#e69f00;fill:#e69f00}.s5{stroke:#56b4e9;fill:#56b4e9}"
    ".s6{stroke:#000;fill:#000}.s7{stroke:#999;fill:#999}line{stroke-width:2}text.s0,text.s1,text.s2,text.s3,"
    "text.s4,text.s5,text.s6,text.s7{stroke:none}</style>\n";

static void put_text(FILE *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        switch (*c) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        default:
            (void)fputc(*c < 0x20 ? ' ' : *c, out);
            break;
        }
    }
}

void cs_svg_begin(struct cs_svg *svg, FILE *out, int32_t width, int32_t height, const char *title)
{
    svg->out = out;
    (void)fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "role=\"img\">\n<title>",
        (int)width, (int)height, (int)width, (int)height);
    put_text(out, title);
    (void)fputs("</title>\n", out);
    (void)fputs(style, out);
    (void)fputs("<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n", out);
}

void cs_svg_end(struct cs_svg *svg)
{
    (void)fputs("</svg>\n", svg->out);
}

void cs_svg_line(struct cs_svg *svg, const char *class, double x1, double y1, double x2, double y2)
{
    (void)fprintf(svg->out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
                  x1, y1, x2, y2);
}

static void put_tip(FILE *out, const char *tip, const char *element)
{
    if (!tip) {
        (void)fputs("/>\n", out);
        return;
    }
    (void)fputs("><title>", out);
    put_text(out, tip);
    (void)fprintf(out, "</title></%s>\n", element);
}

void cs_svg_box(struct cs_svg *svg, const char *class, double x, double y, double width, double height,
                const char *tip)
{
    (void)fprintf(svg->out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", class,
                  x, y, width, height);
    put_tip(svg->out, tip, "rect");
}

void cs_svg_dot(struct cs_svg *svg, const char *class, double x, double y, const char *tip)
{
    (void)fprintf(svg->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", class, x, y);
    put_tip(svg->out, tip, "circle");
}

void cs_svg_text(struct cs_svg *svg, const char *class, double x, double y, int anchor, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    (void)fprintf(svg->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y,
                  anchors[anchor + 1]);
    put_text(svg->out, text);
    (void)fputs("</text>\n", svg->out);
}
