package hostile_test

import (
	"fmt"
	"strings"
)

var wireTricks = []trick{
	{"HTTP/1.0 and others", 4, func(d *generator, r *request) bool {
		r.proto = pick(d, "HTTP/1.0", "HTTP/1.0", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/3", "HTTP/1.1 ", "http/1.1", "", "HTTP/9999999999.1")
		r.way.garbled = r.proto != "HTTP/1.0"
		return true
	}},
	{"Expect: 100-continue", 2, with("Expect: 100-continue", "Expect: 100-Continue")},
	{"in pieces", 4, func(d *generator, r *request) bool {
		r.way.parts = 2 + d.IntN(6)
		return true
	}},
	{"cut off", 4, func(d *generator, r *request) bool {
		r.way.send = 1 + d.IntN(len(r.text()))
		r.way.garbled = true
		return true
	}},
	{"gone before the answer", 4, func(d *generator, r *request) bool {
		r.way.leave = true
		if d.chance(2) {
			r.way.send = 1 + d.IntN(len(r.text()))
		}
		return true
	}},
	{"chunked", 4, func(d *generator, r *request) bool {
		r.header = append(r.header, field{"Transfer-Encoding", "chunked"})
		r.body = d.chunks(r.body)
		return true
	}},
	{"bad chunks", 3, func(d *generator, r *request) bool {
		r.header = append(r.header, field{"Transfer-Encoding", "chunked"})
		text := string(d.chunks(r.body))
		r.body = []byte(pick(d,
			"-1\r\n", "FFFFFFFFFFFFFFFFF\r\n", "7fffffffffffffff\r\nx", "x\r\n", strings.Repeat("0", 5000)+"\r\n\r\n",
			"1;"+strings.Repeat("e", 20_000)+"\r\nx\r\n0\r\n\r\n", strings.Repeat("1\r\n \r\n", 3000)+"0\r\n\r\n", text[:len(text)-2],
			strings.Replace(text, "\r\n", "\n", 1), text+"GET / HTTP/1.1\r\n\r\n", strings.TrimSuffix(text,
				"\r\n")+"Content-Length: 5\r\nInjected: yes\r\n\r\n",
		))
		r.way.garbled = true
		return true
	}},
	{"no HTTP", 3, func(d *generator, r *request) bool {
		whole := string(r.text())
		with := func(old, other string) string { return strings.Replace(whole, old, other, 1) }
		r.way.raw = []byte(pick(d,
			"\x00", "\r\n\r\n", "GET\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
			strings.ReplaceAll(whole, "\r\n", "\n"), "\r\n\r\n"+whole, strings.Repeat("A", 100_000), with("Host: localhost\r\n", ""),
			with("Host:", "Host :"), with(" ", "\t"), with(" ", "  "), with("\r\n", "\r\n\r\n"),
		))
		r.way.garbled = true
		return true
	}},
}

// chunks returns body in chunked transfer encoding, divided into chunks of random size.
func (d *generator) chunks(body []byte) []byte {
	var b []byte
	for len(body) > 0 {
		n := min(len(body), 1+d.IntN(len(body)/2+16))
		b = fmt.Appendf(b, "%x%s\r\n%s\r\n", n, pick(d, "", ";ext=1"), body[:n])
		body = body[n:]
	}
	return append(b, "0\r\n\r\n"...)
}
