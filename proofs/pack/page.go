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

// Parts of a pack's HTML page. "make clients" builds the script from page/src and from parts of the
// TypeScript client.
var (
	//go:embed page/page.html
	frame string
	//go:embed page/page.css
	style string
	//go:embed page/page.js
	script string
)

// dataBegin and dataEnd are the markup directly before and after the pack's data in the page.
const (
	dataBegin = `<script type="application/json" id="pack">`
	dataEnd   = `</script>`
)

// HTML returns the pack as a self-contained page. The page's Content Security Policy allows only
// its own style and script, and no requests, whatever the records contain.
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

// source returns the hash source that allows text as an inline script or style in a Content
// Security Policy.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// IsPack reports whether text looks like a page that contains a pack. It does not parse the text.
func IsPack(text []byte) bool {
	return bytes.HasPrefix(text, []byte("<!doctype html>")) && bytes.Contains(text, []byte(dataBegin))
}

// Parse reads the pack in a page, and reports whether the rest of the page is what HTML generates.
// It returns proofs.ErrMalformed if text is not an audit pack. If own is false, the page could show
// its reader anything.
func Parse(text []byte) (p *Pack, own bool, err error) {
	_, rest, found := bytes.Cut(text, []byte(dataBegin))
	data, _, ended := bytes.Cut(rest, []byte(dataEnd))
	if !IsPack(text) || !found || !ended {
		return nil, false, fmt.Errorf("%w: the page is not an audit pack", proofs.ErrMalformed)
	}
	if p, err = decode(data); err != nil {
		return nil, false, err
	}
	before, after := pageAround()
	own = string(text[:len(text)-len(rest)]) == before && string(rest[len(data):]) == after
	return p, own, nil
}
