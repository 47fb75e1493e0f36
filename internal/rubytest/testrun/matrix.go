package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// kind is a C library and a machine.
type kind struct{ libc, machine string }

// kinds are the columns of the page.
var kinds = []kind{{"glibc", "x86_64"}, {"glibc", "aarch64"}, {"musl", "x86_64"}, {"musl", "aarch64"}}

// matrix prints the page of what was tested: Ruby's releases by C library and machine, and the kernel's features.
func matrix(path string, out io.Writer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	type cell struct {
		version string
		kind
		how string
	}
	tests := make(map[cell]int)
	var versions, features []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 5 && words[0] == "ruby":
			tests[cell{words[1], kind{words[3], words[2]}, words[4]}]++
			if !slices.Contains(versions, words[1]) {
				versions = append(versions, words[1])
			}
		case len(words) >= 3 && words[0] == "kernel":
			if f := strings.Join(words[1:], " "); !slices.Contains(features, f) {
				features = append(features, f)
			}
		default:
			return fmt.Errorf("%s has the line %q", path, line)
		}
	}
	if len(versions) == 0 {
		return fmt.Errorf("%s: no test ran on a Ruby", path)
	}
	slices.SortFunc(versions, byNumbers)
	var b strings.Builder
	b.WriteString("# What is tested\n\nAfter reading this page you know on which Rubies and kernels the tests passed.\n\n" +
		"`make test-all` writes this page. Each number is the number of tests that passed on such a Ruby. *Emulated* is under qemu-user: " +
		"what is said of the kernel is said of the emulator. *Untested* may well work.\n\n| Ruby |")
	for _, k := range kinds {
		b.WriteString(" " + k.libc + ", " + k.machine + " |")
	}
	b.WriteString("\n| ---" + strings.Repeat(" | ---", len(kinds)) + " |\n")
	for _, v := range versions {
		b.WriteString("| " + v + " |")
		for _, k := range kinds {
			var words []string
			for _, how := range []string{"tested", "emulated"} {
				if n := tests[cell{v, k, how}]; n > 0 {
					words = append(words, fmt.Sprintf("%s: %d", how, n))
				}
			}
			b.WriteString(" " + cmp.Or(strings.Join(words, ", "), "untested") + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\nThe kernel on which they ran:\n\n")
	for _, f := range features {
		b.WriteString("* " + f + "\n")
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// byNumbers orders versions: 2.7.4, 3.4.1, 3.10.0.
func byNumbers(a, b string) int {
	numbers := func(v string) []int {
		var out []int
		for part := range strings.SplitSeq(v, ".") {
			n, _ := strconv.Atoi(part) // of "4preview1" 0
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(numbers(a), numbers(b))
}
