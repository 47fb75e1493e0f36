package work

import "strings"

// maxStatement bounds a normalised statement, in bytes; what follows is "…".
const maxStatement = 300

// maxRawStatement bounds what is looked at of a statement, in bytes.
const maxRawStatement = 4096

// SQL is a statement without its literals: "SELECT * FROM orders WHERE id = ? AND state IN (?)". cut says that sql is the
// beginning of a longer one. What is not known for sure to be a keyword, a name or an operator is a literal; a quotation that does
// not end hides all that follows. It is "" where the first word is not one of SQL's.
func SQL(sql string, cut bool) string {
	if len(sql) > maxRawStatement {
		sql, cut = sql[:maxRawStatement], true
	}
	n := normalizer{in: sql, cut: cut}
	n.run()
	if !sqlVerbs[strings.ToUpper(n.first)] {
		return ""
	}
	return n.text()
}

// sqlVerbs begin statements. Read-only.
var sqlVerbs = wordSet(`ALTER ANALYZE BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE DELETE DESCRIBE
DISCARD DO DROP END EXEC EXECUTE EXPLAIN FETCH GRANT IMPORT INSERT KILL LISTEN LOAD LOCK MERGE MOVE NOTIFY OPTIMIZE PRAGMA PREPARE
REASSIGN REFRESH REINDEX RELEASE RENAME REPLACE RESET REVOKE ROLLBACK SAVEPOINT SELECT SET SHOW START TABLE TRUNCATE UNLISTEN UPDATE
USE VACUUM VALUES WITH`)

// secretVerbs begin statements that hold passwords and the like outside of literals, or text in a language of its own: nothing
// of these is said but the verb. Read-only.
var secretVerbs = wordSet(`ALTER CREATE SET DO CALL EXECUTE EXEC GRANT REVOKE COPY LOAD NOTIFY PRAGMA PREPARE DECLARE COMMENT IMPORT RESET
SHOW USE KILL LISTEN UNLISTEN`)

func wordSet(words string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// normalizer takes the literals out of a statement, token by token.
type normalizer struct {
	in    string
	cut   bool // the statement goes on behind in
	at    int
	out   []string // tokens
	bytes int
	first string
}

func (n *normalizer) run() {
	for n.at < len(n.in) && n.bytes < maxStatement {
		n.token()
		if n.first != "" && len(n.out) == 1 && secretVerbs[strings.ToUpper(n.first)] {
			return
		}
	}
	if n.at < len(n.in) || n.cut {
		n.emit("…")
	}
}

// token takes one token from the input.
func (n *normalizer) token() {
	c, rest := n.in[n.at], n.in[n.at:]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		n.at++
	case strings.HasPrefix(rest, "--"), c == '#' && !strings.HasPrefix(rest, "#>") && !strings.HasPrefix(rest, "#-"):
		// A comment to the end of the line: # in MySQL. PostgreSQL's operators with # are told from it by what follows; where that
		// is wrong too little is said.
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			n.at += i + 1
		} else {
			n.at = len(n.in)
		}
	case strings.HasPrefix(rest, "/*"):
		n.comment()
	case c == '\'':
		n.quotation(1)
	case c == '"':
		n.doubleQuoted()
	case c == '`':
		n.name('`')
	case c == '[':
		// SQLite and others quote names so, PostgreSQL has elements of arrays there.
		n.literal(1)
	case c == '$':
		n.dollar()
	case digit(c) || c == '.' && len(rest) > 1 && digit(rest[1]):
		n.at++
		for n.at < len(n.in) && (wordByte(n.in[n.at]) || n.in[n.at] == '.') {
			n.at++
		}
		n.emit("?")
	case wordByte(c):
		n.word()
	case c == '?':
		n.literal(1)
	case (c == ':' || c == '@') && len(rest) > 1 && (wordByte(rest[1]) || rest[1] == '@'):
		// A bind or a variable.
		n.at += 2
		for n.at < len(n.in) && wordByte(n.in[n.at]) {
			n.at++
		}
		n.emit("?")
	case c == ':' && len(rest) > 2 && rest[1] == ':' && wordByte(rest[2]) && !digit(rest[2]):
		// A cast: the type's name adds nothing.
		n.at += 2
		for n.at < len(n.in) && wordByte(n.in[n.at]) {
			n.at++
		}
	case strings.IndexByte("(),;.*=<>+-/%!|&^~", c) >= 0:
		n.at++
		n.emit(string(c))
	default:
		n.literal(1) // what is it?
	}
}

// literal stands for size bytes of the input that are not to be shown.
func (n *normalizer) literal(size int) {
	n.at += size
	n.emit("?")
}

// comment skips a comment with those within it; one that does not end hides the rest. MySQL's /*! … */ is code: it is skipped
// all the same.
func (n *normalizer) comment() {
	depth := 0
	for n.at < len(n.in) {
		switch rest := n.in[n.at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			n.at += 2
		case strings.HasPrefix(rest, "*/"):
			n.at += 2
			if depth--; depth == 0 {
				return
			}
		default:
			n.at++
		}
	}
	n.cut = true
}

// quotation takes a string in single quotes, which begins so many bytes in front of its text. Whether a backslash escapes the quote
// differs between databases and their settings: what both ways of reading it do not agree on hides the rest.
func (n *normalizer) quotation(skip int) {
	n.at += skip
	n.emit("?")
	n.through('\'')
}

// through goes behind the end of a quotation. With a backslash in front of a quote it can't be told where it ends.
func (n *normalizer) through(quote byte) {
	for n.at < len(n.in) {
		switch {
		case n.in[n.at] == '\\' && n.at+1 < len(n.in) && (n.in[n.at+1] == quote || n.in[n.at+1] == '\\'):
			n.at = len(n.in)
			n.cut = true
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

// doubleQuoted takes what is a name in PostgreSQL and SQLite and a string in MySQL: it is shown where it can be a name of a table or a
// column and stands where one does.
func (n *normalizer) doubleQuoted() {
	if n.nameExpected() {
		n.name('"')
		return
	}
	n.at++
	n.emit("?")
	n.through('"')
}

// nameExpected reports whether a quotation in double quotes can only be a name: in front of or behind a dot, behind a word that a table
// or a column follows, or where UPDATE sets a column. Behind an operator it may be MySQL's string, and so in a call's arguments:
// TRIM(BOTH FROM "x").
func (n *normalizer) nameExpected() bool {
	if len(n.out) == 0 {
		return false
	}
	last := strings.ToUpper(n.out[len(n.out)-1])
	if last == "." || n.followedBy(".", "") {
		return true
	}
	if n.inCall() {
		return false
	}
	switch last {
	case "FROM", "INTO", "UPDATE", "JOIN", "TABLE", "ONLY", "BY":
		return true
	case "SET", ",":
		return strings.EqualFold(n.first, "UPDATE") && !n.behind("WHERE") && n.behind("SET") && n.followedBy("=", " ")
	}
	return false
}

// inCall reports whether what is at hand stands in parentheses that no SELECT begins.
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

// behind reports whether a word has come already.
func (n *normalizer) behind(word string) bool {
	for _, t := range n.out {
		if strings.EqualFold(t, word) {
			return true
		}
	}
	return false
}

// followedBy reports whether the quotation in double quotes at hand is followed by a token, but for what is to be skipped.
func (n *normalizer) followedBy(token, skip string) bool {
	rest := n.in[n.at+1:]
	i := strings.IndexByte(rest, '"')
	return i >= 0 && strings.HasPrefix(strings.TrimLeft(rest[i+1:], skip), token)
}

// name takes a quoted name, without its quotes. What is no plain one is "?".
func (n *normalizer) name(quote byte) {
	n.at++
	from := n.at
	for n.at < len(n.in) && wordByte(n.in[n.at]) && n.in[n.at] < 0x80 {
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
}

// dollar takes $1, and PostgreSQL's strings in dollar quotes: $$ … $$ and $tag$ … $tag$.
func (n *normalizer) dollar() {
	n.emit("?")
	i := n.at + 1
	for i < len(n.in) && wordByte(n.in[i]) {
		i++
	}
	if i < len(n.in) && n.in[i] == '$' && !(i > n.at+1 && digit(n.in[n.at+1])) {
		tag := n.in[n.at : i+1]
		end := strings.Index(n.in[i+1:], tag)
		if end < 0 {
			n.at, n.cut = len(n.in), true
			return
		}
		n.at = i + 1 + end + len(tag)
		return
	}
	n.at = max(i, n.at+1)
}

// word takes a keyword or a name that is not quoted, or a string with a letter in front: E'…', N'…', X'…', B'…', U&'…', _utf8'…'.
func (n *normalizer) word() {
	from := n.at
	for n.at < len(n.in) && wordByte(n.in[n.at]) {
		n.at++
	}
	w := n.in[from:n.at]
	next := n.at
	if strings.EqualFold(w, "u") && next < len(n.in) && n.in[next] == '&' {
		next++
	}
	if next < len(n.in) && (n.in[next] == '\'' || n.in[next] == '"' && next > n.at) {
		quote := n.in[next]
		n.at = next + 1
		n.emit("?")
		n.through(quote)
		return
	}
	if n.first == "" && strings.Trim(strings.Join(n.out, ""), "(") == "" {
		n.first = w
	}
	if !plainName(w) {
		n.emit("?")
		return
	}
	n.emit(w)
}

// plainName reports whether a word can be a name that somebody gave: ASCII, not long, and not mostly digits as tokens are.
func plainName(w string) bool {
	if len(w) > 63 {
		return false
	}
	digits := 0
	for i := range len(w) {
		if w[i] >= 0x80 {
			return false
		}
		if digit(w[i]) {
			digits++
		}
	}
	return digits <= 4 && (len(w) < 24 || digits == 0 || strings.IndexByte(w, '_') > 0)
}

// wordByte reports whether a byte can be within a name: letters of any alphabet, digits, _ and $.
func wordByte(c byte) bool { return letter(c) || digit(c) || c == '_' || c == '$' || c >= 0x80 }

// emit adds a token. A list of literals is one: (?, ?, ?) and (?), (?) are (?).
func (n *normalizer) emit(token string) {
	out := n.out
	last := func(i int) string {
		if len(out) < i {
			return ""
		}
		return out[len(out)-i]
	}
	switch {
	case token == "?" && last(1) == "?":
		return // two literals side by side: INTERVAL '1' '2', or what could not be told
	case token == "?" && last(1) == "," && last(2) == "?" && inList(out[:len(out)-2]):
		n.out = out[:len(out)-1]
		return
	case token == "?" && (last(1) == "-" || last(1) == "+") && strings.Contains("(,=<>", last(2)) && last(2) != "":
		out = out[:len(out)-1] // its sign
		n.out = out
		if last(1) == "," && last(2) == "?" && inList(out[:len(out)-2]) {
			n.out = out[:len(out)-1]
			return
		}
	case token == ")" && last(1) == "?" && last(2) == "(" && last(3) == "," && last(4) == ")" && last(5) == "?" && last(6) == "(":
		n.out = out[:len(out)-3] // a further row of VALUES
		return
	}
	n.out = append(n.out, token)
	n.bytes += len(token) + 1
}

// inList reports whether tokens end within parentheses: there a list of literals is one of values.
func inList(out []string) bool { return len(out) > 0 && out[len(out)-1] == "(" }

// text joins the tokens.
func (n *normalizer) text() string {
	var b strings.Builder
	before := ""
	for i, t := range n.out {
		if b.Len()+len(t) > maxStatement {
			b.WriteString(" …")
			break
		}
		if t == ";" && i == len(n.out)-1 {
			break
		}
		if i > 0 && !glued(before, t) {
			b.WriteByte(' ')
		}
		b.WriteString(t)
		before = t
	}
	return b.String()
}

// glued reports whether no space stands between two tokens.
func glued(a, b string) bool {
	switch {
	case b == "," || b == ";" || b == ")" || b == "." || a == "." || a == "(":
		return true
	case b == "(":
		return plainName(a) && a != "?" && wordByte(a[0]) && !spaced[strings.ToUpper(a)]
	}
	// Operators of two characters.
	return len(a) == 1 && len(b) == 1 && strings.Contains("<>!|&=", a) && strings.Contains("<>=|&", b)
}

// spaced are the words that a space stands behind although a parenthesis follows. Read-only.
var spaced = wordSet("IN VALUES AND OR NOT AS FROM WHERE ON SELECT EXISTS ANY ALL SOME UNION EXCEPT INTERSECT BY SET INTO OVER USING JOIN WHEN THEN ELSE")
