// Package requests is the view of requests and jobs. It shows those in progress, and how each route spends its time.
package requests
