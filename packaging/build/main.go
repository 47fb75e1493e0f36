// Command build makes the parts of a release that are not binaries or packages: man pages, completions, the container
// image, package manifests and the provenance. scripts/release runs build. build is a separate Go module, because it
// needs modules that ddtop itself must not depend on.
package main

import (
	"fmt"
	"os"
	"strings"
)

// commands are the subcommands of build, by name. usage describes a subcommand's arguments.
var commands = map[string]struct {
	usage string
	run   func(args []string) error
}{
	"docs":       {"FOLDER", docs},
	"image":      {"FILE linux/ARCH=BINARY...", image},
	"unpack":     {"IMAGE ARCH FOLDER", unpack},
	"manifests":  {"DIST", manifests},
	"provenance": {"DIST COMMIT", provenance},
	"proxy":      {"FOLDER VERSION", proxy},
	"apk":        {"FILE", checkAPK},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a command")
	}
	c, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("there is no command %q", args[0])
	}
	wanted := len(strings.Fields(c.usage))
	many := strings.HasSuffix(c.usage, "...")
	if given := len(args) - 1; given != wanted && !(many && given > wanted) {
		return fmt.Errorf("usage: build %s %s", args[0], c.usage)
	}
	if err := c.run(args[1:]); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}
