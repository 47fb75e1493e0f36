package exact

import "fmt"

// CostText returns the probes' cost in percent of own, the other CPU time of the process. cost and own are in ns, and
// cost is more than 0. The cost is an estimate, so own can be much too small, or 0.
func CostText(cost, own int64) string {
	if cost > own {
		return "more than 100 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(cost)/float64(own))
}
