package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ddtop/ddtop/internal/servertest"
)

// busyPuma starts Puma with some threads, and as many clients that ask again and again. served counts the answers.
func busyPuma(t *testing.T, threads int, path string) (pid int, served *atomic.Int64) {
	t.Helper()
	puma := servertest.StartPuma(t, "-t", fmt.Sprintf("%d:%d", threads, threads))
	served = new(atomic.Int64)
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: threads}}
	var clients sync.WaitGroup
	done := make(chan struct{})
	for range threads {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				answer, err := client.Get("http://127.0.0.1:" + puma.Port + path)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Error(err)
				}
				answer.Body.Close()
				served.Add(1)
			}
		})
	}
	t.Cleanup(func() { close(done); clients.Wait() })
	until(t, func() bool { return served.Load() >= int64(threads) }, "each client has an answer")
	return puma.PIDs[0], served
}

// TestCapacityInWords: stat says what other numbers of threads would give, or why it cannot.
func TestCapacityInWords(t *testing.T) {
	t.Parallel()
	pid, _ := busyPuma(t, 2, "/mixed?2000,4000")
	until(t, func() bool { // on a full machine a second can show too little
		r := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "1")
		r.want(t, 0)
		return strings.Contains(r.out, "\nthreads  1 instead of 2: throughput −") ||
			strings.Contains(r.out, "\nthreads  2; no prediction for another number: ")
	}, "a line on threads")
}
