package account

import "github.com/ddtop/ddtop/sampler"

// DescribeGCReason describes a collection with the given reason: its kind, and what started it. For example: "minor, by
// no free slot", "major (too many old objects), by the malloc limit". It is empty before the first collection.
func DescribeGCReason(reason uint32) string {
	by := map[string]string{
		"newobj": "no free slot", "malloc": "the malloc limit", "method": "GC.start", "capi": "a C extension",
		"stress": "GC.stress",
	}[sampler.GCTrigger(reason)]
	if by == "" {
		return ""
	}
	if reason&sampler.GCCompact != 0 {
		return "major with compaction, by GC.compact"
	}
	if !sampler.GCIsMajor(reason) {
		return "minor, by " + by
	}
	why := map[string]string{
		"nofree": "the heap was full", "oldgen": "too many old objects", "shady": "too many unprotected objects",
		"oldmalloc": "the limit of malloc for old objects",
	}[sampler.GCMajorBy(reason)]
	if why == "" {
		return "major, by " + by
	}
	return "major (" + why + "), by " + by
}
