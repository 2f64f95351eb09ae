// Package colophon contains the API contract, which several packages of the module share.
package colophon

import _ "embed"

// OpenAPI is the contract of the REST API, the file openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
