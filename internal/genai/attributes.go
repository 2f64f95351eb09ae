package genai

import (
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"

	"colophon/ledger/record/pyjson"
)

// has reports whether the named attribute is present.
func (a attributes) has(name string) bool { return a[name] != nil }

// text returns the value of the first named attribute that can be written as text: a string, a
// number, a Boolean, or a list of strings. It joins the distinct strings of a list with commas. If
// there is no such attribute, it returns "".
func (a attributes) text(names ...string) string {
	for _, name := range names {
		if text := textOf(a[name]); text != "" {
			return text
		}
	}
	return ""
}

func textOf(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_ArrayValue:
		var list []string
		for _, e := range v.ArrayValue.GetValues() {
			if text := e.GetStringValue(); text != "" && len(list) < 8 && !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
		return strings.Join(list, ",")
	}
	return ""
}

// number returns, as a JSON token, the first named attribute that is a number or a string that
// contains one. It writes a number without a fractional part as an integer, because JavaScript
// exporters do not distinguish integers from other numbers.
func (a attributes) number(names ...string) (token string) {
	for _, name := range names {
		switch v := a[name].GetValue().(type) {
		case *commonpb.AnyValue_IntValue:
			return strconv.FormatInt(v.IntValue, 10)
		case *commonpb.AnyValue_DoubleValue:
			if token := appendNumber(nil, v.DoubleValue); token != nil {
				return string(token)
			}
		case *commonpb.AnyValue_StringValue:
			if token := numberOf(v.StringValue); token != "" {
				return token
			}
		}
	}
	return ""
}

// numberOf returns the number in a text as a JSON token, or "" if the text is not a number.
func numberOf(text string) string {
	text = strings.TrimSpace(text)
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(i, 10)
	}
	if digits := strings.TrimPrefix(text, "-"); len(digits) <= maxDigits && digits != "" && digits[0] != '0' && strings.Trim(digits, "0123456789") == "" {
		return text // does not fit in 64 bits
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return ""
	}
	return string(appendNumber(nil, f))
}

// maxDigits is the maximum length of an integer in a text. Such an integer is within the range of a
// double, as a temperature must be.
const maxDigits = 308

// maxExact is the absolute value below which a double without a fractional part is written as an
// integer.
const maxExact = 1 << 53

// appendNumber appends f as a JSON token. It returns nil if f is NaN or infinite.
func appendNumber(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil
	case f == math.Trunc(f) && math.Abs(f) < maxExact:
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return pyjson.AppendFloat(dst, f)
}

// integer is like number, but writes an integer as all of its digits, and returns "" if the number
// is not an integer. If count is true, it also returns "" for a negative number, because -1 stands
// for no limit.
func (a attributes) integer(count bool, names ...string) string {
	return asInteger(a.number(names...), count)
}

func asInteger(token string, count bool) string {
	if count && strings.HasPrefix(token, "-") {
		return ""
	}
	if strings.ContainsAny(token, ".eE") {
		f, err := strconv.ParseFloat(token, 64)
		if err != nil || f != math.Trunc(f) {
			return ""
		}
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return token
}

var errDepth = errors.New("an attribute is nested more than " + strconv.Itoa(MaxAttributeDepth) + " levels deep")

// appendAny appends a value as JSON. Bytes become base64; NaN and infinity become strings.
func appendAny(dst []byte, v *commonpb.AnyValue, depth int) ([]byte, error) {
	if depth > MaxAttributeDepth {
		return dst, errDepth
	}
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return pyjson.AppendString(dst, []byte(v.StringValue)), nil
	case *commonpb.AnyValue_BoolValue:
		return strconv.AppendBool(dst, v.BoolValue), nil
	case *commonpb.AnyValue_IntValue:
		return strconv.AppendInt(dst, v.IntValue, 10), nil
	case *commonpb.AnyValue_DoubleValue:
		if token := appendNumber(dst, v.DoubleValue); token != nil {
			return token, nil
		}
		return pyjson.AppendString(dst, strconv.AppendFloat(nil, v.DoubleValue, 'g', -1, 64)), nil
	case *commonpb.AnyValue_BytesValue:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.BytesValue)
		return append(dst, '"'), nil
	case *commonpb.AnyValue_ArrayValue:
		dst = append(dst, '[')
		for i, e := range v.ArrayValue.GetValues() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendAny(dst, e, depth+1); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case *commonpb.AnyValue_KvlistValue:
		return appendObject(dst, v.KvlistValue.GetValues(), depth+1, nil)
	}
	return append(dst, "null"...), nil
}

// appendObject appends a list of keys and values as a JSON object. If a key occurs twice, its first
// value is used. If rename is not nil, it maps each key to the name of the member, or to "" to omit
// the member.
func appendObject(dst []byte, list []*commonpb.KeyValue, depth int, rename func(string) string) ([]byte, error) {
	dst = append(dst, '{')
	seen := make(map[string]bool, len(list))
	for _, kv := range list {
		name := kv.GetKey()
		if rename != nil {
			if name = rename(name); name == "" {
				continue
			}
		}
		if seen[name] {
			continue
		}
		if len(seen) > 0 {
			dst = append(dst, ',')
		}
		seen[name] = true
		dst = append(pyjson.AppendString(dst, []byte(name)), ':')
		var err error
		if dst, err = appendAny(dst, kv.GetValue(), depth); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// contentName is the attribute in which some libraries send the whole body of a message event.
const contentName = "gen_ai.event.content"

// appendEventMessage appends the message of an event as JSON.
func appendEventMessage(dst []byte, list []*commonpb.KeyValue) ([]byte, error) {
	for _, kv := range list {
		if text := kv.GetValue().GetStringValue(); kv.GetKey() == contentName && text != "" {
			return append(dst, text...), nil
		}
	}
	// Some libraries prefix the names of members, for example gen_ai.message.content.
	return appendObject(dst, list, 0, func(name string) string {
		name = strings.TrimPrefix(name, "gen_ai.message.")
		if strings.Contains(name, ".") {
			return "" // an attribute of the generation, not of the message
		}
		return name
	})
}

// appendLogMessage appends the message of a log record as JSON.
func appendLogMessage(dst []byte, record *logspb.LogRecord) ([]byte, error) {
	switch body := record.GetBody(); body.GetValue().(type) {
	case nil:
		return appendEventMessage(dst, record.GetAttributes())
	case *commonpb.AnyValue_StringValue:
		if text := body.GetStringValue(); strings.HasPrefix(text, "{") {
			return append(dst, text...), nil
		}
		return appendAny(dst, body, 0)
	default:
		return appendAny(dst, body, 0)
	}
}

// maxSegments is the maximum number of dot-separated segments that may follow the prefix
// in the name of an indexed attribute.
const maxSegments = 16

// node is a node of the tree that results from splitting the names of attributes at their dots.
type node struct {
	value    *commonpb.AnyValue
	children map[string]*node
}

// indexed returns, as a JSON array, the attributes whose names consist of prefix, an index, and
// further segments. For example, prefix.0.content becomes the member content of element 0. It
// returns nil if there are no such attributes.
func (a attributes) indexed(prefix string) ([]byte, error) {
	root := new(node)
	for name, v := range a {
		rest, ok := strings.CutPrefix(name, prefix+".")
		if !ok || rest == "" || rest[0] < '0' || rest[0] > '9' {
			continue
		}
		segments := strings.SplitN(rest, ".", maxSegments+1)
		if len(segments) > maxSegments {
			continue
		}
		n := root
		for _, s := range segments {
			if n.children == nil {
				n.children = make(map[string]*node)
			}
			if n.children[s] == nil {
				n.children[s] = new(node)
			}
			n = n.children[s]
		}
		n.value = v
	}
	if root.children == nil {
		return nil, nil
	}
	return root.append(nil)
}

func (n *node) append(dst []byte) ([]byte, error) {
	if n.children == nil {
		return appendAny(dst, n.value, 0)
	}
	names := make([]string, 0, len(n.children))
	array := true
	for name := range n.children {
		_, err := strconv.ParseUint(name, 10, 32)
		array = array && err == nil
		names = append(names, name)
	}
	begin, end := byte('{'), byte('}')
	slices.Sort(names)
	if array {
		begin, end = '[', ']'
		slices.SortFunc(names, func(x, y string) int { return index(x) - index(y) })
	}
	dst = append(dst, begin)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !array {
			dst = append(pyjson.AppendString(dst, []byte(name)), ':')
		}
		var err error
		if dst, err = n.children[name].append(dst); err != nil {
			return dst, err
		}
	}
	return append(dst, end), nil
}

func index(name string) int {
	i, _ := strconv.ParseUint(name, 10, 32) // node.append has checked that the name is a number
	return int(i)
}

// parser parses JSON texts. The values that it returns are valid until reset is called.
type parser struct {
	documents []*pyjson.Document
	used      int
}

func (p *parser) reset() {
	for _, d := range p.documents[:p.used] {
		d.Reset()
	}
	p.used = 0
}

// parse returns the value of a JSON text. ok is false if the text is not JSON or contains an object
// in which two members have the same name.
func (p *parser) parse(text []byte) (v pyjson.Value, ok bool) {
	if p.used == len(p.documents) {
		p.documents = append(p.documents, new(pyjson.Document))
	}
	d := p.documents[p.used]
	if d.Parse(text) != nil {
		d.Reset()
		return v, false
	}
	p.used++
	return d.Root(), true
}

// value returns the parsed value of an attribute. A string is parsed if it is a JSON array or
// object; ok is false for any other string.
func (r *Reader) value(v *commonpb.AnyValue) (parsed pyjson.Value, ok bool, err error) {
	if v, isText := v.GetValue().(*commonpb.AnyValue_StringValue); isText {
		if trimmed := strings.TrimLeft(v.StringValue, " \t\r\n"); !strings.HasPrefix(trimmed, "[") && !strings.HasPrefix(trimmed, "{") {
			return parsed, false, nil
		}
		parsed, ok = r.parser.parse([]byte(v.StringValue))
		return parsed, ok, nil
	}
	text, err := appendAny(nil, v, 0)
	if err != nil {
		return parsed, false, err
	}
	parsed, ok = r.parser.parse(text)
	return parsed, ok, nil
}
