// Package requests is the view of requests and jobs. It shows the requests and jobs in progress, and how each route
// spends its time.
package requests
