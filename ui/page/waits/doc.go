// Package waits is the view of the single waits for the GVL, and who held it during the selected wait.
package waits
