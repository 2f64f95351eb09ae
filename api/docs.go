package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon"
)

//go:embed docs.html.tmpl
var docsTemplate string

// The page as the template takes it: everything is text or safe HTML, in the
// order of the contract.
type (
	docsPage struct {
		Title, Version string
		Description    template.HTML
		Groups         []docsGroup
		Problems       []docsResponse
		Schemas        []docsSchema
	}
	docsGroup struct {
		ID, Name    string
		Description template.HTML
		Operations  []docsOperation
	}
	docsOperation struct {
		ID, Method, Path, Summary string
		Description               template.HTML
		Parameters                []docsRow
		Request                   *docsBody
		Responses                 []docsResponse
		Irreversible              bool
		Curl                      string
	}
	docsResponse struct {
		ID          string // anchor of a problem that many operations share
		Status      string
		Description template.HTML
		Headers     []docsRow
		Bodies      []docsBody
	}
	docsBody struct {
		Media    string
		Type     template.HTML
		Rows     []docsRow // members that the page shows in place
		Examples []docsExample
	}
	docsExample struct {
		Summary template.HTML
		Text    string
	}
	docsSchema struct {
		Name        string
		Description template.HTML
		Type        template.HTML
		Rows        []docsRow
	}
	docsRow struct {
		Name        string
		Where       string // of a parameter: path, query or header
		Type        template.HTML
		Required    bool
		Description template.HTML
	}
)

// renderDocs renders the contract as one page that needs nothing else.
func renderDocs() ([]byte, error) {
	contract, err := parseContract(colophon.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	page, err := contract.page()
	if err != nil {
		return nil, fmt.Errorf("describing the contract: %w", err)
	}
	t, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("parsing the page of the contract: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, page); err != nil {
		return nil, fmt.Errorf("rendering the contract: %w", err)
	}
	return b.Bytes(), nil
}

func (c *contract) page() (*docsPage, error) {
	p := &docsPage{Title: c.Info.Title, Version: c.Info.Version, Description: markdown(c.Info.Description)}
	for _, tag := range c.Tags {
		g := docsGroup{ID: "group-" + slug(tag.Name), Name: tag.Name, Description: markdown(tag.Description)}
		for _, path := range c.Paths {
			for _, o := range path.value.operations() {
				if len(o.Tags) != 1 || o.Tags[0] != tag.Name {
					continue
				}
				view, err := c.operation(path.name, path.value, o)
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", o.method, path.name, err)
				}
				g.Operations = append(g.Operations, view)
			}
		}
		p.Groups = append(p.Groups, g)
	}
	var err error
	if p.Problems, err = c.problems(); err != nil {
		return nil, err
	}
	for _, s := range c.Components.Schemas {
		p.Schemas = append(p.Schemas, docsSchema{Name: s.name, Description: markdown(s.value.Description),
			Type: c.typeOf(s.value), Rows: c.members("", s.value)})
	}
	return p, nil
}

// documentedAddress is where the contract's first server is.
const documentedAddress = "http://127.0.0.1:8080"

// hostForm is what a Host header may be to stand in a command that people paste.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// docsFor is the page with commands for the address that it was asked for at.
func docsFor(page []byte, r *http.Request) []byte {
	if !hostForm.MatchString(r.Host) {
		return page
	}
	scheme := "http://"
	if r.TLS != nil || r.Header.Get(echo.HeaderXForwardedProto) == "https" {
		scheme = "https://"
	}
	return bytes.ReplaceAll(page, []byte(documentedAddress), []byte(scheme+r.Host))
}

// withToken is the page with commands that send the token of the environment.
func withToken(page []byte) []byte {
	return bytes.ReplaceAll(page, []byte("curl -sS "), []byte("curl -sS -H &#34;Authorization: Bearer $COLOPHON_TOKEN&#34; "))
}

func slug(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "-") }

func (c *contract) operation(path string, item pathItem, o operation) (docsOperation, error) {
	view := docsOperation{ID: o.OperationID, Method: o.method, Path: path, Summary: o.Summary,
		Description: markdown(o.Description), Irreversible: o.Irreversible}
	parameters := append(item.Parameters[:len(item.Parameters):len(item.Parameters)], o.Parameters...)
	for _, q := range parameters {
		view.Parameters = append(view.Parameters, docsRow{Name: q.Name, Where: q.In, Required: q.Required,
			Type: c.typeOf(q.Schema), Description: markdown(q.Description)})
	}
	if o.RequestBody != nil {
		for _, m := range o.RequestBody.Content {
			body, err := c.body(m.name, m.value)
			if err != nil {
				return view, err
			}
			body.Rows = c.members("", c.resolve(m.value.Schema))
			view.Request = &body
		}
	}
	for _, r := range o.Responses {
		response, err := c.response(r.name, r.value)
		if err != nil {
			return view, err
		}
		if r.value.isProblem() {
			response.ID, response.Bodies = problemID(r.value), nil
		}
		view.Responses = append(view.Responses, response)
	}
	view.Curl = c.curl(path, parameters, view.Request, o)
	return view, nil
}

func (c *contract) response(status string, r response) (docsResponse, error) {
	view := docsResponse{Status: status, Description: markdown(r.Description)}
	for _, h := range r.Headers {
		view.Headers = append(view.Headers, docsRow{Name: h.name, Required: h.value.Required,
			Type: c.typeOf(h.value.Schema), Description: markdown(h.value.Description)})
	}
	for _, m := range r.Content {
		body, err := c.body(m.name, m.value)
		if err != nil {
			return view, err
		}
		view.Bodies = append(view.Bodies, body)
	}
	return view, nil
}

func (c *contract) body(name string, m media) (docsBody, error) {
	view := docsBody{Media: name, Type: c.typeOf(m.Schema), Rows: c.members("", m.Schema)}
	if name == ndjson && m.Schema.Items != nil {
		view.Type = "each line " + c.typeOf(*m.Schema.Items)
	}
	if !m.Example.IsZero() {
		m.Examples = append(m.Examples, named[example]{value: example{Summary: "Example", Value: m.Example}})
	}
	for _, e := range m.Examples {
		text, err := exampleText(name, &e.value.Value)
		if err != nil {
			return view, fmt.Errorf("example %s: %w", e.name, err)
		}
		view.Examples = append(view.Examples, docsExample{template.HTML(span(e.value.Summary)), text}) // #nosec G203 -- of the contract that is built in, escaped by span
	}
	return view, nil
}

// problems are the problems that operations share, once each, by status.
func (c *contract) problems() ([]docsResponse, error) {
	status := make(map[string]string)
	for _, path := range c.Paths {
		for _, o := range path.value.operations() {
			for _, r := range o.Responses {
				status[problemID(r.value)] = r.name
			}
		}
	}
	var list []docsResponse
	for _, r := range c.Components.Responses {
		r.value.Ref = r.name
		if !r.value.isProblem() {
			continue
		}
		view, err := c.response(status[problemID(r.value)], r.value)
		if err != nil {
			return nil, fmt.Errorf("response %s: %w", r.name, err)
		}
		view.ID = problemID(r.value)
		list = append(list, view)
	}
	return list, nil
}

func problemID(r response) string { return "problem-" + baseName(r.Ref) }
