package otlp

import (
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"colophon/api/problem"
	"colophon/ledger/record/pyjson"
)

// gRPC status codes. A google.rpc.Status in an HTTP response contains them, too.
const (
	codeInvalidArgument   = 3
	codeNotFound          = 5
	codePermissionDenied  = 7
	codeResourceExhausted = 8
	codeUnimplemented     = 12
	codeInternal          = 13
	codeUnavailable       = 14
	codeUnauthenticated   = 16
)

// codeOf returns the gRPC code that corresponds to an HTTP status. Exporters retry a call that
// failed with codeUnavailable.
func codeOf(status int) int {
	switch status {
	case http.StatusUnauthorized:
		return codeUnauthenticated
	case http.StatusForbidden:
		return codePermissionDenied
	case http.StatusNotFound:
		return codeNotFound
	case http.StatusRequestEntityTooLarge:
		return codeResourceExhausted
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return codeUnavailable
	}
	if status >= http.StatusInternalServerError {
		return codeInternal
	}
	return codeInvalidArgument
}

// AppendErrorResponse appends the response body for an OTLP request that failed: a
// google.rpc.Status in the media type of the request. ok is false if the route does not serve OTLP,
// or the media type is neither Protobuf nor JSON. The response is then an RFC 9457 problem, as on
// other routes.
func AppendErrorResponse(dst []byte, route string, r *http.Request, p *problem.Problem) (text []byte, media string, ok bool) {
	if media = mediaOf(r); media == "" || !serves(route) {
		return dst, "", false
	}
	if media == JSONMediaType {
		return appendStatusJSON(dst, p), media, true
	}
	return appendStatus(dst, p), media, true
}

// Retryable returns the problem to report on a route. On a route of OTLP, it turns 408 into 503,
// because exporters do not repeat a request that failed with 408 (OTLP: Retryable Response Codes).
func Retryable(route string, p *problem.Problem) *problem.Problem {
	if p.Status != http.StatusRequestTimeout || !serves(route) {
		return p
	}
	later := problem.New(http.StatusServiceUnavailable, "%s; send it again", p.Detail)
	later.Reason = p.Reason
	return later
}

// serves reports whether a route serves OTLP.
func serves(route string) bool {
	for _, s := range signals {
		if strings.HasSuffix(route, s.path) {
			return true
		}
	}
	return false
}

func appendStatusJSON(dst []byte, p *problem.Problem) []byte {
	w := pyjson.Builder{Buf: dst}
	w.BeginObject()
	w.AddInt("code", codeOf(p.Status))
	w.AddText("message", []byte(strings.ToValidUTF8(p.Detail, "\uFFFD")))
	w.EndObject()
	return w.Buf
}

// Field numbers of google.rpc.Status, google.protobuf.Any, google.rpc.RetryInfo, and
// google.protobuf.Duration.
const (
	statusCode    protowire.Number = 1
	statusMessage protowire.Number = 2
	statusDetails protowire.Number = 3
	anyType       protowire.Number = 1
	anyValue      protowire.Number = 2
	retryDelay    protowire.Number = 1
	durSeconds    protowire.Number = 1
	durNanos      protowire.Number = 2
)

func appendStatus(dst []byte, p *problem.Problem) []byte {
	code := codeOf(p.Status)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, statusCode, protowire.VarintType), uint64(code))
	dst = protowire.AppendString(protowire.AppendTag(dst, statusMessage, protowire.BytesType), strings.ToValidUTF8(p.Detail, "\uFFFD"))
	if code != codeUnavailable {
		return dst
	}
	// gRPC exporters retry the call after this time.
	wait := max(p.RetryAfter, time.Second)
	var d []byte
	d = protowire.AppendVarint(protowire.AppendTag(d, durSeconds, protowire.VarintType), uint64(wait/time.Second))
	d = protowire.AppendVarint(protowire.AppendTag(d, durNanos, protowire.VarintType), uint64(wait%time.Second))
	retry := protowire.AppendBytes(protowire.AppendTag(nil, retryDelay, protowire.BytesType), d)
	detail := protowire.AppendString(protowire.AppendTag(nil, anyType, protowire.BytesType), "type.googleapis.com/google.rpc.RetryInfo")
	detail = protowire.AppendBytes(protowire.AppendTag(detail, anyValue, protowire.BytesType), retry)
	return protowire.AppendBytes(protowire.AppendTag(dst, statusDetails, protowire.BytesType), detail)
}

// readStatus reads the code and the message of a Status. ok is false if text is malformed or
// its code is 0.
func readStatus(text []byte) (code int, message string, ok bool) {
	for len(text) > 0 {
		n, kind, size := protowire.ConsumeTag(text)
		if size < 0 {
			return 0, "", false
		}
		text = text[size:]
		switch {
		case n == statusCode && kind == protowire.VarintType:
			var v uint64
			v, size = protowire.ConsumeVarint(text)
			code = int(v)
		case n == statusMessage && kind == protowire.BytesType:
			var b []byte
			b, size = protowire.ConsumeBytes(text)
			message = string(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, text)
		}
		if size < 0 {
			return 0, "", false
		}
		text = text[size:]
	}
	return code, message, code != 0
}
