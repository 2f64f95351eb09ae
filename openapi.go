// Package colophon embeds the API contract, which several packages of this module use.
package colophon

import _ "embed"

// OpenAPI is the contract of the REST API, embedded from openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
