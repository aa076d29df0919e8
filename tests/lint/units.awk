# awk -f units.awk HEADER...: every double that a public header declares (field or parameter) says its unit:
# by suffix, by the prefix n_ of a count, or by a word @unit in a comment on its lines or directly above.
# Works by statement: text up to ; { or }, with the comments above it, inside it and after it on the line.
BEGIN { declarator = "(^|[^A-Za-z0-9_])double[ \t*]+((const|restrict)[ \t*]+)*[A-Za-z_][A-Za-z0-9_]*" }
function judge(    text, name, rest) {
    if (note !~ /@unit/) {
        text = code
        while (match(text, declarator)) {
            name = substr(text, RSTART, RLENGTH)
            rest = substr(text, RSTART + RLENGTH)
            sub(/.*[ \t*]/, "", name)
            check(name, rest)
            # double a_s, b_s;
            while (match(rest, /^(\[[^]]*\])*[ \t]*,[ \t]*[A-Za-z_][A-Za-z0-9_]*[ \t]*[,;[]/)) {
                name = substr(rest, RSTART, RLENGTH - 1)
                rest = substr(rest, RSTART + RLENGTH - 1)
                sub(/^.*,[ \t]*/, "", name)
                sub(/[ \t]+$/, "", name)
                check(name, rest)
            }
            text = rest
        }
    }
    code = ""
    note = ""
}
function check(name, rest) {
    if (rest ~ /^[ \t]*\(/) return # a function that returns double: its name or its comment says what
    if (name ~ /_(s|bytes|flop|frac|w|j|hz)$/ || name ~ /_per_[a-z]+$/ || name ~ /^n_/) return
    if (name == "bytes" || name == "flop") return
    printf "%s:%d: error: double '%s' does not say its unit (suffix or @unit)\n", FILENAME, FNR, name
    bad = 1
}
FNR == 1 {
    code = note = ""
    in_comment = in_macro = 0
}
{
    line = $0
    text = ""
    while (line != "") { # split the line into code (text) and comment (note)
        if (in_comment) {
            end = index(line, "*/")
            note = note " " (end ? substr(line, 1, end - 1) : line)
            line = end ? substr(line, end + 2) : ""
            in_comment = !end
        } else {
            start = match(line, /\/[*\/]/)
            text = text (start ? substr(line, 1, start - 1) : line) " "
            if (!start) break
            if (substr(line, start, 2) == "//") {
                note = note " " substr(line, start + 2)
                break
            }
            line = substr(line, start + 2)
            in_comment = 1
        }
    }
    if (in_macro || text ~ /^[ \t]*#/) { # X-macro lists and includes declare nothing themselves
        in_macro = text ~ /\\[ \t]*$/
        note = ""
        next
    }
    code = code text
    if (text ~ /[;{}]/) judge()
}
END { exit bad }
