package export

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

func capacityWith(threads int) *report.StatCapacity {
	c := &report.StatCapacity{Work: "request", Threads: threads, Requests: 1840, BusyMean: 4.6, Load: .9}
	for n := 1; n <= 10; n++ {
		p := report.CapacityPoint{Threads: n, Throughput: 1 + .01*float64(n-threads), WaitingShare: .05 * float64(n)}
		c.Curve = append(c.Curve, p)
	}
	return c
}

func TestStatSaysOtherNumbersOfThreads(t *testing.T) {
	t.Parallel()
	why := "locks"
	refused := capacityWith(5)
	refused.Why, refused.Curve = &why, nil
	for want, c := range map[string]*report.StatCapacity{
		"threads  3 instead of 5: throughput −2 %, time lost to the GVL 25 % → 15 %; 7: +2 %, 35 %\n" +
			"         predicted for full load from 1840 requests; on average 4.6 of 5 threads had one\n" +
			"         to predict more than 10 threads, measure with more than 5\n\n": capacityWith(5),
		"threads  2 instead of 1: throughput +1 %, time lost to the GVL 5 % → 10 %; 3: +2 %, 15 %\n" +
			"         predicted for full load from 1840 requests; on average 4.6 of 1 thread had one\n" +
			"         to predict more than 10 threads, measure with more than 1\n\n": capacityWith(1),
		"threads  5; no prediction for another number: locks\n\n": refused,
		"": nil,
	} {
		var b strings.Builder
		if statCapacity(&b, c); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}

func TestOneMoreWorker(t *testing.T) {
	t.Parallel()
	worker := func(cpu float64) ProcessStat {
		return ProcessStat{Process: sampler.Process{CPUs: 2}, Stat: report.Stat{
			Capacity: capacityWith(5), Process: report.StatProcess{SpanNS: 1e9, CPUNS: int64(.9 * cpu * 1e9)},
		}}
	}
	master := ProcessStat{Process: sampler.Process{CPUs: 2}}
	for want, list := range map[string][]ProcessStat{
		"workers  3 instead of 2: throughput +50 %; at full load 2 use 0.8 of 2 CPUs\n":         {master, worker(.4), worker(.4)},
		"workers  3 instead of 2: throughput at most +11 %; at full load 2 use 1.8 of 2 CPUs\n": {worker(.9), worker(.9)},
		"workers  4 instead of 3: throughput the same; at full load 3 use 2.1 of 2 CPUs\n": {
			worker(.7), worker(.7), worker(.7),
		},
		"": {master, worker(.4)},
	} {
		var b strings.Builder
		if writeWorkers(&b, oneMoreWorker(list)); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
	unknown := worker(.4)
	unknown.Stat.Capacity.Load = 0
	if w := oneMoreWorker([]ProcessStat{worker(.4), worker(.4), unknown}); w != nil {
		t.Errorf("beside an unknown one: %+v", w)
	}
}
