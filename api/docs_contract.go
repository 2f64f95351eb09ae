package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// contract is what the page shows of openapi.yaml, in the order of the file.
// References are resolved, those to schemas excepted: they become links. Where
// one was resolved its Ref is kept.
type contract struct {
	Info struct{ Title, Version, Description string }
	// Servers, of which the first is the one in the curl snippets.
	Servers    []struct{ URL string }
	Tags       []struct{ Name, Description string }
	Paths      ordered[pathItem]
	Components struct {
		Schemas   ordered[schema]
		Responses ordered[response]
	}
}

type pathItem struct {
	Parameters []docParameter
	Get        *operation
	Post       *operation
	Put        *operation
	Delete     *operation
}

type operation struct {
	method      string
	Tags        []string
	OperationID string `yaml:"operationId"`
	// Irreversible: what it does, or what others see by it, cannot be taken back.
	Irreversible bool `yaml:"x-irreversible"`
	Summary      string
	Description  string
	Parameters   []docParameter
	RequestBody  *struct{ Content ordered[media] } `yaml:"requestBody"`
	Responses    ordered[response]
}

type docParameter struct {
	Name, In, Description string
	Required              bool
	Schema                schema
	Example               yaml.Node
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Headers     ordered[docParameter]
	Content     ordered[media]
}

type media struct {
	Schema   schema
	Example  yaml.Node
	Examples ordered[example]
}

type example struct {
	Summary string
	Value   yaml.Node
}

type schema struct {
	Ref                  string `yaml:"$ref"`
	Type, Format         string
	Description          string
	Nullable             bool
	Enum                 []yaml.Node
	Default              yaml.Node
	Minimum              string
	Maximum              string
	Items                *schema
	Properties           ordered[schema]
	Required             []string
	AdditionalProperties yaml.Node `yaml:"additionalProperties"`
	OneOf                []schema  `yaml:"oneOf"`
	AllOf                []schema  `yaml:"allOf"`
}

// ordered is a mapping that keeps its order.
type ordered[T any] []named[T]

type named[T any] struct {
	name  string
	value T
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *ordered[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: not a mapping", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		entry := named[T]{name: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&entry.value); err != nil {
			return err
		}
		*o = append(*o, entry)
	}
	return nil
}

func parseContract(text []byte) (*contract, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if len(root.Content) != 1 {
		return nil, fmt.Errorf("%d documents", len(root.Content))
	}
	if err := resolveRefs(root.Content[0], root.Content[0]); err != nil {
		return nil, err
	}
	c := new(contract)
	if err := root.Decode(c); err != nil {
		return nil, err
	}
	if len(c.Servers) == 0 {
		return nil, fmt.Errorf("no servers")
	}
	return c, nil
}

const schemaRef = "#/components/schemas/"

// resolveRefs puts the members of its target beside every $ref below n that is
// not to a schema.
func resolveRefs(root, n *yaml.Node) error {
	if ref := memberOf(n, "$ref"); ref != nil && !strings.HasPrefix(ref.Value, schemaRef) {
		target := root
		for _, name := range strings.Split(strings.TrimPrefix(ref.Value, "#/"), "/") {
			if target = memberOf(target, name); target == nil {
				return fmt.Errorf("line %d: nothing is at %s", ref.Line, ref.Value)
			}
		}
		n.Content = slices.Concat(n.Content[:2], target.Content)
	}
	for _, child := range n.Content {
		if err := resolveRefs(root, child); err != nil {
			return err
		}
	}
	return nil
}

// memberOf is the value of a mapping's member; nil if there is none.
func memberOf(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func baseName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

func (p pathItem) operations() []operation {
	var list []operation
	for _, m := range []struct {
		method string
		o      *operation
	}{{http.MethodGet, p.Get}, {http.MethodPost, p.Post}, {http.MethodPut, p.Put}, {http.MethodDelete, p.Delete}} {
		if m.o != nil {
			o := *m.o
			o.method = m.method
			list = append(list, o)
		}
	}
	return list
}

// isProblem says that r is one of the problems that operations share.
func (r response) isProblem() bool {
	return r.Ref != "" && len(r.Content) == 1 && r.Content[0].name == "application/problem+json"
}

// resolve is the schema that s names, or s itself.
func (c *contract) resolve(s schema) schema {
	if s.Ref == "" {
		return s
	}
	for _, other := range c.Components.Schemas {
		if other.name == baseName(s.Ref) {
			return other.value
		}
	}
	return s
}
