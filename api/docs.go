package api

import "colophon"

// renderDocs renders the contract as a page.
func renderDocs() ([]byte, error) { return colophon.OpenAPI, nil }
