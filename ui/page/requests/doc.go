// Package requests is the view of requests and jobs in progress, and of where the time of each route goes.
package requests
