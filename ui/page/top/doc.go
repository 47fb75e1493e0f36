// Package top is the view that lists functions, lines, gems and files by their weight, such as time or allocations.
package top
