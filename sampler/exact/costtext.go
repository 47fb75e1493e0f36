package exact

import "fmt"

// CostText returns the probes' cost in percent of own. own is the CPU time of the process without this cost. The cost
// is an estimate. If it is too large, own is too small, or even 0. cost and own are in ns, and cost is more than 0.
func CostText(cost, own int64) string {
	if cost > own {
		return "more than 100 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(cost)/float64(own))
}
