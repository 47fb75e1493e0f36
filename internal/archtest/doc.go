// Package archtest holds the import rules of ddtop: which way packages may depend on each other, and what the pure
// ones may not reach for. It has tests only.
package archtest
