// Package colophon holds what the whole project shares: the API's contract.
package colophon

import _ "embed"

// OpenAPI is the contract of the REST API, openapi.yaml, as it is served.
//
//go:embed openapi.yaml
var OpenAPI []byte
