package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	codeSpan   = regexp.MustCompile("`([^`]+)`")
	strongSpan = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// markdown renders the little of Markdown that the contract uses: paragraphs,
// lists, `code` and **emphasis**.
func markdown(text string) template.HTML {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		items, isList := strings.CutPrefix(block, "- ")
		switch {
		case block == "":
		case isList:
			b.WriteString("<ul>")
			for item := range strings.SplitSeq(items, "\n- ") {
				b.WriteString("<li>" + span(item) + "</li>")
			}
			b.WriteString("</ul>")
		default:
			b.WriteString("<p>" + span(block) + "</p>")
		}
	}
	return template.HTML(b.String()) // #nosec G203 -- of the contract that is built in, escaped piece by piece
}

// span renders what stands within a line.
func span(text string) string {
	text = codeSpan.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>")
	return strongSpan.ReplaceAllString(text, "<strong>$1</strong>")
}

// typeOf says in few words what a schema allows, with links to those that have
// a name.
func (c *contract) typeOf(s schema) template.HTML {
	switch {
	case s.Ref != "":
		name := template.HTMLEscapeString(baseName(s.Ref))
		choice := schema{Enum: c.resolve(s).Enum}
		return template.HTML(fmt.Sprintf(`<a href="#schema-%s">%s</a>%s`, name, name, template.HTMLEscapeString(limits(choice)))) // #nosec G203 -- of the contract that is built in
	case len(s.AllOf) == 1:
		return c.typeOf(s.AllOf[0])
	case len(s.OneOf) > 0:
		types := make([]string, len(s.OneOf))
		for i, one := range s.OneOf {
			types[i] = string(c.typeOf(one))
		}
		return template.HTML(strings.Join(types, " or ")) // #nosec G203 -- of the contract that is built in
	case s.Items != nil:
		return "array of " + c.typeOf(*s.Items)
	case s.Type == "object" && s.AdditionalProperties.Kind == yaml.MappingNode:
		var value schema
		if err := s.AdditionalProperties.Decode(&value); err == nil {
			return "object of " + c.typeOf(value)
		}
	case s.Type == "":
		return "any JSON"
	}
	return template.HTML(template.HTMLEscapeString(s.Type + limits(s))) // #nosec G203 -- escaped
}

// limits says what a scalar may be.
func limits(s schema) string {
	var b strings.Builder
	if s.Format != "" {
		b.WriteString(", " + s.Format)
	}
	for i, value := range s.Enum {
		b.WriteString([]string{": ", " | "}[min(i, 1)] + strings.TrimSpace(value.Value))
	}
	for _, limit := range []struct{ sign, value string }{{" ≥ ", s.Minimum}, {" ≤ ", s.Maximum}} {
		if limit.value != "" {
			b.WriteString("," + limit.sign + limit.value)
		}
	}
	if !s.Default.IsZero() {
		b.WriteString(", default " + s.Default.Value)
	}
	return b.String()
}

// members lists the members of an object schema. Those of objects without a
// name of their own follow, as "outer.inner" and "outer[].inner".
func (c *contract) members(prefix string, s schema) []docsRow {
	var rows []docsRow
	for _, p := range s.Properties {
		description := p.value.Description
		if description == "" {
			description = c.resolve(p.value).Description
		}
		name := prefix + p.name
		required := slices.Contains(s.Required, p.name)
		row := docsRow{Name: name, Type: c.typeOf(p.value), Required: required, Description: markdown(description)}
		if required && p.value.Nullable {
			row.Type += " or null"
		}
		rows = append(rows, row)
		rows = append(rows, c.members(name+".", p.value)...)
		if p.value.Items != nil {
			rows = append(rows, c.members(name+"[].", *p.value.Items)...)
		}
	}
	return rows
}

// exampleText writes an example as the media type has it.
func exampleText(media string, value *yaml.Node) (string, error) {
	var b bytes.Buffer
	switch {
	case media == ndjson:
		for _, line := range value.Content {
			if err := appendJSON(&b, line); err != nil {
				return "", err
			}
			b.WriteByte('\n')
		}
	case value.Kind == yaml.ScalarNode && !strings.HasSuffix(media, "json"):
		b.WriteString(value.Value)
	default:
		var compact bytes.Buffer
		if err := appendJSON(&compact, value); err != nil {
			return "", err
		}
		if err := json.Indent(&b, compact.Bytes(), "", "  "); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// appendJSON writes a YAML value as JSON, members in their order.
func appendJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, child := range n.Content {
			if i > 0 {
				b.WriteString([]string{", ", ": "}[i%2])
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
		b.Truncate(b.Len() - 1) // the line end
	default:
		return fmt.Errorf("line %d: not a JSON value", n.Line)
	}
	return nil
}

// curl is a command that can be pasted: the call with its examples, of the body the
// first. docsFor gives it the address of the server.
func (c *contract) curl(path string, parameters []docParameter, body *docsBody, o operation) string {
	address, query := c.Servers[0].URL+path, "?"
	for _, p := range parameters {
		switch {
		case p.In == "path":
			address = strings.ReplaceAll(address, "{"+p.Name+"}", p.Example.Value)
		case p.In == "query" && (p.Required || !p.Example.IsZero()):
			address += query + p.Name + "=" + url.QueryEscape(p.Example.Value)
			query = "&"
		}
	}
	command := "curl -sS '" + address + "'"
	if len(o.Responses) > 0 && len(o.Responses[0].value.Content) == 1 && o.Responses[0].value.Content[0].name == "application/octet-stream" {
		command += " --output file"
	}
	// Without -X, curl gets, and posts where it has a body.
	if o.method != http.MethodGet && (o.method != http.MethodPost || body == nil) {
		command = strings.Replace(command, "curl -sS", "curl -sS -X "+o.method, 1)
	}
	if body != nil && len(body.Examples) > 0 {
		command += " \\\n  -H 'Content-Type: " + body.Media + "' --data-binary @- <<'EOF'\n" +
			strings.TrimSuffix(body.Examples[0].Text, "\n") + "\nEOF"
	}
	return command
}
