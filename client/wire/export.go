package wire

import "encoding/json"

// ExportLine is one line of the response to GET /export. Every line contains a row, except the last
// line, which contains the manifest.
type ExportLine struct {
	Row      json.RawMessage `json:"row,omitempty"`      // one row of the answer, unchanged
	Manifest string          `json:"manifest,omitempty"` // signed note that covers all rows and Rest
	// Rest holds the remainder of the exported answer, in the last line only. If the answer is not
	// a list, Rest is an empty object, and the export has one row that contains the whole answer.
	Rest json.RawMessage `json:"rest,omitempty"`
}
