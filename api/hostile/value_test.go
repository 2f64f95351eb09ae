package hostile_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// value is a parsed JSON text. It can be changed into text that no encoder would write.
type value struct {
	schema *openapi3.Schema // schema of the value; nil if any value is allowed
	// open is '{' for an object, '[' for an array, and 0 for any other value.
	open    byte
	members []member // members of an object, in order; names can repeat
	items   []*value // elements of an array
	text    string   // JSON text of any other value
}

// member is a member of an object. Its name includes the quotes and is written unchanged.
type member struct {
	name  string
	value *value
}

func scalar(s *openapi3.Schema, text string) *value { return &value{schema: s, text: text} }

// quote returns text as a JSON string.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // never happens, because a string can always be encoded
	}
	return string(b)
}

func (v *value) String() string { return string(v.appendTo(nil)) }

func (v *value) appendTo(b []byte) []byte {
	switch v.open {
	case '{':
		b = append(b, '{')
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, m.name...), ':')
			b = m.value.appendTo(b)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendTo(b)
		}
		return append(b, ']')
	}
	return append(b, v.text...)
}

// all returns v and all values nested in it.
func (v *value) all() []*value {
	list := []*value{v}
	for _, m := range v.members {
		list = append(list, m.value.all()...)
	}
	for _, item := range v.items {
		list = append(list, item.all()...)
	}
	return list
}

// one returns a random value for which fit returns true, chosen from v and the values nested in it.
// It returns nil if no value fits.
func (v *value) one(r *rand.Rand, fit func(*value) bool) *value {
	list := slices.DeleteFunc(v.all(), func(w *value) bool { return !fit(w) })
	if len(list) == 0 {
		return nil
	}
	return list[r.IntN(len(list))]
}

// set sets the member with the given name, adding it if it does not exist.
func (v *value) set(name string, to *value) {
	for i := range v.members {
		if v.members[i].name == quote(name) {
			v.members[i].value = to
			return
		}
	}
	v.members = append(v.members, member{quote(name), to})
}

// valueOf converts an example, decoded from JSON, to a value with schema s.
func valueOf(s *openapi3.Schema, example any) *value {
	if s != nil {
		s = alternative(flat(s), example)
	}
	v := &value{schema: s}
	switch e := example.(type) {
	case map[string]any:
		v.open = '{'
		for name, of := range e {
			v.members = append(v.members, member{quote(name), valueOf(schemaOf(s, name), of)})
		}
		slices.SortFunc(v.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	case []any:
		v.open = '['
		for _, of := range e {
			var items *openapi3.Schema
			if s != nil && s.Items != nil {
				items = s.Items.Value
			}
			v.items = append(v.items, valueOf(items, of))
		}
	default:
		text, err := json.Marshal(e)
		if err != nil {
			panic(err) // never happens, because example was decoded from JSON
		}
		v.text = string(text)
	}
	return v
}

// alternative returns the first alternative in s.OneOf that allows v, or s itself if none does.
func alternative(s *openapi3.Schema, v any) *openapi3.Schema {
	for _, one := range s.OneOf {
		if one.Value.VisitJSON(v, openapi3.FailFast()) == nil {
			return flat(one.Value)
		}
	}
	return s
}

// schemaOf returns the schema of the named member of s, or nil if the member can have any value.
func schemaOf(s *openapi3.Schema, name string) *openapi3.Schema {
	switch {
	case s == nil:
		return nil
	case s.Properties[name] != nil:
		return flat(s.Properties[name].Value)
	case s.AdditionalProperties.Schema != nil:
		return flat(s.AdditionalProperties.Schema.Value)
	}
	return nil
}
