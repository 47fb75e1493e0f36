// Package timeline is the view with a timeline over the whole screen, and with a cursor in time.
package timeline
