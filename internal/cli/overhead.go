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

func (t *target) addOverhead(cmd *cobra.Command) {
	t.overhead = defaultOverhead
	cmd.Flags().Var(&t.overhead, "overhead", "what ddtop may take of one CPU, lowering its rates for it; or off")
}
