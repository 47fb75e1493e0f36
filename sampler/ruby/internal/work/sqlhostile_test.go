package work

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestHostileSQL passes statements in the syntax of several databases. If "hunter2" is a value by the rules of at least
// one database, it must not be shown.
func TestHostileSQL(t *testing.T) {
	for sql, want := range map[string]string{
		// Dollar quotes of PostgreSQL: with and without a tag, and after blanks or numbers.
		"SELECT $$ hunter2 it $$, a FROM t":     "SELECT ?, a FROM t",
		"SELECT $q$ my hunter2 x $q$, a FROM t": "SELECT ?, a FROM t",
		"SELECT 1$$ hunter2 $$ FROM t":          "SELECT ? …",
		"SELECT a[1:$$ hunter2 $$] FROM t":      "SELECT a ? …",
		// for MySQL, $$ is a name, and the text between the single quotes is a string
		"SELECT $$, '$$ , hunter2 ,' FROM t":         "SELECT ? …",
		"SELECT $q$ hunter2":                         "SELECT ? …",
		"SELECT $1$2 FROM t":                         "SELECT ? FROM t",
		"SELECT a$b$ , hunter_col FROM t":            "SELECT a$b$, hunter_col FROM t",
		"SELECT '' || $q$ 'hunter2 $q$, a":           "SELECT ? || ? …",
		"SELECT a FROM t WHERE b = $$a$$ -- hunter2": "SELECT a FROM t WHERE b = ?",
		// Comments. PostgreSQL nests them, but MySQL and SQLite do not. In MySQL, some comments are executed as code.
		// Each of # and -- begins a comment only in some databases.
		"SELECT a /* /* */ 'x */ hunter2' FROM t":      "SELECT a …",
		"SELECT a /* x /* y */ hunter2 */ FROM t":      "SELECT a …",
		"SELECT a /*! '*/ hunter2' */ FROM t":          "SELECT a …",
		"SELECT a /*!50000 STRAIGHT_JOIN */ FROM t":    "SELECT a FROM t",
		"SELECT a #> hunter2 is the word\n, b FROM t":  "SELECT a, b FROM t",
		"SELECT a #--- hunter2\n, b FROM t":            "SELECT a, b FROM t",
		"SELECT a # b, 'one\nhunter2 two' FROM t":      "SELECT a …",
		"SELECT a #>> '{x}' FROM t":                    "SELECT a …",
		"SELECT 5--3, 'one\nhunter2 two' FROM t":       "SELECT ? …",
		"SELECT a -- it's\n, b FROM t":                 "SELECT a, b FROM t",
		"SELECT a -- x\r 'one\nhunter2 two' FROM t":    "SELECT a …",
		"SELECT a -- it's\r\n, b FROM t":               "SELECT a, b FROM t",
		"SELECT a --it's hunter2\n, b FROM t":          "SELECT a …",
		"-- user 'jane\nSELECT a FROM t":               "SELECT a FROM t",
		"SELECT a FROM #temp WHERE b = 'one\nhunter2'": "SELECT a FROM …",
		"/*/ hunter2 */ SELECT a FROM t":               "SELECT a FROM t",
		"SELECT a /**/FROM t":                          "SELECT a FROM t",
		"SELECT a FROM t /* unfinished hunter2 '*":     "SELECT a FROM t …",
		// Quotations.
		`SELECT 'it\'s hunter2', b FROM t`:                       "SELECT ? …",
		`SELECT "it\"s hunter2", b FROM t`:                       "SELECT ? …",
		`SELECT 'x\\', b, 'hunter2' FROM t`:                      "SELECT ? …",
		`SELECT U&'d\0061t' UESCAPE '!', a FROM t`:               "SELECT ? UESCAPE ?, a FROM t",
		`SELECT U&"d\0061ta hunter2" FROM t`:                     "SELECT ? FROM t",
		`SELECT q'[it's hunter2 x]', a FROM t`:                   "SELECT ? …",
		`SELECT nq'!it's hunter2 x!', a FROM t`:                  "SELECT ? …",
		`SELECT _utf8mb4'hunter2', b'0110', x'DEADBEEF' FROM t`:  "SELECT ?, ?, ? FROM t",
		`SELECT [it's], 'hunter2' FROM t`:                        "SELECT ? …",
		`SELECT [jane doe], a FROM t`:                            "SELECT ?, a FROM t",
		`SELECT a FROM t WHERE b = ANY(ARRAY['hunter2', 'x'])`:   "SELECT a FROM t WHERE b = ANY (ARRAY ?)",
		`SELECT a[1], b FROM t`:                                  "SELECT a ?, b FROM t",
		`SELECT a [ hunter2`:                                     "SELECT a ? …",
		"SELECT `hunter 2`, `a``b`, `c` FROM `jane@example.com`": "SELECT ?, ?, c FROM ?",
		`SELECT 'a' 'hunter2' FROM t`:                            "SELECT ? FROM t",
		"SELECT 'caf\xe9\xff hunter2\x00' , b FROM t":            "SELECT ?, b FROM t",
		"SELECT a \x00 hunter2":                                  "SELECT a …",
		"SELECT a \x1b]0;hunter2\a FROM t":                       "SELECT a …",
		"SELECT a \\ hunter2":                                    "SELECT a …",
		"S\x00E\x00L\x00E\x00C\x00T\x00 \x00h\x00":               "",
		"\xff\xfeS\x00E\x00L\x00":                                "",
		"SELECT\u00a0hunter2":                                    "",
		"\ufeffSELECT hunter2":                                   "",
		// Text in double quotes is a string in MySQL. It is also a string in SQLite, if no column has this name.
		`SELECT a FROM t WHERE b IS NOT DISTINCT FROM "hunter2"`: "SELECT a FROM t WHERE b IS NOT DISTINCT FROM ?",
		`SELECT a FROM t ORDER BY "hunter2" = b DESC`:            "SELECT a FROM t ORDER BY ? = b DESC",
		`SELECT a FROM t GROUP BY "b", c ORDER BY "b" DESC`:      "SELECT a FROM t GROUP BY b, c ORDER BY b DESC",
		`SELECT a FROM t ORDER BY "" , "hunter2" = b`:            "SELECT a FROM t ORDER BY ?, ? = b",
		`UPDATE t SET a = 1 ORDER BY b, "hunter2" = c LIMIT 1`:   "UPDATE t SET a = ? ORDER BY b, ? = c LIMIT ?",
		`UPDATE t SET a = 1; SELECT b, "hunter2" = c`:            "UPDATE t SET a = ?; SELECT b, ? = c",
		`UPDATE t SET a = "hunter2", "b" = "hunter2"`:            "UPDATE t SET a = ?, b = ?",
		`INSERT INTO t SET a = "hunter2"`:                        "INSERT INTO t SET a = ?",
		`INSERT INTO "jane@example.com" VALUES ("hunter2")`:      "INSERT INTO ? VALUES (?)",
		`SELECT CONCAT("a", "hunter2") FROM "t" AS "hunter2"`:    "SELECT CONCAT(?) FROM t AS ?",
		// Secrets without quotes, and the kinds of statements that contain them.
		"ALTER USER me PASSWORD hunter2":                 "ALTER",
		"(ALTER USER me PASSWORD hunter2)":               "(ALTER …",
		"BEGIN; ALTER USER me PASSWORD hunter2; COMMIT":  "BEGIN; ALTER …",
		"BEGIN EXEC sp_addlogin jane, hunter2 END":       "BEGIN EXEC …",
		"SELECT 1 EXEC sp_addlogin jane, hunter2":        "SELECT ? EXEC …",
		"SELECT 1; hunter2":                              "SELECT ?; …",
		"SELECT 1; 'x' hunter2":                          "SELECT ?; …",
		"SELECT 1;; SELECT a":                            "SELECT ?;; SELECT a",
		"EXPLAIN ANALYZE EXECUTE plan(hunter2)":          "EXPLAIN ANALYZE EXECUTE …",
		"EXPLAIN (ANALYZE, COSTS) SELECT comment FROM t": "EXPLAIN(ANALYZE, COSTS) SELECT comment FROM t",
		"EXPLAIN CREATE TABLE hunter2":                   "EXPLAIN CREATE …",
		"GRANT ALL ON x TO jane IDENTIFIED BY hunter2":   "GRANT",
		"SELECT 1 IDENTIFIED BY hunter2":                 "SELECT ? IDENTIFIED …",
		"COPY t FROM stdin;\n1\thunter2\n\\.":            "COPY",
		"BEGIN; COPY t FROM stdin;\n1\thunter2\n\\.":     "BEGIN; COPY …",
		"PRAGMA key = hunter2":                           "PRAGMA",
		"ATTACH DATABASE x AS y KEY hunter2":             "",
		"hunter2":                                        "",
		"'x' SELECT hunter2":                             "",
		"(":                                              "", ";": "", "?": "", "((((": "",
		// Casts, arrays, operators of JSON, and placeholders.
		`SELECT a->>'x', b->'y', c @> '{"k": "hunter2"}'::jsonb FROM t WHERE d ? 'z'`: "SELECT a ->> ?, b -> ?, c ? > ? FROM t WHERE d ?",
		"SELECT a FROM t WHERE b = :hunter2 AND c = @hunter2 AND d = @@x.y":           "SELECT a FROM t WHERE b = ? AND c = ? AND d = ?.y",
		`SELECT 1e5, 0xDEADBEEF, .5, 5., 1_000, '1'::"hunter 2" FROM t`:               "SELECT ?, ?, ?, ?, ?, ? FROM t",
		"SELECT a FROM events_20240131_0001 JOIN customer_acme.orders":                "SELECT a FROM ? JOIN customer_acme.orders",
		"INSERT INTO t VALUES (1, 'hunter2'), (2, 'x'), (NULL, DEFAULT)":              "INSERT INTO t VALUES (?), (NULL, DEFAULT)",
	} {
		got := SQL(sql, false)
		if got != want {
			t.Errorf("SQL(%q) is\n%q, not\n%q", sql, got, want)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("SQL(%q) says the secret: %q", sql, got)
		}
	}
}

// TestSQLCutAnywhere cuts a statement at each place. A statement can be cut because it exceeds the limit, or because
// ddtop could read only a part of it. No part of a literal may be shown.
func TestSQLCutAnywhere(t *testing.T) {
	const sql = `SELECT "t"."a", 'it''s hunter2', E'hunter2', $$ hunter2 $$, $q$hunter2$q$, "x hunter2", U&'hunter2' /* hunter2 */ FROM t -- hunter2` +
		"\nWHERE `b` = 'hunter2' AND c IN ('hunter2', [hunter2])"
	for i := range len(sql) + 1 {
		for _, cut := range []bool{false, true} {
			if got := SQL(sql[:i], cut); strings.Contains(got, "hunt") || cut && got != "" && !strings.HasSuffix(got, "…") {
				t.Errorf("%d bytes: %q", i, got)
			}
		}
		long := "SELECT a, " + strings.Repeat(" ", maxRawStatement-10-i) + sql[len("SELECT "):]
		if got := SQL(long, false); strings.Contains(got, "hunt") || i < len(sql)-7 && !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes within the limit: %q", i, got)
		}
	}
	rows := "INSERT INTO t (a) VALUES " + strings.Repeat("(17, 'hunter2'), ", 60000)
	if got := SQL(rows, false); got != "INSERT INTO t(a) VALUES (?), (? …" && got != "INSERT INTO t(a) VALUES (?), …" &&
		got != "INSERT INTO t(a) VALUES (?) …" {
		t.Errorf("1 MB: %q", got)
	}
	if got := SQL("SELECT '"+strings.Repeat("hunter2 ", 1<<17), false); got != "SELECT ? …" {
		t.Errorf("1 MB: %q", got)
	}
}

// dialect has the rules by which one database finds the literals in a statement.
type dialect struct {
	name                                             string
	backslash, doubleIsString, ident, brackets, hash bool // with ident, ` quotes names; with hash, # begins a comment
	dashNeedsSpace, dollar, nested, carriageReturn   bool
}

// dialects are the dialects of those databases whose client libraries ddtop knows. They must not be changed.
var dialects = []dialect{
	{name: "PostgreSQL", dollar: true, nested: true, carriageReturn: true},
	{name: "MySQL", backslash: true, doubleIsString: true, ident: true, hash: true, dashNeedsSpace: true},
	{name: "MySQL, ANSI", ident: true, hash: true, dashNeedsSpace: true},
	{name: "SQLite", ident: true, brackets: true},
	{name: "T-SQL", brackets: true, nested: true},
}

// code returns sql with blanks in place of everything that is a literal or a comment in the dialect. It keeps names in
// quotes.
func (d *dialect) code(sql string) string {
	b := []byte(sql)
	blank := func(from, to int) int {
		for i := from; i < to; i++ {
			b[i] = ' '
		}
		return to
	}
	// end returns the index after the end of a quotation that continues at i. A doubled quote does not end it.
	end := func(i int, quote byte, backslash bool) int {
		for ; i < len(b); i++ {
			switch {
			case backslash && sql[i] == '\\':
				i++
			case sql[i] == quote && i+1 < len(b) && sql[i+1] == quote:
				i++
			case sql[i] == quote:
				return i + 1
			}
		}
		return len(b)
	}
	for i := 0; i < len(b); {
		rest := sql[i:]
		switch c := rest[0]; {
		case (c == 'E' || c == 'e') && d.dollar && len(rest) > 1 && rest[1] == '\'' && (i == 0 || !wordByte(sql[i-1])):
			i = blank(i, end(i+2, '\'', true))
		case c == '\'':
			i = blank(i, end(i+1, '\'', d.backslash))
		case c == '"':
			to := end(i+1, '"', d.backslash && d.doubleIsString)
			if text := sql[i+1 : max(to-1, i+1)]; d.doubleIsString && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") != "" || to == len(b) && sql[to-1] != '"' {
				blank(i, to) // a plain word is allowed here, but a string is not
			}
			i = to
		case c == '`' && d.ident:
			i = end(i+1, '`', false)
		case c == '[' && d.brackets:
			i = end(i+1, ']', false)
		case strings.HasPrefix(rest, "--") && (!d.dashNeedsSpace || len(rest) == 2 || strings.IndexByte(" \t\r\n", rest[2]) >= 0), c == '#' && d.hash:
			ends := "\n"
			if d.carriageReturn {
				ends = "\r\n"
			}
			to := strings.IndexAny(rest, ends)
			if to < 0 {
				to = len(rest)
			}
			i = blank(i, i+to)
		case strings.HasPrefix(rest, "/*"):
			depth, j := 1, i+2
			for j < len(b) && depth > 0 {
				switch {
				case strings.HasPrefix(sql[j:], "*/"):
					depth--
					j += 2
				case d.nested && strings.HasPrefix(sql[j:], "/*"):
					depth++
					j += 2
				default:
					j++
				}
			}
			i = blank(i, j)
		case c == '$' && d.dollar:
			j := i + 1
			for j < len(b) && wordByte(sql[j]) && sql[j] != '$' {
				j++
			}
			if j == len(b) || sql[j] != '$' || digit(sql[i+1]) {
				i = j
				break
			}
			tag := sql[i : j+1]
			to := strings.Index(sql[j+1:], tag)
			if to < 0 {
				i = blank(i, len(b))
				break
			}
			i = blank(i, j+1+to+len(tag))
		case letter(c) || c == '_' || c >= 0x80: // a name, which may contain $
			for i < len(b) && wordByte(sql[i]) {
				i++
			}
		default:
			i++
		}
	}
	return string(b)
}

// sayings returns the i-th of a series of made-up words. The test uses each word only once in a statement, so that it
// can recognize the word in what ddtop shows.
func sayings(i int) string { return "zz" + strings.Repeat(string(rune('a'+i%26)), 2+i/26) + "zz" }

// checkSayings fails if SQL shows a made-up word that is a literal or a comment in one of the dialects.
func checkSayings(t *testing.T, sql string) {
	t.Helper()
	got := SQL(sql, false)
	for i := 0; ; i++ {
		w := sayings(i)
		if !strings.Contains(sql, w) {
			return
		}
		if !strings.Contains(got, w) {
			continue
		}
		for j := range dialects {
			if d := &dialects[j]; !strings.Contains(d.code(sql), w) {
				t.Fatalf("%s: in %q\n%q is a value\n%q", d.name, sql, w, got)
			}
		}
	}
}

// TestSQLAllDatabasesAgree makes random statements. What ddtop shows of them must be a name or a keyword by the rules
// of every database.
func TestSQLAllDatabasesAgree(t *testing.T) {
	pieces := []string{"'", "'", `"`, "`", "$$", "$q$", "$", "/*", "*/", "--", "-- ", "#", "#>", "\n", "\r", "\r\n", "[", "]", `\`, `\\`, "E'", "N'", "1", ", ", " = ",
		"(", ")", " FROM ", " WHERE ", ":", "::", "@", "?", "/*!", "!", ";", "; SELECT ", ".", "-", " "}
	rounds := 100_000
	if rubytest.Short(t) {
		rounds = 30_000
	}
	r := rand.New(rand.NewPCG(1, 3))
	said := 0
	for range rounds {
		var b strings.Builder
		b.WriteString("SELECT a ")
		words := 0
		for range 2 + r.IntN(14) {
			if r.IntN(2) == 0 {
				b.WriteString(pieces[r.IntN(len(pieces))])
			} else {
				fmt.Fprintf(&b, " %s ", sayings(words))
				words++
			}
		}
		checkSayings(t, b.String())
		if strings.Contains(SQL(b.String(), false), "zz") {
			said++
		}
	}
	if said < rounds/10 {
		t.Errorf("something was said of %d of %d statements only", said, rounds)
	}
}

// FuzzSQLAllDatabasesAgree does the same as TestSQLAllDatabasesAgree with statements from a fuzzer. Each letter z in
// them becomes a made-up word.
func FuzzSQLAllDatabasesAgree(f *testing.F) {
	for _, s := range []string{"z 'z' , z", "$$ z $$ z", "z # z, 'z\nz' z", "/* /* z */ 'z */ z'", "q'[z's z]' z", `z "z" 'z\' z' z`, "z -- z\r 'z\nz'", "[z's], 'z' z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1000 {
			return
		}
		words := 0
		var b strings.Builder
		b.WriteString("SELECT a ")
		for i := range len(s) {
			if s[i] != 'z' {
				b.WriteByte(s[i])
				continue
			}
			fmt.Fprintf(&b, " %s ", sayings(words))
			words++
		}
		checkSayings(t, b.String())
	})
}
