package wire

import "encoding/json"

// ExportLine is one line of the answer to GET /export. Every line but the last has a row; the
// last has the manifest.
type ExportLine struct {
	Row      json.RawMessage `json:"row,omitempty"`
	Manifest string          `json:"manifest,omitempty"` // signed note
	// Rest is the answer without its rows. It is an empty object if the answer has no list; the
	// whole answer is then the only row.
	Rest json.RawMessage `json:"rest,omitempty"`
}
