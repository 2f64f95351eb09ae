// Package example provides a small example of records: letters to the keeper of a lighthouse, answered by two
// models with two prompts, with run-DAGs, citations of a handbook that changed, and a story with two builds. It
// was written for this project, and is under the project's licence.
package example

import _ "embed" // for Lines

// Lines holds the request body for POST /batch. Each line has an idempotency key, so posting the lines again
// adds nothing.
//
//go:embed example.ndjson
var Lines []byte

// Label and LabelValue are the name and the value of a label that every record of the example has.
const (
	Label      = "example"
	LabelValue = "skerry-light"
)
