package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is an OpenAPI document that preserves the order of object members.
type document struct{ root *yaml.Node }

// withSamples returns an OpenAPI document as JSON, with x-codeSamples in every operation.
func withSamples(text []byte) ([]byte, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	if len(file.Content) != 1 {
		return nil, fmt.Errorf("reading openapi.yaml: the file has %d documents instead of one", len(file.Content))
	}
	d := document{file.Content[0]}
	for path, item := range d.members(d.get(d.root, "paths")) {
		for method, operation := range d.members(item) {
			if d.get(operation, "operationId") == nil {
				continue
			}
			command, err := d.curl(path, strings.ToUpper(method), item, operation)
			if err != nil {
				return nil, fmt.Errorf("writing a command for %s %s: %w", strings.ToUpper(method), path, err)
			}
			var sample yaml.Node
			if err := sample.Encode(map[string]any{"x-codeSamples": []any{map[string]string{"lang": "Shell", "label": "curl", "source": command}}}); err != nil {
				return nil, err
			}
			operation.Content = append(operation.Content, sample.Content...)
		}
	}
	var b bytes.Buffer
	err := appendJSON(&b, d.root)
	return b.Bytes(), err
}

// curl returns a curl command for an operation, with the examples of its parameters and the first
// example of its body.
func (d document) curl(path, method string, item, operation *yaml.Node) (string, error) {
	query := "?"
	for _, parameters := range []*yaml.Node{d.get(item, "parameters"), d.get(operation, "parameters")} {
		if parameters == nil {
			continue
		}
		for _, p := range parameters.Content {
			p = d.resolve(p)
			name, example := d.get(p, "name").Value, d.get(p, "example")
			switch d.get(p, "in").Value {
			case "path":
				path = strings.ReplaceAll(path, "{"+name+"}", example.Value)
			case "query":
				if example != nil {
					path += query + name + "=" + url.QueryEscape(example.Value)
					query = "&"
				}
			}
		}
	}
	command := "curl -sS"
	body := d.get(operation, "requestBody", "content")
	// Without -X, curl sends GET, or POST if there is a body.
	if method != http.MethodGet && (method != http.MethodPost || body == nil) {
		command += " -X " + method
	}
	command += " '" + documentedServer + path + "'"
	for _, response := range d.members(d.get(operation, "responses")) {
		if d.get(response, "content", "application/octet-stream") != nil {
			command += " --output file"
		}
		break // the first response is the successful one
	}
	for media, content := range d.members(body) {
		example := d.get(content, "example")
		for _, e := range d.members(d.get(content, "examples")) {
			example = d.get(e, "value")
			break
		}
		text, err := exampleText(media, example)
		if err != nil {
			return "", err
		}
		return command + " \\\n  -H 'Content-Type: " + media + "' --data-binary @- <<'EOF'\n" + text + "\nEOF", nil
	}
	return command, nil
}

// exampleText renders value, the example of a request body, as text of the given media type: indented
// JSON, or one line for each element of NDJSON. It fails if there is no example.
func exampleText(media string, value *yaml.Node) (string, error) {
	if value == nil {
		return "", fmt.Errorf("the request body of type %s has no example", media)
	}
	lines := []*yaml.Node{value}
	if media == "application/x-ndjson" {
		lines = value.Content
	}
	var b, indented bytes.Buffer
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := appendJSON(&b, line); err != nil {
			return "", err
		}
	}
	if media != "application/json" {
		return b.String(), nil
	}
	err := json.Indent(&indented, b.Bytes(), "", "  ")
	return indented.String(), err
}

// resolve returns the node that n refers to, or n itself if it is not a reference.
func (d document) resolve(n *yaml.Node) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode || len(n.Content) == 0 || n.Content[0].Value != "$ref" {
		return n
	}
	return d.get(d.root, strings.Split(strings.TrimPrefix(n.Content[1].Value, "#/"), "/")...)
}

// get follows a path of member names from n, and returns the last member. It returns nil if a
// member is missing.
func (d document) get(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		var found *yaml.Node
		for member, value := range d.members(n) {
			if member == name {
				found = value
			}
		}
		n = found
	}
	return n
}

// members iterates over the members of a mapping. It follows references.
func (d document) members(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		n = d.resolve(n)
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, d.resolve(n.Content[i+1])) {
				return
			}
		}
	}
}

// appendJSON appends a YAML value as JSON. It preserves the order of members.
func appendJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, child := range n.Content {
			if i > 0 {
				b.WriteString([]string{", ", ": "}[i%2])
			}
			if i%2 == 0 && child.Tag != "!!str" {
				child = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: child.Value}
			}
			if err := appendJSON(b, child); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, child := range n.Content {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := appendJSON(b, child); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case yaml.ScalarNode:
		if n.Tag != "!!str" {
			b.WriteString(n.Value)
			return nil
		}
		encoder := json.NewEncoder(b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(n.Value); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // remove the newline that Encode added
	default:
		return fmt.Errorf("line %d is not a JSON value", n.Line)
	}
	return nil
}
