package hostile_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// generator generates random requests. It must be used by only one goroutine.
type generator struct {
	*rand.Rand
	contract    *contract
	seen        *memory
	credentials *credentials // nil if the server requires no authentication
	ledger      string       // ledger that the current request addresses
}

// chance returns true with a probability of 1/n.
func (d *generator) chance(n int) bool { return d.IntN(n) == 0 }

// pick returns a random element of a list.
func pick[T any](d *generator, list ...T) T { return list[d.IntN(len(list))] }

// value returns a random value for a member with the given name and schema. The value has the shape
// that the schema requires, but can violate other conditions, such as "not". The method body checks
// them, and generates another value if necessary.
func (d *generator) value(s *openapi3.Schema, name string, depth int) *value {
	s = flat(s)
	switch {
	case s.Nullable && d.chance(12):
		return scalar(s, "null")
	case len(s.Enum) > 0:
		return valueOf(s, pick(d, s.Enum...))
	case len(s.OneOf) > 0:
		return d.value(pick(d, s.OneOf...).Value, name, depth)
	case s.Type.Is("object"):
		return d.object(s, depth)
	case s.Type.Is("array"):
		return d.array(s, name, depth)
	case s.Type.Is("string"):
		return scalar(s, quote(d.text(s, name)))
	case s.Type.Is("integer"):
		return scalar(s, d.integer(s, name))
	case s.Type.Is("number"):
		return scalar(s, d.number(s))
	case s.Type.Is("boolean"):
		return scalar(s, pick(d, "true", "false"))
	}
	return d.free(depth)
}

func (d *generator) object(s *openapi3.Schema, depth int) *value {
	v := &value{schema: s, open: '{'}
	required := s.Required
	for _, more := range s.AnyOf { // each alternative only lists required members
		if len(s.AnyOf) == 1 || d.chance(len(s.AnyOf)) {
			required = slices.Concat(required, more.Value.Required)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(required, name) || depth < 6 && d.chance(3) {
			v.set(name, d.value(s.Properties[name].Value, name, depth+1))
		}
	}
	switch extra := s.AdditionalProperties; {
	case extra.Schema != nil:
		for range d.IntN(4) {
			v.set(pick(d, words...), d.value(extra.Schema.Value, "", depth+1))
		}
	case len(s.Properties) == 0 && (extra.Has == nil || *extra.Has):
		for range d.IntN(4) {
			v.set(pick(d, words...), d.free(depth+1))
		}
	}
	d.Shuffle(len(v.members), func(i, j int) { v.members[i], v.members[j] = v.members[j], v.members[i] })
	return v
}

func (d *generator) array(s *openapi3.Schema, name string, depth int) *value {
	v := &value{schema: s, open: '['}
	for range int(s.MinItems) + d.IntN(4) {
		item := d.value(s.Items.Value, strings.TrimSuffix(name, "es"), depth+1)
		same := func(w *value) bool { return w.String() == item.String() }
		if !s.UniqueItems || !slices.ContainsFunc(v.items, same) {
			v.items = append(v.items, item)
		}
	}
	return v
}

// free returns a random JSON value that does not follow any schema. The deeper the value is nested,
// the fewer arrays and objects it contains.
func (d *generator) free(depth int) *value {
	v := &value{}
	switch d.IntN(8 - min(depth, 6)) { // never an array or object if the value is deeply nested
	case 0:
		v.text = pick(d, "null", "true", "false")
	case 1:
		v.text = quote(pick(d, words...))
	case 2, 3:
		v.text = pick(d, "0", "-1", "7", "0.25", "1e-7", "123456789012345678901234567890")
	case 4, 5:
		v.open = '['
		for range d.IntN(3) {
			v.items = append(v.items, d.free(depth+1))
		}
	default:
		v.open = '{'
		for range d.IntN(3) {
			v.set(pick(d, words...), d.free(depth+1))
		}
	}
	return v
}

// words lists names and texts for records, in several scripts, including characters that have a
// special meaning in other formats.
var words = []string{
	"a", "b", "step", "dialogue", "harrow-vale", "tavern", "model:7b", "question/311", "O'Brien", "naïve", "Straße", "日本語",
	"שלום", "🜁", "two words", "tab\there", "line\nbreak", "=1+1", "<b>bold</b>", "100%", "a&b=c", "semi;colon", "~tilde/slash",
}

// text returns a random text that is valid under a schema.
func (d *generator) text(s *openapi3.Schema, name string) string {
	if !d.chance(3) {
		if seen, ok := d.seen.recall(d.Rand, d.ledger, names(name)...); ok && s.VisitJSON(seen) == nil {
			return seen
		}
	}
	if example, isText := s.Example.(string); isText && d.chance(2) {
		return example
	}
	switch {
	case s.Format == "date-time":
		return d.time()
	case s.Pattern != "":
		return rapid.StringMatching(s.Pattern).Example(d.Int())
	}
	text := pick(d, words...)
	if d.chance(3) {
		text += "-" + strconv.Itoa(d.IntN(1000))
	}
	if s.MaxLength != nil {
		text = strings.ToValidUTF8(text[:min(len(text), int(*s.MaxLength))], "")
	}
	return text
}

// suitableNames maps a parameter or member to the members whose values can be used for it.
var suitableNames = map[string][]string{
	"id": {"producer"}, "key": {"cache_key"}, "hash": {"event_hash", "chunk_hash"}, "value": {"value", "input_hash", "model"},
	"a": {"seq", "model"}, "b": {"seq", "model"}, "first": {"tree_size", "seq"}, "second": {"tree_size"}, "as_of": {"tree_size", "as_of"},
	"after": {"seq"}, "from": {"seq"}, "outputs_cursor": {"outputs_next"}, "stage": {"stage"}, "Idempotency-Key": {"run_id"},
}

func names(name string) []string {
	if known := suitableNames[name]; known != nil {
		return known
	}
	return []string{name}
}

func (d *generator) time() string {
	t := time.Now().Add(time.Duration(d.Int64N(int64(200*time.Hour))) - 100*time.Hour)
	zone := time.FixedZone("", 60*(d.IntN(24*60)-12*60))
	return t.In(pick(d, time.UTC, zone)).Format(pick(d, time.RFC3339, time.RFC3339Nano))
}

func (d *generator) integer(s *openapi3.Schema, name string) string {
	if !d.chance(3) {
		if seen, ok := d.seen.recall(d.Rand, d.ledger, names(name)...); ok && allows(s, []byte(seen)) {
			return seen
		}
	}
	low, width := 0, 100
	if s.Min != nil {
		low = int(*s.Min)
	}
	if s.Max != nil && *s.Max < 1e6 {
		width = int(*s.Max) - low + 1
	}
	if d.chance(4) {
		width = min(width, 3)
	}
	return strconv.Itoa(low + d.IntN(width))
}

func (d *generator) number(s *openapi3.Schema) string {
	high := 2.0
	if s.Max != nil {
		high = *s.Max
	}
	return pick(d, "0", "1", "0.5", "1.0", fmt.Sprint(d.Float64()*high), "2.5e-1")
}

// body returns a random request body that the contract allows: a varied example or a value
// generated from the schema. If a generated value combines members that exclude each other, body
// tries again.
func (d *generator) body(op *operation) *value {
	for range 8 {
		v := d.value(op.body, "", 0)
		if d.chance(2) {
			v = d.varied(valueOf(op.body, pick(d, op.examples...)))
		}
		if allows(op.body, v.appendTo(nil)) {
			return v
		}
	}
	return valueOf(op.body, pick(d, op.examples...))
}

// varied replaces up to three scalar values of an example with random values that their schemas
// allow, and gives each record a random run_id.
func (d *generator) varied(v *value) *value {
	for range d.IntN(4) {
		w := v.one(d.Rand, func(w *value) bool { return w.open == 0 && w.schema != nil })
		if w != nil {
			*w = *d.value(w.schema, "", 6)
		}
	}
	for _, w := range v.all() {
		if w.schema != nil && w.schema.Properties["run_id"] != nil {
			w.set("run_id", scalar(w.schema.Properties["run_id"].Value, quote(fmt.Sprintf("run-%d", d.IntN(1<<30)))))
		}
	}
	return v
}
