// Package example provides a small example of records: letters to the keeper of a lighthouse, answered by two
// models with two prompts, with run-DAGs, citations of a handbook that changed, and a story with two builds. It
// was written for this project, and is under the project's licence.
package example

import _ "embed" // for Lines

// Lines are lines for POST /batch. Each has an idempotency key, so that a repeated post adds nothing.
//
//go:embed example.ndjson
var Lines []byte

// Keys begin the idempotency keys of the lines; Label and LabelValue are a label of each record.
const (
	Label      = "example"
	LabelValue = "skerry-light"
)
