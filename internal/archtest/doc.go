// Package archtest tests the import rules of ddtop: which packages may import which, and what pure packages may not
// use. It has tests only.
package archtest
