package pack

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"

	"colophon/proofs"
)

// The parts of the page. make clients builds the script from page/src and from the rules of
// the TypeScript client.
var (
	//go:embed page/page.html
	frame string
	//go:embed page/page.css
	style string
	//go:embed page/page.js
	script string
)

// The markup that directly precedes and follows the data.
const (
	dataBegin = `<script type="application/json" id="pack">`
	dataEnd   = `</script>`
)

// HTML returns the pack as a self-contained page. Its Content Security Policy allows only the
// page's own style and script, and no requests, whatever the records contain.
func (p *Pack) HTML() ([]byte, error) {
	data, err := p.encode()
	if err != nil {
		return nil, err
	}
	before, after := pageAround()
	return append(append([]byte(before), data...), after...), nil
}

// pageAround returns the parts of the page before and after the data.
func pageAround() (before, after string) {
	page := strings.NewReplacer(
		"{{style source}}", source(style), "{{script source}}", source(script),
		"{{style}}", style, "{{script}}", script, "{{data}}", dataBegin+"{{data}}"+dataEnd,
	).Replace(frame)
	before, after, _ = strings.Cut(page, "{{data}}")
	return before, after
}

// source returns the hash source that allows this inline script or style in a Content
// Security Policy.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// IsPack reports whether a text looks like a page with a pack, without parsing it.
func IsPack(text []byte) bool {
	return bytes.HasPrefix(text, []byte("<!doctype html>")) && bytes.Contains(text, []byte(dataBegin))
}

// Parse reads the data from a page. It returns ErrMalformed if the text is not an audit pack.
// own reports whether the rest of the page is exactly what HTML writes. A different page
// could show the reader anything.
func Parse(text []byte) (p *Pack, own bool, err error) {
	_, rest, found := bytes.Cut(text, []byte(dataBegin))
	data, _, ended := bytes.Cut(rest, []byte(dataEnd))
	if !IsPack(text) || !found || !ended {
		return nil, false, fmt.Errorf("%w: not an audit pack", proofs.ErrMalformed)
	}
	if p, err = decode(data); err != nil {
		return nil, false, err
	}
	before, after := pageAround()
	own = string(text[:len(text)-len(rest)]) == before && string(rest[len(data):]) == after
	return p, own, nil
}
