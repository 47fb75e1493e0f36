package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// defaultOverhead is the share of one CPU that ddtop takes at most, where nothing else is asked for: what a machine that is full
// does not notice.
const defaultOverhead overhead = 0.03

// mostOverhead is what ddtop takes instead if the default is not enough for the least quality of its figures (sampler.LeastQualities): twice
// as much is what a full machine leaves to reading ten stacks of a Rails worker a second. A share that was asked for holds in any case.
const mostOverhead = 0.06

// minOverhead and maxOverhead bound the shares that can be asked for.
const minOverhead, maxOverhead = 0.001, 1

// overhead is a flag's value: a share of one CPU, written "3%" or "3"; "off", "0": none is set.
type overhead float64

// String returns the value as it is written.
func (o *overhead) String() string {
	if *o == 0 {
		return "off"
	}
	return strconv.FormatFloat(float64(*o)*100, 'g', 6, 64) + "%"
}

// Type is the word for the value in help texts.
func (o *overhead) Type() string { return "percent" }

// Set parses a value.
func (o *overhead) Set(text string) error {
	percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if text == "off" {
		percent, err = 0, nil
	}
	// Written so that NaN is refused too.
	if share := percent / 100; err == nil && (share == 0 || share >= minOverhead && share <= maxOverhead) {
		*o = overhead(share)
		return nil
	}
	return fmt.Errorf("it takes %g%% to %g%% of one CPU, or off", minOverhead*100, maxOverhead*100.0)
}

// overheadFlag is the flag's value, which knows whether a share was asked for.
type overheadFlag struct {
	*overhead
	asked *bool
}

// Set parses a value, which is then asked for.
func (f overheadFlag) Set(text string) error {
	if err := f.overhead.Set(text); err != nil {
		return err
	}
	*f.asked = true
	return nil
}

func (t *target) addOverhead(cmd *cobra.Command) {
	t.overhead = defaultOverhead
	cmd.Flags().Var(overheadFlag{&t.overhead, &t.overheadAsked}, "overhead",
		"the most that ddtop takes of one CPU, or off; unless given, up to 6%")
}

// overheadMost is the share that may be taken for the least quality of figures. It is zero if the share asked for holds in any case.
func (t *target) overheadMost() float64 {
	if t.overheadAsked {
		return 0
	}
	return mostOverhead
}
