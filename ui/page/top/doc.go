// Package top is the view of functions, lines, gems and files by what they weigh.
package top
