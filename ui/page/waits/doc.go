// Package waits is the view that lists single waits for the GVL, and who held it during the selected wait.
package waits
