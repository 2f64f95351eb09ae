// Package records accepts single records and verbs: POST of the four kinds, of states,
// validations and sources, and the redaction of one record. A handler decodes the request,
// passes it to the ledger, and sends the receipt. Records arrive at WriteHandler.
package records

import (
	"github.com/prometheus/client_golang/prometheus"

	"colophon/api/call"
)

// Handlers serves the routes that write records.
type Handlers struct {
	*call.ServerState
	// Appended measures, by ledger, how long single records and verbs wait for their commit.
	Appended *prometheus.HistogramVec
}
