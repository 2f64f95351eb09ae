package api

import (
	"net/http"
	"net/url"
	"strings"
)

// Bounds of a URL. The longest that a client can need has some names of 1 KiB each,
// every byte of which may take three.
const (
	maxURL        = 16 << 10 // bytes of path and query
	maxParameters = 64       // of the query
)

// checkURL is a refusal of a URL that is too long.
func checkURL(u *url.URL) error {
	if len(u.EscapedPath())+len(u.RawQuery) > maxURL {
		return refuse(refusedURL, http.StatusRequestURITooLong, 0, "the URL is longer than %d bytes", maxURL)
	}
	if strings.Count(u.RawQuery, "&") >= maxParameters {
		return refuse(refusedURL, http.StatusRequestURITooLong, 0, "the query has more than %d parameters", maxParameters)
	}
	return nil
}
