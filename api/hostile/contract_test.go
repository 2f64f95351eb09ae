package hostile_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"colophon"
)

const (
	jsonType    = "application/json"
	linesType   = "application/x-ndjson"
	problemType = "application/problem+json"
	streamType  = "text/event-stream"
	// protobufType is the media type of OTLP. Failed OTLP requests are answered with OTLP statuses
	// instead of problems.
	protobufType = "application/x-protobuf"
)

// contract is the content of openapi.yaml, which defines the allowed requests and answers.
type contract struct {
	*openapi3.T
	operations []*operation
	problem    *openapi3.Schema
}

// operation is an operation defined in the contract.
type operation struct {
	*openapi3.Operation
	item          *openapi3.PathItem
	method, route string // as written in the contract, such as /v1/ledgers/{ledger}
	parameters    []*openapi3.Parameter
	media         string           // media type of the request body; empty if there is no body
	body          *openapi3.Schema // schema of the request body; nil if there is no body
	examples      []any            // examples of the body
}

func loadContract() (*contract, error) {
	openapi3filter.RegisterBodyDecoder(linesType, decodeLines)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/javascript", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/css", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("image/svg+xml", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder(streamType, openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder(protobufType, openapi3filter.FileBodyDecoder)
	document, err := openapi3.NewLoader().LoadFromData(colophon.OpenAPI)
	if err != nil {
		return nil, err
	}
	c := &contract{T: document, problem: document.Components.Schemas["Problem"].Value}
	for route, item := range document.Paths.Map() {
		for method, o := range item.Operations() {
			c.operations = append(c.operations, newOperation(method, route, item, o))
		}
	}
	slices.SortFunc(c.operations, func(a, b *operation) int { return cmp.Compare(a.OperationID, b.OperationID) })
	return c, nil
}

// operation returns the operation with the given operationId. It panics if the contract has none.
func (c *contract) operation(name string) *operation {
	i := slices.IndexFunc(c.operations, func(op *operation) bool { return op.OperationID == name })
	return c.operations[i]
}

func newOperation(method, route string, item *openapi3.PathItem, o *openapi3.Operation) *operation {
	op := &operation{Operation: o, item: item, method: method, route: route}
	for _, p := range slices.Concat(item.Parameters, o.Parameters) {
		op.parameters = append(op.parameters, p.Value)
	}
	if o.RequestBody == nil {
		return op
	}
	for media, content := range o.RequestBody.Value.Content {
		if media == protobufType {
			continue // the JSON form has the same examples
		}
		op.media, op.body = media, content.Schema.Value
		for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
			op.examples = append(op.examples, content.Examples[name].Value.Value)
		}
	}
	return op
}

// decodeLines decodes NDJSON into an array, because the contract describes it as one.
func decodeLines(body io.Reader, header http.Header, schema *openapi3.SchemaRef, encoding openapi3filter.EncodingFn) (any, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	lines := []any{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil, fmt.Errorf("line %d does not end with a line feed", len(lines)+1)
		}
		value, err := openapi3filter.JSONBodyDecoder(bytes.NewReader(line), header, schema, encoding)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, value)
	}
	return lines, nil
}

// find returns the operation that handles a request with this method and target, or nil if there is
// none. methods reports whether the path exists for any method.
func (c *contract) find(method, target string) (found *operation, methods bool) {
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.RequestURI()
	}
	path, _, _ := strings.Cut(target, "?")
	if method == http.MethodHead {
		method = http.MethodGet
	}
	fixed := -1 // number of literal segments in the route of the best match so far
	for _, op := range c.operations {
		n, ok := match(op.route, path)
		if !ok {
			continue
		}
		methods = true
		if op.method == method && n > fixed {
			found, fixed = op, n
		}
	}
	return found, methods
}

// match reports whether a path matches a route. It also returns the number of segments of the route
// that are literal, that is, not parameters.
func match(route, path string) (fixed int, ok bool) {
	want, have := strings.Split(route, "/"), strings.Split(path, "/")
	for i, w := range want {
		if i >= len(have) {
			return 0, false
		}
		switch {
		case w == "{path}": // {path} matches the rest of the path, including slashes
			return fixed, true
		case strings.HasPrefix(w, "{"):
		case w == have[i]:
			fixed++
		default:
			return 0, false
		}
	}
	return fixed, len(have) == len(want)
}

// always lists the headers that every answer can have. They are named in the introduction of the
// contract.
var always = []string{"Cache-Control", "Content-Type", "Content-Length", "Date", "Referrer-Policy", "X-Content-Type-Options", "Connection",
	"Access-Control-Allow-Origin"}

// checkAnswer returns nil if the contract allows this answer to an operation: its status, its
// headers, and its body.
func (c *contract) checkAnswer(op *operation, method string, a *answer) error {
	response := op.Responses.Status(a.status)
	if response == nil {
		return fmt.Errorf("the contract has no status %d here", a.status)
	}
	documented := slices.Clone(always)
	for name := range response.Value.Headers {
		documented = append(documented, http.CanonicalHeaderKey(name))
	}
	for name := range a.header {
		if !slices.Contains(documented, name) {
			return fmt.Errorf("the contract has no header %s in the %d here", name, a.status)
		}
	}
	if len(response.Value.Content) == 0 && len(a.body) > 0 {
		return fmt.Errorf("the contract has no body in the %d here", a.status)
	}
	if a.broken() {
		return nil // only the beginning of a stream was read, so the body cannot be checked
	}
	input := &openapi3filter.RequestValidationInput{
		Request: &http.Request{Method: method, URL: &url.URL{}},
		Route:   &routers.Route{Spec: c.T, Path: op.route, PathItem: op.item, Method: op.method, Operation: op.Operation},
	}
	output := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: a.status, Header: a.header}
	return openapi3filter.ValidateResponse(context.Background(), output.SetBodyBytes(a.body))
}

// flat returns the schema inside any allOf wrappers that only add a description.
func flat(s *openapi3.Schema) *openapi3.Schema {
	for s.Type == nil && len(s.AllOf) == 1 {
		s = s.AllOf[0].Value
	}
	return s
}

// allows reports whether a JSON text is valid under a schema.
func allows(s *openapi3.Schema, text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return false
	}
	return s.VisitJSON(value, openapi3.VisitAsRequest(), openapi3.FailFast()) == nil
}
