package kernel

import (
	"bytes"
	"time"
)

// While the kernel adds up a process's proportional memory it walks all of its pages and holds its mmap lock for reading, which
// delays a thread of it that maps or unmaps memory: 0.24 ms at 14 MB, 1.4 ms at 250 MB. So it is asked seldom, and of a large
// process less often still.
const (
	rollupEveryNS = 10e9
	// rollupRest times as long as a reading took is how long none follows: they take a thousandth of the time at most.
	rollupRest = 1000
)

// rollup reads /proc/PID/smaps_rollup (Linux 4.14 and later).
type rollup struct {
	fd     int
	nextNS int64
	pss    int64
}

// open tolerates a kernel without the file: nothing is known then.
func (r *rollup) open(dir int) {
	fd, err := openAt(dir, "smaps_rollup")
	if err != nil {
		fd = noFD
	}
	r.fd = fd
}

func (r *rollup) close() {
	closeFD(r.fd)
	r.fd = noFD
}

// read returns the proportional memory in bytes as it was read last; 0: it is not known. nowNS is CLOCK_MONOTONIC.
func (r *rollup) read(nowNS int64, buf []byte) int64 {
	if r.fd == noFD || nowNS < r.nextNS {
		return r.pss
	}
	began := time.Now()
	n, err := pread(r.fd, buf)
	r.nextNS = nowNS + max(rollupEveryNS, rollupRest*time.Since(began).Nanoseconds())
	if err == nil {
		if pss, ok := parsePSS(buf[:n]); ok {
			r.pss = pss
		}
	}
	return r.pss
}

// parsePSS reads the line "Pss: N kB", which comes after a head of the range and one of Rss.
func parsePSS(b []byte) (int64, bool) {
	_, rest, ok := bytes.Cut(b, []byte("\nPss:"))
	if !ok {
		return 0, false
	}
	kb, _, ok := takeUint(bytes.TrimLeft(rest, " \t"))
	return int64(kb) << 10, ok && kb < 1<<50
}
