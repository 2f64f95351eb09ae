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

// The page: its frame, its style, and its program in the order in which it is read.
var (
	//go:embed page/page.html
	frame string
	//go:embed page/page.css
	style string
	//go:embed page/bytes.js
	scriptBytes string
	//go:embed page/json.js
	scriptJSON string
	//go:embed page/log.js
	scriptLog string
	//go:embed page/hashes.js
	scriptHashes string
	//go:embed page/verify.js
	scriptVerify string
	//go:embed page/show.js
	scriptShow string
)

// What stands before the data in a page, and behind it.
const (
	dataBegin = `<script type="application/json" id="pack">`
	dataEnd   = `</script>`
)

// HTML is the pack as a page that needs nothing else. It allows itself nothing but its
// own style and program, no request and no other script, whatever the records hold.
func (p *Pack) HTML() ([]byte, error) {
	data, err := p.encode()
	if err != nil {
		return nil, err
	}
	before, after := pageAround()
	return append(append([]byte(before), data...), after...), nil
}

// pageAround is the page before the data and behind it.
func pageAround() (before, after string) {
	script := strings.Join([]string{`"use strict";`, scriptBytes, scriptJSON, scriptLog, scriptHashes, scriptVerify, scriptShow}, "\n")
	page := strings.NewReplacer(
		"{{style source}}", source(style), "{{script source}}", source(script),
		"{{style}}", style, "{{script}}", script, "{{data}}", dataBegin+"{{data}}"+dataEnd,
	).Replace(frame)
	before, after, _ = strings.Cut(page, "{{data}}")
	return before, after
}

// source names what a page allows itself by its hash (Content Security Policy).
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// IsPack reports whether a text may be a page with a pack.
func IsPack(text []byte) bool {
	return bytes.HasPrefix(text, []byte("<!doctype html>")) && bytes.Contains(text, []byte(dataBegin))
}

// Parse reads the data out of a page; ErrMalformed if it is none. own reports whether
// the page around it is the one that HTML makes; what another one shows in a browser,
// nobody knows.
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
