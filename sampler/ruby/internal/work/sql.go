package work

import (
	"slices"
	"strings"
)

// maxStatement limits the length of the result of SQL, in bytes. "…" replaces what is beyond the limit.
const maxStatement = 300

// maxRawStatement limits how many bytes of a statement are read.
const maxRawStatement = 4096

// SQL returns a statement with "?" in place of its literals: "SELECT * FROM orders WHERE id = ? AND state IN (?)". cut
// is true if sql is only the beginning of a statement. Every word is hidden as a literal unless it is certainly a
// keyword, a name or an operator. If a quotation does not end, everything after its beginning is hidden. SQL returns ""
// if the first word does not begin a statement of SQL.
func SQL(sql string, cut bool) string {
	if len(sql) > maxRawStatement {
		sql, cut = sql[:maxRawStatement], true
	}
	n := normalizer{in: sql, cut: cut}
	if !n.run() {
		return ""
	}
	return n.text()
}

// sqlVerbs begin statements. Read-only.
var sqlVerbs = wordSet(`ALTER ANALYZE BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE DELETE DESCRIBE
DISCARD DO DROP END EXEC EXECUTE EXPLAIN FETCH GRANT IMPORT INSERT KILL LISTEN LOAD LOCK MERGE MOVE NOTIFY OPTIMIZE PRAGMA PREPARE
REASSIGN REFRESH REINDEX RELEASE RENAME REPLACE RESET REVOKE ROLLBACK SAVEPOINT SELECT SET SHOW START TABLE TRUNCATE UNLISTEN UPDATE
USE VACUUM VALUES WITH`)

// secretVerbs are first words of statements that are dangerous to show: they can have passwords outside of literals, or
// text in another language. ddtop shows only the verb of such a statement. Read-only.
var secretVerbs = wordSet(`ALTER CREATE SET DO CALL EXECUTE EXEC GRANT REVOKE COPY LOAD NOTIFY PRAGMA PREPARE DECLARE COMMENT IMPORT RESET
SHOW USE KILL LISTEN UNLISTEN`)

// prefixVerbs are first words that another statement can follow without a semicolon: "EXPLAIN SELECT …". The statement
// that follows begins with one of plainVerbs. Read-only.
var (
	prefixVerbs = wordSet(`EXPLAIN DESCRIBE ANALYZE BEGIN START END`)
	plainVerbs  = wordSet(`SELECT INSERT UPDATE DELETE REPLACE MERGE WITH VALUES TABLE`)
)

// secretWords are words after which a secret can follow. ddtop looks for them at any position in a statement, because
// T-SQL needs no semicolon between statements. Read-only.
var secretWords = wordSet(`EXEC EXECUTE IDENTIFIED`)

func wordSet(words string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// normalizer removes the literals from a statement, token by token.
type normalizer struct {
	in    string
	cut   bool // true if the statement is longer than the text in
	at    int
	out   []string // the tokens of the result
	bytes int
	// verb is the first word of the current statement, in capitals. It is empty until this word was read. prefix is
	// true if another statement may follow without a semicolon.
	verb   string
	prefix bool
}

// run reads all tokens. It returns false if the first word does not begin a statement of SQL.
func (n *normalizer) run() bool {
	for n.at < len(n.in) && n.bytes < maxStatement {
		before := len(n.out)
		n.token()
		if len(n.out) <= before {
			continue
		}
		last := strings.ToUpper(n.out[len(n.out)-1])
		switch {
		case last == ";":
			n.verb = ""
		case n.verb != "":
			if secretWords[last] || n.prefix && secretVerbs[last] {
				n.hide()
			}
			n.prefix = n.prefix && !plainVerbs[last]
		case last == "(":
		case sqlVerbs[last]:
			n.verb, n.prefix = last, prefixVerbs[last]
			if secretVerbs[last] {
				if before == 0 {
					return true
				}
				n.hide()
			}
		case !slices.Contains(n.out, ";"):
			return false
		default:
			n.out = n.out[:before] // this is an unknown kind of statement, so drop its words
			n.hide()
		}
	}
	if n.at < len(n.in) || n.cut {
		n.emit("…")
	}
	return slices.ContainsFunc(n.out, func(t string) bool { return sqlVerbs[strings.ToUpper(t)] })
}

func (n *normalizer) hide() { n.at, n.cut = len(n.in), true }

func (n *normalizer) token() {
	c, rest := n.in[n.at], n.in[n.at:]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		n.at++
	case strings.HasPrefix(rest, "--"):
		// In MySQL, -- begins a comment only before a space. Otherwise it is two minus signs.
		n.lineComment(2, len(rest) == 2 || strings.IndexByte(" \t\r\n", rest[2]) >= 0)
	case c == '#':
		n.lineComment(1, false) // # begins a comment in MySQL, an operator in PostgreSQL, and a name in T-SQL
	case strings.HasPrefix(rest, "/*"):
		n.comment()
	case c == '\'':
		n.quotation(1)
	case c == '"':
		n.doubleQuoted()
	case c == '`':
		n.name('`')
	case c == '[':
		n.brackets()
	case c == '$':
		n.dollar()
	case digit(c) || c == '.' && len(rest) > 1 && digit(rest[1]):
		n.at++
		for n.at < len(n.in) && (wordByte(n.in[n.at]) && n.in[n.at] != '$' || n.in[n.at] == '.') {
			n.at++
		}
		n.emit("?")
		if n.at < len(n.in) && n.in[n.at] == '$' {
			n.hide() // a name that begins with digits, or a string in dollar quotes directly after a number
		}
	case wordByte(c):
		n.word()
	case c == '?':
		n.literal(1)
	case (c == ':' || c == '@') && len(rest) > 1 && (wordByte(rest[1]) && rest[1] != '$' || rest[1] == '@'):
		// A placeholder such as :id, or a variable such as @x.
		n.at += 2
		for n.at < len(n.in) && wordByte(n.in[n.at]) && n.in[n.at] != '$' {
			n.at++
		}
		n.emit("?")
	case c == ':' && len(rest) > 2 && rest[1] == ':' && wordByte(rest[2]) && !digit(rest[2]) && rest[2] != '$':
		// A cast such as ::jsonb. It is left out, because the name of the type is not of interest.
		n.at += 2
		for n.at < len(n.in) && wordByte(n.in[n.at]) {
			n.at++
		}
	case strings.IndexByte("(),;.*=<>+-/%!|&^~", c) >= 0:
		n.at++
		n.emit(string(c))
	case c < ' ' || c == '\\' || c == 0x7f:
		n.hide() // SQL has no such character
	default:
		n.literal(1) // an unknown character: hide it
	}
}

// literal skips size bytes of the input, which must not be shown, and writes "?" instead.
func (n *normalizer) literal(size int) {
	n.at += size
	n.emit("?")
}

// word reads a keyword or a name without quotes, or a string with a prefix: E'…', N'…', X'…', B'…', U&'…', _utf8'…'.
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
		if strings.EqualFold(w, "q") || strings.EqualFold(w, "nq") {
			n.emit("?")
			n.hide() // a string of Oracle with other delimiters: q'[it's]'
			return
		}
		n.at = next + 1
		n.emit("?")
		n.through(quote)
		return
	}
	if !plainName(w) {
		n.emit("?")
		return
	}
	n.emit(w)
}

// plainName reports whether a word can be a name that a person has chosen. It must be ASCII, not long, and not mostly
// digits, as tokens are.
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
		return // one "?" is enough for two literals side by side, such as INTERVAL '1' '2', or for unknown tokens
	case token == "?" && last(1) == "," && last(2) == "?" && inList(out[:len(out)-2]):
		n.out = out[:len(out)-1]
		return
	case token == "?" && (last(1) == "-" || last(1) == "+") && strings.Contains("(,=<>", last(2)) && last(2) != "":
		out = out[:len(out)-1] // remove the minus or plus sign of the literal
		n.out = out
		if last(1) == "," && last(2) == "?" && inList(out[:len(out)-2]) {
			n.out = out[:len(out)-1]
			return
		}
	case token == ")" && last(1) == "?" && last(2) == "(" && last(3) == "," && last(4) == ")" && last(5) == "?" && last(6) == "(":
		n.out = out[:len(out)-3] // another row of VALUES: one row (?) stands for all of them
		return
	}
	n.out = append(n.out, token)
	n.bytes += len(token) + 1
}

// inList reports whether the last token is "(". A list of literals is merged into one only if it begins directly after
// "(": (1, 2) becomes (?).
func inList(out []string) bool { return len(out) > 0 && out[len(out)-1] == "(" }

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

// glued reports whether two tokens are written without a space between them.
func glued(a, b string) bool {
	switch {
	case b == "," || b == ";" || b == ")" || b == "." || a == "." || a == "(":
		return true
	case b == "(":
		return plainName(a) && a != "?" && wordByte(a[0]) && !spaced[strings.ToUpper(a)]
	}
	// Operators of two characters.
	return a == "-" && b == ">" || len(a) == 1 && len(b) == 1 && strings.Contains("<>!|&=", a) && strings.Contains("<>=|&", b)
}

// spaced are the words that keep a space before a parenthesis. Read-only.
var spaced = wordSet("IN VALUES AND OR NOT AS FROM WHERE ON SELECT EXISTS ANY ALL SOME UNION EXCEPT INTERSECT BY SET INTO OVER USING JOIN WHEN THEN ELSE")
