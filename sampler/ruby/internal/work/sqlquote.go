package work

import "strings"

// openers are the characters that can begin a token that does not end in the same line, such as a string.
const openers = "'\"`$[\\"

// opens reports whether a quotation or comment may begin in text and end after it. The caller asks this if text is a
// comment for one database, but code for another. The second database would then read what follows as part of a
// quotation.
func opens(text string) bool {
	return strings.ContainsAny(text, openers+"#") || strings.Contains(text, "--") || strings.Contains(text+"*", "/*")
}

// lineComment skips a comment up to the end of its line. Some databases read this text as code, and PostgreSQL ends the
// comment at a carriage return. So a token may begin in the line and continue after it. In this case lineComment hides
// the remaining statement.
func (n *normalizer) lineComment(size int, sure bool) {
	line, _, more := strings.Cut(n.in[n.at+size:], "\n")
	code := strings.TrimSuffix(line, "\r")
	if sure {
		_, code, _ = strings.Cut(code, "\r")
	}
	if strings.ContainsAny(code, openers) || strings.Contains(code, "/*") {
		n.hide()
		return
	}
	n.at += size + len(line)
	if more {
		n.at++
	}
}

// comment skips a comment. It hides the remaining statement in three cases:
// - The comment does not end.
// - The comment contains the beginning of another comment. Only some databases allow comments within comments.
// - MySQL executes the comment as code, and this code has quotations.
func (n *normalizer) comment() {
	text, _, ended := strings.Cut(n.in[n.at+2:], "*/")
	code := strings.HasPrefix(text, "!") || strings.HasPrefix(text, "M!")
	if !ended || strings.Contains(text+"*", "/*") || code && strings.ContainsAny(text, openers) {
		n.hide()
		return
	}
	n.at += len("/*") + len(text) + len("*/")
}

// brackets reads a name in square brackets (SQLite, T-SQL), or the elements of a PostgreSQL array. If a quotation may
// begin in the brackets and end after them, it hides the remaining statement.
func (n *normalizer) brackets() {
	text, _, ended := strings.Cut(n.in[n.at+1:], "]")
	if !ended || strings.Count(text, "'")%2 != 0 || opens(strings.ReplaceAll(text, "'", "")) {
		n.emit("?")
		n.hide()
		return
	}
	n.literal(1 + len(text) + 1)
}

// quotation reads a string in single quotes. skip is the number of bytes before its text. Databases and their settings
// differ in whether a backslash escapes a quote. If this makes a difference for the string, the remaining statement is
// hidden.
func (n *normalizer) quotation(skip int) {
	n.at += skip
	n.emit("?")
	n.through('\'')
}

// through moves past the end of a quotation. If a backslash makes it unclear where the quotation ends, it hides the
// remaining statement.
func (n *normalizer) through(quote byte) {
	for n.at < len(n.in) {
		switch {
		case n.in[n.at] == '\\' && n.at+1 < len(n.in) && (n.in[n.at+1] == quote || n.in[n.at+1] == '\\'):
			n.hide()
			return
		case n.in[n.at] != quote:
			n.at++
		case n.at+1 < len(n.in) && n.in[n.at+1] == quote:
			n.at += 2
		default:
			n.at++
			return
		}
	}
	n.cut = true
}

// doubleQuoted reads text in double quotes. It is a name in PostgreSQL and SQLite, and a string in MySQL. It is shown
// only under two conditions: it looks like the name of a table or a column, and only a name can be in this place.
func (n *normalizer) doubleQuoted() {
	if n.nameExpected() {
		n.name('"')
		return
	}
	n.at++
	n.emit("?")
	n.through('"')
}

// nameExpected reports whether text in double quotes can only be a name in this place. There are three such places:
// next to a dot, after a word such as FROM, and where UPDATE sets a column. After an operator or in a call's arguments,
// the text may be a string of MySQL: TRIM(BOTH FROM "x").
func (n *normalizer) nameExpected() bool {
	last := n.last(1)
	if last == "" {
		return false
	}
	text, rest, ended := strings.Cut(n.in[n.at+1:], `"`)
	if last == "." || ended && strings.HasPrefix(rest, ".") {
		return true
	}
	if n.inCall() {
		return false
	}
	switch last {
	case "FROM":
		return n.last(2) != "DISTINCT" // after IS NOT DISTINCT FROM, the text can be a string
	case "INTO", "UPDATE", "JOIN", "TABLE", "ONLY":
		return true
	case "BY":
		return (n.last(2) == "ORDER" || n.last(2) == "GROUP") && text != "" && listEnds(rest)
	case "SET", ",":
		return n.verb == "UPDATE" && n.behind("SET") && !n.behind("WHERE") && !n.behind("ORDER") && !n.behind(";") &&
			strings.HasPrefix(strings.TrimLeft(rest, " "), "=")
	}
	return false
}

// last returns the i-th token from the end, in capitals, or "".
func (n *normalizer) last(i int) string {
	if len(n.out) < i {
		return ""
	}
	return strings.ToUpper(n.out[len(n.out)-i])
}

// listEnds reports whether an expression in ORDER BY or GROUP BY ends before the text in rest. If the expression
// continues, it may compare a column with a string.
func listEnds(rest string) bool {
	rest = strings.TrimLeft(rest, " \t\r\n")
	if rest == "" || strings.IndexByte(",);", rest[0]) >= 0 {
		return true
	}
	i := 0
	for i < len(rest) && wordByte(rest[i]) {
		i++
	}
	return listWords[strings.ToUpper(rest[:i])]
}

// listWords are words that may follow the list of columns in ORDER BY or GROUP BY. Read-only.
var listWords = wordSet("ASC DESC LIMIT OFFSET FETCH FOR HAVING ORDER UNION NULLS")

// inCall reports whether the current token is in parentheses that do not begin with SELECT, such as the parentheses of
// a call.
func (n *normalizer) inCall() bool {
	depth := 0
	for i := len(n.out) - 1; i >= 0; i-- {
		switch n.out[i] {
		case ")":
			depth++
		case "(":
			if depth--; depth < 0 {
				return i+1 >= len(n.out) || !strings.EqualFold(n.out[i+1], "SELECT")
			}
		}
	}
	return false
}

func (n *normalizer) behind(word string) bool {
	for _, t := range n.out {
		if strings.EqualFold(t, word) {
			return true
		}
	}
	return false
}

// name reads a name in quotes, and writes it without the quotes. If the text is not a plain name, it writes "?".
func (n *normalizer) name(quote byte) {
	n.at++
	from := n.at
	for n.at < len(n.in) && wordByte(n.in[n.at]) && n.in[n.at] < 0x80 && (quote != '`' || n.in[n.at] != '$') {
		n.at++
	}
	if n.at < len(n.in) && n.in[n.at] == quote && n.at > from && !digit(n.in[from]) && plainName(n.in[from:n.at]) &&
		(n.at+1 == len(n.in) || n.in[n.at+1] != quote) {
		n.emit(n.in[from:n.at])
		n.at++
		return
	}
	n.emit("?")
	n.at = from
	n.through(quote)
	if quote == '`' && opens(strings.ReplaceAll(strings.TrimSuffix(n.in[from:n.at], "`"), "``", "")) {
		n.hide() // in PostgreSQL, ` does not begin a quotation
	}
}

// dollar reads $1, or a PostgreSQL string in dollar quotes: $$ … $$ or $tag$ … $tag$. For other databases, the quotes
// are names and the text between them is code. So a token may begin in the text and continue after it. In this case
// dollar hides the remaining statement.
func (n *normalizer) dollar() {
	n.emit("?")
	i := n.at + 1
	for i < len(n.in) && wordByte(n.in[i]) && n.in[i] != '$' {
		i++
	}
	if i == len(n.in) || n.in[i] != '$' || i > n.at+1 && digit(n.in[n.at+1]) {
		n.at = i
		return
	}
	tag := n.in[n.at : i+1]
	text, _, ended := strings.Cut(n.in[i+1:], tag)
	if !ended || opens(strings.ReplaceAll(text, "$", "")) {
		n.hide()
		return
	}
	n.at = i + 1 + len(text) + len(tag)
}
