// Package debuginfod fetches separate debug files from servers that the user has named. It asks for each file by the
// build id of its program or library. It keeps the files in the cache folder of elfutils' client, in the same form
// (https://sourceware.org/elfutils/Debuginfod.html). It treats servers, files and build ids as possibly hostile.
package debuginfod

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/safefile"
)

// Variables of the environment that elfutils defines.
const (
	URLs  = "DEBUGINFOD_URLS"
	Cache = "DEBUGINFOD_CACHE_PATH"
)

const (
	// maxAllBytes limits the total size of all fetched files, in bytes. One file has at most mapped.MaxDebugFile bytes.
	maxAllBytes = 2 << 30
	// answerTime is how long a server may take to begin its answer. It may have to unpack a package first.
	answerTime = 30 * time.Second
	// fileTime limits the time that one server may take for one file. allTime limits the time of all downloads
	// together.
	fileTime, allTime = 2 * time.Minute, 20 * time.Minute
	// maxAtOnce limits how many files are fetched at the same time.
	maxAtOnce = 2
	// maxFiles limits how many different debug files the servers are asked for. A Rails application maps hundreds of
	// files, but most contain the names of their functions and need no debug file.
	maxFiles = 256
	// maxServers limits how many servers are asked for one file.
	maxServers = 8
	// minBuildID and maxBuildID limit the length of a build id in bytes. Linkers write 8 to 20 bytes, and elfutils
	// accepts up to 64.
	minBuildID, maxBuildID = 4, 64
	// cachedName is the name of a debug file in the folder of its build id.
	cachedName = "debuginfo"
)

// These are the reasons why there is no debug file for a library.
var (
	errBuildID = errors.New("it has no usual build id")
	errPending = errors.New("it has not come yet")
	errBudget  = errors.New("fetching has taken all of its time or bytes")
)

// limits has the limits that the constants above define. Tests use smaller limits.
type limits struct {
	file, bytes               int64
	answer, fileTime, allTime time.Duration
}

// Client gets debug files from servers in the background. A nil Client has no files. Any goroutine may use a Client.
type Client struct {
	servers []*url.URL
	folder  string
	http    *http.Client
	limits  limits // what is left of the limits: each download reduces limits.bytes and limits.allTime, which mu guards
	ctx     context.Context
	cancel  context.CancelFunc
	slots   chan struct{}
	gate    safefile.Gate
	came    atomic.Int64
	// free returns the number of free bytes in the file system of a folder.
	free func(*os.Root) int64

	mu sync.Mutex
	// files has the requested debug files by build id. order has the same files in the order in which Want was called.
	// If there are maxFiles files, Want ignores further ones. refused counts these calls.
	files   map[string]*file
	order   []*file
	refused int
	// waitEnd is the time at which Wait gives up. The first call of Wait sets it.
	waitEnd time.Time
}

// file is one debug file that was requested. done is closed when the file is in the cache or cannot be fetched. After
// that, err may be read.
type file struct {
	buildID, library string
	done             chan struct{}
	err              error
}

// Open returns a Client with the servers that the environment names. If the environment names a cache folder, Open uses
// it instead of elfutils' usual one. Errors contain no part of a URL.
func Open() (*Client, error) {
	folder := os.Getenv(Cache)
	if folder == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no folder for debug files: %w: set %s", err, Cache)
		}
		folder = filepath.Join(dir, "debuginfod_client")
	}
	return newClient(os.Getenv(URLs), folder, limits{mapped.MaxDebugFile, maxAllBytes, answerTime, fileTime, allTime})
}

func newClient(urls, folder string, l limits) (*Client, error) {
	var servers []*url.URL
	for i, word := range strings.Fields(urls) {
		if strings.HasPrefix(word, "ima:") {
			// this entry is not a server, but elfutils' setting for checking the signatures of files from the servers
			// after it
			continue
		}
		u, err := url.Parse(word)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("word %d of %s is no http or https URL", i+1, URLs)
		}
		servers = append(servers, u)
	}
	if len(servers) == 0 || len(servers) > maxServers {
		return nil, fmt.Errorf("%s names %d servers. Name 1 to %d, with spaces between them. sudo --preserve-env=%[1]s "+
			"keeps it", URLs, len(servers), maxServers)
	}
	c := &Client{servers: servers, folder: folder, http: newHTTP(l.answer, servers), limits: l, free: safefile.Free,
		slots: make(chan struct{}, maxAtOnce), files: make(map[string]*file)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Want begins to get the debug file of a build id in the background. It does nothing if an earlier call has begun this.
// library is the name of the mapped file, for messages. Want never waits.
func (c *Client) Want(buildID, library string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[buildID] != nil {
		return
	}
	if len(c.files) >= maxFiles {
		c.refused++
		return
	}
	x := &file{buildID: buildID, library: library, done: make(chan struct{})}
	c.files[buildID] = x
	c.order = append(c.order, x)
	go func() {
		defer close(x.done)
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-c.ctx.Done():
			x.err = errPending
			return
		}
		if x.err = c.get(buildID); x.err == nil {
			c.came.Add(1)
		}
	}()
}

// File opens a debug file after a call of Want. pending is true if the file may still arrive. f is nil if there is no
// file yet, or if there will be none. The caller closes f.
func (c *Client) File(buildID string) (f *safefile.File, pending bool) {
	c.mu.Lock()
	x := c.files[buildID]
	c.mu.Unlock()
	if x == nil {
		return nil, false
	}
	select {
	case <-x.done:
	default:
		return nil, true
	}
	if x.err != nil {
		return nil, false
	}
	folder, err := safefile.OwnFolder(filepath.Join(c.folder, buildID))
	if err != nil {
		return nil, false
	}
	defer folder.Close()
	f, err = safefile.ReadOwn(folder, cachedName, c.limits.file, &c.gate)
	if err != nil {
		return nil, false
	}
	return f, false
}

// Came returns how many of the files that were passed to Want are in the cache now. This includes files that an earlier
// run of ddtop has put there.
func (c *Client) Came() int64 {
	if c == nil {
		return 0
	}
	return c.came.Load()
}

// Wait waits until no file is pending. It gives up when the duration most has passed since the first call of Wait. So
// if Wait is called for several processes, all calls together take at most this time.
func (c *Client) Wait(ctx context.Context, most time.Duration) {
	c.mu.Lock()
	if c.waitEnd.IsZero() {
		c.waitEnd = time.Now().Add(most)
	}
	ctx, cancel := context.WithDeadline(ctx, c.waitEnd)
	c.mu.Unlock()
	defer cancel()
	c.wait(ctx)
}

func (c *Client) wait(ctx context.Context) {
	for _, x := range c.wanted() {
		select {
		case <-x.done:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Client) wanted() []*file {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*file(nil), c.order...)
}

// Missing returns one line with the number of missing files and the reason for the first one. The function name returns
// the displayed name of a library. The line is empty if no file is missing.
func (c *Client) Missing(name func(library string) string) string {
	var first *file
	var why error
	list := c.wanted()
	c.mu.Lock()
	missing, all := c.refused, c.refused+len(list)
	c.mu.Unlock()
	for _, x := range list {
		err := errPending
		select {
		case <-x.done:
			err = x.err
		default:
		}
		if err == nil {
			continue
		}
		if missing++; first == nil {
			first, why = x, err
		}
	}
	switch {
	case first != nil:
		return fmt.Sprintf("no debug file for %d of %d files with C functions, as %s (build id %.12s): %v", missing, all,
			name(first.library), first.buildID, why)
	case missing > 0:
		return fmt.Sprintf("no debug file for %d of %d files with C functions: %d are the most", missing, all, maxFiles)
	}
	return ""
}

// closeTime limits how long Close waits for the files that are being fetched.
const closeTime = time.Second

// Close cancels all fetching.
func (c *Client) Close() {
	c.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	c.wait(ctx)
	c.http.CloseIdleConnections()
}

// get makes sure that a file is in the cache. If it is not there, get asks the servers for it.
func (c *Client) get(buildID string) error {
	if id, err := hex.DecodeString(buildID); err != nil || len(id) < minBuildID || len(id) > maxBuildID {
		return errBuildID
	}
	cache, err := safefile.OwnFolder(c.folder)
	if err != nil {
		return err
	}
	defer cache.Close()
	path := filepath.Join(c.folder, buildID)
	folder, err := safefile.OwnFolder(path)
	if err != nil {
		return err
	}
	to := safefile.At(folder, filepath.Join(path, cachedName))
	defer to.Close()
	if c.check(folder, cachedName, buildID) == nil {
		return nil
	}
	removeParts(folder)
	var why error
	for _, server := range c.servers {
		err := c.fetch(server, buildID, folder, to)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", server.Host, err)
		if why != nil {
			err = fmt.Errorf("%w; %w", why, err)
		}
		why = err
	}
	_ = cache.Remove(buildID) // this fails if the folder has other files
	return why
}

// partOf matches the temporary name of a file that is still being fetched (safefile.Destination.Begin).
var partOf = regexp.MustCompile(`^\.` + cachedName + `-[0-9a-f]{8}$`)

// removeParts removes incomplete files that a killed ddtop left behind. It removes only files older than allTime,
// because another ddtop may still be fetching younger ones.
func removeParts(folder *os.Root) {
	const most = 64
	// Incomplete files that cannot be removed now are removed by a later run, so ignore the error.
	_ = safefile.Names(folder, most, partOf.MatchString, func(name string, info fs.FileInfo) {
		if time.Since(info.ModTime()) > allTime {
			_ = folder.Remove(name)
		}
	})
}

// check returns an error if a file of the cache is not the debug file of the build id.
func (c *Client) check(folder *os.Root, name, buildID string) error {
	f, err := safefile.ReadOwn(folder, name, c.limits.file, &c.gate)
	if err != nil {
		return err
	}
	defer f.Close()
	e, err := mapped.OpenELF(f)
	switch {
	case err != nil:
		return errGarbage
	case mapped.BuildIDOfSections(e) != buildID:
		return errOther
	}
	return nil
}
