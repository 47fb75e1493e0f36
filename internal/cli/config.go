package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/ui"
)

// configKeys are the flags that the settings file can set.
var configKeys = []string{"theme", "window", "history", "rate", "lock-rate", "overhead", exact.CostFlag, "no-color", "ascii", "no-mouse", "redact", "snapshots", "wait-threshold", flags.OwnCodeName}

// keysTable is the name of the table [keys] in the settings file. It adds keys to the screen's own.
const keysTable = "keys"

// findingsTable is the table of the settings file that changes the rules of findings.
const findingsTable = "findings"

// maxConfig bounds the size of the settings file, in bytes.
const maxConfig = 1 << 20

// configPath returns the path of a user's settings: $XDG_CONFIG_HOME/ddtop/config.toml, by default in ~/.config. It
// returns "" if neither folder is known.
func configPath() string {
	folder := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(folder) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		folder = filepath.Join(home, ".config")
	}
	return filepath.Join(folder, "ddtop", "config.toml")
}

// configError is an error in a settings file. line is zero if the error is not about a single line.
type configError struct {
	path string
	line int
	err  error
}

func (e *configError) Error() string {
	if e.line == 0 {
		return fmt.Sprintf("%s: %v", e.path, e.err)
	}
	return fmt.Sprintf("%s:%d: %v", e.path, e.line, e.err)
}

func (e *configError) Unwrap() error { return e.err }

// configure applies the settings file to flags that the user did not give. A missing file is no error. Only commands
// with a screen apply all settings, so that the results of scripts depend only on their flags.
func (f *screenFlags) configure(cmd *cobra.Command, std run.Streams) error {
	if !std.Terminal {
		return nil
	}
	return withSettings(func(path, text string) error { return f.apply(cmd, path, text) })
}

// configure applies the settings that `ddtop push` shares with the screen: the rules of findings, and whether names are
// redacted. Flags take precedence over them.
func (f *pushFlags) configure(cmd *cobra.Command) error {
	return withSettings(func(path, text string) error {
		settings, err := decodeSettings(path, text)
		if err != nil {
			return err
		}
		if value, ok := settings[findingsTable]; ok {
			table, err := tableOf(path, text, findingsTable, value)
			if err == nil {
				err = f.rules.applyTable(path, text, table)
			}
			if err != nil {
				return err
			}
		}
		if value, ok := settings[redactFlag]; ok && !cmd.Flags().Changed(redactFlag) {
			if err := f.names.Set(fmt.Sprint(value)); err != nil {
				return &configError{path, lineOf(text, "", redactFlag), err}
			}
		}
		return nil
	})
}

// redactFlag is the name of the --redact flag, and of its setting.
const redactFlag = "redact"

// withSettings calls apply with the path and text of the settings file, if the file exists.
func withSettings(apply func(path, text string) error) error {
	path := configPath()
	if path == "" {
		return nil
	}
	text, err := safefile.ReadTrusted(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		// The file may contain the setting to redact secrets. So ddtop must not ignore a file that it cannot read.
		return &flags.UsageError{Err: fmt.Errorf("the settings: %w (or set XDG_CONFIG_HOME to a folder without)", err)}
	}
	if err := apply(path, string(text)); err != nil {
		return &flags.UsageError{Err: err}
	}
	return nil
}

func decodeSettings(path, text string) (settings map[string]any, err error) {
	if _, err := toml.Decode(text, &settings); err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return nil, &configError{path, parse.Position.Line, errors.New(parse.Message)}
		}
		return nil, &configError{path: path, err: err}
	}
	return settings, nil
}

// tableOf returns the value of a setting that must be a table.
func tableOf(path, text, name string, value any) (map[string]any, error) {
	table, ok := value.(map[string]any)
	if !ok {
		return nil, &configError{path, lineOf(text, "", name), fmt.Errorf("%s is a table: [%s]", name, name)}
	}
	return table, nil
}

// apply applies the settings of a file.
func (f *screenFlags) apply(cmd *cobra.Command, path, text string) error {
	settings, err := decodeSettings(path, text)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		wrong := func(format string, args ...any) error {
			return &configError{path, lineOf(text, "", name), fmt.Errorf(format, args...)}
		}
		if apply, ok := map[string]func(path, text string, table map[string]any) error{keysTable: f.applyKeys, findingsTable: f.findings.applyTable}[name]; ok {
			table, err := tableOf(path, text, name, value)
			if err == nil {
				err = apply(path, text, table)
			}
			if err != nil {
				return err
			}
			continue
		}
		if !slices.Contains(configKeys, name) {
			return wrong("there is no setting %q: there are %s and the tables [%s] and [%s]", name, strings.Join(configKeys, ", "), keysTable, findingsTable)
		}
		if name == flags.OwnCodeName {
			if !cmd.Flags().Changed(name) {
				if err := f.own.SetAll(value); err != nil {
					return wrong("%w", err)
				}
			}
			continue
		}
		switch value.(type) {
		case string, int64, float64, bool:
		default:
			return wrong("%s takes one value", name)
		}
		if name == "theme" {
			if _, err := ui.ThemeByName(fmt.Sprint(value)); err != nil {
				return wrong("%w", err)
			}
		}
		flag := cmd.Flags().Lookup(name)
		if flag == nil || flag.Changed { // `ddtop replay` has no flags for rates: it uses the rates of the recording
			continue
		}
		if err := flag.Value.Set(fmt.Sprint(value)); err != nil {
			return wrong("%s = %v: %w", name, value, err)
		}
		if name == "rate" || name == "lock-rate" {
			if hz, err := cmd.Flags().GetFloat64(name); err != nil || !(hz >= minRate && hz <= maxRate) {
				return wrong("%s takes %g to %g Hz, not %v", name, minRate, maxRate, value)
			}
		}
		if name == "snapshots" {
			if err := checkSnapshots(flag.Value.String()); err != nil {
				return wrong("%s = %q: %w", name, value, err)
			}
		}
	}
	return nil
}

// applyKeys sets additional keys of the screen from the table [keys] of the settings file.
func (f *screenFlags) applyKeys(path, text string, table map[string]any) error {
	f.keys = make(map[string]string, len(table))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		value := table[key]
		does, ok := value.(string)
		err := fmt.Errorf("%q takes the name of a key in quotes", key)
		if ok {
			err = ui.CheckKey(key, does)
		}
		if err != nil {
			return &configError{path, lineOf(text, keysTable, key), err}
		}
		f.keys[key] = does
	}
	return nil
}

// applyTable applies the table [findings], such as gvl_hog = "off" or gvl_hog.wait = "50ms".
func (s *screenRules) applyTable(path, text string, table map[string]any) error {
	set := func(rule, key string, value any) error {
		switch value.(type) {
		case string, int64, float64:
		default:
			return &configError{path, lineOf(text, findingsTable, rule), fmt.Errorf("%s takes one value, such as \"off\" or \"50ms\"", key)}
		}
		if err := s.setting(fmt.Sprintf("%s=%v", key, value)); err != nil {
			return &configError{path, lineOf(text, findingsTable, rule), err}
		}
		return nil
	}
	for _, rule := range slices.Sorted(maps.Keys(table)) {
		limits, ok := table[rule].(map[string]any)
		if !ok {
			if err := set(rule, rule, table[rule]); err != nil {
				return err
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			if err := set(rule, rule+"."+name, limits[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// lineOf returns the number of the line in text that sets name in a table. It returns zero if no line has the form
// "name = value".
func lineOf(text, table, name string) int {
	sets := regexp.MustCompile(`^\s*["']?` + regexp.QuoteMeta(name) + `["']?\s*[.=]`)
	header := regexp.MustCompile(`^\s*\[+\s*["']?([^]"']*)`)
	in := ""
	for i, line := range strings.Split(text, "\n") {
		if m := header.FindStringSubmatch(line); m != nil {
			in = strings.TrimSpace(m[1])
			if table == "" && in == name {
				return i + 1
			}
		}
		if in == table && sets.MatchString(line) {
			return i + 1
		}
	}
	return 0
}
