package hostile_test

import (
	"slices"
	"strconv"
	"strings"
)

// with returns a trick that adds a header chosen at random from the list, whose elements have the
// form "name: value".
func with(list ...string) func(*generator, *request) bool {
	return func(d *generator, r *request) bool {
		name, value, _ := strings.Cut(pick(d, list...), ": ")
		r.header = append(r.header, field{name, value})
		return true
	}
}

// garbled is like with, but for headers that net/http might refuse before a handler sees them.
func garbled(list ...string) func(*generator, *request) bool {
	return func(d *generator, r *request) bool {
		r.way.garbled = true
		return with(list...)(d, r)
	}
}

var headerTricks = []trick{
	{"conditions and ranges", 4, with(
		"Range: bytes=0-1", "Range: bytes=-1,0-,5-2", "If-Range: x", "If-None-Match: *", `If-Match: "x"`,
		"If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
	)},
	{"negotiation", 5, with(
		"Accept: text/plain", "Accept: text/plain;q=0", "Accept: "+streamType, "Accept: */*;q=x", "Accept: "+strings.Repeat("a/b,", 5000),
		"Accept-Encoding: gzip", "Accept-Encoding: gzip;q=0,*;q=1", "Accept-Encoding: "+strings.Repeat("gzip,", 5000), "Accept-Charset: utf-7",
		"Accept-Language: x", "Last-Event-ID: 0", "Last-Event-ID: 18446744073709551615", "Last-Event-ID: x",
	)},
	{"proxies", 3, with(
		"X-Forwarded-For: ::1, x", "X-Forwarded-Host: elsewhere.example", "X-Forwarded-Proto: https", "Forwarded: for=_;;",
		"X-HTTP-Method-Override: DELETE", "X-Original-URL: /metrics", "Via: 1.1 x", "Upgrade-Insecure-Requests: 1",
	)},
	{"page of another origin", 2, with("Origin: https://elsewhere.example", "Origin: null", "Sec-Fetch-Site: cross-site")},
	{"headers too long", 1, garbled("X: "+strings.Repeat("x", 70_000), strings.Repeat("X", 70_000)+": x", "Cookie: "+strings.Repeat("a=b; ", 20_000))},
	{"odd header", 4, garbled(
		"X\x00: x", "X Y: x", ": x", " X: folded", "X: a\rb", "X: a\n b", "Host: a/b", "Host: ", "Host: a, b", "Expect: x", "Authorization: \xff",
		"Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity", "Transfer-Encoding:  chunked", "TE: trailers", "Trailer: Content-Length",
		"Connection: close, keep-alive, Content-Type", "Connection: upgrade", "Upgrade: h2c", "Upgrade: websocket",
	)},
	{"odd text in a header", 4, func(d *generator, r *request) bool {
		r.way.garbled = true
		r.header = append(r.header, field{pick(d, "Idempotency-Key", "Prefer", "Accept", "X"), pick(d, texts...)})
		return true
	}},
	{"repeated header", 3, func(d *generator, r *request) bool {
		name := pick(d, "Content-Type", "Prefer", "Idempotency-Key", "Accept", "Content-Encoding", "X", "Cookie", "Authorization")
		for range pick(d, 2, 3, 100, 500) {
			r.header = append(r.header, field{name, pick(d, "a", jsonType, "gzip", "return=minimal", "Bearer x", "")})
		}
		return true
	}},
	{"odd content type", 3, func(d *generator, r *request) bool {
		i := slices.IndexFunc(r.header, func(f field) bool { return f.name == "Content-Type" })
		if i < 0 {
			return false
		}
		media := r.op.media
		r.header[i].value = pick(d, media+"; charset=utf-16", media+"; charset=latin-1", media+"; boundary=\"", strings.ToUpper(media), media+";;;",
			media+", text/plain", " "+media+" ", media+"; "+strings.Repeat("a=b; ", 1000))
		return true
	}},
	{"conflicting lengths", 3, func(d *generator, r *request) bool {
		n := strconv.Itoa(len(r.body))
		for _, length := range pick(d, []string{n, n}, []string{n, "0"}, []string{"0", n}, []string{"-1"}, []string{"+" + n}, []string{n + "," + n},
			[]string{"99999999999999999999"}, []string{"0x10"}, []string{""}, []string{n + " "}) {
			r.header = append(r.header, field{"Content-Length", length})
		}
		if d.chance(3) {
			r.header = append(r.header, field{"Transfer-Encoding", "chunked"})
		}
		r.way.garbled = true
		return true
	}},
}
