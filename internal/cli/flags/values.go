// Package flags has the types of the command line's flags. Each type has its own way to write, parse, limit and refuse
// values.
package flags

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler/live/group"
)

// PIDs is the value of a flag: process IDs with commas between them.
type PIDs []int

// String returns the value in the form in which a user types it.
func (l *PIDs) String() string {
	words := make([]string, len(*l))
	for i, pid := range *l {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ",")
}

// Type returns the word that stands for the flag's value in help texts.
func (l *PIDs) Type() string { return "PID" }

// Set adds PIDs.
func (l *PIDs) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		pid, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%q is not a PID", word)
		}
		if len(*l) >= group.MaxProcesses {
			return fmt.Errorf("there are more than %d", group.MaxProcesses)
		}
		if !slices.Contains(*l, pid) {
			*l = append(*l, pid)
		}
	}
	return nil
}

// Duration is the value of a flag: "10s", "1m30s", or a bare number of seconds.
type Duration struct {
	Value    time.Duration
	Min, Max time.Duration
}

// String returns the duration as Go writes it, such as "1m30s".
func (d *Duration) String() string { return d.Value.String() }

// Type returns the word that stands for the flag's value in help texts.
func (d *Duration) Type() string { return "duration" }

// Set parses a value.
func (d *Duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		seconds, numberErr := strconv.ParseFloat(text, 64)
		if numberErr != nil || !(seconds >= 0 && seconds < 1e9) {
			return fmt.Errorf("%q is not a duration such as 10s, 1m30s or 10", text)
		}
		v = time.Duration(seconds * float64(time.Second))
	}
	if v < d.Min || v > d.Max {
		return fmt.Errorf("it takes %v to %v", d.Min, d.Max)
	}
	d.Value = v
	return nil
}

// ByteSize is a flag's value: a number of bytes.
type ByteSize int64

// String returns the value in MB.
func (b *ByteSize) String() string { return fmt.Sprintf("%gMB", float64(*b)/1e6) }

// Type returns the word that stands for the flag's value in help texts.
func (b *ByteSize) Type() string { return "size" }

// Set parses a value.
func (b *ByteSize) Set(text string) error {
	n, err := units.ParseBytes(text)
	if err == nil {
		*b = ByteSize(n)
	}
	return err
}

// minOverhead and maxOverhead are the smallest and the largest share of a CPU that the flag --overhead accepts. It also
// accepts zero.
const minOverhead, maxOverhead = 0.001, 1

// Overhead is the value of a flag: a share of one CPU, written "3%" or "3". The share is zero for "off" and "0".
type Overhead struct {
	Share float64
	// Asked is true if the user has set the flag, so that ddtop does not use its default.
	Asked bool
}

// String returns the value in the form in which a user types it.
func (o *Overhead) String() string {
	if o.Share == 0 {
		return "off"
	}
	return strconv.FormatFloat(o.Share*100, 'g', 6, 64) + "%"
}

// Type returns the word that stands for the flag's value in help texts.
func (o *Overhead) Type() string { return "percent" }

// Set parses a value.
func (o *Overhead) Set(text string) error {
	percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if text == "off" {
		percent, err = 0, nil
	}
	// The comparisons are written so that NaN is refused too.
	if share := percent / 100; err == nil && (share == 0 || share >= minOverhead && share <= maxOverhead) {
		*o = Overhead{share, true}
		return nil
	}
	return fmt.Errorf("it takes %g%% to %g%% of one CPU, or off", minOverhead*100, maxOverhead*100.0)
}

// Endpoint is the value of --endpoint, which selects the routes and the classes of jobs that ddtop reports.
type Endpoint struct{ re *regexp.Regexp }

// String returns the regular expression.
func (f *Endpoint) String() string {
	if f.re == nil {
		return ""
	}
	return f.re.String()
}

// Type returns the word that stands for the flag's value in help texts.
func (f *Endpoint) Type() string { return "REGEXP" }

// Set parses a regular expression. If it is empty, --endpoint selects everything.
func (f *Endpoint) Set(text string) error {
	f.re = nil
	if text == "" {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return fmt.Errorf("%q is no regular expression: %w", text, err)
	}
	f.re = re
	return nil
}

// Match returns the function that selects names, or nil if --endpoint selects everything.
func (f *Endpoint) Match() func(name string) bool {
	if f.re == nil {
		return nil
	}
	return f.re.MatchString
}

// Each is the value of a flag that the user may give several times. It calls Add each time.
type Each struct {
	// Kind is the word that stands for the flag's value in help texts.
	Kind string
	Add  func(text string) error
}

// String returns the default, which is none.
func (Each) String() string { return "" }

// Type returns the word that stands for the flag's value in help texts.
func (e Each) Type() string { return e.Kind }

// Set adds a value.
func (e Each) Set(text string) error { return e.Add(text) }

// AddTo adds the flag.
func (f *Endpoint) AddTo(cmd *cobra.Command) {
	cmd.Flags().Var(f, "endpoint", "only requests and jobs whose route or class matches a `REGEXP`")
}
