package rubyvm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/safefile"
)

// cacheVersion is stored in each cached table. If the code that derives tables changes, increase it. ddtop then ignores
// the earlier tables in the cache.
const cacheVersion = "2"

// maxCacheFile limits the size of a cached table, in bytes. A table has about 80 kB.
const maxCacheFile = 8 << 20

// DeriveTable makes a layout table from the module's debug information. It reads the table from the cache if an earlier
// run has stored it there. source is the file with the debug information.
func DeriveTable(ctx context.Context, module *attach.Module, version string, o FindOptions) (t *layout.Table, source string, err error) {
	cached := cachePath(o.Cache, module.BuildID)
	if t, err := readCached(cached, version, module.Machine); err == nil {
		return t, cached, nil
	}
	debug, err := module.DebugFile()
	if err != nil {
		return nil, "", err
	}
	info, err := layout.ReadDebugInfo(ctx, debug.ELF)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", debug.Path, err)
	}
	base, _, err := layout.Nearest(version, module.Machine, module.JmpBuf())
	if err != nil {
		return nil, "", err
	}
	options := layout.DeriveOptions{Release: version, Machine: module.Machine, Base: base}
	if o.Progress != nil {
		options.Progress = func(done, total int) { o.Progress(debug.Path, done, total) }
	}
	derived, err := layout.Derive(ctx, info, options)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", debug.Path, err)
	}
	// Ignore the error. Without the cached file, the next run derives the table again.
	_ = writeCached(cached, derived.Table)
	return derived.Table, debug.Path, nil
}

// cachePath returns the path of the cached table for a build of Ruby. It is empty if there is no cache or no build
// id.
func cachePath(folder, buildID string) string {
	if folder == "" || len(buildID) < 8 || strings.Trim(buildID, "0123456789abcdef") != "" {
		return ""
	}
	return filepath.Join(folder, "v"+cacheVersion, buildID+".json")
}

// readCached reads a table from the cache. It refuses files that another user could have written. The reason is that
// with sudo, HOME may be another user's folder.
func readCached(path, version, machine string) (*layout.Table, error) {
	if path == "" {
		return nil, os.ErrNotExist
	}
	text, err := safefile.ReadTrusted(path, maxCacheFile)
	if err != nil {
		return nil, err
	}
	t, err := layout.ParseJSON(text)
	if err != nil {
		return nil, err
	}
	if t.Machine != machine || !slices.Contains(t.AppliesTo, version) {
		return nil, fmt.Errorf("%s is of another Ruby", path)
	}
	return t, nil
}

// writeCached stores a table in the file at path. If it fails, it leaves no partial file.
func writeCached(path string, t *layout.Table) error {
	if path == "" {
		return os.ErrNotExist
	}
	return safefile.WriteTrusted(path, t.WriteJSON)
}

// CacheFolder returns the folder for derived tables: ddtop/layouts in the user's cache folder. It is empty if the user
// has no cache folder.
func CacheFolder() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "ddtop", "layouts")
}
