// Package timeline is the view of the timeline over the whole screen, with a cursor in time.
package timeline
