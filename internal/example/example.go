// Package example provides a small set of example records: letters to a lighthouse keeper, answered by two
// models with two prompts. The records include run-DAGs, citations of a handbook that changed, and a story with
// two builds. The example was written for this project, and is under the project's licence.
package example

import _ "embed" // for BatchBody

// BatchBody holds the request body for POST /batch. Each line has an idempotency key, so posting the lines again
// adds nothing.
//
//go:embed example.ndjson
var BatchBody []byte

// LabelName and LabelValue are the name and the value of a label that every record of the example
// has.
const (
	LabelName  = "example"
	LabelValue = "skerry-light"
)
