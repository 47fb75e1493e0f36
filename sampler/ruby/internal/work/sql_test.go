package work

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSQL(t *testing.T) {
	for sql, want := range map[string]string{
		`SELECT "orders".* FROM "orders" WHERE "orders"."id" = $1 LIMIT $2`:      `SELECT orders.* FROM orders WHERE orders.id = ? LIMIT ?`,
		"SELECT `orders`.* FROM `orders` WHERE `orders`.`name` = 'Jane' LIMIT 1": `SELECT orders.* FROM orders WHERE orders.name = ? LIMIT ?`,
		`select * from t where a = "Jane" and b='it''s'`:                         `select * from t where a = ? and b = ?`,
		`SELECT * FROM t WHERE id IN (1, 2, -3, 4.5e6)`:                          `SELECT * FROM t WHERE id IN (?)`,
		`SELECT * FROM t WHERE id IN ($1, $2, $3)`:                               `SELECT * FROM t WHERE id IN (?)`,
		`INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y'), (3, 'z')`:               `INSERT INTO t(a, b) VALUES (?)`,
		`SELECT 1 /* controller:orders, user: 17 */ FROM t -- password`:          `SELECT ? FROM t`,
		`/* app:shop */ SELECT a FROM t # secret`:                                `SELECT a FROM t`,
		`SELECT E'a' FROM t`:                                       `SELECT ? FROM t`,
		`SELECT E'a\'b' , secret FROM t`:                           `SELECT ? …`,
		`SELECT 'a\', secret, 'b' FROM t`:                          `SELECT ? …`,
		`SELECT $$secret$$, $x$se$$cret$x$, $1 FROM t`:             `SELECT ?, ?, ? FROM t`,
		`SELECT X'DEADBEEF', U&'x', _utf8'x', N'x', 0xDEAD FROM t`: `SELECT ?, ?, ?, ?, ? FROM t`,
		`SELECT a FROM t WHERE b = B'1010' AND c = 0b1010 AND d = x'C0FFEE' AND e IN (X'01', b'1', 0xFF, 'x', "y", NULL)`: `SELECT a FROM t WHERE b = ? AND c = ? AND d = ? AND e IN (?, NULL)`,
		`SELECT a FROM t WHERE b IN ("secret", 'it''s', "it""s") AND c = 1e-3`:                                            `SELECT a FROM t WHERE b IN (?) AND c = ? - ?`,
		`SELECT a /*! , 'secret' */ FROM t`:                                            `SELECT a …`,
		`SELECT a FROM t WHERE b = $body$it's $1 "secret"$body$ AND c = 1`:             `SELECT a FROM t WHERE b = ? …`,
		`SELECT 'unfinished secret`:                                                    `SELECT ? …`,
		`SELECT /* unfinished secret`:                                                  `SELECT …`,
		`SELECT a::text, b FROM t WHERE c <> 5 AND d >= 3 AND e != 4`:                  `SELECT a, b FROM t WHERE c <> ? AND d >= ? AND e != ?`,
		`SELECT count(*), max(x) FROM t WHERE a = :name AND b = @var`:                  `SELECT count(*), max(x) FROM t WHERE a = ? AND b = ?`,
		`UPDATE "orders" SET "total" = $1, "at" = $2 WHERE "orders"."id" = $3`:         `UPDATE orders SET total = ?, at = ? WHERE orders.id = ?`,
		`INSERT INTO "orders" ("customer_id", "total") VALUES ($1, $2) RETURNING "id"`: `INSERT INTO orders(?) VALUES (?) RETURNING ?`,
		`SELECT TRIM(BOTH FROM "secret") FROM "t"`:                                     `SELECT TRIM(BOTH FROM ?) FROM t`,
		`ALTER USER me PASSWORD secret`:                                                `ALTER`,
		`SET SESSION timezone TO 'UTC'`:                                                `SET`,
		`BEGIN`:                                                                        `BEGIN`,
		`COMMIT;`:                                                                      `COMMIT`,
		`a1`:                                                                           ``,
		`Jane's secret`:                                                                ``,
		``:                                                                             ``,
		`(SELECT a FROM t)`:                                                            `(SELECT a FROM t)`,
		"SELECT a\n  FROM t\n\n":                                                       `SELECT a FROM t`,
		`SELECT caf` + "\xc3\xa9 FROM t":                                               `SELECT ? FROM t`,
	} {
		if got := SQL(sql, false); got != want {
			t.Errorf("SQL(%q) is\n%q, not\n%q", sql, got, want)
		}
	}
	if got := SQL("SELECT a FROM t WHERE x", true); got != "SELECT a FROM t WHERE x …" {
		t.Errorf("cut: %q", got)
	}
	long := SQL("SELECT "+strings.Repeat("some_column, ", 1000)+"x FROM t", false)
	if len(long) > maxStatement+8 || !strings.HasSuffix(long, "…") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

// FuzzSQL puts a secret into each kind of quotation. SQL must never show the secret, whatever comes before and after it
// in the statement.
func FuzzSQL(f *testing.F) {
	f.Add("SELECT a FROM t WHERE b = ", " AND c = 1")
	f.Add("SELECT 'x', ", "")
	f.Add("SELECT \"a\" /* ", " */ FROM t")
	f.Add("SELECT 'a\\' , ", " '")
	f.Add("SELECT $a$ ", " $a$")
	f.Add("SELECT [a] ", "")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "hunter2secret"
		if strings.Contains(before, secret) || strings.Contains(after, secret) {
			return
		}
		// Remove the characters that can begin a quotation from the text before the secret. Otherwise the secret's
		// opening quote could be the end of an earlier quotation in some database.
		for _, c := range []string{"'", `"`, "`", "$", "/", "*", "-", "#", "[", `\`} {
			if strings.Contains(before, c) {
				before = strings.ReplaceAll(before, c, " ")
			}
		}
		for _, q := range [][2]string{{"'", "'"}, {"E'", "'"}, {"$$", "$$"}, {"$q$", "$q$"}, {"N'", "'"}, {"/*", "*/"}, {"--", "\n"}, {"= \"", "\""},
			{"'\\'", "'"}, {"'''", "'"}, {"'a''", "'"}, {"'\\\\", "'"}} {
			got := SQL(before+" "+q[0]+secret+q[1]+" "+after, false)
			if strings.Contains(got, secret) {
				t.Errorf("%q says the secret in %s…%s: %q", before, q[0], q[1], got)
			}
			if !utf8.ValidString(got) || len(got) > maxStatement+8 {
				t.Errorf("%q", got)
			}
		}
	})
}
