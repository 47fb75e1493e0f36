// Package waits is the view that lists single waits for the GVL. It also shows which threads held the GVL during the
// selected wait.
package waits
