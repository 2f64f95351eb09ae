package wire

import "encoding/json"

// ExportLine is one line of the answer to GET /export. Every line except the last has a row;
// the last has the manifest.
type ExportLine struct {
	Row      json.RawMessage `json:"row,omitempty"`
	Manifest string          `json:"manifest,omitempty"` // signed note
	// Rest is the answer without its rows. If the answer has no list, Rest is an empty object
	// and the whole answer is the only row.
	Rest json.RawMessage `json:"rest,omitempty"`
}
