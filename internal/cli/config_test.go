package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
)

// writeSettings writes a text into the user's file of settings.
func writeSettings(t *testing.T, text string) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", folder)
	if err := os.MkdirAll(filepath.Join(folder, "ddtop"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "ddtop", "config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// settings applies the text of a settings file to the flags of the root command, and returns the flags. args are flags
// of the command line.
func settings(t *testing.T, text string, args ...string) (rootFlags, error) {
	t.Helper()
	writeSettings(t, text)
	std := run.Streams{Out: new(bytes.Buffer), Err: new(bytes.Buffer), Terminal: true}
	cmd := newRoot(std)
	f := rootFlags{screenFlags: newScreenFlags(run.Streams{Redact: new(flags.Redaction), Own: new(flags.OwnCode)})}
	bare := *cmd
	bare.ResetFlags()
	f.addRates(&bare)
	f.screenFlags.add(&bare)
	if err := bare.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f, f.configure(&bare, std)
}

func TestSettings(t *testing.T) {
	f, err := settings(t, "# mine\ntheme = \"light\"\nwindow = \"1m\"\nhistory = 1200\nrate = 50\nlock-rate = 500.5\noverhead = 1.5\nno-mouse = true\nwait-threshold = \"5ms\"\n[keys]\nf = \"space\"\n",
		"--rate", "20")
	if err != nil {
		t.Fatal(err)
	}
	if f.theme != "light" || f.window.Value != time.Minute || f.history.Value != 20*time.Minute || !f.noMouse || f.lockRate != 500.5 || f.overhead.Share != 0.015 || f.keys["f"] != "space" {
		t.Errorf("%+v", f)
	}
	if got := f.options(run.Streams{}, shown{}).WaitThreshold; got != 5*time.Millisecond || f.judgement().wait.Value != got {
		t.Errorf("waits from %v on are listed", got)
	}
	if f.stackRate != 20 {
		t.Errorf("the file beats the flag: %g Hz", f.stackRate)
	}
}

// TestSettingsOfOwnCode: the setting own-code, which says which code is the user's own, can be one pattern or a list.
// If flags set patterns, ddtop ignores the patterns of the settings file.
func TestSettingsOfOwnCode(t *testing.T) {
	for text, want := range map[string]string{"own-code = \"acme-*\"": "acme-*", "own-code = [\"acme-*\", \"!/app/lib/x\"]": "acme-*,!/app/lib/x"} {
		f, err := settings(t, text)
		if err != nil || f.own.String() != want || f.own.Rules() == nil {
			t.Errorf("%s: %q, %v", text, f.own.String(), err)
		}
	}
	f, err := settings(t, "own-code = \"acme-*\"", "--own-code", "/srv", "--own-code", "/opt/a,b")
	if err != nil || f.own.String() != "/srv,/opt/a,b" {
		t.Errorf("%q, %v", f.own.String(), err)
	}
}

// TestSettingsOfFindings: the settings file changes thresholds of findings, and flags override the file.
func TestSettingsOfFindings(t *testing.T) {
	f, err := settings(t, "[findings]\ngvl_hog.wait = \"50ms\"\ngvl_hog.lead = 3\nlock_convoy.waiters = 5\n", "--finding", "gvl_hog.wait=70ms")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, id := range []string{"gvl_hog", "lock_convoy"} {
		for _, l := range f.options(run.Streams{}, shown{}).Rules.Limits(id) {
			got[l.Name] = l.Value
		}
	}
	if got["gvl_hog.wait"] != "70 ms" || got["gvl_hog.lead"] != "3" || got["lock_convoy.waiters"] != "5" || got["gvl_hog.blame"] != "50 %" {
		t.Errorf("%v", got)
	}
}

// TestSettingsOfPush: `ddtop push` reads the setting redact and the rules of findings from the settings file, and flags
// override them. It ignores all other settings in the file, because they are for screens.
func TestSettingsOfPush(t *testing.T) {
	const file = "theme = \"none such\"\nredact = true\n[findings]\ngvl_hog.wait = \"50ms\"\ngvl_hog.lead = 3\n"
	for _, c := range []struct {
		text string
		args []string
		want string
	}{
		{file, nil, "3 50 ms true"},
		{file, []string{"--finding", "gvl_hog.wait=70ms", "--redact=false"}, "3 70 ms false"},
		{"", []string{"--redact"}, "1.5 80 ms true"},
		{"findings = 3\n", nil, "config.toml:1: findings is a table: [findings]"},
		{"[findings]\n\nhog = \"off\"\n", nil, `config.toml:3: there is no finding "hog"`},
		{"redact = \"maybe\"\n", nil, "config.toml:1: "},
		{"rate = \n", nil, "config.toml:1: "},
	} {
		writeSettings(t, c.text)
		f := pushFlags{target: target{names: new(flags.Redaction)}, rules: newScreenRules()}
		cmd := new(cobra.Command)
		addFinding(cmd, f.rules.flag)
		f.names.AddTo(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := "", f.configure(cmd)
		for _, l := range f.rules.rules.Limits("gvl_hog") {
			if l.Name == "gvl_hog.wait" || l.Name == "gvl_hog.lead" {
				got += l.Value + " "
			}
		}
		if got += f.names.String(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) && !strings.Contains(got, "/"+c.want) || err != nil && exitCode(err) != 2 {
			t.Errorf("%q %q: %s, want %s", c.text, c.args, got, c.want)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"theme = \"light\"\nwindow = \"1h\"\n", "config.toml:2: window = 1h: it takes 1s to 10m"},
		{"\n\ntheme = \"pink\"\n", `config.toml:3: no theme "pink"`},
		{"rate = 0\n", "config.toml:1: rate takes 0.1 to 10000 Hz, not 0"},
		{"rate = nan\n", "config.toml:1: rate takes"},
		{"rate = \"x\"\n", "config.toml:1: rate = x"},
		{"overhead = \"lots\"\n", "config.toml:1: overhead = lots: it takes 0.1% to 100% of one CPU, or off"},
		{"# a\ncolour = 1\n", `config.toml:2: there is no setting "colour"`},
		{"a = 1\npid = 4\n", `config.toml:1: there is no setting "a"`},
		{"theme = [\"dark\"]\n", "config.toml:1: theme takes one value"},
		{"theme = \"dark\n", "config.toml:1: "},
		{"rate = 1\nrate = 2\n", "config.toml:2: "},
		{"keys = 3\n", "config.toml:1: keys is a table"},
		{"rate = 1\n[keys]\nx = \"space\"\nf = \"f12\"\n", `config.toml:4: no key "f12"`},
		{"[keys]\n\"ctrl+c\" = \"space\"\n", `config.toml:2: the key "ctrl+c"`},
		{"[keys]\nf = \"space\"\nzz = \"space\"\n", `config.toml:3: no terminal sends a key "zz": it is a character`},
		{"[keys]\n\"ctrl-f\" = \"space\"\n", `config.toml:2: no terminal sends a key "ctrl-f": is it "ctrl+f"?`},
		{"[keys]\nf = \"pagedown\"\n", `config.toml:2: no key "pagedown" does anything that "f" could do: is it "pgdown"?`},
		{"[keys]\nf = 3\n", `config.toml:2: "f" takes the name of a key`},
		{"findings = 3\n", "config.toml:1: findings is a table"},
		{"rate = 1\n[findings]\ndb_slow = \"off\"\nhog = \"off\"\n", `config.toml:4: there is no finding "hog"`},
		{"[findings]\ngvl_hog.wait = \"soon\"\n", "config.toml:2: gvl_hog.wait"},
		{"[findings]\ngvl_hog = true\n", "config.toml:2: gvl_hog takes one value"},
		{"theme = \"dark\"\nsnapshots = \"/dev/null\"\n", `config.toml:2: snapshots = "/dev/null": /dev/null is not a folder`},
		{"snapshots = \"\"\n", `config.toml:1: snapshots = "": a folder needs a name`},
		{"rate = 1\nown-code = [3]\n", "config.toml:2: own-code takes patterns in quotes"},
		{"own-code = \"/\"\n", `config.toml:1: the pattern "/" names nothing`},
		{"[themes]\n", `config.toml:1: there is no setting "themes"`},
	} {
		_, err := settings(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
			continue
		}
		if code := exitCode(err); code != 2 {
			t.Errorf("%q: exit code %d", c.text, code)
		}
	}
}

func TestNoSettings(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	f := newScreenFlags(run.Streams{Redact: new(flags.Redaction), Own: new(flags.OwnCode)})
	if err := f.configure(newRoot(run.Streams{}), run.Streams{Terminal: true}); err != nil {
		t.Error(err)
	}
	_, err := settings(t, strings.Repeat("#", maxConfig+1))
	if err == nil || !strings.Contains(err.Error(), "are the most") {
		t.Errorf("a file that is too large: %v", err)
	}
}
