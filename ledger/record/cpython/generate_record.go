package cpython

import "strings"

// String returns a random text of up to limit code points, as a JSON string. If strict is true, it
// has no lone surrogates.
func (g *Generator) String(limit int, strict bool) string {
	runes := g.Runes(limit)
	if strict {
		runes = []rune(strings.Map(dropSurrogates, string(runes)))
	}
	var b strings.Builder
	g.string(&b, runes)
	return b.String()
}

// dropSurrogates drops U+FFFD, which a conversion to string makes of each surrogate.
func dropSurrogates(r rune) rune {
	if r == '\uFFFD' {
		return -1
	}
	return r
}

// Value returns a random JSON value. No number in it is out of range, and no member name is
// repeated. If strict is true, its strings have no lone surrogates. depth limits how deeply it
// nests.
func (g *Generator) Value(depth int, strict bool) string {
	kind := g.IntN(6)
	if depth == 0 {
		kind = g.IntN(4)
	}
	var b strings.Builder
	switch kind {
	case 0:
		return g.oneOf("null", "true", "false", "0", "-0", "1.0", "0.1", "1e5")
	case 1:
		return g.digits(1 + g.IntN(25))
	case 2, 3:
		return g.String(12, strict)
	case 4:
		g.list(&b, "[", "]", func() { b.WriteString(g.Value(depth-1, strict)) })
	default:
		return g.Object(depth, strict)
	}
	return b.String()
}

// Object returns a random JSON object whose values Value returns.
func (g *Generator) Object(depth int, strict bool) string {
	var b strings.Builder
	names := make(map[string]bool)
	b.WriteByte('{')
	for range g.IntN(5) {
		name := string([]rune(strings.Map(dropSurrogates, string(g.Runes(4)))))
		if names[name] {
			continue
		}
		if len(names) > 0 {
			b.WriteByte(',')
		}
		names[name] = true
		g.string(&b, []rune(name))
		b.WriteString(": " + g.Value(depth-1, strict))
	}
	b.WriteByte('}')
	return b.String()
}

// Hash returns 64 random hexadecimal digits, as a JSON string.
func (g *Generator) Hash() string {
	const hexadecimal = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for range 64 {
		b.WriteByte(hexadecimal[g.IntN(len(hexadecimal))])
	}
	b.WriteByte('"')
	return b.String()
}

// OptionalMember returns `,"name":value` for one member of an object, or sometimes the same with null, or
// "".
func (g *Generator) OptionalMember(name string, value func() string) string {
	switch g.IntN(4) {
	case 0:
		return ""
	case 1:
		return `,"` + name + `":null`
	}
	return `,"` + name + `":` + value()
}

// Temperature returns a random JSON number within the range of a double.
func (g *Generator) Temperature() string {
	return g.oneOf("0", "-0", "1", "0.0", "-0.0", "0.7", "1e-5", "1.0", "2", "1e16", "0.30000000000000004", "123456789012345678901")
}
