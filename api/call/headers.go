package call

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

// AsOfHeader is the name of the response header that states the tree size that an answer reflects.
// It is used if the body of the answer does not state the size.
const AsOfHeader = "Colophon-As-Of"

// NDJSONMediaType is the media type of newline-delimited JSON.
const NDJSONMediaType = "application/x-ndjson"

// ReturnPreference returns the value of the return preference in the Prefer header (RFC 7240), or
// "" if there is none.
func (c *Call) ReturnPreference() string {
	for _, header := range c.Request().Header.Values("Prefer") {
		for p := range strings.SplitSeq(header, ",") {
			p, _, _ = strings.Cut(p, ";")
			name, value, _ := strings.Cut(strings.ToLower(p), "=")
			if strings.TrimSpace(name) == "return" {
				return strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	return ""
}

// PreferredMediaType returns the media type with the highest quality value in the Accept header, in
// lower case and without parameters. If several have the same quality value, the first one wins.
func PreferredMediaType(r *http.Request) (best string) {
	most := 0.0
	for part := range strings.SplitSeq(strings.Join(r.Header.Values(echo.HeaderAccept), ","), ",") {
		name, parameters, _ := strings.Cut(strings.ToLower(part), ";")
		if q := QualityValue(parameters); q > most {
			best, most = strings.TrimSpace(name), q
		}
	}
	return best
}

// QualityValue returns the value of q among the parameters of a media type (RFC 9110, section
// 12.4.2). It returns 1 if q is absent, and 0 (not acceptable) if q is malformed.
func QualityValue(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.TrimSpace(name) != "q" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

// AcceptsGzip reports whether the Accept-Encoding header names gzip with a quality value above 0
// (RFC 9110, section 12.5.3).
func AcceptsGzip(r *http.Request) bool {
	for _, header := range r.Header.Values(echo.HeaderAcceptEncoding) {
		for part := range strings.SplitSeq(strings.ToLower(header), ",") {
			name, parameters, _ := strings.Cut(part, ";")
			if strings.TrimSpace(name) == "gzip" && QualityValue(parameters) > 0 {
				return true
			}
		}
	}
	return false
}
