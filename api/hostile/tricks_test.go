package hostile_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// trick is one way to make a request hostile. weight is the trick's relative frequency. make
// returns false if the trick does not apply to the request.
type trick struct {
	name   string
	weight int
	make   func(d *generator, r *request) bool
}

// hostile returns a random hostile request for op.
func (d *generator) hostile(op *operation) *request {
	for {
		r := d.valid(op)
		r.class = hostile
		list := slices.Concat(targetTricks, headerTricks, wireTricks)
		if op.media == linesType {
			list = slices.Concat(list, batchTricks, batchTricks)
		}
		if op.body != nil {
			list = slices.Concat(list, bodyTricks, bodyTricks)
		}
		t := d.weighed(list)
		if t.make(d, r) {
			r.trick = t.name
			return r
		}
	}
}

func (d *generator) weighed(list []trick) trick {
	sum := 0
	for _, t := range list {
		sum += t.weight
	}
	n := d.IntN(sum)
	for _, t := range list {
		if n -= t.weight; n < 0 {
			return t
		}
	}
	panic("unreachable: the random number is below the sum of the weights")
}

// texts lists texts that no honest client sends. The test fails if one of them injects a header
// into an answer, or puts control characters into the server's log.
var texts = []string{
	"", " ", "\x00", "a\x00b", "\xff\xfe", "\xc0\xaf", "\xed\xa0\x80", "\u202etxt.exe", "\u200b", "\ufeff", "\u2028", "A\u0301\u0327",
	"\r\nInjected: yes\r\n", "\n\n", "\x1b[2J\x1b]0;title\x07", "\x7f\x08", "=cmd|' /C calc'!A1", "@SUM(1+1)", "+1+1", "-1+1",
	"<script>alert(1)</script>", "\"><img src=x>", "]]>", "<!--", "{{7*7}}", "${7*7}", "%s%n%d", "%00", "%2e%2e%2f", "../../../etc/shadow",
	"..\\..\\", "/", "//", ".", "..", "~", "' OR 1=1 --", "; DROP TABLE x", "|id", "$(id)", "`id`", "null", "undefined", "NaN", "-0", "0x10",
	"1e309", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "__proto__", "constructor", "/~0~1", "~2", "\\", "\\u0000",
	"İ", "ΑΣ", "ß", "ﬁ", "\U0001f468\u200d\U0001f469", strings.Repeat("\u0315", 64), strings.Repeat("a", 1025), strings.Repeat("é", 5000),
}

// tokens lists valid and invalid JSON tokens that no encoder would write.
var tokens = []string{
	"1e999999999", "-1e999999999", "1e-999999999", "1E400", "0e0", "-0", "-0.0", "00", "01", "+1", ".5", "5.", "1e", "1e+", "--1", "0x10",
	"1_000", "NaN", "Infinity", "-Infinity", "nan", "True", "None", "undefined", "9223372036854775807", "9223372036854775808",
	"-9223372036854775809", "18446744073709551615", "18446744073709551616", "340282366920938463463374607431768211456",
	"0.1000000000000000055511151231257827", "1.0", "1e0", "1e5", "2.5", `"\ud800"`, `"\udc00"`, `"\udc00\ud800"`, `"\ud83d\ude00"`,
	`"\ud800x"`, `"\u0000"`, `"\u0000\u001f\u007f"`, `"\x00"`, `"\'"`, `"\u12"`, `"\u{41}"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"",
	"\"\xf4\x90\x80\x80\"", "\"\n\"", "\"\t\"", "\"\x00\"", `"unfinished`, "'single'", "//", "/* */ 1", "\u00a01", "\v1", "tru", "nul",
	"nullnull", "[", "{", "]", "}", ",", ":", `""""`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\ud800":1,"\udfff":2}`, `{"":{"":{"":1}}}`,
	"[,]", "{,}", "[1,]", `{"a":}`, `{1:2}`,
}

// large returns a random JSON text that is long or deeply nested. Very long texts are rare.
func (d *generator) large() string {
	n := pick(d, 100, 1000, 10_000)
	if d.chance(25) {
		n = pick(d, 100_000, 1_000_000)
	}
	deep := pick(d, 100, 505, 511, 512, 513, 600, n)
	switch d.IntN(10) {
	case 0:
		return strings.Repeat("[", deep) + strings.Repeat("]", deep)
	case 1:
		return strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep)
	case 2:
		return strings.Repeat("[", n)
	case 3:
		return "[" + strings.Repeat("0,", n) + "0]"
	case 4:
		return pick(d, "", "-", "0.") + strings.Repeat("9", pick(d, 17, 309, 4300, 4301, n)) + pick(d, "", "e5", "e-99999", ".5")
	case 5:
		return quote(strings.Repeat(pick(d, "x", "é", "\\", "\"", "\u0301", "[[a]](b)", " \n", "the "), n))
	case 6:
		return `"` + strings.Repeat(pick(d, `\u0041`, `\ud800`, `\n`), n) + `"`
	case 7:
		return d.wide(n)
	case 8:
		return `[` + strings.Repeat(`{"a":[`, deep/2) + strings.Repeat(`]}`, deep/2) + `]`
	}
	return strings.Repeat(pick(d, " ", "\n", "\t"), n) + "1"
}

// wide returns an object with n members, capped at 50,000, with similar names in random order.
func (d *generator) wide(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range min(n, 50_000) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%s%d":0`, strings.Repeat("n", 20), d.Int32())
	}
	b.WriteByte('}')
	return b.String()
}

var bodyTricks = []trick{
	{"odd text in the body", 10, bent(func(d *generator, v *value) {
		v.text = quote(pick(d, texts...))
	})},
	{"odd token in the body", 10, bent(func(d *generator, v *value) {
		v.text = pick(d, tokens...)
	})},
	{"large value in the body", 4, bent(func(d *generator, v *value) {
		v.text = d.large()
	})},
	{"odd name in the body", 4, func(d *generator, r *request) bool {
		v := d.root(r)
		if v == nil {
			return false
		}
		if v = v.one(d.Rand, func(v *value) bool { return v.open == '{' }); v == nil {
			return false
		}
		name := pick(d, quote(pick(d, texts...)), pick(d, tokens...), quote(strings.Repeat("n", pick(d, 129, 5000, 200_000))))
		v.members = append(v.members, member{name, scalar(nil, pick(d, tokens...))})
		r.write()
		return true
	}},
	{"large body", 2, func(d *generator, r *request) bool {
		r.body = []byte(d.large())
		return true
	}},
	{"body too long", 1, func(d *generator, r *request) bool {
		if !d.chance(8) {
			return false
		}
		r.body = slices.Concat([]byte(`{"a":"`), []byte(strings.Repeat("x", pick(d, 8<<20-8, 8<<20, 9<<20))), []byte(`"}`))
		return true
	}},
	{"noise for a body", 3, func(d *generator, r *request) bool {
		r.body = make([]byte, d.IntN(2000))
		for i := range r.body {
			r.body[i] = byte(d.Uint32())
		}
		return true
	}},
	{"flipped bytes", 6, func(d *generator, r *request) bool {
		for range 1 + d.IntN(4) {
			if len(r.body) > 0 {
				r.body[d.IntN(len(r.body))] ^= 1 << d.IntN(8)
			}
		}
		return len(r.body) > 0
	}},
}

// bent returns a trick that uses bend to change one value of a body, usually a scalar that has a
// schema.
func bent(bend func(*generator, *value)) func(*generator, *request) bool {
	return func(d *generator, r *request) bool {
		root := d.root(r)
		if root == nil {
			return false
		}
		v := root.one(d.Rand, func(v *value) bool { return v.schema != nil && v.open == 0 })
		if v == nil || d.chance(5) {
			v = root.one(d.Rand, func(*value) bool { return true })
		}
		v.open, v.members, v.items = 0, nil, nil
		bend(d, v)
		r.write()
		return true
	}
}

var targetTricks = []trick{
	{"odd text in the query", 8, func(d *generator, r *request) bool {
		name := "x"
		if p, ok := d.parameterOf(r.op, "query"); ok {
			name = p.Name
		}
		r.query = append(slices.DeleteFunc(r.query, func(f field) bool { return f.name == name }), field{name, pick(d, texts...)})
		return true
	}},
	{"cursor of elsewhere", 8, func(d *generator, r *request) bool {
		if !slices.ContainsFunc(r.op.parameters, func(p *openapi3.Parameter) bool { return p.Name == "cursor" }) {
			return false
		}
		cursor, ok := d.seen.recall(d.Rand, pick(d, ledgers...), "next", "outputs_next")
		if !ok {
			return false
		}
		if d.chance(2) {
			raw, _ := base64.RawURLEncoding.DecodeString(cursor)
			cursor = base64.RawURLEncoding.EncodeToString(d.damaged(raw))
		}
		r.query = append(r.query, field{pick(d, "cursor", "cursor", "cursor", "outputs_cursor"), cursor})
		return true
	}},
	{"many query parameters", 1, func(d *generator, r *request) bool {
		for i := range pick(d, 10, 100, 1000, 5000) {
			r.query = append(r.query, field{pick(d, "a", "limit", "label:"+strconv.Itoa(i)), "1"})
		}
		return true
	}},
	{"odd query", 4, func(d *generator, r *request) bool {
		r.target = r.url() + pick(d,
			"?", "??", "?&&&", "?=", "?a", "?limit", "?limit=", "?a;b", "?%zz=1", "?limit=%zz", "?limit=1%00", "?%", "?limit=1#x",
			"?limit=+1", "?\xff=\xff", "?limit[]=1", "?"+strings.Repeat("a", 60_000),
		)
		r.query, r.way.garbled = nil, true
		return true
	}},
	{"odd path element", 8, func(d *generator, r *request) bool {
		parts := strings.Split(r.target, "/")
		parts[1+d.IntN(len(parts)-1)] = pick(d,
			"%00", "%ff%fe", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fshadow", "..", ".", "", "%", "%zz", "%2", "%252e%252e", "%u002e", "a%2fb",
			"%5c..%5c", ";x=1", "1;2", "-1", "1e3", "18446744073709551616", "%0d%0aInjected:%20yes", "%1b[2J", "%e2%80%ae",
			strings.Repeat("a", 30_000), strings.Repeat("%2f", 500), "*", ":seq", "{seq}", "%ED%A0%80",
		)
		r.target, r.query, r.way.garbled = strings.Join(parts, "/"), nil, true
		return true
	}},
	{"odd path", 4, func(d *generator, r *request) bool {
		r.target = pick(d,
			"/..", "//", "/./"+r.target, r.target+"/", r.target+"/..", r.target+"//", "/v1/../v1"+r.target,
			"/v1/ledgers/default/log/tile/../../../../etc/shadow", "/v1/ledgers/default/log/tile/entries/000.p/256",
			"/v1/ledgers/default/log/tile/63/x999/x999/x999/x999/x999/x999/999", "/v1/ledgers/default/log/tile/0/x000/000",
			"/v1/ledgers/default/records/1/content/../../../x", "http://elsewhere.example"+r.target, "http://localhost"+r.target, "*",
			"localhost:80", r.target[1:], "/favicon.ico", "/.git/config", "/v2", "/V1/LEDGERS", "/debug/pprof/", "/"+strings.Repeat("a/",
				2000),
		)
		r.query, r.way.garbled = nil, true
		return true
	}},
	{"other method", 8, func(d *generator, r *request) bool {
		r.method = pick(d,
			http.MethodHead, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodPatch, http.MethodDelete,
			http.MethodPost, http.MethodGet, "BREW", "get", "PROPFIND", "CONNECT", "M-SEARCH", "", "G\x00T", strings.Repeat("A", 5000),
		)
		r.way.garbled = r.method != http.MethodHead
		return r.op.OperationID != "freezeLedger" && !strings.HasSuffix(r.target, "/freeze")
	}},
}

// damaged returns a copy of text with one to three random changes.
func (d *generator) damaged(text []byte) []byte {
	text = slices.Clone(text)
	for range 1 + d.IntN(3) {
		switch {
		case len(text) == 0 || d.chance(4):
			text = append(text, byte(d.Uint32()))
		case d.chance(4):
			text = text[:d.IntN(len(text))]
		default:
			text[d.IntN(len(text))] = byte(d.Uint32())
		}
	}
	return text
}
