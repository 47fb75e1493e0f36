package cli_test

import (
	"errors"
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

// busyPuma starts Puma with a number of threads. As many clients send requests to it without a pause. served counts the
// answers.
func busyPuma(t *testing.T, threads int, path string) (pid int, served *atomic.Int64) {
	t.Helper()
	puma := servertest.StartPuma(t, "-t", fmt.Sprintf("%d:%d", threads, threads))
	served, stop := keepBusy(t, threads, func(client *http.Client, _ int64) (*http.Response, error) {
		return client.Get("http://127.0.0.1:" + puma.Port + path)
	})
	t.Cleanup(stop)
	return puma.PIDs[0], served
}

// keepBusy starts clients that send requests without a pause. For each request it calls ask with the request's number,
// which begins at 0. served counts the answers. keepBusy returns when each client has got an answer. stop ends the
// clients and waits until they have ended.
func keepBusy(
	t *testing.T, clients int, ask func(client *http.Client, number int64) (*http.Response, error),
) (served *atomic.Int64, stop func()) {
	t.Helper()
	served = new(atomic.Int64)
	var asked, answered atomic.Int64
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var running sync.WaitGroup
	done := make(chan struct{})
	for range clients {
		running.Go(func() {
			for first := true; ; first = false {
				select {
				case <-done:
					return
				default:
				}
				answer, err := ask(&client, asked.Add(1)-1)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, answer.Body)
				if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode >= 300 {
					t.Error(answer.Status, err)
					return
				}
				served.Add(1)
				if first {
					answered.Add(1)
				}
			}
		})
	}
	stop = func() {
		close(done)
		running.Wait()
		client.CloseIdleConnections()
	}
	until(t, func() bool { return t.Failed() || answered.Load() == int64(clients) }, "each client has an answer")
	return served, stop
}

// TestCapacityInWords: stat predicts which throughput the server would have with another number of threads. If it
// cannot predict this, it says why.
func TestCapacityInWords(t *testing.T) {
	t.Parallel()
	pid, _ := busyPuma(t, 2, "/mixed?2000,4000")
	until(t, func() bool { // on a busy machine stat can get too few samples in a second
		r := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "1")
		r.want(t, 0)
		return strings.Contains(r.out, "\nthreads  1 instead of 2: throughput −") ||
			strings.Contains(r.out, "\nthreads  2; no prediction for another number: ")
	}, "a line on threads")
}
