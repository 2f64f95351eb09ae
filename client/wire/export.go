package wire

import "encoding/json"

// ExportLine is one line of the response to GET /export. Every line except the last has a row; the
// last has the manifest.
type ExportLine struct {
	Row      json.RawMessage `json:"row,omitempty"`
	Manifest string          `json:"manifest,omitempty"` // signed note
	// Rest is the answer without its rows. If the answer is not a list, Rest is an empty object and
	// the only row is the whole answer.
	Rest json.RawMessage `json:"rest,omitempty"`
}
