// Package requests is the view of requests and jobs in progress, and routes with what their time goes to.
package requests
