// Package colophon holds the API's contract, which the whole project shares.
package colophon

import _ "embed"

// OpenAPI is the contract of the REST API, the file openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
