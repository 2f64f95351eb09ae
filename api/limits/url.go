package limits

import (
	"net/http"
	"net/url"
	"strings"
)

// Limits for a URL. The longest useful URL has several names of 1 KiB, and percent-encoding
// can triple their length.
const (
	MaxURLBytes        = 16 << 10 // maximum length of path and query together, in bytes
	MaxQueryParameters = 64       // maximum number of parameters in the query
)

// CheckURL returns a 414 RejectedError if a URL is too long or has too many parameters.
func CheckURL(u *url.URL) error {
	if len(u.EscapedPath())+len(u.RawQuery) > MaxURLBytes {
		return NewRejectedError(ReasonURL, http.StatusRequestURITooLong, 0, "the URL is longer than %d bytes", MaxURLBytes)
	}
	if strings.Count(u.RawQuery, "&") >= MaxQueryParameters {
		return NewRejectedError(ReasonURL, http.StatusRequestURITooLong, 0, "the query has more than %d parameters", MaxQueryParameters)
	}
	return nil
}
